"""The contents of a partitions.conf: definitions, the partitions they make, and the problems of the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from ibkeys.errors import FileFormatError
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK

DEFAULT_PARTITION: Final = PARTITION_MASK
DEFAULT_NAME: Final = "Default"
DEFAULT_MTU: Final = 4
DEFAULT_RATE: Final = 3
DEFAULT_SCOPE: Final = 2
IPOIB_Q_KEY: Final = 0x0B1B
MAX_NAME: Final = 31
"""Bytes of a partition's name that OpenSM keeps."""
_IPOIB_BROADCAST: Final = 0xFF12_401B_0000_0000_0000_0000_FFFF_FFFF
_IP_SIGNATURES: Final = (0x401B, 0x601B)

MemberWord = Literal["full", "limited", "both"]
Keyword = Literal["ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF"]
ProblemSeverity = Literal["error", "warning", "note"]

_WIDE_OPEN: Final = "REFUSE THIS FILE AND MAKE EVERY PORT A FULL MEMBER OF THE DEFAULT PARTITION: NO ISOLATION AT ALL"
CANNOT_BE_TOLD: Final = frozenset({"lone-semicolon", "mgid-semicolon", "long-line", "nul-byte"})
"""Errors after which OpenSM may still accept the file, depending on leftover contents of its buffer or line."""


@dataclass(frozen=True, slots=True, order=True)
class PolicyProblem:
    """A problem of a policy file. ``line`` and ``column`` count from 1; ``code`` names the kind in the man page.

    An ``error``: OpenSM refuses the file, or its reading of the file cannot be determined. A ``warning``: it reads
    something else than was probably meant. A ``note``: no mistake, but useful to know.
    """

    line: int
    column: int
    severity: ProblemSeverity
    code: str
    message: str

    def located(self, path: str) -> str:
        """Return ``path:line:column: severity: message [code]``, the form that compilers and editors know."""
        return f"{path}:{self.line}:{self.column}: {self.severity}: {self.message} [{self.code}]"


@dataclass(frozen=True, slots=True)
class GroupFlags:
    """Flags of multicast groups as codes.

    0 for ``mtu`` and ``rate`` means a value that could not be read, for which the default is taken. ``scopes``:
    requested nibbles, none means link-local.
    """

    mtu: int = DEFAULT_MTU
    rate: int = DEFAULT_RATE
    sl: int = 0
    q_key: int = 0
    t_class: int = 0
    flow_label: int = 0
    scopes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MgidGroup:
    """One multicast group to be made beside the broadcast group: an ``mgid=`` line.

    ``mgid`` is the GID as OpenSM will use it, before `GroupFlags.scopes` overwrite its nibble. ``refused`` is the
    reason why OpenSM leaves this group out, None when it does not.
    """

    mgid: int
    flags: GroupFlags
    refused: str | None = None

    def mgids(self) -> list[int]:
        """Return the GIDs of the groups: one for each scope, or the one that was written."""
        return [with_scope(self.mgid, scope) for scope in sorted(self.flags.scopes)] or [self.mgid]


@dataclass(frozen=True, slots=True)
class MemberRule:
    """One item of a port list: a keyword or, with ``guid``, one port; and its membership."""

    who: Keyword | Literal["GUID"]
    guid: int
    membership: MemberWord
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"0x{self.guid:016x}" if self.who == "GUID" else self.who


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition. ``base`` is its partition number, and ``pkey_given`` whether it is written there.

    ``name`` is None for a definition without one; ``flags`` are those of the header.
    """

    name: str | None
    base: int
    pkey_given: bool = True
    default_membership: MemberWord = "limited"
    indx0: bool = False
    ipoib: bool = False
    flags: GroupFlags = field(default_factory=GroupFlags)
    groups: tuple[MgidGroup, ...] = ()
    rules: tuple[MemberRule, ...] = ()
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    def made_groups(self) -> Iterator[tuple[int, GroupFlags, int]]:
        """Yield MGID, flags and Q_Key of the groups that OpenSM makes of the definition, the broadcast group of IPoIB
        first."""
        if self.ipoib:
            yield broadcast_mgid(self.base), self.flags, self.flags.q_key or IPOIB_Q_KEY
        for group in self.groups:
            if group.refused is None:
                yield from ((mgid, group.flags, group.flags.q_key) for mgid in group.mgids())


@dataclass(frozen=True, slots=True)
class Partition:
    """All definitions of one partition number, in the order of the file; the first one gives the name."""

    base: int
    name: str
    definitions: tuple[Definition, ...]

    @property
    def automatic(self) -> bool:
        """Whether OpenSM picks the P_Key by itself, so that it depends on the order of the file."""
        return self.base != DEFAULT_PARTITION and not any(definition.pkey_given for definition in self.definitions)

    @property
    def ipoib(self) -> bool:
        """Whether a broadcast group is made for IPoIB."""
        return any(definition.ipoib for definition in self.definitions)

    @property
    def indx0(self) -> bool:
        """Whether a definition wants this P_Key at index 0 of its members."""
        return any(definition.indx0 for definition in self.definitions)

    @property
    def rules(self) -> tuple[MemberRule, ...]:
        """The items of all port lists in order."""
        return tuple(rule for definition in self.definitions for rule in definition.rules)

    @property
    def groups(self) -> tuple[MgidGroup, ...]:
        """The ``mgid=`` lines of all definitions in order, those that OpenSM leaves out included."""
        return tuple(group for definition in self.definitions for group in definition.groups)


@dataclass(frozen=True)
class Policy:
    """A partitions.conf as it was read or edited, or a policy that is in no file.

    With errors the definitions are those that could be read, which may be shown but not used: call `require_accepted`
    before every other use. ``data``: the bytes that were read, of an edited policy (`add_member`) those of its new
    text, and ``digest`` their SHA-256; None and empty for a policy without a text, such as UFM's. ``says``: the
    partitions whose members it defines; None, of a file: all, because a port that is not in a file is not a member. The
    members of other partitions are not known, and none is added or removed.
    """

    path: str
    definitions: tuple[Definition, ...]
    errors: tuple[PolicyProblem, ...] = field(default=(), compare=False)
    warnings: tuple[PolicyProblem, ...] = field(default=(), compare=False)
    digest: str = field(default="", compare=False)
    data: bytes | None = field(default=None, compare=False, repr=False)
    says: frozenset[int] | None = None

    def leaves_open(self, base: int) -> bool:
        """Return whether the policy does not define the members of partition *base* (the full bit is ignored)."""
        return self.says is not None and base & PARTITION_MASK not in self.says

    @cached_property
    def open_partitions(self) -> frozenset[int]:
        """The numbers of all partitions whose members the policy does not define."""
        return frozenset() if self.says is None else frozenset(range(1, PARTITION_MASK + 1)) - self.says

    @property
    def accepted(self) -> bool:
        """Whether OpenSM accepts the file. If not, it makes every port a full member of the default partition."""
        return not self.errors

    @property
    def verdict(self) -> str:
        """The result in OpenSM of a file that has errors, in capitals."""
        uncertain = all(error.code in CANNOT_BE_TOLD for error in self.errors)
        return f"OPENSM {'MAY' if uncertain else 'WOULD'} {_WIDE_OPEN}"

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions in the order in which the file first names them."""
        by_base: dict[int, list[Definition]] = {}
        for definition in self.definitions:
            by_base.setdefault(definition.base, []).append(definition)
        return tuple(
            Partition(base, partition_name(base, definitions[0].name), tuple(definitions))
            for base, definitions in by_base.items()
        )

    def partition(self, base: int) -> Partition | None:
        """Return the partition with that number (the full bit is ignored), or None."""
        base &= PARTITION_MASK
        return next((partition for partition in self.partitions if partition.base == base), None)

    @property
    def named_guids(self) -> frozenset[int]:
        """The GUIDs that it names."""
        return frozenset(
            rule.guid for definition in self.definitions for rule in definition.rules if rule.who == "GUID"
        )

    @property
    def names_the_sm(self) -> bool:
        """Whether the outcome depends on which port the SM runs on: ``SELF``, or the rule that OpenSM adds itself."""
        default = self.partition(DEFAULT_PARTITION)
        adds_sm = not self.leaves_open(DEFAULT_PARTITION) and (
            default is None or all(rule.who != "ALL" for rule in default.rules)
        )
        return adds_sm or any(rule.who == "SELF" for partition in self.partitions for rule in partition.rules)

    def require_accepted(self) -> None:
        """Raise FileFormatError with the first error of a file that OpenSM would refuse."""
        if self.errors:
            first = min(self.errors)
            more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
            raise FileFormatError(
                f"{first.message}{more}; {self.verdict}; nothing was read from it", self.path, first.line, first.column
            )


def partition_name(base: int, name: str | None) -> str:
    """Return the name that OpenSM gives a partition: the part that it keeps, or the number in hex where there is none.

    The default partition is named before the file is read, so it is always ``Default``.
    """
    if base == DEFAULT_PARTITION:
        return DEFAULT_NAME
    return stored_name(name) if name else f"{base:04x}"


def stored_name(name: str) -> str:
    """Return the part of a name that OpenSM keeps: 31 bytes."""
    return name.encode("utf-8", "surrogateescape")[:MAX_NAME].decode("utf-8", "surrogateescape")


def table_order(base: int) -> int:
    """Return the place of a partition in OpenSM's table: by its P_Key with the two bytes swapped.

    OpenSM sorts the number in network byte order as the host reads it, and hosts are little-endian.
    """
    return (base & 0xFF) << 8 | base >> 8


def broadcast_mgid(base: int, scope: int = DEFAULT_SCOPE) -> int:
    """Return the MGID of a partition's IPv4 broadcast group, which identifies the partition for IPoIB (RFC 4391, 4)."""
    return with_scope(_IPOIB_BROADCAST | (base | FULL_BIT) << 80, scope)


def is_ip_group(mgid: int) -> bool:
    """Return whether *mgid* has the signature of IPv4 or IPv6 over InfiniBand."""
    return mgid >> 96 & 0xFFFF in _IP_SIGNATURES


def with_scope(mgid: int, scope: int) -> int:
    """Return *mgid* with its scope nibble replaced."""
    return mgid & ~(0xF << 112) | scope << 112


def scope_of(mgid: int) -> int:
    """Return the scope nibble of *mgid*."""
    return mgid >> 112 & 0xF

"""The contents of a partitions.conf: its definitions, the partitions that they make, and the problems of the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from ibkeys.errors import FileFormatError
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK
from ibkeys.partitions.words import MTU_BYTES, RATE_GBPS, makes_group

DEFAULT_PARTITION: Final = PARTITION_MASK
DEFAULT_NAME: Final = "Default"
DEFAULT_MTU: Final = 4
DEFAULT_RATE: Final = 3
DEFAULT_SCOPE: Final = 2
IPOIB_Q_KEY: Final = 0x0B1B
MAX_NAME: Final = 31
"""The number of bytes of a partition's name that OpenSM keeps."""
_IPOIB_BROADCAST: Final = 0xFF12_401B_0000_0000_0000_0000_FFFF_FFFF
_IP_SIGNATURES: Final = (0x401B, 0x601B)

MemberWord = Literal["full", "limited", "both"]
Keyword = Literal["ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF"]
ProblemSeverity = Literal["error", "warning", "note"]

_WIDE_OPEN: Final = "REFUSE THIS FILE AND MAKE EVERY PORT A FULL MEMBER OF THE DEFAULT PARTITION: NO ISOLATION AT ALL"
UNPREDICTABLE_ERRORS: Final = frozenset({"lone-semicolon", "mgid-semicolon", "long-line", "nul-byte"})
"""Codes of errors with which OpenSM may still accept the file, depending on old contents of its buffer."""


@dataclass(frozen=True, slots=True, order=True)
class PolicyProblem:
    """A problem of a policy file. ``line`` and ``column`` count from 1. ``code``: the name of its kind in the man page.

    ``severity``: ``error`` if OpenSM refuses the file, or its reading of the file cannot be determined; ``warning`` if
    OpenSM reads the text otherwise than its author probably meant; ``note`` if there is no mistake.
    """

    line: int
    column: int
    severity: ProblemSeverity
    code: str
    message: str

    def located(self, path: str) -> str:
        """Return ``path:line:column: severity: message [code]``, as compilers write and editors understand it."""
        return f"{path}:{self.line}:{self.column}: {self.severity}: {self.message} [{self.code}]"


@dataclass(frozen=True, slots=True)
class GroupFlags:
    """The flags of a multicast group.

    ``mtu`` and ``rate``: codes; 0 if the value could not be read, and then OpenSM makes no group. ``q_key``: 0 for the
    default. ``scopes``: the wanted scope nibbles of the MGID; empty for link-local.
    """

    mtu: int = DEFAULT_MTU
    rate: int = DEFAULT_RATE
    sl: int = 0
    q_key: int = 0
    t_class: int = 0
    flow_label: int = 0
    scopes: frozenset[int] = frozenset()

    @property
    def obstacle(self) -> str | None:
        """The reason for which OpenSM makes no group with this MTU or rate; None if it makes one."""
        for name, code, codes in (("mtu", self.mtu, MTU_BYTES), ("rate", self.rate, RATE_GBPS)):
            if not makes_group(code, codes):
                return f"{name}={code} is not a code"
        return None


@dataclass(frozen=True, slots=True)
class MgidGroup:
    """A multicast group of an ``mgid=`` line, beside the broadcast group.

    ``mgid``: the MGID that OpenSM uses, before `mgids` replaces its scope nibble. ``refused``: the reason
    for which OpenSM leaves the group out; None if OpenSM makes the group.
    """

    mgid: int
    flags: GroupFlags
    refused: str | None = None

    def mgids(self) -> list[int]:
        """Return the MGIDs that OpenSM makes of this line: one for each scope; without scopes a link-local one,
        whatever the scope nibble of ``mgid`` is."""
        return [with_scope(self.mgid, scope) for scope in sorted(self.flags.scopes) or (DEFAULT_SCOPE,)]


@dataclass(frozen=True, slots=True)
class MemberRule:
    """One item of a port list: its ports and their membership. ``who``: a keyword, or "GUID" for the port with
    ``guid``, which is 0 for a keyword. ``line`` and ``column`` count from 1; 0 if the item is in no file.
    """

    who: Keyword | Literal["GUID"]
    guid: int
    membership: MemberWord
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"0x{self.guid:016x}" if self.who == "GUID" else self.who


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition of a partition.

    ``name``: None if it has none. ``base``: the number of its partition. ``pkey_given``: whether that number is written
    in the definition. ``default_membership``: that of items without one (defmember). ``flags``: the flags of its
    header. ``groups``: its ``mgid=`` lines. ``rules``: the items of its port list. ``line`` and ``column`` count from
    1; 0 if it is in no file.
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

    @property
    def makes_broadcast(self) -> bool:
        """Whether OpenSM makes the broadcast group of IPoIB."""
        return self.ipoib and self.flags.obstacle is None

    def made_groups(self) -> Iterator[tuple[int, GroupFlags, int]]:
        """Yield (MGID, flags, Q_Key) of each group that OpenSM makes of the definition, the broadcast group of IPoIB
        first."""
        if self.makes_broadcast:
            yield broadcast_mgid(self.base), self.flags, self.flags.q_key or IPOIB_Q_KEY
        for group in self.groups:
            if group.refused is None:
                yield from ((mgid, group.flags, group.flags.q_key) for mgid in group.mgids())


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: all definitions with one partition number, in the order of the file. The first gives the name."""

    base: int
    name: str
    definitions: tuple[Definition, ...]

    @property
    def automatic(self) -> bool:
        """Whether OpenSM picks the P_Key by itself, so that it depends on the order of the file."""
        return self.base != DEFAULT_PARTITION and not any(definition.pkey_given for definition in self.definitions)

    @property
    def ipoib(self) -> bool:
        """Whether the policy asks for a broadcast group for IPoIB."""
        return any(definition.ipoib for definition in self.definitions)

    @property
    def indx0(self) -> bool:
        """Whether any definition puts the P_Key of this partition at index 0 of its members."""
        return any(definition.indx0 for definition in self.definitions)

    @property
    def rules(self) -> tuple[MemberRule, ...]:
        """The items of the port lists of all definitions, in order."""
        return tuple(rule for definition in self.definitions for rule in definition.rules)

    @property
    def groups(self) -> tuple[MgidGroup, ...]:
        """The ``mgid=`` lines of all definitions, in order, including groups that OpenSM leaves out."""
        return tuple(group for definition in self.definitions for group in definition.groups)


@dataclass(frozen=True)
class Policy:
    """A partitions.conf as it was read or edited, or a policy that is in no file.

    If there are ``errors``, ``definitions`` has only those that could be read. They may be shown, but for any other use
    call `require_accepted` first. ``data``: the bytes of the file, or of the edited text (`add_member`). ``digest``:
    their SHA-256. A policy without a text, such as UFM's, has None and "". ``says``: the numbers of the partitions
    whose members the policy states; None means all, as for a file, because a port that a file does not name is no
    member. The members of all other partitions are not known, and ibkeys adds and removes none.
    """

    path: str
    definitions: tuple[Definition, ...]
    errors: tuple[PolicyProblem, ...] = field(default=(), compare=False)
    warnings: tuple[PolicyProblem, ...] = field(default=(), compare=False)
    digest: str = field(default="", compare=False)
    data: bytes | None = field(default=None, compare=False, repr=False)
    says: frozenset[int] | None = None

    def leaves_open(self, base: int) -> bool:
        """Return whether the policy does not state the members of the partition *base*. The full bit is ignored."""
        return self.says is not None and base & PARTITION_MASK not in self.says

    @cached_property
    def open_partitions(self) -> frozenset[int]:
        """The numbers of all partitions whose members the policy does not state."""
        return frozenset() if self.says is None else frozenset(range(1, PARTITION_MASK + 1)) - self.says

    @property
    def accepted(self) -> bool:
        """Whether the file has no errors, so that OpenSM accepts it. If OpenSM refuses a file, every port is a full
        member of the default partition."""
        return not self.errors

    @property
    def verdict(self) -> str:
        """The reaction of OpenSM to a file that has errors, as the end of a message in capitals."""
        uncertain = all(error.code in UNPREDICTABLE_ERRORS for error in self.errors)
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
        """Return the partition with the number *base*, None if the policy does not define it. The full bit is
        ignored."""
        base &= PARTITION_MASK
        return next((partition for partition in self.partitions if partition.base == base), None)

    @property
    def named_guids(self) -> frozenset[int]:
        """The port GUIDs that the policy names."""
        return frozenset(
            rule.guid for definition in self.definitions for rule in definition.rules if rule.who == "GUID"
        )

    @property
    def names_the_sm(self) -> bool:
        """Whether the members depend on the port of the SM: by ``SELF``, or by the rule that OpenSM adds to the default
        partition."""
        default = self.partition(DEFAULT_PARTITION)
        adds_sm = not self.leaves_open(DEFAULT_PARTITION) and (
            default is None or all(rule.who != "ALL" for rule in default.rules)
        )
        return adds_sm or any(rule.who == "SELF" for partition in self.partitions for rule in partition.rules)

    def require_accepted(self) -> None:
        """Raise FileFormatError with the first error of a file that OpenSM would, or may, refuse."""
        if self.errors:
            first = min(self.errors)
            more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
            raise FileFormatError(
                f"{first.message}{more}; {self.verdict}; nothing was read from it", self.path, first.line, first.column
            )


def partition_name(base: int, name: str | None) -> str:
    """Return the name that OpenSM gives the partition *base*: the stored part of *name*, or the number in hexadecimal
    if there is no name. OpenSM names the default partition before it reads the file, so that is always ``Default``."""
    if base == DEFAULT_PARTITION:
        return DEFAULT_NAME
    return stored_name(name) if name else f"{base:04x}"


def stored_name(name: str) -> str:
    """Return the part of a name that OpenSM keeps: its first 31 bytes."""
    return name.encode("utf-8", "surrogateescape")[:MAX_NAME].decode("utf-8", "surrogateescape")


def table_order(base: int) -> int:
    """Return the sort key of a partition in OpenSM's table: its number with the two bytes swapped.

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
    """Return *mgid* with the scope nibble *scope*."""
    return mgid & ~(0xF << 112) | scope << 112


def scope_of(mgid: int) -> int:
    """Return the scope nibble of *mgid*."""
    return mgid >> 112 & 0xF

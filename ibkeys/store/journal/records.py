"""Value types for the journal's data about operations and images."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ibkeys import jsonfile
from ibkeys.errors import EncodeError, FileFormatError
from ibkeys.store.origin import Origin

OperationState = Literal["open", "done", "undone", "failed"]
EntryStatus = Literal["pending", "done", "failed"]
Stage = Literal["running", "ended", "unconfirmed", "confirmed", "going-back", "gone-back", "refused"]
"""The stage of an operation that follows a plan or has to be confirmed.

``running``: its command writes. ``ended``: it ended without needing a confirmation. ``unconfirmed``: it waits for one.
``going-back``: it is being undone or rolled back. ``gone-back``: it was not confirmed in time, and the level of M_Keys
that it raised was lowered again. ``refused``: it was not confirmed in time, and its rollback was refused, because
another program or administrator has changed values that it wrote.
"""
Rollback = Literal["unfinished", "refused"]
RehearsalVerdict = Literal["identical", "differs", "refused"]
"""The result of a rehearsal: everything was as planned, something differed, or an interlock refused the change."""
OpensmOrigin = Literal["running", "named", "installed", "packed"]
"""Whose OpenSM rehearsed: the one that ran on this host; one that the user named; the one that is installed here,
without options of the site; or one with the options and files of a bundle."""
_WHOSE_OPENSM: Final[Mapping[OpensmOrigin, str]] = {
    "running": "the site's own OpenSM",
    "named": "a named OpenSM",
    "installed": "an OpenSM without the site's options",
    "packed": "an OpenSM with packed options",
}


ATTRIBUTE_SIZE: Final = 64
ATTRIBUTES: Final = frozenset({"P_KeyTable", "PortInfo"})
"""The attributes that commands write today. Before a new one is added, check whether it can have a key."""


@dataclass(frozen=True, slots=True)
class Image:
    """One attribute of one port before and after a Set.

    ``before`` and ``after`` are the 64 bytes as read and as sent, with the M_Key zeroed. ``key_name`` names the row of
    the new M_Key in the key store; None if the Set does not change the M_Key. ``port``: the port number; ``lid``: the
    LID of the port, for a port of a switch that of the switch.

    Raises EncodeError for an attribute that no command writes, for another length of ``before`` or ``after``, and for a
    PortInfo whose M_Key is not zeroed.
    """

    node_guid: int
    port_guid: int
    node_desc: str
    node_type: str
    port: int
    lid: int
    attribute: str
    attribute_modifier: int
    before: bytes
    after: bytes
    key_name: str | None = None

    def __post_init__(self) -> None:
        if self.attribute not in ATTRIBUTES:
            raise EncodeError(f"the journal does not store {self.attribute}, only {', '.join(sorted(ATTRIBUTES))}")
        for blob in (self.before, self.after):
            if len(blob) != ATTRIBUTE_SIZE:
                raise EncodeError(f"an attribute in the journal has {ATTRIBUTE_SIZE} bytes, {len(blob)} given")
            if self.attribute == "PortInfo" and any(blob[:8]):
                raise EncodeError(
                    "a PortInfo for the journal still has its M_Key; zero it, and name its key store row in key_name"
                )


@dataclass(frozen=True, slots=True)
class FileImage:
    """One file before and after it was replaced: the image of a change that is made through a subnet manager.

    A partition of UFM is such an image too, with UFM's URL in place of the host, and the members in place of the bytes.

    ``path``: absolute, with links resolved. ``host``: the host of the file, "" for this host. ``before`` and ``after``:
    the bytes, None if there is no file; the caller has replaced each key in them by a reference to the key store.
    ``mode``, ``uid``, ``gid`` and ``attributes`` (extended attributes by name, such as an ACL) are those of the former
    file; mode, UID and GID are None if there was none. An image with a mode, but neither ``before`` nor ``after``,
    stands for a file or folder that was not replaced: only its mode was changed, so that none but the owner has access.

    Raises EncodeError for a path that is not absolute.
    """

    path: str
    before: bytes | None
    after: bytes | None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    attributes: Mapping[str, bytes] = field(default_factory=dict)
    host: str = ""

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise EncodeError(f"the journal keeps files by their absolute paths, not {self.path!r}")

    @property
    def key(self) -> tuple[str, str]:
        """Host and path, which identify a file."""
        return self.host, self.path

    @property
    def closed_to(self) -> int | None:
        """The mode, with bits of the owner only, of a file whose mode was changed; None for a file that was
        replaced."""
        is_closed = self.mode is not None and self.before is None and self.after is None
        return (self.mode or 0) & stat.S_IRWXU if is_closed else None


@dataclass(frozen=True, slots=True)
class WantedValue:
    """One value that an operation is to set on a port, and the value that the port had. ``kind``: ``pkey`` for a P_Key
    entry (with its ``index``), else the JSON name of a field. An M_Key is only ``zero``, ``set`` or ``changed``: the
    image of its Set names the key."""

    node_guid: int
    port: int
    kind: str
    index: int | None
    before: str | int | bool | None
    after: str | int | bool | None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of an operation. ``begun``: the time of its beginning. ``status``: ``pending`` until its outcome is
    known; an interrupted step stays ``pending``."""

    name: str
    begun: str
    status: EntryStatus


@dataclass(frozen=True, slots=True)
class Start:
    """One start of an operation: the time at which it began or was resumed, and its origin."""

    started: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class RehearsalRecord:
    """One rehearsal of a plan. ``plan``: the digest of the plan; ``made``: when it ended; ``snapshot``: when the
    snapshot of the copy was taken; both UTC, as ISO 8601. ``opensm``: whose OpenSM it was; ``program``: the path of its
    program. ``user``, ``host``: who rehearsed, and where."""

    plan: str
    verdict: RehearsalVerdict
    made: str
    snapshot: str
    opensm: OpensmOrigin
    program: str
    user: str
    host: str

    @property
    def in_words(self) -> str:
        """When it was made, on which snapshot, by whose OpenSM, and its result."""
        whose = _WHOSE_OPENSM[self.opensm]
        return f"rehearsed {self.made} on the snapshot of {self.snapshot}, by {whose}: {self.verdict}"


WANTED_VALUES: Final = "values"
"""The only option of an operation that sets values of single ports: the list of values that it is to set."""
KEY_COMMANDS: Final = ("mkey-deploy", "mkey-rotate", "mkey-remove")
"""The commands that begin runs of M_Keys."""
PARTITION_VERBS: Final = ("partition-add", "partition-remove", "partition-delete", "partition-rename", "replace")
"""The commands that edit the policy in force, and apply the plan of it."""
SPREAD: Final = "partition-spread"
"""The command that brings the policy files of all SMs to the master's."""
PLAN_COMMANDS: Final = ("apply", *PARTITION_VERBS, SPREAD)
"""The commands that begin operations which follow a plan. Others, such as ``harden``, begin these as ``apply``."""


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """One operation of the journal, a line of ``ibkeys journal``.

    ``finished``: None while the operation is ``open``. ``ports``: the number of different ports that it changed.
    ``unproven``: the number of Sets and files whose effect was not proven, or was disproved. ``stage``: None unless the
    operation follows a plan or has to be confirmed. ``undoes``: the number of the operation that this one undoes, None
    if it is no undo. ``undone_by``: the number of the operation that undid this one; None also if an earlier version of
    ibkeys undid it. ``being_undone``: its undo is open or has failed. ``is_of_plan``: the operation follows a plan, or
    is in a chain of undos whose first operation does. ``is_of_keys``: the same for a run that sets M_Keys. ``undid``:
    the command of the first operation in the chain of undos; None if this is no undo. ``starts``: empty for an
    operation of an earlier version. ``step``: the step in which the operation runs or was interrupted; None between two
    steps and for an operation without steps. ``waiting``: the number of ports that a run of M_Keys has yet to change,
    also while it pauses after its first ports. ``method``: how an apply, a run of M_Keys, or the operation that this
    one undoes reaches the ports: ``direct``, ``opensm`` or ``ufm``; None for other commands.
    ``has_values``: the journal has the values that the operation is to set on single ports (`Journal.wanted_values`).
    """

    id: int
    command: str
    state: OperationState
    started: str
    finished: str | None
    ports: int
    unproven: int
    stage: Stage | None
    undoes: int | None = None
    undone_by: int | None = None
    being_undone: bool = False
    is_of_plan: bool = False
    is_of_keys: bool = False
    undid: str | None = None
    starts: tuple[Start, ...] = ()
    step: str | None = None
    waiting: int = 0
    method: str | None = None
    has_values: bool = False

    @property
    def is_half_undone(self) -> bool:
        """Whether the undo of this operation was begun, and is open or has failed."""
        return self.being_undone and self.state != "undone"

    @property
    def began(self) -> str:
        """The command that began the operation; for an undo, the command of the first operation in the chain of
        undos."""
        return self.undid or self.command

    @property
    def is_unfinished(self) -> bool:
        """Whether the operation is open, or its undo is open or has failed, so that perhaps only a part was written; or
        whether its rollback was refused."""
        return self.state == "open" or self.is_half_undone or self.is_refused

    @property
    def is_going_back(self) -> bool:
        """Whether the operation is being rolled back because it was not confirmed in time, or is being undone."""
        return self.stage == "going-back" and self.state != "undone"

    @property
    def rollback(self) -> Rollback | None:
        """The state of the automatic rollback of an operation that was not confirmed in time; None if none was begun,
        or if it ended well."""
        if self.is_refused:
            return "refused"
        return "unfinished" if self.is_going_back and not self.being_undone else None

    @property
    def is_refused(self) -> bool:
        """Whether the operation was not confirmed in time, and its rollback was refused, so that the user has to
        decide."""
        return self.stage == "refused" and self.state != "undone"

    @property
    def awaits_confirmation(self) -> bool:
        """Whether the operation has ended its writes, and will be rolled back unless the user confirms it in time."""
        return self.stage == "unconfirmed" and self.state != "undone"

    @property
    def goes_back(self) -> bool:
        """Whether the operation is being rolled back, or will be unless the user confirms it in time. Also true while
        it still runs, because its process may be killed. Only meaningful for an operation that has to be confirmed."""
        return self.stage in ("running", "unconfirmed", "going-back") and self.state != "undone"


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """The plan of an operation: the texts that `Journal.begin` stored, both JSON."""

    document: str
    options: str

    @property
    def kept(self) -> dict[str, Any]:
        """The options with which the operation was begun; {} if their text is damaged, which the caller reports if it
        needs them."""
        return options_in(self.options)


def options_in(text: str) -> dict[str, Any]:
    """Return the options with which an operation was begun, from their JSON text; {} if that is damaged."""
    try:
        options = jsonfile.loads(text.encode("utf-8", "surrogatepass"))
    except FileFormatError:
        return {}
    return options if isinstance(options, dict) else {}

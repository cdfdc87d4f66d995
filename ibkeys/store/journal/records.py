"""Value types of the journal's data about an operation and each Set."""

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
"""The stage of an operation that follows a plan or has to be confirmed. ``ended``: it needed no confirmation;
``unconfirmed``: it awaits one; ``gone-back``: it was not confirmed in time, and the level of M_Keys that it raised was
lowered; ``refused``: it was not confirmed in time, and its rollback was refused, because another program or
administrator has changed values that it wrote.
"""
Rollback = Literal["unfinished", "refused"]


ATTRIBUTE_SIZE: Final = 64
ATTRIBUTES: Final = frozenset({"P_KeyTable", "PortInfo"})
"""The attributes that commands write today. Before a new one is added, check whether it can have a key."""


@dataclass(frozen=True, slots=True)
class Image:
    """One attribute of one port before and after a Set.

    ``before`` and ``after`` are the 64 bytes as read and as sent, M_Key zeroed; ``key_name`` names the key store's row
    of the new M_Key, None when the Set does not change it. ``port`` and ``lid``: as in every JSON document.

    Raises EncodeError for blobs of another length, an attribute that no command writes, and a PortInfo with its M_Key.
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
            raise EncodeError(f"the journal does not keep {self.attribute}; known: {', '.join(sorted(ATTRIBUTES))}")
        for blob in (self.before, self.after):
            if len(blob) != ATTRIBUTE_SIZE:
                raise EncodeError(f"an attribute in the journal has {ATTRIBUTE_SIZE} bytes, {len(blob)} given")
            if self.attribute == "PortInfo" and any(blob[:8]):
                raise EncodeError(
                    "a PortInfo for the journal still has its M_Key; zero it and give the key store's reference"
                )


@dataclass(frozen=True, slots=True)
class FileImage:
    """One file before and after it was replaced: the other kind of image, for changes that a subnet manager makes. A
    partition of UFM is kept as one too: UFM's URL in place of the host, and its members in place of bytes.

    ``path``: absolute, links followed; ``host``: its host, "" for this one. ``before`` and ``after`` are its bytes,
    None if there is no file; they may have no key: the caller replaces each key by a reference to the key store.
    ``mode``, ``uid``, ``gid`` and ``attributes`` (extended ones, as ACL and label, by name) are those of the former
    file, None if there was none. With a mode, and without bytes before and after, it is a file or folder that was not
    replaced, but closed to all but its owner.

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
        """The mode that it was closed to; None for a file that was replaced."""
        is_closed = self.mode is not None and self.before is None and self.after is None
        return (self.mode or 0) & stat.S_IRWXU if is_closed else None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of an operation. ``begun``: the time of its beginning; ``status``: ``pending`` until its outcome is
    known, also if it was interrupted."""

    name: str
    begun: str
    status: EntryStatus


@dataclass(frozen=True, slots=True)
class Start:
    """One start of an operation: the time at which it began or was resumed, and its origin."""

    started: str
    origin: Origin


KEY_COMMANDS: Final = ("mkey-deploy", "mkey-rotate", "mkey-remove")
"""The commands that begin runs of M_Keys."""


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """One line of ``ibkeys journal``. ``finished`` is None while it is ``open``; ``ports`` counts distinct ports.

    ``unproven`` counts the Sets and files whose effect was not proven, or was disproved. ``stage``: the stage of an
    operation that follows a plan or has to be confirmed, None for any other. ``undoes``: the operation that this one
    undid, None if it is no undo. ``undone_by``: the operation that undid this one; None also if an earlier version
    undid it. ``being_undone``: an undo of it was begun and is not finished. ``is_of_plan``: it follows a plan, or
    undoes an operation that does, and so on; ``is_of_keys``: the same for a run of M_Keys. ``undid``: for an undo, the
    command of the operation that it undoes, or of the first operation in a chain of undos; None for an operation that
    is no undo. ``starts``: empty for operations of an earlier version. ``step``: the step in which it was interrupted,
    None between two steps and for an operation without steps. ``waiting``: the number of ports that a run of M_Keys has
    yet to change, also if it is held after its first ports. ``method``: the method of an apply, a run of M_Keys, or the
    operation that is undone: ``direct``, ``opensm`` or ``ufm``; None for other commands.
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

    @property
    def is_half_undone(self) -> bool:
        """Whether its undo was begun and has not ended."""
        return self.being_undone and self.state != "undone"

    @property
    def began(self) -> str:
        """The command that began it; for an undo that of the operation that it undoes, and so on."""
        return self.undid or self.command

    @property
    def is_unfinished(self) -> bool:
        """Whether it, or its undo, was interrupted, so that only a part of it was written, or its rollback was
        refused."""
        return self.state == "open" or self.is_half_undone or self.is_refused

    @property
    def is_going_back(self) -> bool:
        """Whether it is being undone because it was not confirmed in time, or by an undo that was interrupted."""
        return self.stage == "going-back" and self.state != "undone"

    @property
    def rollback(self) -> Rollback | None:
        """The state of the automatic rollback of an operation that was not confirmed in time; None if there is none."""
        if self.is_refused:
            return "refused"
        return "unfinished" if self.is_going_back and not self.being_undone else None

    @property
    def is_refused(self) -> bool:
        """Whether it was not confirmed in time, and its rollback was refused: only a command of the user goes on with
        it."""
        return self.stage == "refused" and self.state != "undone"

    @property
    def awaits_confirmation(self) -> bool:
        """Whether it will be undone unless it is confirmed in time."""
        return self.stage == "unconfirmed" and self.state != "undone"

    @property
    def goes_back(self) -> bool:
        """Whether it is rolled back unless it is confirmed in time, also because its process may have been killed; only
        meaningful for an operation that has to be confirmed."""
        return self.stage in ("running", "unconfirmed", "going-back") and self.state != "undone"


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """The plan of an operation: the texts that `Journal.begin` stored."""

    document: str
    options: str

    @property
    def kept(self) -> dict[str, Any]:
        """The options with which it was begun; {} if they are damaged: code that needs them reports that."""
        return options_in(self.options)


def options_in(text: str) -> dict[str, Any]:
    """Return the options with which an operation was begun, from their JSON text; {} if that is damaged."""
    try:
        kept = jsonfile.loads(text.encode("utf-8", "surrogatepass"))
    except FileFormatError:
        return {}
    return kept if isinstance(kept, dict) else {}

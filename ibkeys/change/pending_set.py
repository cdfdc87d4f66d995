"""A Set to be sent to one port: what it changes, how it is verified, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from ibkeys.change.target import PortTarget
from ibkeys.client.smp import SmpClient, Task
from ibkeys.errors import IbkeysError
from ibkeys.mad.attributes import Attribute
from ibkeys.port_text import PortText
from ibkeys.store.journal import JournalEntry


@dataclass(frozen=True, slots=True)
class SetProof:
    """What was found after a Set. ``error``: what is not as it was sent, None if all is.

    ``changed_nothing``: the Set changed nothing. ``never_arrived``: a read proved that the Set was
    lost, so it may be sent again. ``is_silent``: the port did not answer, so the result is unknown.
    """

    error: IbkeysError | None = None
    changed_nothing: bool = False
    never_arrived: bool = False
    is_silent: bool = False


class Edit(Protocol):
    """What the engine needs to know of a change: all in terms of the attribute's 64 bytes.

    ``name``: that of the ``attribute``, as journal and errors have it. ``is_alone``: it is the only Set of its port.
    Then it waits for no other, and is sent although its node did not answer another SMP. ``at_most``: how often the Set
    may be sent, again only after a proof that it never arrived: 1, but one more than ``Timing.retries`` in what a
    carrier makes (apply, undo) and in a rollout of M_Keys. ``target``: the port that it changes. ``key_name``: the name
    of the key store's row whose key it sets.
    """

    name: ClassVar[str]
    attribute: ClassVar[type[Attribute]]
    is_alone: ClassVar[bool]
    at_most: int
    target: PortTarget
    key_name: str | None

    @property
    def modifier(self) -> int:
        """The AttributeModifier."""

    def build(self, now: bytes) -> bytes:
        """Return what to send, made of what was just read; the same bytes where nothing is to be changed.

        Raises Refused (``stale``) and MKeyNeeded.
        """

    def changed_meanwhile(self, read: bytes, now: bytes) -> bool:
        """Whether the attribute changed between two reads, apart from fields that change by themselves."""

    def kept(self, raw: bytes) -> bytes:
        """Return what the journal may keep of it."""

    def fallback(self, sent: bytes) -> bytes | None:
        """Return what to send after the agent refused *sent* and applied nothing; None when there is no alternative."""

    def prove(self, client: SmpClient, each: PendingSet) -> Task:
        """Task: read back what the Set changed; return the `SetProof`. ``each.answer``: what came in answer to it."""


@dataclass(slots=True, eq=False, repr=False)  # PortInfo has its M_Key in it
class PendingSet:
    """One edit of one port on its way.

    ``before``: the attribute as it was read; ``after``: what is sent; ``read_at``: when it was read. ``entries``: its
    records in the journal, of which the last one counts. ``sent``: how often the Set left. ``answer``: the error that
    came in answer to it, such as NoReply; None for success. ``error``: why the change is not made; None when it is
    proven, or was never begun. ``is_silent``: the port did not answer after its Set, so that the change may be made all
    the same. ``has_failed``: it did not answer, or failed, at least once; ``was_asked_again``: it was silent after its
    Set, and is asked again.
    """

    edit: Edit
    before: bytes = b""
    after: bytes = b""
    read_at: float = 0.0
    entries: list[JournalEntry] = field(default_factory=list)
    sent: int = 0
    answer: IbkeysError | None = None
    error: IbkeysError | None = None
    is_silent: bool = False
    has_failed: bool = False
    was_asked_again: bool = False

    @property
    def target(self) -> PortTarget:
        """The port that is changed."""
        return self.edit.target

    @property
    def text(self) -> PortText:
        """The port and what is set there."""
        name = self.edit.name
        return PortText(f"{self.target.port}: Set({name}, modifier 0x{self.edit.modifier:x})", f"Set({name})")

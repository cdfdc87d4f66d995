"""Sets to be sent to one port: the edit, its proof and its outcome."""

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
    """The result of reading an attribute after its Set. ``error``: the difference from the bytes that were sent, or the
    error of the Get; None if the Set is proven. ``changed_nothing``: the Set changed nothing. ``never_arrived``: a read
    proved that the Set was lost, so it may be sent again. ``is_silent``: the port did not answer, so the result is
    unknown.
    """

    error: IbkeysError | None = None
    changed_nothing: bool = False
    never_arrived: bool = False
    is_silent: bool = False


class Edit(Protocol):
    """The interface by which the engine uses an edit, in terms of the attribute's 64 bytes.

    ``name``: the name of the ``attribute`` in journal and errors. ``is_alone``: it is the only Set of its port, so it
    waits for no other, and is sent although its node did not answer another SMP. ``max_sends``: how often the Set may
    be sent: 1, or ``Timing.retries`` + 1 in apply, undo and a rollout of M_Keys. It is sent again only after a proof
    that it never arrived, or in the form of `fallback`. ``target``: the port that it changes. ``key_name``: the name of
    the key store's row whose key it sets.
    """

    name: ClassVar[str]
    attribute: ClassVar[type[Attribute]]
    is_alone: ClassVar[bool]
    max_sends: int
    target: PortTarget
    key_name: str | None

    @property
    def modifier(self) -> int:
        """The AttributeModifier of the Set."""

    def build(self, present: bytes) -> bytes:
        """Return the bytes to send, built from the bytes that were just read; the same bytes if nothing is to be
        changed.

        Raises Refused (``stale``) and MKeyNeeded.
        """

    def changed_meanwhile(self, read: bytes, present: bytes) -> bool:
        """Return whether the attribute changed between two reads, apart from fields that change by themselves."""

    def without_secrets(self, raw: bytes) -> bytes:
        """Return *raw* as the journal may keep it, without secrets."""

    def fallback(self, sent: bytes) -> bytes | None:
        """Return the bytes to send after the agent refused *sent* and applied nothing; None if there is no
        alternative."""

    def prove(self, client: SmpClient, pending: PendingSet) -> Task:
        """Task: read the attribute after the Set, and return the `SetProof`. *pending*: the Set, with the error that
        answered it in ``set_error``."""


@dataclass(slots=True, eq=False, repr=False)  # PortInfo has its M_Key in it
class PendingSet:
    """One edit of one port, with its state while the engine makes it.

    ``before``: the attribute as it was read; ``after``: the bytes to send; ``read_at``: the time of the read, in
    seconds. ``entries``: its records in the journal, of which the last one counts. ``sent``: how often the Set was
    sent. ``set_error``: the error that answered the Set, such as NoReply; None for success. ``error``: why the change
    is not made; None when it is proven, or was never begun. ``is_silent``: the port did not answer after its Set, so it
    is unknown whether the change is made. ``has_failed``: its port did not answer, or the Set failed, at least once;
    ``was_asked_again``: its port was silent after the Set, and is asked again.
    """

    edit: Edit
    before: bytes = b""
    after: bytes = b""
    read_at: float = 0.0
    entries: list[JournalEntry] = field(default_factory=list)
    sent: int = 0
    set_error: IbkeysError | None = None
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
        """The port, the attribute and the modifier of the Set, in words."""
        name = self.edit.name
        return PortText(f"{self.target.port}: Set({name}, modifier 0x{self.edit.modifier:x})", f"Set({name})")

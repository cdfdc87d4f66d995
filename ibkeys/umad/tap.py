"""A tap on a port: a `UmadPort` around another port that shows every MAD to observers (a trace, a capture file)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from operator import methodcaller
from typing import Final, Protocol

from ibkeys.errors import MalformedMad, StoreError
from ibkeys.mad import offsets as at
from ibkeys.mad.const import Method
from ibkeys.mad.decode import attribute_of, summary
from ibkeys.mad.masking import masked
from ibkeys.mad.smp import parse
from ibkeys.umad.port import ETIMEDOUT, PERMISSIVE_LID, Incoming, Outgoing, SendFailure, UmadPort
from ibkeys.umad.wrapped_port import WrappedPort

_FAILURES: Final = (OSError, ValueError, StoreError)


class Observer(Protocol):
    """The interface of an object that gets every MAD of a port, in order. The keys in the MADs are not masked."""

    def sent(self, mad: Outgoing, errno: int) -> None:
        """Process a MAD that was passed to the kernel; *errno* is not 0 if the kernel refused it."""

    def received(self, mad: Incoming) -> None:
        """Process a MAD that was received, or the kernel's report that a request timed out."""

    def close(self) -> None:
        """Close the observer; called once when it has failed, else for each close of the tap."""


class Tap(WrappedPort):
    """A port around another port that passes each MAD to *observers*.

    An observer that raises OSError, ValueError or StoreError is closed and removed, and *complain* is called once with
    a message: a full disk or a closed pipe must not stop a change between its Set and its proof.
    """

    def __init__(
        self, port: UmadPort, observers: Sequence[Observer], complain: Callable[[str], None] = lambda _text: None
    ) -> None:
        super().__init__(port)
        self._observers = list(observers)
        self._complain = complain

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        """Send a batch through the inner port, whose errors are raised, and pass its MADs to the observers."""
        failures = self.inner.send(batch)
        refused = {failure.index: failure.errno for failure in failures}
        for index, mad in enumerate(batch):
            self._show(methodcaller("sent", mad, refused.get(index, 0)))
        return failures

    def recv(self, timeout: float) -> list[Incoming]:
        """Receive from the inner port, whose errors are raised, and pass the received MADs to the observers."""
        received = self.inner.recv(timeout)
        for mad in received:
            self._show(methodcaller("received", mad))
        return received

    def _show(self, show: Callable[[Observer], None]) -> None:
        for observer in tuple(self._observers):
            try:
                show(observer)
            except _FAILURES as error:
                self._observers.remove(observer)
                self._complain(f"{type(observer).__name__.lower()} ended: {error}")
                with suppress(*_FAILURES):  # the failed write was reported just now
                    observer.close()

    def close(self) -> None:
        """Close the port and all observers that have not failed. Safe to call twice. Raises StoreError if a capture
        cannot be completed."""
        with ExitStack() as stack:
            for observer in self._observers:
                stack.callback(observer.close)
            self.inner.close()


class Trace:
    """An observer that writes one line for each MAD, and for all but Gets a second line with the attribute if it is
    known. Keys are always masked.

    *write*: writes one line, which has no line feed.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def sent(self, mad: Outgoing, errno: int) -> None:
        """Write a MAD that was sent."""
        self._write(f"> {summary(mad.mad)}{_lid('to', mad.lid)}" + (f" refused: errno {errno}" if errno else ""))
        # The data of a Get has no meaning: only written data are shown.
        if mad.mad[at.METHOD] != Method.GET:
            self._write_attribute(mad.mad)

    def received(self, mad: Incoming) -> None:
        """Write a MAD that was received, or the timeout."""
        if mad.status == ETIMEDOUT:
            self._write(f"< timeout of tid 0x{int.from_bytes(mad.mad[at.TRANSACTION_ID]):x}")
            return
        error = f" errno {mad.status}" if mad.status else ""
        self._write(f"< {summary(mad.mad)}{_lid('from', mad.lid)}{error}")
        self._write_attribute(mad.mad)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _write_attribute(self, raw: bytes) -> None:
        try:
            attribute = attribute_of(parse(masked(raw)))
        except MalformedMad:
            return
        if attribute is not None:
            self._write(f"    {attribute!r}")


def _lid(word: str, lid: int) -> str:
    return "" if lid == PERMISSIVE_LID else f" {word} LID {lid}"

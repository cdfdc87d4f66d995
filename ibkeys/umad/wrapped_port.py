"""A port around another one: what it does not do itself, the other one does."""

from __future__ import annotations

from collections.abc import Sequence

from ibkeys.closing import Closing
from ibkeys.umad.port import Incoming, LocalPort, Outgoing, SendFailure, UmadPort


class WrappedPort(Closing):
    """A `UmadPort` around another one, ``inner``. Not thread-safe, as the port itself.

    It has no `recv_answers`, whatever *inner* has: a port that looks at what comes in has to get all of it.
    """

    def __init__(self, inner: UmadPort) -> None:
        self.inner = inner
        self.ca_name = inner.ca_name
        self.port = inner.port

    def attributes(self) -> LocalPort:
        """Return what the host knows about the port. Raises TransportError."""
        return self.inner.attributes()

    def register(self, mgmt_class: int, class_version: int = 1, methods: Sequence[int] = ()) -> None:
        """Register an agent. Raises AgentRefused."""
        self.inner.register(mgmt_class, class_version, methods)

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        """Send a batch, in order. Raises DeviceGone, ClosedError."""
        return self.inner.send(batch)

    def recv(self, timeout: float) -> list[Incoming]:
        """Wait up to *timeout* seconds and return what came. Raises DeviceGone, ClosedError."""
        return self.inner.recv(timeout)

    def now(self) -> float:
        """Return the port's own clock in seconds."""
        return self.inner.now()

    def close(self) -> None:
        """Close the port. Safe to call twice."""
        self.inner.close()

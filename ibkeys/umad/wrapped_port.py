"""A port around another port, to which it delegates everything that it does not do itself."""

from __future__ import annotations

from collections.abc import Sequence

from ibkeys.closing import Closing
from ibkeys.umad.port import Incoming, LocalPort, Outgoing, SendFailure, UmadPort


class WrappedPort(Closing):
    """A `UmadPort` around another port, ``inner``. Not thread-safe, like the port itself.

    It has no `recv_answers`, whatever *inner* has: a port that examines received MADs has to get all of them.
    """

    def __init__(self, inner: UmadPort) -> None:
        self.inner = inner
        self.ca_name = inner.ca_name
        self.port = inner.port

    def attributes(self) -> LocalPort:
        """Return the host's current attributes of the port. Raises TransportError, ClosedError."""
        return self.inner.attributes()

    def register(self, mgmt_class: int, class_version: int = 1, methods: Sequence[int] = ()) -> None:
        """Register an agent for a management class; *methods* are the unsolicited methods that it receives. Raises
        TransportError (AgentRefused if the kernel refuses the agent), ClosedError."""
        self.inner.register(mgmt_class, class_version, methods)

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        """Send a batch, in order, and return the MADs that were refused. Raises the errors of the inner port."""
        return self.inner.send(batch)

    def recv(self, timeout: float) -> list[Incoming]:
        """Wait up to *timeout* seconds for a MAD and return the MADs that have arrived; [] if none arrived in time.
        Raises TransportError (DeviceGone if the device was removed), ClosedError."""
        return self.inner.recv(timeout)

    def now(self) -> float:
        """Return the port's own clock in seconds."""
        return self.inner.now()

    def close(self) -> None:
        """Close the port. Safe to call twice."""
        self.inner.close()

"""Service notifications to systemd without its library (sd_notify(3)): a datagram to the socket in NOTIFY_SOCKET."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping

from ibkeys.umad.port import Incoming, Outgoing


class Notifier:
    """Sends READY, STATUS, WATCHDOG and STOPPING to systemd, if systemd started this process and waits for them.

    ``wants_signs``: the unit has WatchdogSec=; `alive` is then to be called more often than that. Failures to send are
    ignored: a missing receiver must not end a watch.
    """

    def __init__(self, environment: Mapping[str, str], now: Callable[[], float], pid: int | None = None) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self._now = now
        self._each = _half_of_watchdog(environment, os.getpid() if pid is None else pid)
        self._last = now()

    @property
    def wants_signs(self) -> bool:
        """Whether systemd ends this process unless `alive` is called regularly."""
        return self._address is not None and self._each is not None

    def ready(self, status: str) -> None:
        """Report that the watch has begun."""
        self._send(f"READY=1\nSTATUS={status}")

    def alive(self) -> None:
        """Give a keep-alive, if one is due: twice in each WatchdogSec=."""
        if self._each is not None and self._now() - self._last >= self._each:
            self._last = self._now()
            self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Tell systemd that the watch ends."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if self._address is None:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as sender:
            try:
                sender.sendto(text.encode(), self._address)
            except OSError:
                return  # see the class


class SignsOfLife:
    """An observer of a port (`ibkeys.umad.tap.Tap`) that sends keep-alives to systemd during a long sweep."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    def sent(self, mad: Outgoing, errno: int) -> None:
        """Send a keep-alive after a MAD was sent."""
        self._notifier.alive()

    def received(self, mad: Incoming) -> None:
        """Send a keep-alive after a MAD was received, or a request timed out."""
        self._notifier.alive()

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _address(name: str) -> str | None:
    """Return the address of the socket; ``@`` begins an abstract one. None for any other form, which systemd does not
    use."""
    if name.startswith("/"):
        return name
    return "\0" + name[1:] if name.startswith("@") else None


def _half_of_watchdog(environment: Mapping[str, str], pid: int) -> float | None:
    """Return half of WatchdogSec= in seconds; None if it is not set, or if it is meant for another process."""
    period, meant = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not (period.isascii() and period.isdigit() and int(period)) or (meant and meant != str(pid)):
        return None
    return int(period) / 2_000_000

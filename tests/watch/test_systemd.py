"""sd_notify: what is sent to the socket that systemd names."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibkeys.watch.systemd import Notifier


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


def heard(systemd: socket.socket) -> list[str]:
    messages = []
    while True:
        try:
            messages.append(systemd.recv(4096).decode())
        except BlockingIOError:
            return messages


def test_ready_signs_of_life_and_stopping(systemd: socket.socket) -> None:
    now = [100.0]
    names = {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "42"}
    notifier = Notifier(names, lambda: now[0], pid=42)
    assert notifier.wants_signs
    notifier.ready("watching")
    notifier.alive()
    assert heard(systemd) == ["READY=1\nSTATUS=watching"]
    for now[0] in (110.0, 115.0, 116.0, 129.0, 130.0):
        notifier.alive()
    assert heard(systemd) == ["WATCHDOG=1", "WATCHDOG=1"]
    notifier.stopping()
    assert heard(systemd) == ["STOPPING=1"]


@pytest.mark.parametrize(
    "watchdog",
    [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "43"}],
)
def test_without_a_watchdog_of_its_own_there_are_no_signs_of_life(
    systemd: socket.socket, watchdog: dict[str, str]
) -> None:
    now = [0.0]
    notifier = Notifier({"NOTIFY_SOCKET": systemd.getsockname(), **watchdog}, lambda: now[0], pid=42)
    now[0] = 1e9
    notifier.alive()
    assert not notifier.wants_signs
    assert heard(systemd) == []


@pytest.mark.parametrize("name", ["", "relative", "vsock:2:1", "/nobody/listens/here", "@nobody-listens-here-either"])
def test_nobody_who_listens_is_no_error(name: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000"}, lambda: 0.0)
    notifier.ready("watching")
    notifier.stopping()


def test_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("")  # Linux chooses an abstract name
        listener.setblocking(False)
        Notifier({"NOTIFY_SOCKET": "@" + listener.getsockname()[1:].decode()}, lambda: 0.0).ready("x")
        assert heard(listener) == ["READY=1\nSTATUS=x"]

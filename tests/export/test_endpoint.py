"""The HTTP endpoint on loopback: what it answers, to whom, and what a client that does it wrong changes."""

from __future__ import annotations

import http.client
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ibkeys.errors import UsageError
from ibkeys.export.endpoint import MOST_CLIENTS, Guard, make_tls, parse_listen, serving
from tests.export.running import certificate
from tests.sample import in_soak

PAGE = b"ibkeys_partitions 3.0\n"
TOKEN = b"0123456789abcdef"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost, and its key."""
    return certificate(tmp_path_factory.mktemp("tls"))


def ask(
    port: int, path: str = "/metrics", method: str = "GET", token: bytes | None = None, tls: Path | None = None
) -> tuple[int, bytes, http.client.HTTPMessage]:
    headers = {} if token is None else {"Authorization": f"Bearer {token.decode()}"}
    connection: http.client.HTTPConnection
    if tls is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=180)
    else:
        context = ssl.create_default_context(cafile=str(tls))
        connection = http.client.HTTPSConnection("localhost", port, timeout=180, context=context)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(), response.headers
    finally:
        connection.close()


def test_the_page_is_at_metrics_and_nowhere_else(stack: ExitStack) -> None:
    pages = [None, PAGE]
    port = stack.enter_context(serving(parse_listen("0"), Guard(), lambda: pages[0]))
    assert ask(port)[0] == 503
    del pages[0]
    status, body, headers = ask(port)
    assert (status, body) == (200, PAGE)
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "Python" not in headers["Server"]
    assert ask(port, "/metrics?x=1")[:2] == (200, PAGE)
    assert ask(port, "/")[0] == 404
    assert ask(port, method="HEAD")[:2] == (200, b"")
    assert ask(port, method="POST")[0] == 501


def test_only_who_shows_the_token_sees_the_page(stack: ExitStack) -> None:
    port = stack.enter_context(serving(parse_listen("0"), Guard(token=TOKEN), lambda: PAGE))
    for wrong in (None, b"", b"0123456789abcdeX", TOKEN + b"f", TOKEN[:-1]):
        status, body, headers = ask(port, token=wrong)
        assert status == 401
        assert PAGE not in body
        assert headers["WWW-Authenticate"] == "Bearer"
        assert ask(port, "/other", token=wrong)[0] == 401
    assert ask(port, token=TOKEN)[:2] == (200, PAGE)
    assert "0123456789abcdef" not in repr(Guard(token=TOKEN))


def test_by_tls_and_a_client_that_speaks_none_holds_nobody_up(stack: ExitStack, pair: tuple[Path, Path]) -> None:
    guard = Guard(make_tls(*map(str, pair)), TOKEN)
    port = stack.enter_context(serving(parse_listen("0"), guard, lambda: PAGE))
    silent = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
    with socket.create_connection(("127.0.0.1", port), timeout=180) as plain:
        plain.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert PAGE not in plain.recv(100)
    assert ask(port, token=TOKEN, tls=pair[0])[:2] == (200, PAGE)
    assert ask(port, tls=pair[0])[0] == 401
    assert silent.fileno() > 0


@pytest.mark.parametrize("by_tls", [False, True])
def test_a_client_that_takes_too_long_for_all_of_it_is_cut_off(
    stack: ExitStack, pair: tuple[Path, Path], by_tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibkeys.export.endpoint.SILENCE", 1000.0)
    monkeypatch.setattr("ibkeys.export.endpoint.WHOLE", 0.1)
    guard = Guard(make_tls(*map(str, pair)) if by_tls else None)
    port = stack.enter_context(serving(parse_listen("0"), guard, lambda: PAGE))
    slow = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=180))
    slow.sendall(b"\x16\x03\x01\x40\x00" if by_tls else b"GET /metrics HTTP/1.0\r\n")
    assert slow.recv(4096) == b"", "closed, and not because it was silent"


def test_more_clients_than_there_is_room_for_are_sent_away(stack: ExitStack) -> None:
    port = stack.enter_context(serving(parse_listen("0"), Guard(), lambda: PAGE))
    idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=180)) for _ in range(16)]
    late = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=180))
    assert late.recv(1) == b"", "closed at once"
    idle[0].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert idle[0].makefile("rb").read().endswith(PAGE)


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("9936", "127.0.0.1", 9936, True),
        ("127.0.0.9:1", "127.0.0.9", 1, True),
        ("localhost:0", "localhost", 0, True),
        ("[::1]:80", "::1", 80, True),
        ("0.0.0.0:80", "0.0.0.0", 80, False),
        ("[::]:80", "::", 80, False),
        ("192.0.2.1:80", "192.0.2.1", 80, False),
    ],
)
def test_where_to_listen(text: str, host: str, port: int, loopback: bool) -> None:
    found = parse_listen(text)
    assert (found.host, found.port, found.is_loopback) == (host, port, loopback)


@pytest.mark.parametrize("text", ["", "x", ":80", "::1:80", "1.2.3.4:", "1.2.3.4:65536"])
def test_what_is_no_place_to_listen(text: str) -> None:
    with pytest.raises(UsageError, match=r"^address "):
        parse_listen(text)


def test_elsewhere_than_on_loopback_both_guards_are_required(pair: tuple[Path, Path]) -> None:
    tls, listen = make_tls(*map(str, pair)), parse_listen("192.0.2.1:80")
    for guard, missing in (
        (Guard(), "a TLS certificate with its key and a token"),
        (Guard(tls=tls), "give a token, or"),
        (Guard(token=TOKEN), "give a TLS certificate with its key"),
    ):
        with pytest.raises(UsageError, match=missing):
            guard.require_for(listen)
    Guard(tls, TOKEN).require_for(listen)
    with pytest.raises(UsageError, match="cannot be listened on"), serving(listen, Guard(tls, TOKEN), lambda: PAGE):
        pass


def test_a_certificate_that_cannot_be_used_is_one_line(pair: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = pair
    with pytest.raises(UsageError, match="cannot be used"):
        make_tls(str(cert), str(tmp_path / "no"))
    with pytest.raises(UsageError, match="cannot be used"):
        make_tls(str(key), str(key))
    sealed = tmp_path / "sealed.pem"
    command = ["openssl", "ec", "-aes128", "-passout", "pass:secret", "-in", str(key), "-out", str(sealed)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    with pytest.raises(UsageError, match="is encrypted"):
        make_tls(str(cert), str(sealed))


def is_answered_again(answers: Callable[[], bool]) -> bool:
    """Whether there is room after some attempts: the last clients may still be on their way out."""
    for _ in range(1000):
        with suppress(OSError, http.client.HTTPException):
            return answers()
    return False


# ssl leaves the socket of a client that was reset before it was wrapped to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("first", [in_soak(b""), b"GET /metrics HTTP/1.1\r\n\r\n"])
def test_clients_that_reset_their_connection_take_no_room(
    stack: ExitStack, pair: tuple[Path, Path], first: bytes
) -> None:
    port = stack.enter_context(serving(parse_listen("0"), Guard(make_tls(*map(str, pair)), TOKEN), lambda: PAGE))
    for _ in range(3 * MOST_CLIENTS):
        client = socket.create_connection(("127.0.0.1", port), timeout=180)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close() resets
        client.sendall(first)
        client.close()
    assert is_answered_again(lambda: ask(port, token=TOKEN, tls=pair[0])[:2] == (200, PAGE))


def test_a_client_for_whom_no_thread_can_be_started_takes_no_room(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = stack.enter_context(serving(parse_listen("0"), Guard(), lambda: PAGE))
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    for _ in range(2 * MOST_CLIENTS):
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            ask(port)
    monkeypatch.setattr(threading.Thread, "start", start)
    assert ask(port)[:2] == (200, PAGE)

"""One question to UFM and its answer: what is believed, what is refused, and when it is given up."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from ibkeys.errors import IbkeysError, UfmNotReached, UfmRefused, UsageError
from ibkeys.managers.ufm.client import Deadline, UfmClient
from ibkeys.managers.ufm.rest import Ufm, call_to_add
from tests.managers.ufm.exchange import JSON, A, access, answers, page
from tests.managers.ufm.mock import Mock, ufm


@pytest.mark.parametrize(
    ("lie", "kind", "words"),
    [
        (page, UfmNotReached, "HTML page"),
        (answers(200, JSON, b"<html>"), UfmNotReached, "HTML page"),
        (answers(200, JSON, b'{"0x10": '), UfmNotReached, "is not JSON"),
        (answers(200, JSON, b'{"0x10": {}, "0x10": {}}'), UfmNotReached, "appears twice"),
        (answers(200, JSON, b"[" * 100_000), UfmNotReached, "nested too deeply"),
        (answers(200, JSON, b'{"0x10": NaN}'), UfmNotReached, "NaN is not a number of JSON"),
        (answers(200, JSON, b'{"0x10": 1' + b"0" * 5000 + b"}"), UfmNotReached, r"a number has more than \d+ digits"),
        (answers(500, JSON, b'{"error": ' + b"[" * 100_000), UfmRefused, "status 500"),
        (answers(200, JSON, b'"text"'), UfmNotReached, "not a list of partitions"),
        (answers(200, JSON, b""), UfmNotReached, "is not JSON"),
        (answers(404, JSON, b""), UfmNotReached, "404"),
        (
            answers(301, {"Location": "http://elsewhere.invalid/"}, b""),
            UfmRefused,
            "redirect; redirects are not followed",
        ),
        (answers(302, {"Location": "/ufmRest/login"}, b""), UfmRefused, "redirect"),
        (answers(401, {}, b""), UfmRefused, "does not accept this token"),
        (answers(403, JSON, b'{"detail": "not yours"}'), UfmRefused, "not yours"),
        (answers(500, JSON, b'{"error": "boom\\u001b[2J"}'), UfmRefused, r"500: boom\\x1b\[2J"),
        (answers(503, {"Content-Type": "text/html"}, b"<html><h1>503"), UfmRefused, "status 503$"),
        (answers(200, {**JSON, "Content-Encoding": "gzip"}, b"\x1f\x8b"), UfmNotReached, "compressed"),
        (answers(200, {"Content-Length": "99"}, b"{}"), UfmNotReached, "no complete answer"),
    ],
)
def test_an_answer_that_is_none_is_an_error(
    mock: Mock, lie: Callable[[Mock], None], kind: type[IbkeysError], words: str
) -> None:
    lie(mock)
    with pytest.raises(kind, match=words):
        Ufm(access(mock, timeout=1.0)).partitions()


def test_a_wrong_token_is_refused_and_not_repeated(mock: Mock) -> None:
    with pytest.raises(UfmRefused, match="token not shown") as caught:
        Ufm(access(mock, "another-token-0815")).partitions()
    assert "0815" not in str(caught.value)
    assert caught.value.status == 401


def test_an_httpx_that_is_too_old_is_named(mock: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("httpx.__version__", "0.23.3")  # of Debian 12
    with pytest.raises(UsageError, match=r"needs httpx 0\.26 or later, and this is 0\.23\.3"):
        Ufm(access(mock)).partitions()
    assert not mock.log


def test_an_answer_without_end_is_cut_off(mock: Mock) -> None:
    answers(200, JSON, b"[" + b" " * 9000)(mock)
    client = UfmClient(access(mock), most=5000)
    with pytest.raises(UfmNotReached, match="more than 5000 bytes"):
        client.read("/resources/pkeys")


def test_answers_before_the_answer_without_end_are_given_up(mock: Mock) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> bool:
        with suppress(OSError):
            while True:
                handler.wfile.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10)
        handler.close_connection = True
        return True

    mock.answer = answer
    with pytest.raises(UfmNotReached, match="no complete answer within"):
        UfmClient(access(mock, timeout=0.3)).read("/resources/pkeys")


@pytest.mark.parametrize("part", ["status", "headers", "body"])
def test_a_server_that_sends_a_byte_now_and_then_is_given_up(mock: Mock, part: str) -> None:
    """Each read is in time, and there are a hundred thousand of them."""
    begins = {"status": b"", "headers": b"HTTP/1.1 200 OK\r\nX-Slow: ", "body": b"HTTP/1.1 200 OK\r\n\r\n"}

    def answer(handler: BaseHTTPRequestHandler) -> bool:
        try:
            handler.wfile.write(begins[part])
            for _ in range(100_000):
                handler.wfile.write(b"1")
                handler.wfile.flush()
                handler.connection.settimeout(0.01)
                try:
                    handler.connection.recv(1)
                except TimeoutError:
                    continue
                break
        except OSError:
            pass
        handler.close_connection = True
        return True

    mock.answer = answer
    with pytest.raises(UfmNotReached):
        UfmClient(access(mock, timeout=0.3)).read("/resources/pkeys")


def test_a_silent_server_is_given_up_and_a_lost_change_is_not_known(mock: Mock) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> bool:
        handler.connection.settimeout(10)
        with suppress(OSError):
            handler.connection.recv(1)  # until the client hangs up
        handler.close_connection = True
        return True

    mock.answer = answer
    with pytest.raises(UfmNotReached, match="it is not known whether the change was made"):
        Ufm(access(mock, timeout=0.3)).make(call_to_add(0x11, [A], ip_over_ib=True, index0=False))
    assert len(mock.log) == 1, "a change is never repeated blindly"


def test_nobody_there() -> None:
    with ufm() as gone:
        pass
    with pytest.raises(UfmNotReached, match=r"cannot be reached: .*refused"):
        Ufm(access(gone)).partitions()
    with pytest.raises(UfmNotReached, match=r"cannot be reached: .*refused; no request was sent"):
        Ufm(access(gone)).make(call_to_add(0x11, [A], ip_over_ib=True, index0=False))


class LateHttpx:
    """Tells of its connections as httpx does, after the time is over."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def get_extra_info(self, name: str) -> socket.socket | None:
        return self.connection if name == "socket" else None


@pytest.mark.parametrize("event", ["connection.connect_tcp.complete", "connection.start_tls.complete"])
def test_a_connection_that_comes_when_the_time_is_over_is_ended_at_once(event: str) -> None:
    """Many addresses, each tried until its own time is over, and a slow TLS handshake."""
    here, there = socket.socketpair()
    with here, there:
        deadline = Deadline()
        deadline.end_connection()
        deadline.extension["trace"](event, {"return_value": LateHttpx(here)})
        there.settimeout(5)
        assert there.recv(1) == b""


def has_tls(secured: ssl.SSLSocket) -> bool:
    """Whether a socket still has its TLS."""
    return getattr(secured, "_sslobj", None) is not None


def test_an_ended_connection_never_goes_on_in_clear(certificate: Path) -> None:
    """`SSLSocket.shutdown` first forgets its TLS: another thread's header would leave it in clear."""
    here, there = socket.socketpair()
    with here, there:
        context = ssl.create_default_context()
        with context.wrap_socket(here, server_hostname="ufm", do_handshake_on_connect=False) as secured:
            deadline = Deadline()
            deadline.extension["trace"]("start_tls.complete", {"return_value": LateHttpx(secured)})
            deadline.end_connection()
            assert has_tls(secured), "it would send in clear"
            assert there.recv(1) == b""

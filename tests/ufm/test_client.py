"""One question to UFM and its answer: what is believed, what is refused, and that the token is nowhere."""

from __future__ import annotations

import itertools
import json
import logging
import socket
import ssl
import subprocess
import traceback
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import quote

import pytest

from ibkeys.errors import IbkeysError, UfmNotReached, UfmRefused, UsageError
from ibkeys.ufm.access import ALL_WITHIN, UfmAccess, UfmToken, is_ufm
from ibkeys.ufm.client import Deadline, UfmClient
from ibkeys.ufm.rest import Ufm, adding, removing, replacing
from tests.ufm.mock import TOKEN, Mock, ufm

A, B, C = 0x0002C903000A1011, 0x0002C903000A1021, 0x0002C903000A1031


def access(mock: Mock, token: str = TOKEN, timeout: float = 5.0) -> UfmAccess:
    return UfmAccess.of(f"ufm:{mock.url}", UfmToken(token), timeout=timeout)


@pytest.fixture
def mock() -> Iterator[Mock]:
    with ufm() as served:
        served.store(0x10, g2c903000a1011="full", g2c903000a1021="limited")
        yield served


@pytest.mark.parametrize("listing", ["dict", "plain", "dicts"])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("spelled", ["{:016x}", "{:X}", "0x{:x}"])
@pytest.mark.parametrize("keys", ["{:#x}", "0x{:04x}", "0x8{:03x}"])
def test_the_partitions_are_the_same_however_they_are_spelled(
    mock: Mock, listing: str, nested: bool, spelled: str, keys: str
) -> None:
    mock.listing, mock.nested, mock.spell_guid = listing, nested, spelled.format
    mock.spell_key = lambda base: "0x7fff" if base == 0x7FFF else keys.format(base)
    found = Ufm(access(mock)).partitions()
    assert set(found) == {0x10, 0x7FFF}
    assert found[0x10].words == {A: "full", B: "limited"}
    assert found[0x7FFF].members is None


@pytest.mark.parametrize("absent", ["{}", "404"])
def test_an_absent_partition_is_none(mock: Mock, absent: str) -> None:
    mock.absent = absent
    assert Ufm(access(mock)).partition(0x11) is None


def test_changes_are_sent_as_the_facts_say(mock: Mock) -> None:
    client = Ufm(access(mock))
    client.make(adding(0x11, [B, A], ip_over_ib=False, index0=True))
    assert mock.words(0x11) == {A: "full", B: "full"}
    assert not mock.partitions[0x11].ip_over_ib
    client.make(replacing(0x11, {A: "limited", C: "full"}, ip_over_ib=True, index0=False))
    assert mock.words(0x11) == {A: "limited", C: "full"}
    for call in removing(0x11, [A, C]):
        client.make(call)
    assert mock.words(0x11) == {}
    assert client.version() == "6.23.1-6"


def test_many_guids_are_removed_by_several_calls() -> None:
    calls = list(removing(0x11, range(1, 251)))
    assert [call.path.count(",") + 1 for call in calls] == [100, 100, 50]
    assert max(len(call.path) for call in calls) < 2000


def test_a_change_that_begins_a_job_names_it(mock: Mock) -> None:
    mock.job = "Running"
    client = Ufm(access(mock))
    job = client.make(adding(0x11, [A], ip_over_ib=True, index0=False))
    assert job == "1"
    assert client.job(job).state == "running"
    assert all("elsewhere" not in headers["Host"] for _, _, headers, _ in mock.log)


def page(mock: Mock) -> None:
    mock.page = True


def answers(status: int, headers: dict[str, str], body: bytes) -> Callable[[Mock], None]:
    def answer(handler: BaseHTTPRequestHandler) -> bool:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)
        return True

    return lambda mock: setattr(mock, "answer", answer)


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("lie", "kind", "words"),
    [
        (page, UfmNotReached, "HTML page"),
        (answers(200, JSON, b"<html>"), UfmNotReached, "HTML page"),
        (answers(200, JSON, b'{"0x10": '), UfmNotReached, "is not JSON"),
        (answers(200, JSON, b'{"0x10": {}, "0x10": {}}'), UfmNotReached, "appears twice"),
        (answers(200, JSON, b'"text"'), UfmNotReached, "not a list of partitions"),
        (answers(200, JSON, b""), UfmNotReached, "is not JSON"),
        (answers(404, JSON, b""), UfmNotReached, "404"),
        (answers(301, {"Location": "http://elsewhere.invalid/"}, b""), UfmRefused, "redirect, which is not followed"),
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


def test_an_answer_without_end_is_cut_off(mock: Mock) -> None:
    answers(200, JSON, b"[" + b" " * 9000)(mock)
    client = UfmClient(access(mock), most=5000)
    with pytest.raises(UfmNotReached, match="more than 5000 bytes"):
        client.read("/resources/pkeys")


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
    with pytest.raises(UfmNotReached, match="whether the change was made is not known"):
        Ufm(access(mock, timeout=0.3)).make(adding(0x11, [A], ip_over_ib=True, index0=False))
    assert len(mock.log) == 1, "a change is never repeated blindly"


def test_nobody_there() -> None:
    with ufm() as gone:
        pass
    with pytest.raises(UfmNotReached, match=r"cannot be reached: .*refused"):
        Ufm(access(gone)).partitions()
    with pytest.raises(UfmNotReached, match=r"cannot be reached: .*refused; no request was sent"):
        Ufm(access(gone)).make(adding(0x11, [A], ip_over_ib=True, index0=False))


def test_a_place_that_repeats_the_token(mock: Mock) -> None:
    answers(202, {"Location": f"/jobs/x y{TOKEN}"}, b"")(mock)
    with pytest.raises(UfmNotReached, match="is not the id of a job") as caught:
        Ufm(access(mock)).make(adding(0x11, [A], ip_over_ib=True, index0=False))
    assert TOKEN not in str(caught.value)


def test_a_job_that_repeats_the_token(mock: Mock) -> None:
    answers(200, JSON, f'{{"ID": "1", "Status": "Failed", "Summary": "for {TOKEN}"}}'.encode())(mock)
    assert Ufm(access(mock)).job("1").summary == "Failed: for <token not shown>"


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
        deadline.over()
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
            deadline.over()
            assert has_tls(secured), "it would send in clear"
            assert there.recv(1) == b""


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate with its key in one file."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    key, cert = path.with_name("key.pem"), path.with_name("cert.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ufm"]
    more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run([*words, *more], check=True, capture_output=True)
    path.touch(mode=0o600)
    path.write_bytes(key.read_bytes() + cert.read_bytes())
    return path


@pytest.fixture
def secured(certificate: Path) -> Iterator[Mock]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    with ufm(tls=context) as served:
        served.store(0x10, g2c903000a1011="full")
        yield served


def test_a_certificate_that_nobody_vouches_for_is_refused(secured: Mock) -> None:
    with pytest.raises(UfmNotReached, match=r"(?i)certificate"):
        Ufm(access(secured)).partitions()
    assert not secured.log, "the token was not sent"


def test_a_certificate_that_the_user_trusts_is_taken(secured: Mock, certificate: Path) -> None:
    trusting = UfmAccess.of(secured.url, UfmToken(TOKEN), trusted=certificate)
    assert set(Ufm(trusting).partitions()) == {0x10, 0x7FFF}
    blind = UfmAccess.of(secured.url, UfmToken(TOKEN), verifies=False)
    assert set(Ufm(blind).partitions()) == {0x10, 0x7FFF}


def test_no_file_has_what_decrypts_the_token(
    secured: Mock, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "keys.log"
    monkeypatch.setenv("SSLKEYLOGFILE", str(log))
    Ufm(UfmAccess.of(secured.url, UfmToken(TOKEN), trusted=certificate)).partitions()
    assert secured.log
    assert not log.exists() or "CLIENT" not in log.read_text()


def test_a_certificate_of_another_name_is_refused(secured: Mock, certificate: Path) -> None:
    other = secured.url.replace("127.0.0.1", "localhost")
    with pytest.raises(UfmNotReached, match=r"(?i)certificate"):
        Ufm(UfmAccess.of(other, UfmToken(TOKEN), trusted=certificate)).partitions()
    assert not secured.log, "the token was not sent"


def test_a_client_certificate_says_who_asks(secured: Mock, certificate: Path) -> None:
    by_certificate = UfmAccess.of(secured.url, certificate=certificate, trusted=certificate)
    assert by_certificate.url.endswith("/ufmRest")
    assert set(Ufm(by_certificate).partitions()) == {0x10, 0x7FFF}
    assert all("Authorization" not in headers for _, _, headers, _ in secured.log)


def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("nothing")
    with pytest.raises(UsageError, match=r"none\.pem"):
        Ufm(UfmAccess.of("https://ufm", certificate=tmp_path / "none.pem"))


# --- what is asked, and how -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("ufm:https://ufm.example", "https://ufm.example/ufmRestV3"),
        ("ufm:https://ufm.example:8443/", "https://ufm.example:8443/ufmRestV3"),
        ("ufm:https://ufm.example/ufmRestV2", "https://ufm.example/ufmRestV2"),
        ("ufm:https://[fd00::1]", "https://[fd00::1]/ufmRestV3"),
    ],
)
def test_the_url_gets_the_base_that_goes_with_a_token(text: str, url: str) -> None:
    assert is_ufm(text)
    assert UfmAccess.of(text, UfmToken(TOKEN)).url == url


@pytest.mark.parametrize(
    "text",
    [
        "ufm:",
        "ufm:ufm.example",
        "ufm:ftp://ufm.example",
        "ufm:https://",
        "ufm:https://ufm.example?x=1",
        "ufm:https://ufm.example/a b",
        "ufm:https://ufm.example:port",
        "ufm:http://ufm.example",
        f"ufm:https://admin:{TOKEN}@ufm.example",
        f"ufm:https://{TOKEN}@ufm.example:port",
        f"ufm:https://ufm.example/?token={TOKEN}",
        f"ufm:https://ufm.example/#{TOKEN}",
        f"ufm:https:admin:{TOKEN}@ufm.example",
        f"ufm:ufm.example?{TOKEN}",
        "ufm:https://[zz]",
        "ufm:https://ufm..example",
        "ufm:https://ufm\u00e9.example",
        'ufm:https://a"b',
        "ufm:https://a\\b",
        "ufm:https://ufm%20x",
    ],
)
def test_a_url_that_is_none(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        UfmAccess.of(text, UfmToken("x" * 20))
    assert TOKEN not in str(caught.value)


def test_plain_http_to_this_host_goes_through_no_other_host() -> None:
    with pytest.raises(UsageError, match="whoever listens"):
        UfmAccess.of("http://localhost:1", UfmToken(TOKEN), proxy="http://proxy.example:3128")


@pytest.mark.parametrize("text", [f"http://admin:{TOKEN}@proxy.example", "proxy.example", "socks5://proxy.example"])
def test_a_proxy_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="--ufm-proxy") as caught:
        UfmAccess.of("https://ufm.example", UfmToken(TOKEN), proxy=text)
    assert TOKEN not in str(caught.value)
    assert "ufm:https" not in str(caught.value)


def test_somebody_has_to_ask() -> None:
    with pytest.raises(UsageError, match="--ufm-token"):
        UfmAccess.of("https://ufm")


def test_proxies_of_the_environment_are_not_used(mock: Mock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert 0x10 in Ufm(access(mock)).partitions()


def test_a_proxy_that_the_user_names_is_used(mock: Mock) -> None:
    told = UfmAccess.of("http://localhost:1", UfmToken(TOKEN), proxy=mock.url)
    assert 0x10 in Ufm(told).partitions()
    assert mock.log[0][1].startswith("http://localhost:1/")


COOKIE = "of-the-mock"
LIES = [
    lambda mock: None,
    page,
    answers(500, JSON, b"{}"),
    answers(200, {}, b"no JSON"),
    answers(500, JSON, f'{{"error": ["{TOKEN}"]}}'.encode()),
    answers(500, {}, b" " * 1580 + TOKEN.encode()),
    answers(200, JSON, f'{{"{TOKEN}": 1, "{TOKEN}": 2}}'.encode()),
    answers(200, JSON, f'{{"{TOKEN}": {{"guids": []}}}}'.encode()),
    answers(200, JSON, f'["{TOKEN}"]'.encode()),
    answers(200, JSON, f'{{"0x10": {{"guids": ["Basic {TOKEN}"]}}}}'.encode()),
    answers(202, JSON, f'{{"ID": "x y{TOKEN}"}}'.encode()),
    answers(302, {"Location": f"https://elsewhere.invalid/login?access_token={TOKEN}"}, b""),
    answers(307, {"Location": f"/ufmRest?{quote(TOKEN)}", "X-Was": b64encode(TOKEN.encode()).decode()}, b""),
    answers(401, {"WWW-Authenticate": f'Basic realm="{TOKEN}"', f"X-{TOKEN}": "1"}, b""),
    answers(500, {"Content-Type": TOKEN}, TOKEN.encode()),
]


@pytest.mark.parametrize("lie", LIES)
def test_the_token_is_in_one_header_and_nowhere_else(
    mock: Mock, lie: Callable[[Mock], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lie(mock)
    client = Ufm(access(mock))
    texts = [repr(client.__dict__), repr(access(mock)), repr(UfmToken(TOKEN)), f"{UfmToken(TOKEN)}"]
    for ask in (client.partitions, lambda: client.make(adding(0x11, [A], ip_over_ib=True, index0=False))):
        try:
            ask()
        except IbkeysError as error:
            texts += traceback.format_exception(error)
            texts.append("".join(traceback.TracebackException.from_exception(error).format()))
    assert any("receive_response_headers" in record.getMessage() for record in caplog.records), "they were heard"
    texts += [record.getMessage() for record in caplog.records]
    assert COOKIE not in "\n".join(texts), "a session is as good as a token"
    for method, path, headers, body in mock.log:
        assert headers.pop("Authorization") == f"Basic {TOKEN}"
        assert "Cookie" not in headers
        texts += [method, path, repr(headers), body.decode()]
    assert TOKEN not in "\n".join(texts)
    assert not [name for name in LOGGERS if logging.getLogger(name).filters], "others may log what they like"


LOGGERS = ("httpx", "httpcore", "httpcore.connection", "httpcore.http11", "httpcore.proxy")


@pytest.mark.parametrize("token", ["a+b/c=d", "a'b\"c\\d", "a%20b"])
@pytest.mark.parametrize(
    "write", [str, quote, lambda text: quote(text, safe=""), json.dumps, lambda text: repr(text.encode())]
)
def test_a_token_is_hidden_however_it_is_written(token: str, write: Callable[[str], str]) -> None:
    written = write(token).strip("\"'").removeprefix("b'").removeprefix('b"')
    assert UfmToken(token).hidden_in(f"before {written} after") == "before <token not shown> after"


# --- many questions that are one answer -------------------------------------------------------------------------------


def test_many_questions_together_have_an_end(mock: Mock) -> None:
    """Each answer is in time, and there may be 32,766 of them."""
    mock.listing = "plain"
    for base in range(0x20, 0x30):
        mock.store(base, g2c903000a1011="full")
    clock = itertools.count(0, ALL_WITHIN / 10)
    with pytest.raises(UfmNotReached, match=r"each of its 18 partitions takes more than 300 s: 9 were read by then"):
        Ufm(access(mock), now=lambda: next(clock)).partitions()
    assert mock.reads == 1 + 9
    assert len(Ufm(access(mock)).partitions()) == 18


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "takes"),
    [("6.22.0", True), ("6.23.1-6", True), ("7.0", True), ("6.21.9", False), ("x", False), (None, False)],
)
def test_whether_ufm_takes_names(mock: Mock, version: str | None, takes: bool) -> None:
    mock.version = version
    assert Ufm(access(mock)).takes_names() is takes


@pytest.mark.parametrize("flat", [False, True])
def test_of_one_partition_its_qos_is_read_too(mock: Mock, flat: bool) -> None:
    mock.flat_qos = flat
    found = Ufm(access(mock)).partition(0x10)
    assert found is not None
    assert found.qos == {"mtu_limit": "2", "service_level": "0", "rate_limit": "2.5"}

"""The HTTP endpoint that Prometheus scrapes. Its one page is open on loopback, and needs TLS and a bearer token
elsewhere.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from ibkeys import files
from ibkeys.closing import calling_after
from ibkeys.errors import UsageError
from ibkeys.export.page import CONTENT_TYPE

PATH: Final = "/metrics"
LOOPBACK: Final = "127.0.0.1"
SILENCE: Final = 10.0
"""The longest silence of a client, in seconds."""
WHOLE: Final = 30.0
"""The most seconds for a whole request; a client that sends a byte now and then would stay forever otherwise."""
MOST_CLIENTS: Final = 16
"""The most clients at a time; further clients are refused, so that slow clients take no memory."""


@dataclass(frozen=True, slots=True)
class Listen:
    """The address to listen on. ``host`` and ``port``: as the user gave them. ``family`` and ``address``: as the system
    has them.
    """

    host: str
    port: int
    family: socket.AddressFamily
    address: tuple[Any, ...]

    @property
    def is_loopback(self) -> bool:
        """Whether only this host can reach the address."""
        return ipaddress.ip_address(str(self.address[0]).partition("%")[0]).is_loopback


def parse_listen(text: str) -> Listen:
    """Return the address in ``PORT``, ``ADDR:PORT`` or ``[ADDR6]:PORT``; without ADDR 127.0.0.1. Raises UsageError."""
    host, _, number = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(f"address {text}: write an IPv6 address in brackets: [::1]:9936")
    if not (number.isascii() and number.isdigit() and int(number) <= 0xFFFF):
        raise UsageError(f"address {text}: write PORT or ADDR:PORT, the port 0 to 65535")
    if not host and text.startswith(":"):
        raise UsageError(
            f"address {text}: it names none; for all addresses of this host write 0.0.0.0{text} or [::]{text}"
        )
    host = host or LOOPBACK
    with files.os_errors_as(UsageError, f"address {text}: {host} is not an address of this host"):
        found = socket.getaddrinfo(host, int(number), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return Listen(host, int(number), family, address)


def make_tls(cert_file: str, key_file: str) -> ssl.SSLContext:
    """Return the TLS settings with a certificate and its key, both PEM files. Raises UsageError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def never_ask() -> str:
        raise UsageError(f"TLS key {key_file}: is encrypted, and there is no terminal to ask for its passphrase")

    try:
        context.load_cert_chain(cert_file, key_file, never_ask)
    except (OSError, ssl.SSLError) as error:
        why = error.strerror or type(error).__name__
        raise UsageError(f"TLS certificate {cert_file} with key {key_file}: cannot be used: {why}") from None
    return context


@dataclass(frozen=True, slots=True)
class Guard:
    """The protection of the page: TLS, a bearer token, or nothing."""

    tls: ssl.SSLContext | None = None
    token: bytes | None = None

    def __repr__(self) -> str:
        return f"Guard(tls={self.tls is not None}, token={'set' if self.token is not None else None})"

    def require_for(self, listen: Listen) -> None:
        """Raise UsageError if *listen* is not loopback and TLS or the token is missing."""
        missing = [
            name
            for name, value in (("a TLS certificate with its key", self.tls), ("a token", self.token))
            if value is None
        ]
        if missing and not listen.is_loopback:
            raise UsageError(
                f"address {listen.host}:{listen.port}: others can reach it, and the page shows which ports are open: "
                f"give {' and '.join(missing)}, or listen on {LOOPBACK}"
            )

    def lets_in(self, authorization: str | None) -> bool:
        """Return whether a request with this header may read the page."""
        if self.token is None:
            return True
        scheme, _, given = (authorization or "").partition(" ")
        given_bytes = given.strip().encode("latin-1", "replace")
        return scheme.lower() == "bearer" and hmac.compare_digest(given_bytes, self.token)


@contextmanager
def serving(listen: Listen, guard: Guard, page: Callable[[], bytes | None]) -> Iterator[int]:
    """Serve the result of *page* while this context is open; yield the port number, which the system chooses if
    *listen* has port 0.

    *page* is called in other threads. Raises UsageError if the address cannot be used, or the protection is too weak.
    """
    guard.require_for(listen)
    with files.os_errors_as(UsageError, f"address {listen.host}:{listen.port}: cannot be listened on"):
        server = _Server(listen, guard, page)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    block_on_close = False

    def __init__(self, listen: Listen, guard: Guard, page: Callable[[], bytes | None]) -> None:
        self.address_family = listen.family
        self.guard = guard
        self.page = page
        self._free = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(listen.address[:2], _Handler)

    def server_bind(self) -> None:
        """Bind without the query of the name service that `HTTPServer` makes."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Accept a client unless there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started; the caller closes the connection
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one client, by TLS if required; a TLS error ends only this client's connection."""
        try:
            self._serve(request, client_address)
        finally:
            self._free.release()

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            request.settimeout(SILENCE)
            if self.guard.tls is not None:  # this already fails if the client has reset its connection
                request = self.guard.tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            with calling_after(WHOLE, partial(_cut, request)):
                if self.guard.tls is not None:
                    request.do_handshake()
                super().process_request_thread(request, client_address)
        except (OSError, RuntimeError):  # RuntimeError: no thread could be started
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client that disconnects early is no error, and a header may contain a token."""


def _cut(request: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(request, socket.SHUT_RDWR)  # SSLSocket.shutdown may be called by one thread only


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "ibkeys"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the page."""
        if not self.server.guard.lets_in(self.headers.get("Authorization")):
            self._answer(HTTPStatus.UNAUTHORIZED, b"a bearer token is needed\n", {"WWW-Authenticate": "Bearer"})
        elif self.path.partition("?")[0] != PATH:
            self._answer(HTTPStatus.NOT_FOUND, f"the metrics are at {PATH}\n".encode())
        elif (page := self.server.page()) is None:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"the fabric is being read for the first time\n")
        else:
            self._answer(HTTPStatus.OK, page, {"Content-Type": CONTENT_TYPE})

    do_HEAD = do_GET

    def _answer(self, status: HTTPStatus, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Do nothing: scrapes are not logged."""

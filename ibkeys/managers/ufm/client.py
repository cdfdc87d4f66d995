"""One request to UFM and its answer, within limits on time and size.

A redirect is refused: no other host may get the token. This module logs nothing, it keeps secrets out of the logs of
httpx and httpcore, and it stores no cookie. httpx is imported only when a client is made.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from ibkeys import jsonfile
from ibkeys.closing import calling_after
from ibkeys.errors import FileFormatError, UfmNotReached, UfmRefused, UsageError
from ibkeys.lazily import how_to_install, import_optional, is_of_distribution
from ibkeys.managers.ufm.access import MOST_BYTES, UfmAccess
from ibkeys.managers.ufm.quiet_logs import masked_logs
from ibkeys.printable import clean

HttpMethod = Literal["GET", "POST", "PUT", "DELETE"]
_MOST_CHARACTERS: Final = 200
"""The most characters of UFM's error text that are shown."""
_LOGIN_REFUSED: Final = (401, 403)


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """An answer of UFM. ``status``: its HTTP status; ``kind``: its content type in lower case, "" for none;
    ``location``: the header Location."""

    status: int
    kind: str
    body: bytes
    location: str | None = None

    @property
    def is_page(self) -> bool:
        """Whether the answer is an HTML page. UFM sends its login page, with status 200, to a client whose credential
        it does not accept."""
        return "html" in self.kind or self.body.lstrip()[:1] == b"<"


class UfmClient:
    """The client for one UFM. *access*: its URL, credential and limits. *most*: the most bytes of an answer.

    Raises UsageError without httpx 0.26 or later, and for a certificate that cannot be used.
    """

    def __init__(self, access: UfmAccess, most: int = MOST_BYTES) -> None:
        self.access, self._most = access, most
        self._httpx = _httpx()
        self._tls = access.tls()

    @property
    def url(self) -> str:
        """The base URL of UFM, which has no credential."""
        return self.access.url

    def read(self, path: str, query: Mapping[str, str] | None = None, *, holds_keys: bool = False) -> Any | None:
        """Return the JSON document at *path* below the base URL, None if UFM has none there (404). *query*: parameters
        of the request. *holds_keys*: whether the answer may have keys, so that no error repeats a part of it.

        Raises UfmNotReached without a valid answer, UfmRefused for a status that means an error.
        """
        answer = self._ask("GET", path, query, None)
        if answer.status == 404:
            return None
        self._require_success("GET", path, answer, "" if holds_keys else self._reason(answer))
        if answer.is_page:
            raise self.not_reached(
                path,
                "answered with an HTML page (probably a login page) instead of JSON: the token or certificate was not "
                "accepted, or the URL is not that of its REST interface",
            )
        try:
            return jsonfile.loads(answer.body)
        except FileFormatError as error:
            raise self.not_reached(path, f"its answer {'is not JSON' if holds_keys else error}") from None

    def write(self, method: HttpMethod, path: str, body: Mapping[str, Any] | None = None) -> RestAnswer:
        """Request a change once, and return the answer, which does not prove that the change was made. The request is
        never sent again by itself.

        Raises UfmNotReached, after which the change may have been made unless the message says that no request was
        sent; UfmRefused for a status that means an error.
        """
        answer = self._ask(method, path, None, body)
        self._require_success(method, path, answer, self._reason(answer))
        if answer.is_page:
            what = f"{method} was answered with an HTML page; it is not known whether the change was made"
            raise self.not_reached(path, what)
        return answer

    def not_reached(self, path: str, what: str) -> UfmNotReached:
        """Return the error for a request for *path* without a usable answer. *what*: the reason, in words."""
        return UfmNotReached(f"{self.url}{path}: {what}", self.url)

    def _require_success(self, method: HttpMethod, path: str, answer: RestAnswer, reason: str) -> None:
        if 200 <= answer.status < 300:
            return
        what = f"{self.url}{path}: {method} was answered with status {answer.status}"
        if 300 <= answer.status < 400:
            raise UfmRefused(f"{what}, a redirect; redirects are not followed: give the right URL", answer.status)
        if answer.status in _LOGIN_REFUSED:
            what += ": it does not accept this token or certificate, or not for this request"
        raise UfmRefused(f"{what}{reason}", answer.status)

    def _reason(self, answer: RestAnswer) -> str:
        """Return UFM's error text, in one line after ": " and with the token masked; "" for an HTML page or an empty
        answer."""
        if answer.is_page:
            return ""
        text = answer.body.strip()[: 8 * _MOST_CHARACTERS].decode("utf-8", "replace")
        with suppress(FileFormatError):
            document = jsonfile.loads(answer.body)
            if isinstance(document, dict):
                texts = (document.get(name) for name in ("error", "detail", "message"))
                text = next((each for each in texts if isinstance(each, str)), text)
        text = self._mask(text)  # the body was masked before, but JSON may spell the token with escapes
        return f": {clean(text)[:_MOST_CHARACTERS]}" if text else ""

    def _ask(
        self, method: HttpMethod, path: str, query: Mapping[str, str] | None, body: Mapping[str, Any] | None
    ) -> RestAnswer:
        httpx, access, deadline = self._httpx, self.access, Deadline()
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if access.token is not None:
            headers["Authorization"] = f"Basic {access.token.reveal()}"  # not in Base64 (UFM REST guide, /ufmRestV3)
        try:
            with (
                masked_logs(self._mask),
                httpx.Client(
                    verify=self._tls,
                    proxy=access.proxy,
                    trust_env=False,
                    follow_redirects=False,
                    timeout=access.timeout,
                ) as client,
                calling_after(access.timeout, deadline.end_connection),
                client.stream(
                    method, access.url + path, params=query, json=body, headers=headers, extensions=deadline.extension
                ) as response,
            ):
                if response.headers.get("Content-Encoding", "identity") != "identity":
                    raise self.not_reached(path, "its answer is compressed, although that was not requested")
                # The token is masked here, so that no error or name of a job that is taken from the answer shows it.
                data = self._mask(self._read_body(path, response.iter_raw()).decode("latin-1")).encode("latin-1")
                if deadline.is_over:  # an answer without a length looks complete when it was cut off
                    raise TimeoutError("cut off")
                kind = response.headers.get("Content-Type", "").lower()
                location = self._mask(response.headers.get("Location", ""))
                return RestAnswer(response.status_code, kind, data, location or None)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            addition = "" if method == "GET" else "; no request was sent"
            raise self.not_reached(path, f"{method}: cannot be reached: {self._text_of(error)}{addition}") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            addition = "" if method == "GET" else "; it is not known whether the change was made"
            what = f"{method}: no complete answer within {access.timeout:g} s: {self._text_of(error)}{addition}"
            raise self.not_reached(path, what) from None

    def _read_body(self, path: str, pieces: Iterator[bytes]) -> bytes:
        found = bytearray()
        for piece in pieces:
            found += piece
            if len(found) > self._most:
                raise self.not_reached(path, f"its answer has more than {self._most} bytes")
        return bytes(found)

    def _text_of(self, error: Exception) -> str:
        return clean(self._mask(str(error) or type(error).__name__))

    def _mask(self, text: str) -> str:
        return text if self.access.token is None else self.access.token.mask_in(text)


class Deadline:
    """Ends a connection when `end_connection` is called, which a timer does. The timeouts of httpx are not enough: they
    count anew for each read, so a server could send single bytes forever. A connection that is made after the call, for
    example because of a slow handshake, is ended at once. ``is_over``: whether `end_connection` was called."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self.is_over = False

    @property
    def extension(self) -> dict[str, Any]:
        """The extension of a request by which httpx passes its socket to this object."""
        return {"trace": self._trace}

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")
            if self.is_over:
                self._end()

    def end_connection(self) -> None:
        """End the connection now, also while another thread waits for it."""
        self.is_over = True
        self._end()

    def _end(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # the connection has ended by itself
                # SSLSocket.shutdown is not used: it drops TLS first, and the other thread would then send in clear.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _httpx() -> Any:
    httpx = import_optional("httpx", "asking UFM needs")
    if tuple(map(int, httpx.__version__.split(".")[:2])) < (0, 26):  # Debian 12 has such a version
        newer = how_to_install("httpx", ">=0.26")
        advice = "install ibkeys with pipx, which takes a newer one" if is_of_distribution() else newer
        raise UsageError(f"asking UFM needs httpx 0.26 or later, and this is {httpx.__version__}: {advice}")
    return httpx

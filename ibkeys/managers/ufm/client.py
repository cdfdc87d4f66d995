"""One question to UFM and its answer: within limits of time and size, to the one host that was named.

A redirect is refused: the token is for that host. Nothing is logged here, the logs of httpx and httpcore contain
nothing secret, and no cookie is kept. httpx is imported at the first question.
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
from ibkeys.lazily import how_to_install, is_of_distribution, optional
from ibkeys.managers.ufm.access import MOST_BYTES, UfmAccess
from ibkeys.managers.ufm.quiet import scrubbed
from ibkeys.printable import clean

HttpMethod = Literal["GET", "POST", "PUT", "DELETE"]
_SHOWN: Final = 200
"""The most characters of an error's text that are repeated."""
_NOT_TAKEN: Final = (401, 403)


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """An answer of UFM. ``kind``: its content type in lower case, "" if it has none; ``location``: the header of that
    name."""

    status: int
    kind: str
    body: bytes
    location: str | None = None

    @property
    def is_page(self) -> bool:
        """Whether the answer is a page for people: UFM sends its login page, with status 200, to a client that it does
        not know."""
        return "html" in self.kind or self.body.lstrip()[:1] == b"<"


class UfmClient:
    """The client of one UFM. *access*: its URL, credential and limits. *most*: the most bytes of an answer.

    Raises UsageError without httpx, and for a certificate that cannot be used.
    """

    def __init__(self, access: UfmAccess, most: int = MOST_BYTES) -> None:
        self.access, self._most = access, most
        self._httpx = _httpx()
        self._tls = access.tls()

    @property
    def url(self) -> str:
        """Its base, without credentials."""
        return self.access.url

    def read(self, path: str, query: Mapping[str, str] | None = None, *, holds_keys: bool = False) -> Any | None:
        """Return the JSON at *path* below the base, None if UFM has nothing there (404). *holds_keys*: no part of the
        answer is repeated in an error.

        Raises UfmNotReached, UfmRefused.
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
        """Ask for a change, once: it is never repeated blindly. The answer is no proof that it was made.

        Raises UfmNotReached, after which it is not known whether the change was made, and UfmRefused.
        """
        answer = self._ask(method, path, None, body)
        self._require_success(method, path, answer, self._reason(answer))
        if answer.is_page:
            what = f"{method} was answered with an HTML page; it is not known whether the change was made"
            raise self.not_reached(path, what)
        return answer

    def not_reached(self, path: str, what: str) -> UfmNotReached:
        """Return the error for a question about *path* without an answer that can be used."""
        return UfmNotReached(f"{self.url}{path}: {what}", self.url)

    def _require_success(self, method: HttpMethod, path: str, answer: RestAnswer, reason: str) -> None:
        if 200 <= answer.status < 300:
            return
        what = f"{self.url}{path}: {method} was answered with status {answer.status}"
        if 300 <= answer.status < 400:
            raise UfmRefused(f"{what}, a redirect; redirects are not followed: give the right URL", answer.status)
        if answer.status in _NOT_TAKEN:
            what += ": it does not accept this token or certificate, or not for this request"
        raise UfmRefused(f"{what}{reason}", answer.status)

    def _reason(self, answer: RestAnswer) -> str:
        """Return the text of an error, in one line, without the token; "" for a page and for an empty answer."""
        if answer.is_page:
            return ""
        text = answer.body.strip()[: 8 * _SHOWN].decode("utf-8", "replace")
        with suppress(FileFormatError):
            document = jsonfile.loads(answer.body)
            if isinstance(document, dict):
                texts = (document.get(name) for name in ("error", "detail", "message"))
                text = next((each for each in texts if isinstance(each, str)), text)
        text = self._hidden(text)  # once more: JSON may have spelled it with escapes
        return f": {clean(text)[:_SHOWN]}" if text else ""

    # --- one exchange ------------------------------------------------------------------------------------------------

    def _ask(
        self, method: HttpMethod, path: str, query: Mapping[str, str] | None, body: Mapping[str, Any] | None
    ) -> RestAnswer:
        httpx, access, deadline = self._httpx, self.access, Deadline()
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if access.token is not None:
            headers["Authorization"] = f"Basic {access.token.reveal()}"  # as it is, not in Base64: [doc] /ufmRestV3
        try:
            with (
                scrubbed(self._hidden),
                httpx.Client(
                    verify=self._tls,
                    proxy=access.proxy,
                    trust_env=False,
                    follow_redirects=False,
                    timeout=access.timeout,
                ) as client,
                calling_after(access.timeout, deadline.over),
                client.stream(
                    method, access.url + path, params=query, json=body, headers=headers, extensions=deadline.extension
                ) as response,
            ):
                if response.headers.get("Content-Encoding", "identity") != "identity":
                    raise self.not_reached(path, "its answer is compressed, although that was not requested")
                # Without the token: whatever is told of it later, an error or the name of a job, has none.
                data = self._hidden(self._whole(path, response.iter_raw()).decode("latin-1")).encode("latin-1")
                if deadline.is_over:  # an answer without a length seems whole where it was cut off
                    raise TimeoutError("cut off")
                kind = response.headers.get("Content-Type", "").lower()
                location = self._hidden(response.headers.get("Location", ""))
                return RestAnswer(response.status_code, kind, data, location or None)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            asked = "" if method == "GET" else "; no request was sent"
            raise self.not_reached(path, f"{method}: cannot be reached: {self._text_of(error)}{asked}") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            made = "" if method == "GET" else "; it is not known whether the change was made"
            what = f"{method}: no complete answer within {access.timeout:g} s: {self._text_of(error)}{made}"
            raise self.not_reached(path, what) from None

    def _whole(self, path: str, pieces: Iterator[bytes]) -> bytes:
        found = bytearray()
        for piece in pieces:
            found += piece
            if len(found) > self._most:
                raise self.not_reached(path, f"its answer has more than {self._most} bytes")
        return bytes(found)

    def _text_of(self, error: Exception) -> str:
        return clean(self._hidden(str(error) or type(error).__name__))

    def _hidden(self, text: str) -> str:
        return text if self.access.token is None else self.access.token.hidden_in(text)


class Deadline:
    """A timer that ends a connection when its time is over, because timeouts of reads allow a server to send one byte
    now and then forever. A connection that is made after that, after many addresses or a slow handshake, is ended at
    once."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self.is_over = False

    @property
    def extension(self) -> dict[str, Any]:
        """The extension by which httpx passes its socket to this object."""
        return {"trace": self._trace}

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")
            if self.is_over:
                self._end()

    def over(self) -> None:
        """End the connection, at whatever step it waits."""
        self.is_over = True
        self._end()

    def _end(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # it has ended by itself
                # Not SSLSocket.shutdown, which forgets TLS first: the other thread would then send in clear.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _httpx() -> Any:
    httpx = optional("httpx", "asking UFM needs")
    if tuple(map(int, httpx.__version__.split(".")[:2])) < (0, 26):  # as in Debian 12
        newer = how_to_install("httpx", ">=0.26")
        advice = "install ibkeys with pipx, which takes a newer one" if is_of_distribution() else newer
        raise UsageError(f"asking UFM needs httpx 0.26 or later, and this is {httpx.__version__}: {advice}")
    return httpx

"""What tests of one exchange with UFM use: port GUIDs, how the mock is asked, and answers in the place of its own."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

from ibkeys.managers.ufm.access import UfmAccess, UfmToken
from tests.managers.ufm.mock import TOKEN, Mock

A, B, C = 0x0002C903000A1011, 0x0002C903000A1021, 0x0002C903000A1031


def access(mock: Mock, token: str = TOKEN, timeout: float = 5.0) -> UfmAccess:
    return UfmAccess(f"ufm:{mock.url}", UfmToken(token), timeout=timeout)


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

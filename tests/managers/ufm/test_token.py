"""The token is in one header, and in no message, log or traceback."""

from __future__ import annotations

import json
import logging
import traceback
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote

import pytest

from ibkeys.errors import IbkeysError, UfmNotReached
from ibkeys.managers.ufm.access import UfmToken
from ibkeys.managers.ufm.rest import Ufm, call_to_add
from tests.managers.ufm.exchange import JSON, A, access, answers, page
from tests.managers.ufm.mock import TOKEN, Mock


def test_a_place_that_repeats_the_token(mock: Mock) -> None:
    answers(202, {"Location": f"/jobs/x y{TOKEN}"}, b"")(mock)
    with pytest.raises(UfmNotReached, match="is not the id of a job") as caught:
        Ufm(access(mock)).make(call_to_add(0x11, [A], ip_over_ib=True, index0=False))
    assert TOKEN not in str(caught.value)


def test_a_job_that_repeats_the_token(mock: Mock) -> None:
    answers(200, JSON, f'{{"ID": "1", "Status": "Failed", "Summary": "for {TOKEN}"}}'.encode())(mock)
    assert Ufm(access(mock)).job("1").summary == "Failed: for <token not shown>"


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
    for ask in (client.partitions, lambda: client.make(call_to_add(0x11, [A], ip_over_ib=True, index0=False))):
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
    assert UfmToken(token).mask_in(f"before {written} after") == "before <token not shown> after"

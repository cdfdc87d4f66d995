"""Which UFM is asked, and by which way: URLs, proxies, and that somebody has to ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.errors import UsageError
from ibkeys.managers.ufm.access import UfmAccess, UfmToken, is_ufm
from ibkeys.managers.ufm.rest import Ufm
from tests.managers.ufm.exchange import access
from tests.managers.ufm.mock import TOKEN, Mock


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
    assert UfmAccess(text, UfmToken(TOKEN)).url == url


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
        UfmAccess(text, UfmToken("x" * 20))
    assert TOKEN not in str(caught.value)


def test_plain_http_to_this_host_goes_through_no_other_host() -> None:
    with pytest.raises(UsageError, match="anyone who listens"):
        UfmAccess("http://localhost:1", UfmToken(TOKEN), proxy="http://proxy.example:3128")


@pytest.mark.parametrize("text", [f"http://admin:{TOKEN}@proxy.example", "proxy.example", "socks5://proxy.example"])
def test_a_proxy_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="proxy=") as caught:
        UfmAccess("https://ufm.example", UfmToken(TOKEN), proxy=text)
    assert TOKEN not in str(caught.value)
    assert "ufm:https" not in str(caught.value)


def test_somebody_has_to_ask() -> None:
    with pytest.raises(UsageError, match="token_file="):
        UfmAccess("https://ufm")


def test_proxies_of_the_environment_are_not_used(mock: Mock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert 0x10 in Ufm(access(mock)).partitions()


def test_a_proxy_that_the_user_names_is_used(mock: Mock) -> None:
    told = UfmAccess("http://localhost:1", UfmToken(TOKEN), proxy=mock.url)
    assert 0x10 in Ufm(told).partitions()
    assert mock.log[0][1].startswith("http://localhost:1/")

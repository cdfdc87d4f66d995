"""TLS to UFM: whose certificate is accepted, and what becomes of a connection that is ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.errors import UfmNotReached, UsageError
from ibkeys.managers.ufm.access import UfmAccess, UfmToken
from ibkeys.managers.ufm.rest import Ufm
from tests.managers.ufm.exchange import access
from tests.managers.ufm.mock import TOKEN, Mock


def test_a_certificate_that_nobody_vouches_for_is_refused(secured: Mock) -> None:
    with pytest.raises(UfmNotReached, match=r"(?i)certificate"):
        Ufm(access(secured)).partitions()
    assert not secured.log, "the token was not sent"


def test_a_certificate_that_the_user_trusts_is_taken(secured: Mock, certificate: Path) -> None:
    trusting = UfmAccess(secured.url, UfmToken(TOKEN), trusted=certificate)
    assert set(Ufm(trusting).partitions()) == {0x10, 0x7FFF}
    blind = UfmAccess(secured.url, UfmToken(TOKEN), verifies=False)
    assert set(Ufm(blind).partitions()) == {0x10, 0x7FFF}


def test_no_file_has_what_decrypts_the_token(
    secured: Mock, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "keys.log"
    monkeypatch.setenv("SSLKEYLOGFILE", str(log))
    Ufm(UfmAccess(secured.url, UfmToken(TOKEN), trusted=certificate)).partitions()
    assert secured.log
    assert not log.exists() or "CLIENT" not in log.read_text()


def test_a_certificate_of_another_name_is_refused(secured: Mock, certificate: Path) -> None:
    other = secured.url.replace("127.0.0.1", "localhost")
    with pytest.raises(UfmNotReached, match=r"(?i)certificate"):
        Ufm(UfmAccess(other, UfmToken(TOKEN), trusted=certificate)).partitions()
    assert not secured.log, "the token was not sent"


def test_a_client_certificate_says_who_asks(secured: Mock, certificate: Path) -> None:
    by_certificate = UfmAccess(secured.url, certificate=certificate, trusted=certificate)
    assert by_certificate.url.endswith("/ufmRest")
    assert set(Ufm(by_certificate).partitions()) == {0x10, 0x7FFF}
    assert all("Authorization" not in headers for _, _, headers, _ in secured.log)


def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("nothing")
    with pytest.raises(UsageError, match=r"none\.pem"):
        Ufm(UfmAccess("https://ufm", certificate=tmp_path / "none.pem"))

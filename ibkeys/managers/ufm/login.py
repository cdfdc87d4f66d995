"""Reading the credentials for a UFM from files: token, certificate and private key. The files are checked before they
are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ibkeys.managers.ufm.access import UfmAccess, UfmToken
from ibkeys.managers.ufm.rest import Ufm
from ibkeys.secret_files import read_secret_file, read_token


@dataclass(frozen=True, slots=True)
class UfmLogin:
    """The URL, credentials and settings for a connection to UFM, as in `UfmAccess`, but with ``token_file``, the path
    of the file with the token, in place of the token."""

    url: str = ""
    token_file: str | None = None
    certificate: str | None = None
    private_key: str | None = None
    trusted: str | None = None
    verifies: bool = True
    proxy: str | None = None


def open_ufm(url: str, login: UfmLogin, names: Mapping[str, str], warn: Callable[[str], None]) -> Ufm:
    """Return the UFM at *url*, without sending anything to it.

    *names*: the names in messages of ``token_file``, ``certificate``, ``private_key`` and ``verifies``, such as
    options. *warn*: called with a warning about a file that others may read, and if the server's certificate is not
    checked. Raises UsageError; no message has a credential.
    """
    token = None
    if login.token_file is not None:
        rule = "printable ASCII characters without blanks"
        token = UfmToken(read_token(Path(login.token_file), names["token_file"], 1, rule, warn).decode("ascii"))
    certificate, key, trusted = (
        Path(each) if each is not None else None for each in (login.certificate, login.private_key, login.trusted)
    )
    if certificate is not None:
        read_secret_file(key or certificate, names["certificate" if key is None else "private_key"], warn)
    if not login.verifies:
        warn(f"{names['verifies']}: anybody on the network path to UFM can read the token and change UFM's answers")
    return Ufm(UfmAccess(url, token, certificate, key, trusted, login.verifies, login.proxy))

"""The access to a UFM: its URL, the token or client certificate, the CA that TLS trusts, and limits of time and size.

Source: NVIDIA UFM REST guide: `/ufmRestV3` takes a token, `/ufmRest` a client certificate.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, quote, urlsplit

from ibkeys.arguments import given
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    import ssl

PREFIX: Final = "ufm:"
"""The text before the URL in the name of a policy or a method."""
WITH_TOKEN: Final = "/ufmRestV3"
WITH_CERTIFICATE: Final = "/ufmRest"
TIMEOUT: Final = 30.0
"""The seconds for one answer, from the connection to its last byte."""
MOST_BYTES: Final = 64 << 20
"""The most bytes of one answer: 100,000 memberships have about 8 MB."""
ALL_WITHIN: Final = 300.0
"""The seconds for reading all partitions: a UFM that lists only P_Keys is asked for each of them."""
_HOST: Final = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]+)*")


class UfmToken:
    """An access token of UFM. It is masked in ``str``, ``repr`` and ``format``; only `reveal` returns its text."""

    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        self.__text = text

    def reveal(self) -> str:
        """Return the text. Called where the header of a request is made, and where an answer is searched for it."""
        return self.__text

    def hidden_in(self, text: str) -> str:
        """Return *text* without the token, in clear, in Base64, or as a URL, JSON or a log writes it: an error's text
        may repeat the request."""
        clear = self.__text
        coded = [base64.b64encode(each.encode()).decode().rstrip("=") for each in (clear, f"token:{clear}")]
        escaped = [quote(clear), quote(clear, safe=""), json.dumps(clear)[1:-1], repr(clear.encode())[2:-1]]
        for each in (clear, *coded, *escaped):
            text = text.replace(each, repr(self))
        return text

    def __repr__(self) -> str:
        return "<token not shown>"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a token is not pickled")


@dataclass(slots=True)
class UfmAccess:
    """The access to one UFM. ``url``: its base, without a slash at the end; it may be given as ``ufm:URL``, and without
    a path gets the one that goes with the token or the certificate. ``token`` or ``certificate`` (PEM, with
    ``private_key`` if that is another file): the credential. ``trusted``: a PEM file with the CA that TLS trusts
    besides the system's. ``verifies``: whether the server's certificate is checked. ``proxy``: its URL; those of the
    environment are not used. ``timeout``: see `TIMEOUT`."""

    url: str
    token: UfmToken | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    trusted: Path | None = None
    verifies: bool = True
    proxy: str | None = None
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        """Check the URLs and the credential. Raises UsageError, which repeats no credential."""
        if self.token is None and self.certificate is None:
            either = given("--ufm-token @FILE, or --ufm-cert FILE", "token_file= or certificate=")
            raise UsageError(f"UFM needs a login: give {either}")
        if self.private_key is not None and self.certificate is None:
            raise UsageError(f"{given('--ufm-key')} requires {given('--ufm-cert')}")
        parts = split_url(self.url)
        through = split_proxy(self.proxy) if self.proxy is not None else parts
        hosts = parts.hostname or "", through.hostname or ""
        if parts.scheme == "http" and self.verifies and not all(map(_is_loopback, hosts)):
            raise UsageError(
                f"http://{parts.netloc}: anyone who listens could read the token; use https, or "
                f"{given('--ufm-insecure')} on a network that you trust"
            )
        path = parts.path.rstrip("/") or (WITH_TOKEN if self.token is not None else WITH_CERTIFICATE)
        if not _PATH.fullmatch(path):
            raise UsageError("the path of UFM's URL may have letters, digits and . _ ~ - between slashes")
        self.url = f"{parts.scheme}://{parts.netloc}{path}"

    def tls(self) -> ssl.SSLContext:
        """Return the context of TLS. Raises UsageError for a certificate or key that cannot be used."""
        import ssl  # late: commands that only look whether a name means a UFM do without

        # Not create_default_context: it writes to SSLKEYLOGFILE what decrypts the token on its way.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_default_certs()
        try:
            if self.trusted is not None:
                context.load_verify_locations(self.trusted)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.private_key, _no_passphrase)
        except (OSError, ssl.SSLError) as error:
            files = [str(each) for each in (self.trusted, self.certificate, self.private_key) if each is not None]
            raise UsageError(f"{', '.join(files)}: cannot be used for TLS: {error.strerror or error}") from None
        if not self.verifies:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def is_ufm(name: str | None) -> bool:
    """Return whether the name of a policy or a method means a UFM; a file of that name is ``./ufm:...``."""
    return name is not None and name.startswith(PREFIX)


def via_of(policy: str) -> str:
    """Return the option by which a plan of the *policy* of this name lasts: through the UFM that it names, or through
    OpenSM."""
    return f"--via {policy if is_ufm(policy) else 'opensm'}"


def split_url(url: str) -> SplitResult:
    """Take UFM's URL apart, with or without ``ufm:`` before it. Raises UsageError, which repeats none of it."""
    return _split(url.removeprefix(PREFIX), "UFM's URL", f"{PREFIX}https://HOST[:PORT]")


def split_proxy(proxy: str) -> SplitResult:
    """Take the URL of a proxy apart. Raises UsageError, which repeats none of it."""
    return _split(proxy, given("--ufm-proxy"), "http://HOST:PORT")


def _split(text: str, what: str, form: str) -> SplitResult:
    """Take a URL of the *form* apart. Raises UsageError, which repeats none of it: there may be a password in it."""
    if "@" in text:
        raise UsageError(f"{what} must not hold a user name or password: the command line is not a safe place for it")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts = None
    is_host = parts is not None and (_address(host) is not None or _HOST.fullmatch(host) is not None)
    if parts is None or parts.scheme not in ("https", "http") or not is_host or not text.isprintable():
        raise UsageError(f"{what} is not understood: write it as {form}")
    if "?" in text or "#" in text:
        raise UsageError(f"{what} must end with its path, without ? or #: write it as {form}")
    return parts


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _no_passphrase() -> str:
    raise UsageError(
        f"{given('--ufm-key')} is encrypted, and ibkeys does not ask for its passphrase: give a key file "
        "without one, mode 0600"
    )

"""The access to a UFM: its URL, the token or client certificate, the CA that TLS trusts, limits on time and size.

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
"""The most seconds for one answer, from making the connection to the last byte."""
MOST_BYTES: Final = 64 << 20
"""The most bytes of one answer; 100,000 memberships are about 8 MB."""
TOTAL_TIMEOUT: Final = 300.0
"""The most seconds for reading all partitions. A UFM whose list has only P_Keys is asked for each partition."""
_HOST: Final = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]+)*")


class UfmToken:
    """An access token of UFM. It is masked in ``str``, ``repr`` and ``format``; only `reveal` returns its text."""

    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        self.__text = text

    def reveal(self) -> str:
        """Return the text of the token in clear. Call this only to make the header of a request, or to search an answer
        for the token."""
        return self.__text

    def mask_in(self, text: str) -> str:
        """Return *text* with the token masked wherever it is in it: in clear, in Base64, or escaped as in a URL, JSON
        or a log. The text of an error may repeat the request."""
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
    """The access to one UFM. ``url``: the base of its REST interface, without a slash at the end. The caller may write
    it as ``ufm:URL``, and leave out the path, which then is the usual one for a token or a certificate.

    The credential is ``token``, or ``certificate``: a PEM file, with ``private_key`` if the key is in another file.
    ``trusted``: a PEM file with a CA that TLS trusts besides those of the system. ``verifies``: whether the server's
    certificate is checked. ``proxy``: the URL of a proxy; the environment variables for proxies are not used.
    ``timeout``: the most seconds for one answer."""

    url: str
    token: UfmToken | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    trusted: Path | None = None
    verifies: bool = True
    proxy: str | None = None
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        """Check the URLs and the credential, and complete ``url``. Raises UsageError, whose message has no
        credential."""
        if self.token is None and self.certificate is None:
            either = given("--ufm-token @FILE, or --ufm-cert FILE", "token_file= or certificate=")
            raise UsageError(f"UFM needs a login: give {either}")
        if self.private_key is not None and self.certificate is None:
            raise UsageError(f"{given('--ufm-key')} requires {given('--ufm-cert')}")
        parts = split_url(self.url)
        proxy_parts = split_proxy(self.proxy) if self.proxy is not None else parts
        hosts = parts.hostname or "", proxy_parts.hostname or ""
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
        """Return the TLS context for connections to UFM. Raises UsageError for a certificate or key that cannot be
        used."""
        import ssl  # imported here because commands that only call `is_ufm` do not need it

        # create_default_context is not used: it writes the secrets of connections to the file SSLKEYLOGFILE, and with
        # these the token can be decrypted.
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
    """Return whether the *name* of a policy or method means a UFM. The user can write ``./ufm:...`` for a file with
    such a name."""
    return name is not None and name.startswith(PREFIX)


def via_option(policy: str) -> str:
    """Return the option with which `ibkeys apply` makes a plan from this *policy* permanent: ``--via`` with the UFM
    that *policy* names, or with OpenSM."""
    return f"--via {policy if is_ufm(policy) else 'opensm'}"


def split_url(url: str) -> SplitResult:
    """Parse UFM's URL, with or without ``ufm:`` before it. Raises UsageError, whose message has no part of the URL."""
    return _split(url.removeprefix(PREFIX), "UFM's URL", f"{PREFIX}https://HOST[:PORT]")


def split_proxy(proxy: str) -> SplitResult:
    """Parse the URL of a proxy. Raises UsageError, whose message has no part of the URL."""
    return _split(proxy, given("--ufm-proxy"), "http://HOST:PORT")


def _split(text: str, what: str, form: str) -> SplitResult:
    """Parse a URL. *what*: its name in the message of UsageError; *form*: how the user should write it. The message has
    no part of the URL, which may have a password in it."""
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

"""The options for UFM, and reading UFM's partitions as a policy: ``ufm:URL`` in place of a policy's file name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits, options
from ibkeys.cli.given import is_from_environment
from ibkeys.cli.help.common import UFM
from ibkeys.cli.options import Folding, Where
from ibkeys.cli.options.declaring import F
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.managers.ufm.rest import Ufm
    from ibkeys.partitions.model import Policy


@dataclass(frozen=True, slots=True)
class UfmOptions:
    """The options for a connection to UFM: the credentials, the trusted CA and the proxy."""

    ufm_token: str | None = options.shared_field(
        UFM, "--ufm-token", metavar="@FILE", help="For ufm:URL: the file with the access token."
    )
    ufm_cert: str | None = options.shared_field(
        UFM, "--ufm-cert", metavar="FILE", help="For ufm:URL: a client certificate (PEM)."
    )
    ufm_key: str | None = options.shared_field(
        UFM, "--ufm-key", metavar="FILE", help="Private key of the certificate (PEM), if it is in another file."
    )
    ufm_ca: str | None = options.shared_field(
        UFM, "--ufm-ca", metavar="FILE", help="For ufm:URL: the CA that signed its certificate (PEM)."
    )
    ufm_insecure: bool = options.shared_field(
        UFM, "--ufm-insecure", env=False, is_flag=True, help="For ufm:URL: do not check its certificate."
    )
    ufm_proxy: str | None = options.shared_field(
        UFM, "--ufm-proxy", env=False, metavar="URL", help="For ufm:URL: a proxy.  [default: none]"
    )

    def words(self) -> list[str]:
        """Return the command line options for a child process that opens the same UFM. They hold no secret."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        insecure = values.pop("ufm_insecure")
        options = [f"--{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None]
        return [*options, *(["--ufm-insecure"] if insecure else [])]


_OPTION_NAMES: Final = {
    "token_file": "--ufm-token",
    "certificate": "--ufm-cert",
    "private_key": "--ufm-key",
    "verifies": "--ufm-insecure",
}
ufm_options: Final = options.group("ufm", UfmOptions)
"""The decorator for commands that take ufm:URL."""


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """The options of a command about the meaning of policies: the fabric, a UFM, and the output."""

    where: Where
    ufm: UfmOptions
    folding: Folding
    format: str


def policy_options(kind: type[PolicyOptions], *others: Callable[..., Any]) -> Callable[[F], F]:
    """Return the decorator for a command about the meaning of policies.

    The command gets the options as one object of *kind*, as its argument ``command_options``. *others*: decorators of
    the command's own options.
    """
    return options.group(
        "command_options", kind, *others, ufm_options, options.folding, options.format, options.reading
    )


def open_ufm(name: str, ufm_options: UfmOptions) -> Ufm:
    """Return the UFM that *name*, ``ufm:URL``, stands for. Nothing is sent yet.

    Raises UsageError for an invalid URL and for credentials that cannot be used; no message repeats a credential.
    """
    from ibkeys.managers.ufm import login

    token = ufm_options.ufm_token
    if token is not None and not token.startswith("@"):
        where = "the environment" if is_from_environment("ufm_token") else "the command line"
        raise UsageError(f"--ufm-token takes @FILE: {where} is not a safe place for a token")
    token_file = token[1:] if token is not None else None
    login_data = login.UfmLogin(
        name,
        token_file,
        ufm_options.ufm_cert,
        ufm_options.ufm_key,
        ufm_options.ufm_ca,
        not ufm_options.ufm_insecure,
        ufm_options.ufm_proxy,
    )
    return login.open_ufm(name, login_data, _OPTION_NAMES, exits.warn)


def ufm_names(name: str, ufm_options: UfmOptions) -> dict[int, str]:
    """Return the names of UFM's partitions by their 15 bits. Raises UsageError, UfmNotReached, UfmRefused."""
    partitions = open_ufm(name, ufm_options).partitions()
    return {base: partition.name for base, partition in partitions.items() if partition.name is not None}


def ufm_policy(name: str, ufm_options: UfmOptions) -> Policy:
    """Return UFM's partitions as a policy. Notes on standard error name the facts that UFM does not report.

    Raises UsageError, UfmNotReached, UfmRefused.
    """
    from ibkeys.managers.ufm.policy import notes_on, policy_of

    ufm = open_ufm(name, ufm_options)
    partitions = list(ufm.partitions().values())
    exits.warn_each(notes_on(partitions), "note")
    return policy_of(ufm.url, partitions)

"""Command line support for --confirm-within: the command line of the guardian, and Enter at the terminal."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibkeys.cli.options import SmHosts, Where
from ibkeys.cli.sm.ufm import UfmOptions
from ibkeys.errors import UsageError
from ibkeys.own_program import own_program

if TYPE_CHECKING:
    from ibkeys.change.confirming.guardian import Guardian
    from ibkeys.change.interrupts import Interrupts
    from ibkeys.fabric.live import LiveFabric
    from ibkeys.store.paths import StorePaths

_PROCESS_FOLDERS: Final = "/dev/stdin", "/dev/fd", "/proc"
"""Paths in these folders lead to another file, or to none, in another process."""
_PASSED_ON: Final = (
    *("Ca", "Port", "backend", "at", "timeout", "retries", "outstanding_smps", "limit"),
    *("security-keys", "sa-keys", "trust-topology", "ask-unproven", "node-name-map", "config"),
)
"""Options of a fabric that the child process gets unchanged.

Each is an attribute of `Where`, in small letters and with underscores.
"""
LEFT_OUT: Final[Mapping[str, str]] = {
    "site": "its values are passed as the other options; the file may have changed when the child reads it",
    **dict.fromkeys(("show_keys", "verbose", "debug"), "no user sees what the child writes"),
    "pcap": "the file is the parent's, which may still write it",
    "snapshot": "a snapshot is not changed",
    "routes": "going back reads no forwarding table",
}
"""Attributes of `Where` that the child process does not get, and why."""


def command_for_child(
    words: Sequence[str], where: Where, stores: StorePaths, sm_hosts: SmHosts, ufm: UfmOptions | None = None
) -> list[str]:
    """Return the command line of the guardian: *words*, with options for the fabric, stores, hosts and UFM of the user.

    The child must be able to open the fabric without environment variables and without a prompt. Secrets are passed
    only as names of files; a typed M_Key is left out. Raises UsageError for a file that can be read only once, for an
    SM_Key that is in no file, and for an encrypted key store whose passphrase is in no file.
    """
    _refuse_closed_store(where, stores.keystore)
    values = {
        **{option: getattr(where, option.lower().replace("-", "_")) for option in _PASSED_ON},
        "m_key": _file_of_secret(where.m_key, "--m_key"),
        "smkey": _sm_key_file(where),
        "keystore": stores.keystore,
        "keystore-passphrase": _file_of_secret(where.keystore_passphrase, "--keystore-passphrase"),
        "journal": stores.journal,
        "ssh-config": sm_hosts.ssh_config,
        "sm-config": sm_hosts.sm_config,
        "sm-host": sm_hosts.sm_host,
        "sudo": sm_hosts.sudo,
    }
    if ufm is not None:
        _file_of_secret(ufm.ufm_token, "--ufm-token")
    return [
        *(*own_program(), *words),
        "--site=none",
        *(word for name, value in values.items() for word in _option_words(name, value)),
        *(ufm.words() if ufm is not None else []),
    ]


def _refuse_closed_store(where: Where, path: Path | None) -> None:
    from ibkeys.store.keystore.keystore import is_encrypted

    if path is not None and is_encrypted(path) and not (where.keystore_passphrase or "").startswith("@"):
        raise UsageError(
            "the key store is encrypted, and with --confirm-within it cannot ask for the passphrase later: give "
            "--keystore-passphrase @FILE"
        ).explained("If this process dies, a background process rolls back, and it has no terminal for a prompt.")


def _option_words(option: str, value: object) -> list[str]:
    """Return the words of an option: a flag stands alone, and an option with several values is repeated."""
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{option}"]
    return [f"--{option}={each}" for each in (value if isinstance(value, tuple) else (value,))]


def _file_of_secret(secret: str | None, option: str) -> str | None:
    """Return ``@FILE`` for the child process; None for a typed secret.

    Raises UsageError for a file that cannot be read again.
    """
    if not secret or not secret.startswith("@"):
        return None
    path = Path(secret[1:])
    if any(path.is_relative_to(each) for each in _PROCESS_FOLDERS) or (path.exists() and not path.is_file()):
        raise UsageError(
            f"{option}: the process that rolls back must be able to read {path} again, so --confirm-within needs a "
            "regular file"
        )
    return secret


def _sm_key_file(where: Where) -> str | None:
    """Return ``@FILE`` of the SM_Key with which the SA shows M_Keys; None if it is not needed or is in ibdiag.conf.

    Raises UsageError for an SM_Key that is in no file.
    """
    if not where.sa_keys or where.smkey is None:
        return None
    file = _file_of_secret(where.smkey, "--smkey")
    if file is None:
        raise UsageError(
            "--sa-keys: the process that rolls back must be able to read the SM_Key again, so --confirm-within needs "
            "--smkey @FILE"
        )
    return file


def discard_typed() -> None:
    """Discard what the user has typed at the terminal so far: an Enter from before the question confirms nothing."""
    import termios

    with suppress(OSError, ValueError, termios.error):
        if sys.stdin is None or not sys.stdin.isatty():
            return
        terminal = sys.stdin.fileno()
        with suppress(OSError):  # a terminal that is not the controlling one
            if os.tcgetpgrp(terminal) != os.getpgrp():
                return  # a job in the background: what is typed is meant for another program
        termios.tcflush(terminal, termios.TCIFLUSH)


def wait_for_enter(interrupts: Interrupts) -> Callable[[float], bool]:
    """Return a function that waits for Enter at the terminal, up to the given seconds.

    It returns whether Enter was pressed; without a terminal it only waits. It raises KeyboardInterrupt when a signal
    asks to stop.
    """
    listening = sys.stdin is not None and sys.stdin.isatty()

    def wait(seconds: float) -> bool:
        nonlocal listening
        try:
            interrupts.check()
        except KeyboardInterrupt:
            interrupts.forget()  # the signal means no to the change; a second one must not interrupt the rollback
            raise
        if not listening:
            time.sleep(seconds)
            return False
        try:
            if not select.select([sys.stdin.fileno()], [], [], seconds)[0]:
                return False
            typed = os.read(sys.stdin.fileno(), 1024)
        except (OSError, ValueError):
            typed = b""
        listening = bool(typed)  # empty if the terminal is gone: the timer keeps running
        return b"\n" in typed

    return wait


def hand_over(guardian: Guardian, where: Where, fabric: LiveFabric) -> None:
    """Give *guardian* the open local port and a typed M_Key. It reads an M_Key in a file again by itself.

    A simulated subnet has no port to give.
    """
    if not fabric.is_simulated:
        local = fabric.local()
        guardian.send_port(local.ca_name, local.port)
    if where.m_key and not where.m_key.startswith("@"):
        guardian.send_key(fabric.ring.for_all)

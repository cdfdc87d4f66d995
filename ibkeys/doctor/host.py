"""Checks of key files, of the OpenSMs on this host, and of their files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ibkeys.apply.opensm.former_managers import check_managers_elsewhere
from ibkeys.doctor.host_facts import check_host
from ibkeys.errors import IbkeysError, StoreError
from ibkeys.host.host_files import THIS_HOST
from ibkeys.managers.host_facts import HostFacts
from ibkeys.managers.lock_checks import check_locks
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.policy_checks import check_policy
from ibkeys.managers.report import look_at_host, with_ports
from ibkeys.printable import counted
from ibkeys.store.journal import Journal
from ibkeys.store.opensm import MKEY_FILE, read_key_files
from ibkeys.umad.probe import ProbeResult


def check_security_keys(folder: Path) -> Iterator[ProbeResult]:
    """Yield the check of a folder of key files that is used."""
    try:
        files = read_key_files(folder)
    except IbkeysError as error:
        yield ProbeResult("security keys", False, str(error))
        return
    yield ProbeResult(
        "security keys",
        not files.warnings,
        f"{folder}: {counted(len(files.m_keys), 'M_Key')}, {counted(len(files.neighbors), 'link end')}, "
        f"{counted(len(files.lids), 'LID')}"
        + (f"; {len(files.warnings)} lines left out, the first: {files.warnings[0]}" if files.warnings else ""),
    )


def check_this_host(facts: HostFacts, journal: Path | None) -> Iterator[ProbeResult]:
    """Yield the checks of this host, of each OpenSM on it, and of the OpenSMs elsewhere that *journal* knows."""
    yield from check_host(facts)
    here = with_ports(look_at_host(THIS_HOST, socket=own_socket()), {})
    yield from map(check_policy, here.instances)
    yield from check_locks(here)
    if journal is not None:
        with suppress(StoreError), Journal.read(journal) as stored:  # the check of that store names it
            yield from check_managers_elsewhere(here, stored)


def folders_with_keys(facts: HostFacts) -> list[Path]:
    """Return the folders of this host that have M_Keys of OpenSM."""
    return [file.file.path.parent for file in facts.key_files if file.kind == MKEY_FILE]

"""Checks of key files, of the OpenSMs on this host, and of their files and locks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from ibkeys.change.former_managers import check_managers_elsewhere
from ibkeys.doctor.host_facts import check_host
from ibkeys.errors import FileError, IbkeysError, StoreError
from ibkeys.host.host_files import THIS_HOST
from ibkeys.host.host_lock import find_lock, lock_file
from ibkeys.host.lock_holder import holder_in_words
from ibkeys.managers.host_facts import HostFacts
from ibkeys.managers.journaled_policy import with_operations
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.policy_checks import check_policy
from ibkeys.managers.report import HostReport, assign_ports, report_on_host
from ibkeys.managers.site import RunningOpensm
from ibkeys.printable import counted
from ibkeys.store.journal import Journal
from ibkeys.store.opensm import MKEY_FILE, read_key_files
from ibkeys.umad.probe import ProbeResult

_LOCK: Final = "OpenSM lock"
_ADVICE_ON_LOCK: Final = (
    "finish or undo that change where it was begun (ibkeys journal there names it); if it has ended there, any later "
    "change through OpenSM from there removes the lock; where neither is possible, override the interlock stale-lock"
)


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
        + (f"; {counted(len(files.warnings), 'warning')}, the first: {files.warnings[0]}" if files.warnings else ""),
    )


def check_this_host(facts: HostFacts, journal: Path | None) -> Iterator[ProbeResult]:
    """Yield the checks of this host, of each OpenSM on it, and of the OpenSMs elsewhere that *journal* knows."""
    yield from check_host(facts)
    [report] = with_operations([report_on_host(THIS_HOST, socket=own_socket())], journal)
    here = assign_ports(report, {})
    yield from map(check_policy, here.instances)
    yield from check_locks(here)
    if journal is not None:
        with suppress(StoreError), Journal.read(journal) as stored:  # the check of that store names it
            yield from check_managers_elsewhere(here, stored)


def check_locks(host: HostReport) -> Iterator[ProbeResult]:
    """Yield a check for each lock on this host, with the run that holds it or that was interrupted while it held it."""
    places = {path for each in host.instances for path in RunningOpensm(each, THIS, None).lock_places()}
    for path in sorted(places):
        file = lock_file(path)
        try:
            is_closed = file.is_file() and not os.access(file, os.R_OK)
        except OSError:
            yield ProbeResult(_LOCK, None, f"{file}: this user may not see whether there is a lock; root may")
            continue
        if is_closed:
            yield ProbeResult(
                _LOCK, None, f"{file}: a command is changing something there, or was cut off; root can see which"
            )
            continue
        try:
            found = find_lock(path)
        except FileError as error:
            yield ProbeResult(_LOCK, False, str(error))
            continue
        if found is not None:
            who = f"{file}: {holder_in_words(found.text)}"
            if found.is_held:
                yield ProbeResult(_LOCK, None, f"{who}, is changing something")
            else:
                yield ProbeResult(_LOCK, False, f"{who}, was cut off", _ADVICE_ON_LOCK)


def folders_with_keys(facts: HostFacts) -> list[Path]:
    """Return the folders of this host that have M_Keys of OpenSM."""
    return [file.file.path.parent for file in facts.key_files if file.kind == MKEY_FILE]

"""All checks of `ibkeys doctor` that open the fabric or read files, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ibkeys.doctor.host import check_security_keys, check_this_host, folders_with_keys
from ibkeys.doctor.host_facts import check_key_files
from ibkeys.doctor.local_port import check_local_port
from ibkeys.doctor.stores import check_stores
from ibkeys.errors import IbkeysError, StoreError
from ibkeys.managers.host_facts import host_facts, key_files_in
from ibkeys.umad import probe
from ibkeys.umad.probe import ProbeResult

if TYPE_CHECKING:
    from ibkeys.fabric.live import LiveFabric
    from ibkeys.store.paths import StorePaths


@dataclass(frozen=True, slots=True)
class DoctorSubjects:
    """The subjects of the checks. ``simulated``: the backend of a simulated subnet, "" for the devices of this host.

    ``security_keys``: the folder of key files that is used, None without one. ``open_fabric``: opens the fabric that
    the user named; an IbkeysError of it becomes a check. ``stores``: returns the stores that the user named.
    ``host_knows``: returns the sources of keys on this host that may give access to a port which does not answer.
    """

    simulated: str
    security_keys: Path | None
    open_fabric: Callable[[], AbstractContextManager[LiveFabric]]
    stores: Callable[[], StorePaths]
    host_knows: Callable[[], Sequence[str]]


def check_devices(examined: DoctorSubjects) -> Iterator[ProbeResult]:
    """Yield the checks of libibumad, the kernel module and the devices."""
    if examined.simulated:
        about = f"a simulated subnet ({examined.simulated}); devices of this host are not examined"
        yield ProbeResult("backend", True, about)
    else:
        yield from probe.probe()


def check_subnet(examined: DoctorSubjects) -> Iterator[ProbeResult]:
    """Yield the checks of key files, this host's OpenSMs, the local port, its subnet manager and the stores. With a
    simulated subnet this host is not examined, and its stores only if the subnet could be opened.
    """
    folders = [examined.security_keys] if examined.security_keys is not None else []
    for folder in folders:
        yield from check_security_keys(folder)
    if examined.simulated:
        yield from check_key_files(key_files_in(folders))
    else:
        facts = host_facts(security_keys=folders)
        yield from check_this_host(facts, examined.stores().journal)
        folders = folders_with_keys(facts)
    try:
        with examined.open_fabric() as fabric:
            yield from check_local_port(fabric, examined.host_knows)
            yield from check_stores(fabric.stores, folders)
    except StoreError as error:
        yield ProbeResult("local port", None, "not checked: a file that is needed cannot be used")
        if examined.simulated:
            yield ProbeResult("store", False, str(error))
        else:
            yield from check_stores(examined.stores(), folders)
    except IbkeysError as error:
        yield ProbeResult("local port", False, str(error))
        if not examined.simulated:
            yield from check_stores(examined.stores(), folders)

"""The OpenSMs on this host that may serve the subnet ibkeys works on: the real one, or the simulated one that
IBSIM_SOCKNAME names. Also their options files, sweep interval and key files. Each call examines processes and files
anew; nothing is changed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibkeys.arguments import given
from ibkeys.errors import IbkeysError
from ibkeys.host.file_access import is_same_file
from ibkeys.managers.opensm import process as opensm_host
from ibkeys.managers.opensm.process import OpensmProcess, opensm_processes, read_opensm_config
from ibkeys.store.opensm import MKEY_FILE, read_key_files

if TYPE_CHECKING:
    from ibkeys.fabric.live import LiveFabric
    from ibkeys.topology.subnet_manager import SubnetManager

_SOCKET: Final = "IBSIM_SOCKNAME"


def own_socket() -> str:
    """Return the name of the simulator's socket with which this process communicates, "" on a real subnet."""
    return os.environ.get(_SOCKET, "")


def running_here() -> list[OpensmProcess]:
    """Return the OpenSM processes of this host that may serve the same subnet as this process: the same simulated
    subnet, or a real one.

    The variable IBSIM_SOCKNAME names the simulator's server for libumad2sim. On a real subnet it is not set.
    """
    own = own_socket()
    found = opensm_processes(opensm_host.PROC, opensm_host.OPENSM_CACHE)
    return [process for process in found if is_of_subnet(process, own)]


def is_of_subnet(process: OpensmProcess, socket: str) -> bool:
    """Return whether an OpenSM may serve the subnet of the simulator with this *socket*; "": a real subnet. True if the
    environment of the OpenSM cannot be read."""
    return process.environment is None or process.environment.get(_SOCKET, "") == socket


def configs_here() -> list[Path]:
    """Return the existing opensm.conf files of this host: those that running OpenSMs name, and those at the default
    paths of distributions."""
    paths = [process.config for process in running_here() if process.config is not None]
    return _existing_once([*paths, *opensm_host.OPENSM_CONFIGS])


def readers_of(path: Path) -> list[OpensmProcess]:
    """Return the running OpenSMs that read *path* as their options file at each heavy sweep.

    An OpenSM whose command line names no file may read any of those at the default paths of distributions.
    """
    return [process for process in running_here() if any(is_same_file(path, each) for each in _configs_of(process))]


def _configs_of(process: OpensmProcess) -> Sequence[Path]:
    return [process.config] if process.config else opensm_host.OPENSM_CONFIGS


def known_sweep_interval(fabric: LiveFabric, manager: SubnetManager) -> int | None:
    """Return the sweep interval of the master *manager* in seconds, None if it is not known.

    It is known only if the master is at this host's port. It is the one in the command line or options file of the only
    OpenSM on this host; if none is found to run, or its command line names no file, the one in the only options file at
    the default paths of distributions."""
    if fabric.is_simulated or not manager.may_be_master or manager.lid != fabric.local().base_lid:
        return None
    running = running_here()
    if len(running) > 1:
        return None
    for process in running:
        given = process.command.option("sweep_interval")
        if isinstance(given, int):
            return given
    listed = [process.config for process in running if process.config is not None]
    found = listed or [path for path in opensm_host.OPENSM_CONFIGS if os.path.exists(path)]
    config = read_opensm_config(found[0]) if len(found) == 1 else None
    return config.sweep_interval if config is not None else None


def describe_locked_out(security_keys: Path | None) -> list[str]:
    """Return advice for the user whose ports do not answer: key files of this host that may have the ports' M_Keys. It
    is a line for each directory of an OpenSM that runs here; if none runs, a line for the key files that an OpenSM
    left. A directory whose guid2mkey has no key is left out. *security_keys*: the directory of key files that this
    process has used already, or None."""
    lines = []
    listed: list[Path] = []
    for process in running_here():
        if any(is_same_file(process.cache, each) for each in listed):
            continue
        listed.append(process.cache)
        if has_m_keys(process.cache / MKEY_FILE) is False:
            continue
        unless = "" if process.cache_known else " (unless its OSM_CACHE_DIR says otherwise)"
        where = f"OpenSM runs on this host (process {process.pid}) and keeps its key files in {process.cache}{unless}"
        lines.append(f"{where}{_how_to_use(process.cache, security_keys)}")
    left_over = opensm_host.OPENSM_CACHE
    if not listed and os.path.exists(left_over / MKEY_FILE) and has_m_keys(left_over / MKEY_FILE) is not False:
        lines.append(
            f"an OpenSM that ran on this host left its key files in {left_over}{_how_to_use(left_over, security_keys)}"
        )
    return lines


def has_m_keys(path: Path) -> bool | None:
    """Return whether a guid2mkey has a key of any port; None if it does not exist or cannot be read."""
    try:
        keys = read_key_files(path.parent, (MKEY_FILE,)).m_keys
    except IbkeysError:
        return None
    return any(not key.is_zero for key in keys.values())


def _how_to_use(cache: Path, used: Path | None) -> str:
    if used is not None and is_same_file(cache, used):
        return ": they were used; OpenSM writes them after a sweep, so they may be older than its keys"
    file = cache / MKEY_FILE
    use_them = given(f"--security-keys {cache}", f"security_keys={str(cache)!r}")
    if not os.access(cache, os.X_OK) or (file.exists() and not os.access(file, os.R_OK)):
        return f": with the rights to read them, give {use_them}"
    if not file.exists():
        return f", which has no {MKEY_FILE} yet"
    return f": give {use_them}, or keep its keys with `ibkeys keystore import {cache}`"


def _existing_once(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if os.path.exists(path) and not any(is_same_file(path, each) for each in found):
            found.append(path)
    return found

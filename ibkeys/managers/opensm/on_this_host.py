"""OpenSM on this host, for the subnet of this process: the configurations that it would start with, its sweep interval,
and its key files. Processes and files are examined when a function is called, and only then; nothing is changed.
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
    """Return the name of the simulator's socket that this process talks to, "" on a real subnet."""
    return os.environ.get(_SOCKET, "")


def running_here() -> list[OpensmProcess]:
    """Return the OpenSM processes of this host, except for those on another simulated subnet than this process.

    libumad2sim talks to the server that IBSIM_SOCKNAME names; on a real subnet that variable is not set.
    """
    own = own_socket()
    found = opensm_processes(opensm_host.PROC, opensm_host.OPENSM_CACHE)
    return [process for process in found if is_of_subnet(process, own)]


def is_of_subnet(process: OpensmProcess, socket: str) -> bool:
    """Return whether an OpenSM may serve the subnet of the simulator *socket*, "" for a real one; True if its
    environment cannot be read."""
    return process.environment is None or process.environment.get(_SOCKET, "") == socket


def configs_here() -> list[Path]:
    """Return the opensm.conf files of this host: those of the running OpenSMs, and those at the places of
    distributions."""
    paths = [process.config for process in running_here() if process.config is not None]
    return _once([*paths, *opensm_host.OPENSM_CONFIGS])


def readers_of(path: Path) -> list[OpensmProcess]:
    """Return the running OpenSMs that read *path* as their configuration: each heavy sweep reads it again.

    An OpenSM whose command line names no file reads that of its distribution.
    """
    return [process for process in running_here() if any(is_same_file(path, each) for each in _configs_of(process))]


def _configs_of(process: OpensmProcess) -> Sequence[Path]:
    return [process.config] if process.config else opensm_host.OPENSM_CONFIGS


def known_sweep_interval(fabric: LiveFabric, manager: SubnetManager) -> int | None:
    """Return OpenSM's sweep interval in seconds, if it can be known: the master runs on this host's port, and the
    command line or options file of the only OpenSM here has it, or a distribution's options file if no OpenSM is found
    to run. None otherwise."""
    if fabric.is_simulated or not manager.may_be_master or manager.lid != fabric.local().base_lid:
        return None
    running = running_here()
    if len(running) > 1:
        return None
    for process in running:
        given = process.command.option("sweep_interval")
        if isinstance(given, int):
            return given
    named = [process.config for process in running if process.config is not None]
    found = named or [path for path in opensm_host.OPENSM_CONFIGS if os.path.exists(path)]
    config = read_opensm_config(found[0]) if len(found) == 1 else None
    return config.sweep_interval if config is not None else None


def describe_locked_out(security_keys: Path | None) -> list[str]:
    """Return advice on key files of this host that may open ports which do not answer: one line for each OpenSM that
    runs here, or else for the key files that an OpenSM left. *security_keys*: the directory that was used already."""
    lines = []
    named: list[Path] = []
    for process in running_here():
        if any(is_same_file(process.cache, each) for each in named):
            continue
        named.append(process.cache)
        if has_m_keys(process.cache / MKEY_FILE) is False:
            continue
        unless = "" if process.cache_known else " (unless its OSM_CACHE_DIR says otherwise)"
        where = f"OpenSM runs on this host (process {process.pid}) and keeps its key files in {process.cache}{unless}"
        lines.append(f"{where}{_way_in(process.cache, security_keys)}")
    left = opensm_host.OPENSM_CACHE
    if not named and os.path.exists(left / MKEY_FILE) and has_m_keys(left / MKEY_FILE) is not False:
        lines.append(f"an OpenSM that ran on this host left its key files in {left}{_way_in(left, security_keys)}")
    return lines


def has_m_keys(path: Path) -> bool | None:
    """Return whether a guid2mkey has a key of any port; None if it does not exist or cannot be read."""
    try:
        keys = read_key_files(path.parent, (MKEY_FILE,)).m_keys
    except IbkeysError:
        return None
    return any(not key.is_zero for key in keys.values())


def _way_in(cache: Path, used: Path | None) -> str:
    if used is not None and is_same_file(cache, used):
        return ": they were used; OpenSM writes them after a sweep, so they may be older than its keys"
    file = cache / MKEY_FILE
    use_them = given(f"--security-keys {cache}", f"security_keys={str(cache)!r}")
    if not os.access(cache, os.X_OK) or (file.exists() and not os.access(file, os.R_OK)):
        return f": with the rights to read them, give {use_them}"
    if not file.exists():
        return f", which has no {MKEY_FILE} yet"
    return f": give {use_them}, or keep its keys with `ibkeys keystore import {cache}`"


def _once(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if os.path.exists(path) and not any(is_same_file(path, each) for each in found):
            found.append(path)
    return found

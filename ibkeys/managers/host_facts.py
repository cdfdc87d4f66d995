"""The facts of this host that protect the subnet's keys or disclose them: key files, configurations, devices, a kernel
switch. Facts only; `ibkeys doctor` and the audit's rules about the host judge them. Nothing is changed, and no key
leaves this module: it only tells whether a key is set, is a well-known one, or equals another. A fact that cannot be
read is None, never a pass.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.classkeys.key_files import CLASS_KEY_FILES, read_class_key_files
from ibkeys.errors import IbkeysError
from ibkeys.host.file_access import FileFact, read_file_fact
from ibkeys.host.run_program import RunProgram, run_program
from ibkeys.managers.opensm.on_this_host import has_m_keys, is_of_subnet
from ibkeys.managers.opensm.process import (
    DEVICES,
    OPENSM_CACHE,
    OPENSM_CONFIGS,
    PROC,
    OpensmConfig,
    OpensmProcess,
    opensm_processes,
    read_opensm_config,
)
from ibkeys.store.opensm import MKEY_FILE, c_number

IBDIAG_CONFIG: Final = Path("/etc/infiniband-diags/ibdiag.conf")

_RDMA: Final = ("rdma", "system", "show")


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file that may hold keys: ``guid2mkey``, one with keys of a class, ``opensm.conf``, ``ibdiag.conf`` or ``key
    store``.

    ``holds_key``: whether it has a key (neither a key 0 nor OpenSM's default sm_key counts); None: it could not be
    read.
    """

    kind: str
    file: FileFact
    holds_key: bool | None


@dataclass(frozen=True, slots=True)
class Device:
    """A device file of QP0 access: ``umad`` sends and receives MADs, ``issm`` sets a port's IsSM bit."""

    path: Path
    mode: int
    uid: int
    gid: int

    @property
    def others_can_open(self) -> bool:
        """Whether everybody may open it for reading and writing; access for a group may be intended."""
        return self.mode & (stat.S_IROTH | stat.S_IWOTH) == stat.S_IROTH | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class HostFacts:
    """All facts of one host. ``privileged_qkey``: whether users may use controlled Q_Keys; None if the kernel or
    iproute2 does not show it. ``devices`` is empty where there are none."""

    key_files: tuple[KeyFile, ...]
    opensm_configs: tuple[OpensmConfig, ...]
    opensm_processes: tuple[OpensmProcess, ...]
    devices: tuple[Device, ...]
    privileged_qkey: bool | None


def host_facts(
    *,
    keystore: Path | None = None,
    security_keys: Iterable[Path] = (),
    opensm_configs: Iterable[Path] = OPENSM_CONFIGS,
    opensm_cache: Path = OPENSM_CACHE,
    ibdiag_config: Path = IBDIAG_CONFIG,
    devices: Path = DEVICES,
    proc: Path = PROC,
    run: RunProgram | None = None,
    socket: str | None = None,
) -> HostFacts:
    """Return the facts of this host. Paths that do not exist are left out; nothing is raised.

    *security_keys*: directories with ``guid2mkey``, besides *opensm_cache* and those of a running OpenSM. *socket*:
    that of the simulator whose subnet is meant, "" for a real subnet: OpenSMs of other subnets are left out; None takes
    all.
    """
    found = opensm_processes(proc, opensm_cache, devices)
    processes = [process for process in found if socket is None or is_of_subnet(process, socket)]
    config_paths = _once([*opensm_configs, *(process.config for process in processes if process.config)])
    configs = [(path, read_opensm_config(path)) for path in config_paths]
    key_files: list[KeyFile | None] = []
    key_files += key_files_in([*security_keys, opensm_cache, *(process.cache for process in processes)])
    key_files += [_key_file("opensm.conf", path, lambda _: None) for path, config in configs if config is None]
    key_files += [KeyFile("opensm.conf", each.file, each.holds_key) for _, each in configs if each is not None]
    key_files.append(_key_file("ibdiag.conf", ibdiag_config, _ibdiag_has_key))
    if keystore is not None:
        key_files.append(_key_file("key store", keystore, lambda _: True))
    return HostFacts(
        tuple(file for file in key_files if file is not None),
        tuple(config for _, config in configs if config is not None),
        tuple(processes),
        tuple(read_devices(devices)),
        read_privileged_qkey(run or run_program),
    )


def key_files_in(folders: Iterable[Path]) -> list[KeyFile]:
    """Return the guid2mkey, and the files with keys of classes, of each of *folders* that has one, each once."""
    found: list[KeyFile | None] = []
    for folder in _once(folders):
        found.append(_key_file(MKEY_FILE, folder / MKEY_FILE, has_m_keys))
        found += [_key_file(name, folder / name, _has_class_keys) for name in CLASS_KEY_FILES.values()]
    return [file for file in found if file is not None]


def read_devices(folder: Path = DEVICES) -> list[Device]:
    """Return the umad and issm devices."""
    found = []
    for path in sorted(folder.glob("umad*")) + sorted(folder.glob("issm*")):
        status = files.or_none(path.stat)
        if status is not None:
            found.append(Device(path, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid))
    return found


def read_privileged_qkey(run: RunProgram) -> bool | None:
    """Return whether ``rdma system show`` has ``privileged-qkey on``: any user may then use Q_Keys with bit 31 set.
    None without the program, the netlink socket, or a kernel and iproute2 with this switch (Linux 6.7).
    """
    text = run(_RDMA)
    match = re.search(r'privileged[-_]qkey"?[\s:]+"?(on|off)\b', text or "")
    return match[1] == "on" if match else None


# --- reading ----------------------------------------------------------------------------------------------------------


def _key_file(kind: str, path: Path, holds_key: Callable[[Path], bool | None]) -> KeyFile | None:
    file = read_file_fact(path)
    return None if file is None else KeyFile(kind, file, holds_key(path))


def _has_class_keys(path: Path) -> bool | None:
    try:
        keys = read_class_key_files(path.parent)[0]
    except IbkeysError:
        return None
    name = next(name for name, file in CLASS_KEY_FILES.items() if file == path.name)
    return any(not key.is_zero for key in keys.get(name, {}).values())


def _ibdiag_has_key(path: Path) -> bool | None:
    text = files.or_none(files.read_text, path, files.SETTINGS, "replace")
    if text is None:
        return None
    values = re.findall(r"^\s*(?:m_key|sa_key)\s*=\s*(\S+)", text, re.MULTILINE)
    return any(c_number(value.encode(), 64) != 0 for value in values)


def _once(paths: Iterable[Path]) -> Iterable[Path]:
    """Return *paths* without those that lead to the same file as one before."""
    found: dict[str, Path] = {}
    for path in paths:
        found.setdefault(os.path.realpath(path), path)
    return found.values()

"""The facts of this host that protect the subnet's keys or disclose them: key files, configurations, devices, a kernel
switch. `ibkeys doctor` and the audit's rules about the host judge these facts. Nothing is changed. The facts say
whether a key is set, is a well-known one, or equals another; an M_Key in them is masked when it is printed. A fact that
cannot be read is None, never good.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.classkeys.key_files import CLASS_KEY_FILES, read_class_key_files
from ibkeys.errors import IbkeysError
from ibkeys.host.file_access import FileFact, read_file_fact, real_path
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
    """A file that may hold keys. ``kind``: the name ``guid2mkey`` or that of a file with class keys, ``opensm.conf``,
    ``ibdiag.conf`` or ``key store``.

    ``holds_key``: whether it has a key; None if it could not be read. For an options file it is
    `OpensmConfig.holds_key`; in other files a key 0 does not count; a key store always has one.
    """

    kind: str
    file: FileFact
    holds_key: bool | None


@dataclass(frozen=True, slots=True)
class Device:
    """A device file in /dev/infiniband: a ``umad`` device, which sends and receives MADs, or an ``issm`` device, which
    sets a port's IsSM bit while it is open."""

    path: Path
    mode: int
    uid: int
    gid: int

    @property
    def others_can_open(self) -> bool:
        """Whether every user may open the device for reading and writing. Access for a group does not count, because it
        may be intended."""
        return self.mode & (stat.S_IROTH | stat.S_IWOTH) == stat.S_IROTH | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class HostFacts:
    """All facts of one host. ``privileged_qkey``: whether all users may use controlled Q_Keys, those with bit 31 set;
    None if the kernel or iproute2 does not show it. ``devices``: the umad and issm devices."""

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
    """Return the facts of this host. Files that do not exist are left out; nothing is raised.

    *keystore*: the key store's file, None to leave it out. *security_keys*: directories with ``guid2mkey``, besides
    *opensm_cache* and those of running OpenSMs. *opensm_configs*: options files, besides those that running OpenSMs
    name. *run*: runs a program and returns its output. *socket*: the simulator's socket if only OpenSMs of its subnet
    are wanted, "" if only those of a real subnet are; None: all OpenSMs.
    """
    found = opensm_processes(proc, opensm_cache, devices)
    processes = [process for process in found if socket is None or is_of_subnet(process, socket)]
    config_paths = _without_duplicates([*opensm_configs, *(process.config for process in processes if process.config)])
    configs = [(path, read_opensm_config(path)) for path in config_paths]
    key_files: list[KeyFile | None] = []
    key_files += key_files_in([*security_keys, opensm_cache, *(process.cache for process in processes)])
    key_files += [_read_key_file("opensm.conf", path, lambda _: None) for path, config in configs if config is None]
    key_files += [KeyFile("opensm.conf", each.file, each.holds_key) for _, each in configs if each is not None]
    key_files.append(_read_key_file("ibdiag.conf", ibdiag_config, _ibdiag_has_key))
    if keystore is not None:
        key_files.append(_read_key_file("key store", keystore, lambda _: True))
    return HostFacts(
        tuple(file for file in key_files if file is not None),
        tuple(config for _, config in configs if config is not None),
        tuple(processes),
        tuple(read_devices(devices)),
        read_privileged_qkey(run or run_program),
    )


def key_files_in(folders: Iterable[Path]) -> list[KeyFile]:
    """Return the existing guid2mkey files and files with class keys in *folders*. A folder that is given twice, or by
    two paths, counts once."""
    found: list[KeyFile | None] = []
    for folder in _without_duplicates(folders):
        found.append(_read_key_file(MKEY_FILE, folder / MKEY_FILE, has_m_keys))
        found += [_read_key_file(name, folder / name, _has_class_keys) for name in CLASS_KEY_FILES.values()]
    return [file for file in found if file is not None]


def read_devices(folder: Path = DEVICES) -> list[Device]:
    """Return the umad devices in *folder*, and after them the issm devices."""
    found = []
    for path in sorted(folder.glob("umad*")) + sorted(folder.glob("issm*")):
        status = files.or_none(path.stat)
        if status is not None:
            found.append(Device(path, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid))
    return found


def read_privileged_qkey(run: RunProgram) -> bool | None:
    """Return whether ``rdma system show``, which *run* runs, prints ``privileged-qkey on``: then any user may use
    Q_Keys with bit 31 set. None if the program fails, or the kernel or iproute2 lacks this switch (Linux 6.7).
    """
    text = run(_RDMA)
    match = re.search(r'privileged[-_]qkey"?[\s:]+"?(on|off)\b', text or "")
    return match[1] == "on" if match else None


def _read_key_file(kind: str, path: Path, holds_key: Callable[[Path], bool | None]) -> KeyFile | None:
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


def _without_duplicates(paths: Iterable[Path]) -> Iterable[Path]:
    """Return *paths* in order, without each path that leads to the same file or folder as an earlier one."""
    found: dict[str, Path] = {}
    for path in paths:
        found.setdefault(real_path(path), path)
    return found.values()

"""The running OpenSM processes of a host, and the options in an opensm.conf that concern keys. Nothing is changed. A
key leaves this module only as an `MKey`, which is masked when it is printed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ibkeys import files
from ibkeys.errors import FileFormatError
from ibkeys.files import or_none
from ibkeys.host.file_access import FileFact, fact_of
from ibkeys.host.host_files import THIS_HOST, USER_HZ, HostFiles, simulated_host_of
from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.command_line import CommandLine, read_command_line
from ibkeys.managers.opensm.m_key_lines import has_key_for_each_port
from ibkeys.managers.opensm.options_file import OptionsFile, read_options

OPENSM_CONFIGS: Final = (Path("/etc/opensm/opensm.conf"), Path("/etc/rdma/opensm.conf"))
"""The default paths of OpenSM's options file in distributions. A running OpenSM may use another file (``-F``)."""
OPENSM_CACHE: Final = Path("/var/cache/opensm")
"""OpenSM's cache directory, unless its variable OSM_CACHE_DIR names another one."""
PROGRAM: Final = "opensm"
PROC: Final = Path("/proc")
DEVICES: Final = Path("/dev/infiniband")
_NOBODY: Final = -1
"""Stands for the owner of a file that does not exist or cannot be examined."""
ALL_ONES: Final = MKey(0xFFFF_FFFF_FFFF_FFFF)
DEFAULT_SM_KEY: Final = MKey(1)
"""OpenSM's default of sm_key and sa_key."""


@dataclass(frozen=True, slots=True)
class OpensmConfig:
    """The options of an opensm.conf that concern keys, with OpenSM's defaults for options that the file does not set.

    ``m_key_set``: whether m_key is not 0. ``m_key_all_ones``: whether it is 0xffffffffffffffff, which a vendor's SM
    replaces by a random key and stock OpenSM uses as it is. ``m_key_lease_period``, ``sweep_interval``: in seconds.
    ``sm_key_default``, ``sa_key_default``: whether the key is OpenSM's default 1. ``mistakes``: those of these options
    that have a line whose value is not a number or is too large.
    """

    file: FileFact
    m_key_set: bool = False
    m_key_all_ones: bool = False
    m_key_protection_level: int = 0
    m_key_lease_period: int = 0
    m_key_lookup: bool = True
    m_key_per_port: bool = False
    sweep_interval: int = 10
    sm_key_default: bool = True
    sa_key_default: bool = True
    mistakes: tuple[str, ...] = ()
    _keys: tuple[MKey, MKey, MKey] = field(default=(MKey(0), DEFAULT_SM_KEY, DEFAULT_SM_KEY), repr=False)

    @property
    def holds_key(self) -> bool:
        """Whether m_key is not 0, or sm_key or sa_key is not OpenSM's default: a 0 there counts as a key."""
        return self.m_key_set or not self.sm_key_default or not self.sa_key_default

    @property
    def m_key(self) -> MKey:
        """The value of m_key, which is masked when it is printed."""
        return self._keys[0]

    def is_sm_or_sa_key(self, key: MKey) -> bool:
        """Return whether *key* equals the sm_key or the sa_key."""
        return not key.is_zero and key in self._keys[1:]


View = Literal["host", "own", "unknown"]
"""Whose root directory and mounts a process has: those of its host, or its own, as in a container; or this is not
known.
"""


@dataclass(frozen=True, slots=True)
class OpensmProcess:
    """A running OpenSM. A field is None if the host does not show the fact.

    ``cache``: the directory of its key files, as a path by which ibkeys reaches it; ``cache_known``: False if this is
    only the default, because the environment cannot be read. ``config``: the options file that ``-F`` names, as such a
    path; None too if the command line names none. ``environment``: its variables among `ENVIRONMENT`. ``folder``: its
    folder in /proc. ``cwd``: its working directory. ``started``: its start time in seconds since 1970;
    ``start_precision``: the most seconds by which that may be wrong. ``unit``: its systemd unit. ``output``: the target
    of its standard output, as /proc names it. ``view``: whose root directory and mounts it has. ``program_known``:
    whether its executable is known to be OpenSM; otherwise only the name in its command line is. ``ticks``: its start
    time in ticks since the host booted, which together with ``pid`` identifies the process.
    """

    pid: int
    cache: Path
    cache_known: bool
    config: Path | None
    command: CommandLine = field(default_factory=CommandLine)
    environment: Mapping[str, str] | None = None
    folder: Path = PROC
    cwd: Path | None = None
    started: float | None = None
    start_precision: float = 1.0
    unit: str | None = None
    umask: int | None = None
    output: str | None = None
    view: View = "unknown"
    program_known: bool = False
    ticks: int | None = None


ENVIRONMENT: Final[tuple[str, ...]] = ("OSM_CACHE_DIR", "OSM_TMP_DIR", "POSIXLY_CORRECT", "IBSIM_SOCKNAME")
"""The environment variables that decide which files and which fabric an OpenSM uses. No other variable is kept."""


def read_opensm_config(path: Path) -> OpensmConfig | None:
    """Return the options of an opensm.conf that concern keys, as OpenSM reads them; None if the file does not exist or
    cannot be read."""
    try:  # another process may have named the path, so it must not mean a descriptor of this process (`LocalFiles`)
        return opensm_config(THIS_HOST.stat(path), THIS_HOST.read(path, files.SETTINGS))
    except OSError:
        return None


def read_given_config(path: Path) -> OpensmConfig:
    """Return the options that concern keys in an opensm.conf that the user named. The file may be a pipe that this
    process inherited. Raises FileFormatError if it cannot be read."""
    try:
        data, status = files.read_with_status(path, files.SETTINGS)
    except OSError:
        raise FileFormatError("cannot be read as OpenSM's configuration", str(path)) from None
    return opensm_config(fact_of(path, status, ()), data)


def opensm_config(file: FileFact, data: bytes) -> OpensmConfig:
    """Return the options that concern keys in the options file with the bytes *data*. *file*: its facts."""
    options = read_options(data)
    m_key, sm_key, sa_key = (_key_option(options, name) for name in _KEY_OPTIONS)
    mistakes = (remark.option for remark in options.remarks if remark.complaint == "no-number")
    return OpensmConfig(
        file,
        m_key_set=not m_key.is_zero,
        m_key_all_ones=m_key == ALL_ONES,
        m_key_protection_level=_number_option(options, "m_key_protection_level"),
        m_key_lease_period=_number_option(options, "m_key_lease_period"),
        m_key_lookup=options.value("m_key_lookup") is True,
        m_key_per_port=has_key_for_each_port(data),
        sweep_interval=_number_option(options, "sweep_interval"),
        sm_key_default=sm_key == DEFAULT_SM_KEY,
        sa_key_default=sa_key == DEFAULT_SM_KEY,
        mistakes=tuple(name for name in mistakes if name in _KEY_NUMBERS),
        _keys=(m_key, sm_key, sa_key),
    )


_KEY_OPTIONS: Final = ("m_key", "sm_key", "sa_key")
_KEY_NUMBERS: Final = (*_KEY_OPTIONS, "m_key_protection_level", "m_key_lease_period", "sweep_interval")


def _key_option(options: OptionsFile, name: str) -> MKey:
    value = options.value(name)
    assert isinstance(value, MKey)
    return value


def _number_option(options: OptionsFile, name: str) -> int:
    value = options.value(name)
    assert isinstance(value, int)
    return value


def opensm_processes(
    proc: Path = PROC, default_cache: Path = OPENSM_CACHE, devices: Path = DEVICES, host: HostFiles = THIS_HOST
) -> list[OpensmProcess]:
    """Return the OpenSM processes of *host*, including those in containers, whose files are reached through
    /proc/PID/root. *proc*: the proc file system; *default_cache*: the cache directory of an OpenSM that names none.

    A process counts only if it runs as root, as this user, or as an owner of a umad device in *devices*. Any user can
    call a program opensm, and could otherwise decide which files are read and reported. If *host* is a simulated host
    (`ibkeys.simulated_host`), only its own processes count; on a real host none of a simulated host does. Raises
    HostNotReached.
    """
    own_host = host.simulated_host
    umads = (name for name in (or_none(host.names, devices) or ()) if name.startswith("umad"))
    users = {0, host.own_user()}.union(*(_owner(host, devices / name) for name in umads)) - {_NOBODY}
    found = []
    for pid in host.processes(proc, PROGRAM):
        folder = proc / str(pid)
        status = _read_text(host, folder / "status")
        if not (_owner(host, folder) | _users_in(status)) <= users:
            continue
        words = _read_words(host, folder / "cmdline")
        if words and os.path.basename(words[0]) == PROGRAM and simulated_host_of(host, folder) == own_host:
            process = _read_process(host, folder, words, status, default_cache)
            if _read_words(host, folder / "cmdline"):  # if empty, the process ended while it was read
                found.append(process)
    return found


def _read_process(host: HostFiles, folder: Path, words: list[str], status: str, default_cache: Path) -> OpensmProcess:
    all_words = _read_words(host, folder / "environ")
    environment = None
    if all_words is not None:
        pairs = dict(word.partition("=")[::2] for word in all_words)
        environment = {name: pairs[name] for name in ENVIRONMENT if name in pairs}
    command = read_command_line(words[1:], in_order="POSIXLY_CORRECT" in (environment or {}))
    config = command.last("config")
    umask = re.search(r"^Umask:\s*([0-7]+)$", status, re.MULTILINE)
    unit = re.search(r"/([^/\n]+\.service)$", _read_text(host, folder / "cgroup"), re.MULTILINE)
    ticks = started_at(_read_text(host, folder / "stat"))
    started, start_precision = _read_start(host, ticks)
    view = view_of(host, folder)
    program = or_none(host.link, folder / "exe")
    return OpensmProcess(
        int(folder.name),
        reachable_path(host, folder, view, (environment or {}).get("OSM_CACHE_DIR") or str(default_cache)),
        environment is not None,
        reachable_path(host, folder, view, config) if config else None,
        command,
        environment,
        folder,
        _read_working_directory(host, folder),
        started,
        start_precision,
        unit[1] if unit else None,
        int(umask[1], 8) if umask else None,
        or_none(host.link, folder / "fd" / "1"),
        view,
        program is not None and os.path.basename(program.removesuffix(" (deleted)")) == PROGRAM,
        ticks,
    )


def view_of(host: HostFiles, process: Path) -> View:
    """Return whether a process has the root directory and the mounts of its host. *process*: its folder in /proc.

    Two mount namespaces can have the same root directory and different file systems below it, so both the root
    directory and the namespace are compared.
    """
    try:
        if host.stat(process / "root").identity != host.stat(Path("/")).identity:
            return "own"
        process_namespace, own_namespace = (
            host.link(folder / "ns" / "mnt") for folder in (process, process.parent / "self")
        )
    except OSError:  # the process belongs to another user
        return "unknown"
    return "host" if process_namespace == own_namespace else "own"


def reachable_path(host: HostFiles, process: Path, view: View, path: str) -> Path:
    """Return the path by which ibkeys reaches the file that another process calls *path*. That process may have another
    working directory and root directory. *process*: its folder in /proc. If *view* is "unknown", its root directory is
    assumed to be that of its host. A relative *path* is returned as it is if the working directory cannot be read."""
    if not os.path.isabs(path):
        path = os.path.join(_read_working_directory(host, process) or "", path)
    return process / "root" / path.lstrip("/") if view == "own" and os.path.isabs(path) else Path(path)


def started_at(stat: str) -> int | None:
    """Return the start time of a process, in ticks since its host booted, from the text *stat* of its /proc/PID/stat;
    None if the text has another form.

    Source: proc(5), field 22.
    """
    fields = stat.rpartition(")")[2].split()
    try:
        return int(fields[_START_FIELD])
    except (IndexError, ValueError):
        return None


def is_running(host: HostFiles, process: OpensmProcess) -> bool:
    """Return whether *process* still runs, identified by its ID and start time; False for a zombie, and if the start
    time is not known. Raises HostNotReached. Source: proc(5), fields 3 and 22 of stat.
    """
    stat = _read_text(host, process.folder / "stat")
    state = stat.rpartition(")")[2].split()[:1]
    return state not in ([], ["Z"], ["X"]) and process.ticks is not None and started_at(stat) == process.ticks


def _read_start(host: HostFiles, ticks: int | None) -> tuple[float | None, float]:
    """Return the start time of a process in seconds since 1970, None if not known, and the most seconds by which it may
    be wrong. *ticks*: the start time in ticks since the host booted."""
    try:
        clock = host.clock()
    except (OSError, IndexError, ValueError):
        return None, 1.0
    return (None, 1.0) if ticks is None else (clock.now - clock.uptime + ticks / USER_HZ, clock.precision)


_START_FIELD: Final = 22 - 3
"""Position of field 22 of /proc/PID/stat, counted from the first field after the program's name in parentheses."""


def _users_in(status: str) -> set[int]:
    """Return the user IDs in the text *status* of a process's /proc/PID/status: the real, effective and saved one. A
    setuid program that runs as root also has the user ID of the user who started it."""
    line = re.search(r"^Uid:((?:\s+[0-9]+)+)$", status, re.MULTILINE)
    return {int(word) for word in (line[1].split() if line else ())}


def _owner(host: HostFiles, path: Path) -> set[int]:
    """Return a set with the user ID of a file's owner; for a folder in /proc that is the effective user of the process.
    Return `_NOBODY` in the set if the owner cannot be read."""
    fact = or_none(host.stat, path)
    return {_NOBODY if fact is None else fact.uid}


def _read_working_directory(host: HostFiles, process: Path) -> Path | None:
    """Return the working directory of a process as a path below its own root directory; after chroot, /proc shows it as
    a path of the host. Return None if it cannot be read, or is outside that root directory."""
    found, root = or_none(host.link, process / "cwd"), or_none(host.link, process / "root")
    if found is None:
        return None
    if root is None or root == "/":
        return Path(found)
    return Path("/") / Path(found).relative_to(root) if Path(found).is_relative_to(root) else None


def _read_text(host: HostFiles, path: Path, limit: int = files.SETTINGS) -> str:
    return (or_none(host.read, path, limit) or b"").decode("utf-8", "replace")


def _read_words(host: HostFiles, path: Path) -> list[str] | None:
    text = or_none(host.read, path, files.SETTINGS)
    return None if text is None else text.decode("utf-8", "surrogateescape").split("\0")[:-1]

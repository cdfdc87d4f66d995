"""One running OpenSM with its effective files and options, as far as they can be read on its host.

Nothing is guessed: a value that cannot be read is unknown and has the reason. A key is returned only as an `MKey`,
which is masked when it is printed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from ibkeys import files
from ibkeys.files import or_none
from ibkeys.host.file_access import FileFact
from ibkeys.host.host_files import HostFiles
from ibkeys.host.inside_root import IS_DESCRIPTOR
from ibkeys.managers.opensm import process as opensm_host
from ibkeys.managers.opensm.effective_options import EffectiveOptions, OptionSource
from ibkeys.managers.opensm.options_file import OptionsFile, read_options
from ibkeys.managers.opensm.process import OPENSM_CONFIGS, OpensmProcess, as_seen
from ibkeys.managers.reading import CHANGED, FileReading, judge, judge_absent
from ibkeys.partitions.model import Policy, PolicyProblem
from ibkeys.partitions.reader import parse_policy
from ibkeys.store.opensm import MKEY_FILE

Role = Literal["options", "policy", "log", "output", "dumps", "cache", "keys"]
Lack = Literal["absent", "unnamed", "no-file", "unread"]
"""Why there are no facts of a file: it does not exist, OpenSM has none, it is no file (a terminal), or it could not be
read."""
DUMP_FILE: Final = "opensm-subnet.lst"
"""OpenSM writes it in its dump directory at the end of a heavy sweep without errors."""
_DESCRIPTOR: Final = re.compile(
    r"/dev/(std(in|out|err)|fd)(/|$)|/proc/(self|thread-self)(/|$)|/proc/[0-9]+(/task/[0-9]+)?/fd(/|$)"
)
"""Names of a file descriptor of the process that uses them."""
_DEVICES: Final = Path("/dev")
"""The folder of devices. A discarded log goes to /dev/null, which is no file that anybody could read or close."""
_SHARED_MEMORY: Final = Path("/dev/shm")
"""The folder in /dev for files of all users."""
_NO_FILE: Final = frozenset({"stdout", "stderr", "-", "syslog"})


@dataclass(frozen=True, slots=True)
class InstanceFile:
    """A file or directory of an OpenSM.

    ``path``: its absolute name in the file system of that OpenSM; None if it has none, or it is not known. ``place``:
    its name in the file system of this process. ``source``: the option, file or default that the name is from.
    ``is_certain``: whether there is no reason to doubt it; ``doubt``: that reason, "" for an options file that changed.
    ``fact``: mode, owner and times; None with the reason in ``problem``, and ``lack`` for its kind. ``digest``: SHA-256
    of its bytes, of a policy only.
    """

    role: Role
    path: Path | None
    place: Path | None
    source: OptionSource
    is_certain: bool
    fact: FileFact | None = None
    problem: str = ""
    reading: FileReading = "not-judged"
    digest: str | None = None
    doubt: str = ""
    lack: Lack = "unread"

    @property
    def is_there(self) -> bool | None:
        """Whether the file exists; None if that cannot be determined."""
        if self.fact is not None:
            return True
        return False if self.lack == "absent" else None


HOSTS_OWN: Final = "assumed to be the host's own; run as root to be certain"
"""A process whose root directory cannot be determined may have other files of these names."""
BUILD: Final = "which options file is the default was decided when this OpenSM was built: name it (-F) to be certain"
NO_PROGRAM: Final = "its program could not be examined: only its name is opensm"
CHECK_FIRST: Final = "check the policy (`ibkeys policy-check`)"
"""The advice before every signal to OpenSM: one heavy sweep reads policy and options."""
HOW_TO_MEND: Final = (
    "correct it, or put the former file back, before anything starts a heavy sweep; `ibkeys policy-check FILE` names "
    "every mistake"
)
"""The advice for a policy that OpenSM would refuse: any heavy sweep reads it, also one that a trap starts."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One running OpenSM. ``host``: the name of its host, "" for this one. ``options_file``: the present contents of
    its options file. ``policy``: the present contents of its policy, None if it cannot be read. ``last_sweep``: when
    its last heavy sweep without errors ended, None if that is not known. ``port_guid``, ``state``: its port and its
    SMInfo state, filled in by `ibkeys.managers.report`.
    """

    host: str
    process: OpensmProcess
    files: Mapping[Role, InstanceFile]
    options: EffectiveOptions
    options_file: OptionsFile | None
    policy: Policy | None
    last_sweep: float | None
    port_guid: int | None = None
    state: str | None = None

    @property
    def name(self) -> str:
        """The instance in a few words: host, process and unit."""
        where = f" on {self.host}" if self.host else ""
        unit = f", {self.process.unit}" if self.process.unit else ""
        return f"OpenSM{where} (process {self.process.pid}{unit})"

    @property
    def faulty_policy(self) -> str:
        """The first error of its policy, with file, line and column, and how OpenSM would treat such a file.

        It is "" for a policy that OpenSM accepts, or that is not known. A message must not advise the user to let
        OpenSM read a faulty policy.
        """
        if self.policy is None or self.policy.accepted:
            return ""
        return f"{min(self.policy.errors).located(str(self.files['policy'].path))}; {self.policy.verdict}"

    def unknowns(self) -> Iterator[str]:
        """Yield the files and facts that should have been read of this OpenSM and were not, each in words."""
        if not self.process.program_known:
            yield NO_PROGRAM
        for file in self.files.values():
            if file.is_there is None and file.lack == "unread":
                yield f"its {file.role}: {f'{file.path} ' if file.path is not None else ''}{file.problem}"


@dataclass(frozen=True, slots=True)
class HostEntry:
    """The entry of a host in ``sm.toml``. ``unit``: the systemd unit of the OpenSM that is meant; ``options`` and
    ``policy``: the paths of its files, which are then not searched for. None: not given."""

    unit: str | None = None
    options: Path | None = None
    policy: Path | None = None


@dataclass(slots=True)
class _Look:
    """The examination of the files of one process."""

    host: HostFiles
    process: OpensmProcess
    last_sweep: float | None = None
    contents: dict[Role, bytes] = field(default_factory=dict)

    @property
    def as_root(self) -> str:
        """The advice for reading more files. On another host it does not help to be root here."""
        return "use sudo there, or root@HOST" if self.host.name else "run as root"

    def file(self, role: Role, text: str | None, source: OptionSource, certain: bool) -> InstanceFile:
        """Return a file by the name that the process uses for it. Raises HostNotReached."""
        if not text:
            return InstanceFile(role, None, None, source, certain, problem="none is named", lack="unnamed")
        if role == "log" and text in _NO_FILE:
            return InstanceFile(role, None, None, source, certain, problem=f"goes to {text}", lack="no-file")
        path = Path(text)
        if not path.is_absolute():
            if self.process.cwd is None:
                problem = f"its name is relative to a directory that cannot be read; {self.as_root}"
                return InstanceFile(role, None, None, source, False, problem=problem)
            path = self.process.cwd / path
        path = Path("/" + os.path.normpath(path).lstrip("/"))
        if _DESCRIPTOR.match(str(path)) or (role == "log" and _is_device(path)):
            if role == "log":
                return InstanceFile(role, path, None, source, certain, problem=f"goes to {path}", lack="no-file")
            return InstanceFile(role, path, None, source, certain, problem=f"cannot be read: {IS_DESCRIPTOR}")
        return self.at(
            role, path, as_seen(self.host, self.process.folder, self.process.view, str(path)), source, certain
        )

    def at(self, role: Role, path: Path, place: Path, source: OptionSource, certain: bool) -> InstanceFile:
        """Return a file that is at *place* in the file system of this process. Raises HostNotReached."""
        process = self.process
        file = InstanceFile(role, path, place, source, certain)
        if process.view == "unknown":
            file = replace(file, is_certain=False, doubt=HOSTS_OWN)
        try:
            fact = self.host.stat(place)
        except FileNotFoundError:
            file = replace(file, problem="is not there", lack="absent")
            if role not in _JUDGED:
                return file
            above = or_none(self.host.stat, place.parent)
            return replace(file, reading=judge_absent(above, process.started, process.exact))
        except OSError as error:
            return replace(file, problem=self._reason(error), reading="unknown")
        file = replace(file, fact=fact)
        if role not in _JUDGED:
            return file
        file = replace(file, reading=judge(fact, process.started, process.exact, self.last_sweep))
        try:
            data = self.contents[role] = self.host.read(place, _JUDGED[role])
        except OSError as error:
            return replace(file, problem=self._reason(error))
        return replace(file, digest=hashlib.sha256(data).hexdigest() if role == "policy" else None)

    def _reason(self, error: OSError) -> str:
        if isinstance(error, PermissionError):
            return f"may not be read by this user; {self.as_root}"
        return f"cannot be read: {error.strerror or error}"


_JUDGED: Final[dict[str, int]] = {"options": files.SETTINGS, "policy": files.LARGE}
"""Files that OpenSM reads again while it runs, and how large they may be."""


NO_ENTRY: Final = HostEntry()


def describe(
    process: OpensmProcess, host: HostFiles, entry: HostEntry = NO_ENTRY, shares_dumps: bool = False
) -> Instance:
    """Return one OpenSM with the facts that can be read of it. *host*: the host that it runs on. *shares_dumps*:
    another OpenSM writes into its dump directory too, so nothing there tells when its own sweeps ended. Raises
    HostNotReached.

    Source: opensm main.c, osm_subnet.c.
    """
    look = _Look(host, process)
    first = _options_file(look, entry)  # names the dump directory, which tells when a sweep last ended
    options = _options(look, first)
    dumps = _named_by(look, "dumps", options, "dump_files_dir")
    look.last_sweep = None if shares_dumps else _last_sweep(look, dumps)
    options_file = _options_file(look, entry) if look.last_sweep is not None else first
    policy = _policy(look, options, entry)
    cache, keys = _cache_file(look, "cache"), _cache_file(look, "keys", MKEY_FILE)
    found = [options_file, policy, _named_by(look, "log", options, "log_file"), _output(look), dumps, cache, keys]
    return Instance(
        host.name,
        process,
        {each.role: each for each in found},
        options,
        options.file,
        _parsed(look, policy) if "policy" in look.contents else None,
        look.last_sweep,
    )


def _parsed(look: _Look, file: InstanceFile) -> Policy:
    """Return a policy. Its problems show none of its text, because a process may name any file as its policy.

    The text is shown if the user named the file, or if this process runs as the same user as that OpenSM: the text of
    root's OpenSM is shown to root.
    """
    policy = parse_policy(look.contents["policy"], str(file.path))
    owner = or_none(look.host.stat, look.process.folder)
    if file.source == "sm.toml" or (owner is not None and owner.uid == look.host.own_user()):
        return policy

    def without_text(problem: PolicyProblem) -> PolicyProblem:
        return replace(problem, message=f"{problem.severity} in a file that OpenSM names, its text is not shown")

    errors, warnings = (tuple(map(without_text, found)) for found in (policy.errors, policy.warnings))
    return replace(policy, errors=errors, warnings=warnings)


def _options_file(look: _Look, entry: HostEntry) -> InstanceFile:
    if entry.options is not None:
        return look.file("options", str(entry.options), "sm.toml", True)
    text = look.process.command.last("config")
    if text is not None:
        return look.file("options", text, "command line", True)
    found = [look.file("options", str(path), "default", True) for path in OPENSM_CONFIGS]
    there = [each for each in found if each.is_there is not False]
    if len(there) > 1:  # which of them is the default was decided when this OpenSM was built
        return InstanceFile("options", None, None, "not known", False, problem="could be any of several: name it (-F)")
    if not there or there[0].path == OPENSM_CONFIGS[0]:
        return there[0] if there else found[0]
    return replace(there[0], is_certain=False, doubt=there[0].doubt or BUILD)


def _options(look: _Look, file: InstanceFile) -> EffectiveOptions:
    read: OptionsFile | None = None
    if "options" in look.contents and not file.problem:
        read = read_options(look.contents["options"])
    elif file.is_there is False:
        read = OptionsFile()
    environment = look.process.environment
    tmp_dir = None if environment is None else environment.get("OSM_TMP_DIR", "")
    return EffectiveOptions(look.process.command, read, file.reading in CHANGED or bool(file.doubt), tmp_dir)


def _policy(look: _Look, options: EffectiveOptions, entry: HostEntry) -> InstanceFile:
    if entry.policy is not None:
        return look.file("policy", str(entry.policy), "sm.toml", True)
    found = _named_by(look, "policy", options, "partition_config_file")
    if found.source == "default" and found.is_there is False:  # a distribution may keep it beside its options file
        for folder in (path.parent for path in OPENSM_CONFIGS):
            other = look.file("policy", str(folder / "partitions.conf"), "default", found.is_certain)
            if other.is_there:
                return other
    return found


def _named_by(look: _Look, role: Role, options: EffectiveOptions, name: str) -> InstanceFile:
    setting = options.setting(name)
    if setting.source == "not known":
        why = f"the options file or the environment that says so cannot be read; {look.as_root}"
        return InstanceFile(role, None, None, "not known", False, problem=why)
    return look.file(role, str(setting.value or ""), setting.source, setting.is_certain)


def _cache_file(look: _Look, role: Role, name: str = "") -> InstanceFile:
    if not look.process.cache_known:
        why = f"the environment that names its directory cannot be read; {look.as_root}"
        return InstanceFile(role, None, None, "not known", False, problem=why)
    named = (look.process.environment or {}).get("OSM_CACHE_DIR")
    folder = Path(named or opensm_host.OPENSM_CACHE)
    return look.file(role, str(folder / name), "environment" if named else "default", True)


def _output(look: _Look) -> InstanceFile:
    """Return the file that standard output goes to, since keys are printed there."""
    output = look.process.output
    if output is None:
        return InstanceFile("output", None, None, "not known", False, problem=f"cannot be read; {look.as_root}")
    if not output.startswith("/") or _is_device(Path(output)):
        return InstanceFile("output", None, None, "process", True, problem=f"goes to {output}", lack="no-file")
    return look.file("output", output, "process", True)


def _is_device(path: Path) -> bool:
    return path.is_relative_to(_DEVICES) and not path.is_relative_to(_SHARED_MEMORY)


def _last_sweep(look: _Look, dumps: InstanceFile) -> float | None:
    """Return when the last heavy sweep without errors ended, if this process was running then."""
    if dumps.place is None:
        return None
    fact, started = or_none(look.host.stat, dumps.place / DUMP_FILE), look.process.started
    written = fact.written if fact is not None else None
    return written if written is not None and started is not None and written > started else None

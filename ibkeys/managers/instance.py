"""One running OpenSM with its effective files and options, as far as they can be read on its host.

A value that cannot be read is unknown and has the reason. A path that had to be assumed, and may be wrong, is marked as
uncertain, with the doubt. A key is returned only as an `MKey`, which is masked when it is printed.
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
from ibkeys.managers.opensm.process import OPENSM_CONFIGS, OpensmProcess, reachable_path
from ibkeys.managers.reading import CHANGED, WORDS, FileReading, judge, judge_absent
from ibkeys.partitions.model import Policy, PolicyProblem
from ibkeys.partitions.reader import parse_policy
from ibkeys.store.opensm import MKEY_FILE

Role = Literal["options", "policy", "log", "output", "dumps", "cache", "keys"]
NoFactsReason = Literal["absent", "unnamed", "no-file", "unread"]
"""The reason why there are no facts of a file: it does not exist ("absent"), no file is set in this OpenSM ("unnamed"),
it is a terminal or device ("no-file"), or it could not be read ("unread")."""
DUMP_FILE: Final = "opensm-subnet.lst"
"""The file that OpenSM writes into its dump directory at the end of a heavy sweep without errors."""
_DESCRIPTOR: Final = re.compile(
    r"/dev/(std(in|out|err)|fd)(/|$)|/proc/(self|thread-self)(/|$)|/proc/[0-9]+(/task/[0-9]+)?/fd(/|$)"
)
"""Paths that mean a file descriptor of the process that opens them."""
_DEVICES: Final = Path("/dev")
"""The folder of devices. A log that OpenSM discards goes to /dev/null, from which no key can be read."""
_SHARED_MEMORY: Final = Path("/dev/shm")
"""The folder in /dev for files of all users."""
_NO_FILE: Final = frozenset({"stdout", "stderr", "-", "syslog"})


@dataclass(frozen=True, slots=True)
class InstanceFile:
    """A file or directory of an OpenSM.

    ``path``: its absolute path as that OpenSM opens it; None if it has no path, or the path is not known. ``place``:
    the path by which ibkeys reaches the same file on the host, such as one below /proc/PID/root. ``source``: where the
    path is from: command line, options file, default and so on. ``is_certain``: whether ``path`` is certain; ``doubt``:
    the reason if it is not; "" if an options file that changed is the reason, or ``problem`` has it. ``fact``: mode,
    owner and times; None if there are none, with the reason in words as ``problem`` and its kind as
    ``no_facts_reason``. If there are facts, ``problem`` says why the bytes could not be read, or is "". ``reading``:
    whether OpenSM has read the present version. ``digest``: SHA-256 of the bytes, for a policy only. ``written_by``:
    the operation that wrote a policy, by the journal (`ibkeys.managers.journaled_policy`); None: not known.
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
    no_facts_reason: NoFactsReason = "unread"
    written_by: int | None = None

    @property
    def reading_in_words(self) -> str:
        """``reading`` in words, with the operation that wrote the file, if that is known."""
        return WORDS[self.reading].format(operation=self.written_by)

    @property
    def is_there(self) -> bool | None:
        """Whether the file exists; None if that cannot be determined."""
        if self.fact is not None:
            return True
        return False if self.no_facts_reason == "absent" else None


ASSUMED_HOSTS_OWN: Final = "assumed to be the host's own; run as root to be certain"
"""The doubt about a path if the root directory of the process is not known: in that root it may be another file."""
DEFAULT_UNCERTAIN: Final = (
    "the default path of the options file was decided when this OpenSM was built: name it (-F) to be certain"
)
PROGRAM_UNKNOWN: Final = "its program could not be examined: only its name is opensm"
CHECK_FIRST: Final = "check the policy (`ibkeys policy-check`)"
"""The advice before every signal to OpenSM: one heavy sweep reads policy and options."""
HOW_TO_MEND: Final = (
    "correct it, or put the former file back, before anything starts a heavy sweep; `ibkeys policy-check FILE` names "
    "every mistake"
)
"""The advice for a policy that OpenSM would refuse: every heavy sweep reads it, even one that a trap started."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One running OpenSM. ``host``: the name of its host, "" for this one. ``options``: the options in force.
    ``options_file``, ``policy``: the present contents of these files, None if they cannot be read. ``last_sweep``: when
    its last heavy sweep without errors ended, in seconds since 1970; None if that is not known. ``port_guid``: the GUID
    of its port; ``state``: its SMInfo state in words. `ibkeys.managers.report` sets these two; None: not known.
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
        """A name for messages: host, process ID and systemd unit of this OpenSM."""
        where = f" on {self.host}" if self.host else ""
        unit = f", {self.process.unit}" if self.process.unit else ""
        return f"OpenSM{where} (process {self.process.pid}{unit})"

    @property
    def policy_fault(self) -> str:
        """The first error of the policy, with file, line and column, and how OpenSM would treat such a file; "" if
        OpenSM accepts the policy, or it is not known.

        If this is not "", a message must not advise the user to let OpenSM read the policy.
        """
        if self.policy is None or self.policy.accepted:
            return ""
        return f"{min(self.policy.errors).located(str(self.files['policy'].path))}; {self.policy.verdict}"

    def unknowns(self) -> Iterator[str]:
        """Yield, in words, the parts of this OpenSM that could not be examined: its program, and each file whose facts
        could not be read."""
        if not self.process.program_known:
            yield PROGRAM_UNKNOWN
        for file in self.files.values():
            if file.is_there is None and file.no_facts_reason == "unread":
                yield f"its {file.role}: {f'{file.path} ' if file.path is not None else ''}{file.problem}"


@dataclass(frozen=True, slots=True)
class HostEntry:
    """The entry of a host in ``sm.toml``. ``unit``: the systemd unit of the only OpenSM to examine; ``options`` and
    ``policy``: the paths of its files, in place of those that ibkeys would find. None: not given."""

    unit: str | None = None
    options: Path | None = None
    policy: Path | None = None


@dataclass(slots=True)
class _FileReader:
    """Reads the files of one OpenSM process. ``last_sweep``: when its last heavy sweep without errors ended, None if
    not known; ``contents``: the bytes of the options file and the policy, when they were read."""

    host: HostFiles
    process: OpensmProcess
    last_sweep: float | None = None
    contents: dict[Role, bytes] = field(default_factory=dict)

    @property
    def as_root(self) -> str:
        """The advice for a file that this user may not read. For another host, being root on this host does not
        help."""
        return "use sudo there, or root@HOST" if self.host.name else "run as root"

    def file(self, role: Role, text: str | None, source: OptionSource, is_certain: bool) -> InstanceFile:
        """Return the facts of a file. *text*: its name as the process uses it, None or "" if it has none; *source*:
        where the name is from; *is_certain*: whether the name is certain. Raises HostNotReached."""
        if not text:
            return InstanceFile(role, None, None, source, is_certain, problem="is not named", no_facts_reason="unnamed")
        if role == "log" and text in _NO_FILE:
            return InstanceFile(
                role, None, None, source, is_certain, problem=f"goes to {text}", no_facts_reason="no-file"
            )
        path = Path(text)
        if not path.is_absolute():
            if self.process.cwd is None:
                problem = f"its name is relative to a directory that cannot be read; {self.as_root}"
                return InstanceFile(role, None, None, source, False, problem=problem)
            path = self.process.cwd / path
        path = Path("/" + os.path.normpath(path).lstrip("/"))
        if _DESCRIPTOR.match(str(path)) or (role == "log" and _is_device(path)):
            if role == "log":
                return InstanceFile(
                    role, path, None, source, is_certain, problem=f"goes to {path}", no_facts_reason="no-file"
                )
            return InstanceFile(role, path, None, source, is_certain, problem=f"cannot be read: {IS_DESCRIPTOR}")
        return self.at(
            role, path, reachable_path(self.host, self.process.folder, self.process.view, str(path)), source, is_certain
        )

    def at(self, role: Role, path: Path, place: Path, source: OptionSource, is_certain: bool) -> InstanceFile:
        """Return the facts of a file. *path*: its path for the OpenSM; *place*: the path by which ibkeys reaches it;
        *source*, *is_certain*: as in `file`. Raises HostNotReached."""
        process = self.process
        file = InstanceFile(role, path, place, source, is_certain)
        if process.view == "unknown":
            file = replace(file, is_certain=False, doubt=ASSUMED_HOSTS_OWN)
        try:
            fact = self.host.stat(place)
        except FileNotFoundError:
            file = replace(file, problem="is not there", no_facts_reason="absent")
            if role not in _JUDGED:
                return file
            above = or_none(self.host.stat, place.parent)
            return replace(file, reading=judge_absent(above, process.started, process.start_precision))
        except OSError as error:
            return replace(file, problem=self._problem(error), reading="unknown")
        file = replace(file, fact=fact)
        if role not in _JUDGED:
            return file
        file = replace(file, reading=judge(fact, process.started, process.start_precision, self.last_sweep))
        try:
            data = self.contents[role] = self.host.read(place, _JUDGED[role])
        except OSError as error:
            return replace(file, problem=self._problem(error))
        return replace(file, digest=hashlib.sha256(data).hexdigest() if role == "policy" else None)

    def _problem(self, error: OSError) -> str:
        if isinstance(error, PermissionError):
            return f"may not be read by this user; {self.as_root}"
        return f"cannot be read: {error.strerror or error}"


_JUDGED: Final[dict[str, int]] = {"options": files.SETTINGS, "policy": files.LARGE}
"""The files that OpenSM reads again while it runs, each with the most bytes that are read of it."""


NO_ENTRY: Final = HostEntry()


def read_instance(
    process: OpensmProcess, host: HostFiles, entry: HostEntry = NO_ENTRY, shares_dumps: bool = False
) -> Instance:
    """Return one OpenSM with all its facts that can be read. *host*: the files of the host that it runs on; *entry*:
    that host's entry in ``sm.toml``. *shares_dumps*: whether another OpenSM writes into the same dump directory, so
    that nothing there shows when this one's sweeps ended. Raises HostNotReached.

    Source: opensm main.c, osm_subnet.c.
    """
    reader = _FileReader(host, process)
    # The options file is examined twice: it names the dump directory, which shows when the last sweep ended; and that
    # time shows whether OpenSM has read the present options file.
    first = _find_options_file(reader, entry)
    options = _read_options(reader, first)
    dumps = _find_named_by_option(reader, "dumps", options, "dump_files_dir")
    reader.last_sweep = None if shares_dumps else _read_last_sweep(reader, dumps)
    options_file = _find_options_file(reader, entry) if reader.last_sweep is not None else first
    policy = _find_policy(reader, options, entry)
    cache, keys = _find_cache_file(reader, "cache"), _find_cache_file(reader, "keys", MKEY_FILE)
    found = [
        options_file,
        policy,
        _find_named_by_option(reader, "log", options, "log_file"),
        _find_output(reader),
        dumps,
        cache,
        keys,
    ]
    return Instance(
        host.name,
        process,
        {each.role: each for each in found},
        options,
        options.file,
        _parse_policy(reader, policy) if "policy" in reader.contents else None,
        reader.last_sweep,
    )


def _parse_policy(reader: _FileReader, file: InstanceFile) -> Policy:
    """Return the policy that was read. Its errors and warnings quote text of the file only if the user named the file,
    or if ibkeys runs as the same user as the OpenSM. Otherwise the text is left out: a process can name any file as its
    policy, and ibkeys may read files as root that others must not see.
    """
    policy = parse_policy(reader.contents["policy"], str(file.path))
    owner = or_none(reader.host.stat, reader.process.folder)
    if file.source == "sm.toml" or (owner is not None and owner.uid == reader.host.own_user()):
        return policy

    def without_text(problem: PolicyProblem) -> PolicyProblem:
        return replace(problem, message=f"{problem.severity} in a file that OpenSM names, its text is not shown")

    errors, warnings = (tuple(map(without_text, found)) for found in (policy.errors, policy.warnings))
    return replace(policy, errors=errors, warnings=warnings)


def _find_options_file(reader: _FileReader, entry: HostEntry) -> InstanceFile:
    if entry.options is not None:
        return reader.file("options", str(entry.options), "sm.toml", True)
    text = reader.process.command.last("config")
    if text is not None:
        return reader.file("options", text, "command line", True)
    found = [reader.file("options", str(path), "default", True) for path in OPENSM_CONFIGS]
    existing = [each for each in found if each.is_there is not False]
    if len(existing) > 1:  # the default path is a build option of OpenSM, so any of them may be the one in use
        return InstanceFile("options", None, None, "not known", False, problem="could be any of several: name it (-F)")
    if not existing or existing[0].path == OPENSM_CONFIGS[0]:
        return existing[0] if existing else found[0]
    return replace(existing[0], is_certain=False, doubt=existing[0].doubt or DEFAULT_UNCERTAIN)


def _read_options(reader: _FileReader, file: InstanceFile) -> EffectiveOptions:
    read: OptionsFile | None = None
    if "options" in reader.contents and not file.problem:
        read = read_options(reader.contents["options"])
    elif file.is_there is False:
        read = OptionsFile()
    environment = reader.process.environment
    tmp_dir = None if environment is None else environment.get("OSM_TMP_DIR", "")
    return EffectiveOptions(reader.process.command, read, file.reading in CHANGED or bool(file.doubt), tmp_dir)


def _find_policy(reader: _FileReader, options: EffectiveOptions, entry: HostEntry) -> InstanceFile:
    if entry.policy is not None:
        return reader.file("policy", str(entry.policy), "sm.toml", True)
    found = _find_named_by_option(reader, "policy", options, "partition_config_file")
    # Some distributions build OpenSM so that its default policy is in the folder of its options file.
    if found.source == "default" and found.is_there is False:
        for folder in (path.parent for path in OPENSM_CONFIGS):
            other = reader.file("policy", str(folder / "partitions.conf"), "default", found.is_certain)
            if other.is_there:
                return other
    return found


def _find_named_by_option(reader: _FileReader, role: Role, options: EffectiveOptions, name: str) -> InstanceFile:
    setting = options.setting(name)
    if setting.source == "not known":
        why = f"the options file or the environment that says so cannot be read; {reader.as_root}"
        return InstanceFile(role, None, None, "not known", False, problem=why)
    return reader.file(role, str(setting.value or ""), setting.source, setting.is_certain)


def _find_cache_file(reader: _FileReader, role: Role, name: str = "") -> InstanceFile:
    if not reader.process.cache_known:
        why = f"the environment that names its directory cannot be read; {reader.as_root}"
        return InstanceFile(role, None, None, "not known", False, problem=why)
    named = (reader.process.environment or {}).get("OSM_CACHE_DIR")
    folder = Path(named or opensm_host.OPENSM_CACHE)
    return reader.file(role, str(folder / name), "environment" if named else "default", True)


def _find_output(reader: _FileReader) -> InstanceFile:
    """Return the file that OpenSM's standard output goes to. OpenSM prints keys there."""
    output = reader.process.output
    if output is None:
        return InstanceFile("output", None, None, "not known", False, problem=f"cannot be read; {reader.as_root}")
    if not output.startswith("/") or _is_device(Path(output)):
        return InstanceFile(
            "output", None, None, "process", True, problem=f"goes to {output}", no_facts_reason="no-file"
        )
    return reader.file("output", output, "process", True)


def _is_device(path: Path) -> bool:
    return path.is_relative_to(_DEVICES) and not path.is_relative_to(_SHARED_MEMORY)


def _read_last_sweep(reader: _FileReader, dumps: InstanceFile) -> float | None:
    """Return when the last heavy sweep without errors ended, in seconds since 1970; None if that is not known, or the
    process started after it. *dumps*: the dump directory."""
    if dumps.place is None:
        return None
    fact, started = or_none(reader.host.stat, dumps.place / DUMP_FILE), reader.process.started
    written = fact.written if fact is not None else None
    return written if written is not None and started is not None and written > started else None

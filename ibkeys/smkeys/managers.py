"""The OpenSMs that a change of sm_key and sa_key goes through: every SM of the fabric, each with its options file.

An OpenSM that is not reached would keep the former sm_key. It and the others would then ignore each other, and after
its polling time there would be two masters. Source: opensm osm_sminfo_rcv.c, osm_sm_state_mgr.c; a running OpenSM,
observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from ibkeys.change.through_sm import all_sms_for, master_for
from ibkeys.change.writer import Writer
from ibkeys.errors import Refused, UsageError
from ibkeys.host.opensm_options import read_options
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.printable import named
from ibkeys.sm.files.opensm_file import OpensmFile, merged
from ibkeys.sm.files.options_files import REFUSAL, notes_on_idle_hosts, options_file, refuse_strangers
from ibkeys.sm.managers import Manager, managers_of
from ibkeys.sm.options import Setting
from ibkeys.sm.site import MASTER, Reached, Running, taking_part
from ibkeys.topology.model import Topology

Kind = Literal["sm_key", "sa_key"]
KINDS: Final[tuple[Kind, ...]] = ("sm_key", "sa_key")
DEFAULT: Final = SMKey(1)
"""OpenSM's default of both."""
_POLLING: Final = ("polling_retry_number", "sminfo_polling_timeout")


def keys_in(data: bytes) -> dict[Kind, SMKey]:
    """Return sm_key and sa_key of an OpenSM that starts with the options file *data*."""
    options = read_options(data)
    found: dict[Kind, SMKey] = {}
    for kind in KINDS:
        value = options.value(kind)
        assert isinstance(value, MKey)
        found[kind] = SMKey(value.reveal())
    return found


@dataclass(slots=True)
class KeyManagers:
    """All SMs of the fabric. ``files``: their options files, that of the master last; ``managers``: their ports;
    ``window``: seconds after which the first of them takes over from a master with another sm_key, None if there is
    only one SM; ``longest``: the same of the last of them, 0 with one SM; ``notes``: what is not certain.
    """

    files: list[OpensmFile]
    managers: tuple[Manager, ...]
    window: float | None
    longest: float
    notes: list[str] = field(default_factory=list)

    @property
    def opensms(self) -> Iterator[Running]:
        """Every OpenSM."""
        return (each for file in self.files for each in file.opensms)

    def verify(self) -> None:
        """Look again whether each OpenSM is the same process, with its options file as it was seen.

        Raises Refused (``stale``), HostNotReached.
        """
        for each in self.opensms:
            each.verify_process()
            each.verify_options()


def find_key_managers(writer: Writer, reached: Sequence[Reached], found: Topology, goes_on: bool) -> KeyManagers:
    """Return the OpenSMs of the fabric that a sweep with SMInfo *found*. *goes_on*: a change that was interrupted goes
    on, so that there may be several masters by now.

    Raises Refused (``master``, ``unknown-sm``, `REFUSAL`, ``file``, ``signal``) if there is no one master, if an SM is
    on no host that was reached, or an OpenSM is of an unknown kind or could not be given a key; UsageError if an option
    is not known, FileError if a file is not to be reached, and HostNotReached.
    """
    if goes_on:
        report = all_sms_for(writer, managers_of(found), reached)
        if not report.masters:
            raise Refused("no subnet manager says that it is master; see `ibkeys sm-show`", MASTER)
    else:
        report = master_for(writer, managers_of(found), reached).report
    managers = list(taking_part(report, reached))
    refuse_strangers(managers, report.hosts, "an SM that keeps the former sm_key becomes a second master")
    # That of the master last.
    opensms = [_fit(each) for _, each in sorted(managers, key=lambda each: each[0].is_master) if each is not None]
    settings = [each.settings(_POLLING, "the time after which a standby takes over")[0] for each in opensms]
    polling = [_seconds(each) for each in settings] if len(opensms) > 1 else []
    files, notes = _files(opensms)
    _refuse_one_file_of_several_hosts(files)
    _refuse_several_files_of_another_host(files)
    if polling and not all(setting.is_certain for each in settings for setting in each.values()):
        notes.append(
            "the time after which a standby takes over is that in the options files now; it is not known "
            "whether each OpenSM has read it"
        )
    notes += notes_on_idle_hosts(report.hosts)
    ports = tuple(manager for manager, _ in managers)
    return KeyManagers(files, ports, min(polling, default=None), max(polling, default=0.0), notes)


def _fit(running: Running) -> Running:
    """Return an OpenSM whose keys can be changed by its options file. Raises Refused, UsageError."""
    instance = running.instance
    if not instance.process.program_known:
        raise UsageError(f"{instance.name}: it cannot be verified that it is an OpenSM; run as root")
    told = [kind for kind in KINDS if instance.options.setting(kind).source == "command line"]
    if told:
        raise Refused(f"{instance.name} has its {named(told)} from its command line", REFUSAL).unchanged(
            "put it into the options file instead and restart that OpenSM",
            "Every user of the host sees a command line.",
        )
    return running


def _seconds(polling: Mapping[str, Setting]) -> float:
    """Return for how long a standby with these options asks a master without success before it takes over."""
    retries, milliseconds = (polling[name].value for name in _POLLING)
    assert isinstance(retries, int)
    assert isinstance(milliseconds, int)
    return retries * milliseconds / 1000


def _files(opensms: Sequence[Running]) -> tuple[list[OpensmFile], list[str]]:
    """Return the files, each once, for OpenSMs of one host may share one; and notes on what is not certain."""
    found = [options_file(each, REFUSAL) for each in opensms]
    return merged(conf for conf, _ in found), [doubt for _, doubts in found for doubt in doubts]


def _refuse_one_file_of_several_hosts(files: Sequence[OpensmFile]) -> None:
    """Raise Refused if hosts have one file from a server: it is replaced once, and the others see that late."""
    seen: dict[tuple[int, int, bytes], OpensmFile] = {}
    for file in files:
        found = file.seen.found
        if found is None:
            continue
        other = seen.setdefault((found.inode, found.modified_ns, found.data), file)
        if other is not file and other.machine.name != file.machine.name:
            raise Refused(
                f"{other.name} and {file.name} are the same file, which both hosts share: give "
                "each host its own options file",
                "file",
            ).unchanged()


def _refuse_several_files_of_another_host(files: Sequence[OpensmFile]) -> None:
    """Raise Refused if two files of one other host would have to wait beside each other: it holds one."""
    seen: dict[str, OpensmFile] = {}
    for file in files:
        other = seen.setdefault(file.machine.name, file)
        if file.machine.name and other is not file:
            raise Refused(f"{other.name} and {file.name} belong to two OpenSMs of one host", "file").unchanged(
                "stop one of them, or run ibkeys on that host",
                "Both files would have to be replaced at the same time, but only one can be prepared on another host.",
            )

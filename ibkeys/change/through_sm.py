"""Finding the OpenSMs through which apply, undo, harden, and changes of M_Keys and SM_Keys are made.

An SM with options that OpenSM 3.3 does not have is refused, by the interlock ``unknown-sm``. The locks on the hosts are
taken before anything is written there. The last holder of a lock may have written after this command read. So after
each new lock everything is read again, until no lock is new.

A change of keys goes through every SM that is or may become master: an SM that is not reached would keep the former
keys, and become a second master or lose the fabric. Nothing overrides that. Source: opensm osm_sminfo_rcv.c,
osm_sm_state_mgr.c; a running OpenSM, observed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys.change.consent import Objection
from ibkeys.change.former_managers import managers_away
from ibkeys.change.host_locks import take_host_locks
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused
from ibkeys.managers.files.opensm_file import OpensmFile, merge_files
from ibkeys.managers.files.options_files import REFUSAL, notes_on_idle_hosts, options_file, refuse_unreached_sms
from ibkeys.managers.instance import Instance
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.opensm.effective_options import EffectiveOption
from ibkeys.managers.report import SmReport
from ibkeys.managers.site import MASTER, FoundSms, ReachedHost, RunningOpensm, find_sms, stale_manager
from ibkeys.managers.subnet_managers import Manager
from ibkeys.printable import named
from ibkeys.store.journal import Journal

POLLING: Final = ("polling_retry_number", "sminfo_polling_timeout")
"""The options that decide when a standby takes over."""
ReadOptions = Callable[[RunningOpensm, OpensmFile], tuple[Mapping[str, EffectiveOption], list[str]]]
"""A function that returns the options of an OpenSM that a change depends on, and notes on uncertain ones; raises
UsageError."""


def find_and_lock_sms(
    writer: ChangeWriter, managers: Sequence[Manager], reached: Sequence[ReachedHost], several_masters: bool = False
) -> FoundSms:
    """Find the SMs, take the locks on all of their hosts until *writer* is closed, and return the SMs. The journal
    remembers all of them with the operation that *writer* begins.

    Raises the errors of `find_sms` and `take_host_locks`; Refused (``unknown-sm``) if an SM that takes part is of an
    unknown kind, and the user has not overridden that.
    """
    while True:
        found_sms = find_sms(managers, reached, writer.fabric.own_guid, several_masters)
        writer.managers |= {f"0x{each.guid:016x}": str(each.port) for each in found_sms.report.managers or ()}
        for objection in _objections([each.instance for each in found_sms.opensms]):
            if not writer.consent.covers(objection.interlock):
                raise objection.refusal()
        if not take_host_locks(writer, found_sms.opensms):
            return found_sms


def _objections(instances: Sequence[Instance]) -> Iterator[Objection]:
    """Yield ``unknown-sm`` for each OpenSM whose options file has options that OpenSM 3.3 does not have: it may be
    another vendor's SM."""
    for instance in instances:
        file = instance.options.file
        if file is not None and file.unknown:
            yield Objection(
                "unknown-sm",
                f"{instance.files['options'].path}, the options file of {instance.name}, has options that OpenSM 3.3 "
                f"does not have ({named(file.unknown)}): it may be another vendor's SM, with which ibkeys was never "
                "tried; if it is OpenSM 3.3, remove the lines, which it ignores",
                "How another SM reads its files, writes the tables and sets the keys is not known.",
            )


# --- for a change of keys ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ManagedOpensm:
    """One OpenSM that takes part in a change of keys. ``sm``: its SM in the fabric; ``file``: its options file, which
    others of its host may share; ``options``: the options that the change depends on."""

    running: RunningOpensm
    sm: Manager
    file: OpensmFile
    options: Mapping[str, EffectiveOption]

    @property
    def machine(self) -> Machine:
        """Its host."""
        return self.running.machine

    @property
    def name(self) -> str:
        """The OpenSM, in words."""
        return self.running.instance.name

    @property
    def takeover_seconds(self) -> float:
        """Seconds for which this OpenSM, as a standby, polls a master without an answer before it takes over. Source:
        opensm osm_sm_state_mgr.c (sm_state_mgr_send_master_sm_info_req)."""
        retries, milliseconds = (self.options[name].value for name in POLLING)
        assert isinstance(retries, int)
        assert isinstance(milliseconds, int)
        return retries * milliseconds / 1000

    @property
    def cache(self) -> Path:
        """The folder of its key files, by a path that stays valid when this process has ended. Raises UsageError,
        FileError, HostNotReached."""
        return self.running.place_of("cache")[0]


@dataclass(slots=True)
class OpensmManagers:
    """All OpenSMs of a change of keys. ``report``: the report on all hosts; ``all``: the OpenSMs, the master last;
    ``files``: their options files, each once, the master's last; ``notes``: uncertain facts, in words."""

    report: SmReport
    all: tuple[ManagedOpensm, ...]
    files: list[OpensmFile]
    notes: list[str]

    @property
    def master(self) -> ManagedOpensm:
        """The master OpenSM."""
        return self.all[-1]

    @property
    def standbys(self) -> tuple[ManagedOpensm, ...]:
        """All but the master."""
        return self.all[:-1]

    @property
    def sms(self) -> tuple[Manager, ...]:
        """The SMs of these OpenSMs in the fabric."""
        return tuple(each.sm for each in self.all)

    @property
    def takeover_seconds(self) -> list[float]:
        """The seconds after which each of them takes over from a master that it does not recognise; empty if there is
        one SM."""
        return [each.takeover_seconds for each in self.all] if self.standbys else []

    def verify_same_master(self, other: OpensmManagers) -> None:
        """Raise Refused (``stale``) if another process is master *other*."""
        if self._identity_of_master() != other._identity_of_master():
            raise stale_manager(f"the master was {self.master.name}; now it is {other.master.name}")

    def _identity_of_master(self) -> tuple[object, ...]:
        process = self.master.running.instance.process
        return self.master.machine.name, process.pid, process.ticks, self.master.sm.guid


def find_opensms(
    writer: ChangeWriter,
    reached: Sequence[ReachedHost],
    managers: Sequence[Manager],
    read_options: ReadOptions,
    otherwise: str,
    several_masters: bool = False,
) -> OpensmManagers:
    """Take the locks on the hosts of *managers*, the SMs that a sweep found, and return their OpenSMs. *read_options*:
    reads the options of each OpenSM; *otherwise*: the effect, in words, of an SM that was not reached;
    *several_masters*: there may be more than one master, as after an interrupted change.

    Raises Refused (``master``, ``unknown-sm``, `REFUSAL`, ``file``, ``signal``) if there is not exactly one master, an
    SM is on no host that was reached, or an OpenSM is of an unknown kind or would not read its file; UsageError if an
    option is not known, FileError if a file cannot be reached, and HostNotReached.
    """
    found_sms = find_and_lock_sms(writer, managers, reached, several_masters)
    if not found_sms.report.masters:
        raise Refused("no subnet manager says that it is master; see `ibkeys sm-show`", MASTER)
    refuse_unreached_sms(found_sms.sms, found_sms.report.hosts, otherwise)
    opensms, notes = [], list[str]()
    for sm, running in found_sms.sms:
        assert running is not None  # `refuse_unreached_sms` has refused the others
        file, doubts = options_file(running, REFUSAL)
        options, uncertain = read_options(running, file)
        opensms.append(ManagedOpensm(running, sm, file, options))
        notes += [*uncertain, *doubts]
    files = {file.key: file for file in merge_files(each.file for each in opensms)}
    for each in opensms:
        each.file = files[
            each.file.key
        ]  # OpenSMs that share a file share this object too, so that it has the bytes that were last written
    notes += notes_on_idle_hosts(found_sms.report.hosts)
    with Journal.read(writer.fabric.stores.journal) as journal:
        away = managers_away(journal, writer.managers, "keys")
    notes += (*away.unaccepted, *away.accepted)
    return OpensmManagers(found_sms.report, tuple(opensms), [*files.values()], notes)

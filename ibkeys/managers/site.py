"""The reachable hosts with OpenSMs, the master among them, and checking that it has not changed.

A change through OpenSM requires exactly one known master whose process was found. Before each step both are checked
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ibkeys.arguments import given
from ibkeys.errors import FileError, HostNotReached, IbkeysError, Refused, StoreError, UsageError
from ibkeys.fabric.live import LiveFabric
from ibkeys.fabric.subnet_manager import find_subnet_manager
from ibkeys.files import or_none
from ibkeys.host.file_access import FileFact
from ibkeys.managers.elsewhere.ssh import SshHost
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.instance import CHECK_FIRST, Instance, Role
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.machines.opening import open_machine
from ibkeys.managers.opensm.effective_options import EffectiveOption, as_written
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.report import SmReport, join, look_at_host
from ibkeys.managers.subnet_managers import Manager
from ibkeys.printable import named

KEPT_HOSTS: Final = "sm_hosts"
"""The name under which the journal keeps the hosts of an operation."""
MASTER: Final = "master"
"""The `Refused.interlock` if there is no single master to change the fabric through; nothing overrides it."""
_LOCKED: Final[tuple[Role, ...]] = ("options", "policy")
_WORDS: Final[Mapping[Role, str]] = {
    "options": "the options file",
    "policy": "the policy",
    "log": "the log",
    "output": "the standard output",
    "dumps": "the folder for dumps",
    "cache": "the folder of the key files",
    "keys": "the guid2mkey",
}
_NO_PROGRAM: Final = "it cannot be verified that it is an OpenSM; run as root"


@dataclass(frozen=True, slots=True)
class ReachedHost:
    """A host with OpenSMs: the user's settings of it, and the machine through which it is changed."""

    host: SmHost
    machine: Machine


@dataclass(frozen=True, slots=True)
class Running:
    """A running OpenSM, its host, and the SM of the fabric that it is; None if that is not known."""

    instance: Instance
    machine: Machine
    manager: Manager | None

    def read_user(self) -> int:
        """Return the user ID that the OpenSM runs as. Raises Refused (``stale``) if it has ended, HostNotReached."""
        try:
            return self.machine.files.stat(self.instance.process.folder).uid
        except OSError:
            raise stale(f"{self.instance.name} no longer runs, or was restarted") from None

    def place_of(self, role: Role, fact: FileFact | None = None) -> tuple[Path, Path]:
        """Return the path of a file on its host, and its path as this OpenSM reaches it. *fact*: the present facts of
        the file, if they were read again since this OpenSM was examined.

        Raises UsageError if it is not known which file that is, FileError if the OpenSM has another file at that path
        than its host.
        """
        file = self.instance.files[role]
        if file.path is None or file.place is None:
            where = f"({file.path}) " if file.path is not None else ""
            raise UsageError(f"{_WORDS[role]} of {self.instance.name} {where}{file.problem}")
        if file.place != file.path and not self._is_the_hosts_own(file.path, fact or file.fact):
            raise FileError(
                f"{file.path}: {self.instance.name} sees a different file of that name than its host: run ibkeys in "
                "its container, or change the file at its source"
            ).explained("It is in a container, or has its own mount namespace.")
        return file.path, file.place

    def lock_places(self) -> Iterator[Path]:
        """Yield the files beside which a lock may stand, the first that can be used: the options file, the policy."""
        for role in _LOCKED:
            with suppress(UsageError, FileError):  # the next one; whatever needs this file raises the reason
                yield self.place_of(role)[0]

    def settings(self, names: Iterable[str], what_for: str) -> tuple[dict[str, EffectiveOption], list[str]]:
        """Return these options, and notes on what may not be in force. *what_for*: the step that depends on them, in
        words.

        Raises UsageError if one is not known.
        """
        options, name = self.instance.options, self.instance.name
        settings = {each: options.setting(each) for each in names}
        unknown = [each for each, setting in settings.items() if setting.source == "not known"]
        if unknown:
            file = self.instance.files["options"]
            raise UsageError(
                f"{name}: {what_for} depends on {', '.join(unknown)}, and its options file "
                f"{f'{file.path} ' if file.path is not None else ''}{file.problem or 'is not known'}"
            )
        in_file = options.file.values if options.file is not None else {}
        notes = [
            f"{each} is assumed to be {as_written(setting.shown)}, as the options file says now; it is not known "
            f"whether {name} has read it"
            for each, setting in settings.items()
            if not setting.is_certain and each in in_file
        ]
        return settings, notes

    def verify_process(self, advice: str = "") -> None:
        """Check that the process is still running. *advice*: the advice if it has ended. Raises Refused (``stale``),
        HostNotReached."""
        if not self.machine.is_running(self.instance.process):
            what = f"{self.instance.name} no longer runs, or was restarted"
            raise stale(f"{what}; {advice}" if advice else what)

    def verify_options(self) -> None:
        """Check that the options file has not changed since it was read. Raises Refused (``stale``), HostNotReached."""
        file = self.instance.files["options"]
        if file.place is not None and _state(file.fact) != _state(or_none(self.machine.files.stat, file.place)):
            raise stale(f"{file.path}, the options file of {self.instance.name}, was changed in the meantime")

    def _is_the_hosts_own(self, path: Path, fact: FileFact | None) -> bool:
        """Return whether *fact* is of the file at this path on its host: a service may have mounts of its own."""
        if fact is None:
            return False
        of_host = or_none(self.machine.files.stat, path)
        return of_host is not None and of_host.identity == fact.identity


def reach(enter: Callable[[AbstractContextManager[Machine]], Machine], hosts: Iterable[SmHost]) -> list[ReachedHost]:
    """Open the *hosts*. *enter* keeps each open until its block ends, as `ExitStack.enter_context` does. Raises
    HostNotReached."""
    return [ReachedHost(host, enter(open_machine(host))) for host in hosts]


def to_json(reached: Iterable[ReachedHost]) -> list[dict[str, Any]]:
    """Return the other hosts as the journal keeps them, so that a later resume or rollback reaches them too."""
    hosts = [each.host.ssh for each in reached if each.host.ssh is not None]
    return [{"name": each.name, "sudo": each.sudo, "ssh_config": each.config} for each in hosts]


def hosts_in(kept: Mapping[str, Any]) -> list[SmHost]:
    """Return the hosts that the journal kept. Raises UsageError for an entry that is not a host, StoreError for
    anything but a list.
    """
    try:
        return [
            SmHost(SshHost(str(each["name"]), each["sudo"] is True, each["ssh_config"]))
            for each in kept.get(KEPT_HOSTS, [])
        ]
    except (TypeError, KeyError):
        raise StoreError("the journal is damaged: the hosts of the operation cannot be read") from None


# --- the master -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FoundSms:
    """All managers and hosts that were found, and in ``sms`` every SM of the fabric that is or may become master.

    Each of ``sms`` has its OpenSM, or None if that is on no host that was examined. A master is the last one. A port
    whose IsSM bit is set and whose SMInfo was not answered may become master too.
    """

    report: SmReport
    sms: Sequence[tuple[Manager, Running | None]]

    @property
    def manager(self) -> Manager:
        """The one master."""
        return self.sms[-1][0]

    @property
    def master(self) -> Running:
        """The OpenSM of the one master."""
        running = self.sms[-1][1]
        assert running is not None  # else it was not found
        return running

    @property
    def opensms(self) -> list[Running]:
        """The OpenSMs on hosts that were examined, a master last."""
        return [running for _, running in self.sms if running is not None]

    def others(self) -> Sequence[tuple[Manager, Running | None]]:
        """Return all SMs but the master, each with its OpenSM."""
        return self.sms[:-1]


def find_sms(
    managers: Sequence[Manager], reached: Sequence[ReachedHost], own_guid: int, several_masters: bool = False
) -> FoundSms:
    """Return the *managers* of the fabric with the OpenSMs of the hosts *reached*.

    *own_guid*: the GUID of the port that the sweep started from. Unless *several_masters*, which permits several or
    none, it raises as `master_in`.
    """
    looked = [look_at_host(each.machine.files, each.host.entry, own_socket()) for each in reached]
    report = join(managers, looked, [own_guid])
    if not several_masters:
        master_in(report)
    machines = {each.machine.name: each.machine for each in reversed(reached)}
    by_port_guid = {each.port_guid: each for each in report.instances() if each.port_guid is not None}
    sms: list[tuple[Manager, Running | None]] = []
    for manager in report.managers or ():
        instance = by_port_guid.get(manager.guid)
        if manager.state != "not active":
            running = None if instance is None else Running(instance, machines[instance.host], manager)
            sms.append((manager, running))
    return FoundSms(report, sorted(sms, key=lambda each: each[0].is_master))


def master_in(report: SmReport) -> tuple[Manager, Instance]:
    """Return the one master that a report has, and its OpenSM.

    Raises Refused if there is no master or more than one, or its OpenSM was not found; UsageError if its program is not
    known, HostNotReached if a host on which it may run did not answer.
    """
    manager = _the_master(report)
    instance = report.master_instance()
    if instance is None:
        raise _not_seen(report, manager)
    if not instance.process.program_known:
        raise UsageError(f"{instance.name}: {_NO_PROGRAM}")
    return manager, instance


def verify_master(fabric: LiveFabric, manager: Manager, lids: Sequence[int]) -> None:
    """Check that an SM is still the one master. *lids*: the LIDs that ports have as that of the master. Raises Refused
    (``stale``)."""
    found = find_subnet_manager(fabric, lids)
    if found.presence != "active" or found.port_guid != manager.guid:
        raise stale(f"the master was the SM of port GUID 0x{manager.guid:016x}; now {found.evidence or 'none answers'}")


def stale(what: str) -> Refused:
    """Return the error for an OpenSM that changed since it was inspected."""
    return stale_for_good(
        f"{what}; nothing more was done: check `ibkeys sm-show` and make sure that one OpenSM is master before you "
        "continue"
    )


def stale_for_good(what: str, details: str = "", is_overtaken: bool = False) -> Refused:
    """Return the refusal by an interlock ``stale`` that nothing overrides. *what*: the thing that has changed, in
    words."""
    message = f"refused by interlock stale, which cannot be overridden: {what}"
    return Refused(message, "stale", details, is_overtaken)


def _the_master(report: SmReport) -> Manager:
    if not report.masters:
        raise Refused(
            "no subnet manager says that it is master, so nothing can be changed through one; see `ibkeys sm-show`",
            MASTER,
        )
    if len(report.masters) > 1:
        ports = named([str(each.port) for each in report.masters])
        text = f"{len(report.masters)} subnet managers say that they are master ({ports}): stop all but one"
        raise Refused(text, MASTER).explained(
            "With different sm_keys they do not recognise each other.",
            "Where `ibkeys journal` has a change of them that was interrupted, `ibkeys resume` finishes it, and one "
            "steps back.",
            f"Otherwise put the same sm_key and sa_key in all options files, {CHECK_FIRST}, and let each OpenSM read "
            "its file.",
        )
    return report.masters[0]


def _not_seen(report: SmReport, manager: Manager) -> IbkeysError:
    """Return the error for a master that is none of the OpenSMs found; it may be on a host that did not answer."""
    doubles = [each.name for each in report.instances() if each.port_guid == manager.guid]
    if len(doubles) > 1:
        return Refused(
            f"the master, the SM at {manager.port}, was found as {named(doubles)}: name each host only "
            "once (this host is always examined), and stop the process that is not that SM",
            MASTER,
        )
    silent = [host for host in report.hosts if host.error]
    problems = [f"host {host.name}: {host.error}" for host in silent]
    names = [each.name for each in report.instances()]
    untold = [each.name for each in report.instances() if each.port_guid is None]
    by_guid = f"; if it is {named(untold)}, set guid in its options and restart it, to show its port" if untold else ""
    text = (
        f"the master is the SM at {manager.port} (port GUID 0x{manager.guid:016x}), and it is not known to be one of "
        f"the OpenSMs that were found ({named(names) if names else 'none'})"
        f"{'; ' + '; '.join(problems) if problems else ''}{by_guid}; or run on its host as root, or name it: "
        + given("--sm-host HOST", "hosts=")
    )
    return HostNotReached(text, silent[0].name) if silent else Refused(text, MASTER)


def _state(fact: FileFact | None) -> tuple[object, ...]:
    """Return the facts of a file that change when it is written; none for a file that cannot be read."""
    return () if fact is None else (fact.identity, fact.size, fact.written, fact.changed, fact.mode, fact.uid)

"""The reachable hosts with OpenSMs; finding the master among these, and checking that it is still the master.

A change through OpenSM requires that the fabric has exactly one master, and that its process was found. Both are
checked again before each step; only while sm_key and sa_key change may there be several masters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ibkeys.arguments import given
from ibkeys.errors import (
    ClosedError,
    FileError,
    HostNotReached,
    IbkeysError,
    Refused,
    StoreError,
    TransportError,
    UsageError,
)
from ibkeys.fabric.live import LiveFabric
from ibkeys.fabric.subnet_manager import find_subnet_manager
from ibkeys.files import or_none
from ibkeys.host.file_access import FileFact
from ibkeys.managers.elsewhere.access import access_to
from ibkeys.managers.elsewhere.ssh import SshHost
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.instance import CHECK_FIRST, Instance, Role
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.machines.opening import open_machine
from ibkeys.managers.opensm.effective_options import EffectiveOption, as_written
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.report import SmReport, join_reports, report_on_host
from ibkeys.managers.subnet_managers import Manager
from ibkeys.printable import Detail, named

KEPT_HOSTS: Final = "sm_hosts"
"""The name in the journal's data of an operation under which its hosts are."""
MASTER: Final = "master"
"""The `Refused.interlock` if there is not exactly one master, or its OpenSM was not found; nothing overrides it."""
_LOCK_ROLES: Final[tuple[Role, ...]] = ("options", "policy")
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
class RunningOpensm:
    """A running OpenSM. ``machine``: its host. ``manager``: the SM of the fabric that it is; None if not known."""

    instance: Instance
    machine: Machine
    manager: Manager | None

    def read_user(self) -> int:
        """Return the user ID that the OpenSM runs as. Raises Refused (``stale``) if the process has ended,
        HostNotReached."""
        try:
            return self.machine.files.stat(self.instance.process.folder).uid
        except OSError:
            raise stale_manager(f"{self.instance.name} no longer runs, or was restarted") from None

    def place_of(self, role: Role, fact: FileFact | None = None) -> tuple[Path, Path]:
        """Return the path of the OpenSM's file of this *role* on its host, and the path by which ibkeys reaches the
        file that the OpenSM sees. *fact*: the present facts of the file, if they were read again since this OpenSM was
        examined.

        Raises UsageError if the path is not known; FileError if the OpenSM sees another file at that path than its
        host, because it is in a container; HostNotReached.
        """
        file = self.instance.files[role]
        if file.path is None or file.place is None:
            where = f"({file.path}) " if file.path is not None else ""
            raise UsageError(f"{_WORDS[role]} of {self.instance.name} {where}{file.problem}")
        if file.place != file.path and not self._is_file_of_host(file.path, fact or file.fact):
            raise FileError(
                f"{file.path}: {self.instance.name} sees a different file of that name than its host: run ibkeys in "
                "its container, or change the file at its source"
            ).explained("It is in a container, or has its own mount namespace.")
        return file.path, file.place

    def lock_places(self) -> Iterator[Path]:
        """Yield the paths beside which a lock file may be, in order of preference: the options file, the policy. Raises
        HostNotReached."""
        for role in _LOCK_ROLES:
            # A file that cannot be used is left out here. Code that needs the file itself raises the reason.
            with suppress(UsageError, FileError):
                yield self.place_of(role)[0]

    def settings(self, names: Iterable[str], what_for: str) -> tuple[dict[str, EffectiveOption], list[str]]:
        """Return the options *names*, and notes about values that may not be in force. *what_for*: the step that
        depends on them, in words for the message.

        Raises UsageError if an option is not known.
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
        notes: list[str] = [
            Detail(
                f"{each} is assumed to be {as_written(setting.shown)}, as the options file says now; it is not known "
                f"whether {name} has read it"
            )
            for each, setting in settings.items()
            if not setting.is_certain and each in in_file
        ]
        return settings, notes

    def verify_process(self, advice: str = "") -> None:
        """Raise Refused (``stale``) if the process has ended. *advice*: added to its message. Raises HostNotReached."""
        if not self.machine.is_running(self.instance.process):
            what = f"{self.instance.name} no longer runs, or was restarted"
            raise stale_manager(f"{what}; {advice}" if advice else what)

    def verify_options(self) -> None:
        """Raise Refused (``stale``) if the options file has changed since it was read. Raises HostNotReached."""
        file = self.instance.files["options"]
        if file.place is not None and _file_state(file.fact) != _file_state(
            or_none(self.machine.files.stat, file.place)
        ):
            raise stale_manager(f"{file.path}, the options file of {self.instance.name}, was changed in the meantime")

    def _is_file_of_host(self, path: Path, fact: FileFact | None) -> bool:
        """Return whether *fact* belongs to the file that has this path on the host. A service may see another file
        there, because it can have mounts of its own."""
        if fact is None:
            return False
        of_host = or_none(self.machine.files.stat, path)
        return of_host is not None and of_host.identity == fact.identity


def reach(enter: Callable[[AbstractContextManager[Machine]], Machine], hosts: Iterable[SmHost]) -> list[ReachedHost]:
    """Connect to *hosts*, and return them with their machines. *enter*: a function such as `ExitStack.enter_context`,
    which keeps a machine open until the end of a block. Raises the errors of `open_machine`."""
    return [ReachedHost(host, enter(open_machine(host))) for host in hosts]


def to_json(reached: Iterable[ReachedHost]) -> list[dict[str, Any]]:
    """Return the hosts other than this one in the form that the journal keeps, for a later resume or rollback."""
    hosts = [each.host.access for each in reached if each.host.access is not None]
    return [
        {"name": each.name, "sudo": each.sudo, "ssh_config": each.config}
        if isinstance(each, SshHost)
        else {"name": each.name, "sudo": False, "ssh_config": None}
        for each in hosts
    ]


def hosts_in(kept: Mapping[str, Any]) -> list[SmHost]:
    """Return the hosts, other than this one, in the journal's data *kept* of an operation. Raises UsageError for an
    invalid host name, StoreError if the data is damaged.
    """
    try:
        return [
            SmHost(access_to(str(each["name"]), each["sudo"] is True, each["ssh_config"]))
            for each in kept.get(KEPT_HOSTS, [])
        ]
    except (TypeError, KeyError):
        raise StoreError("the journal is damaged: the hosts of the operation cannot be read") from None


@dataclass(frozen=True, slots=True)
class FoundSms:
    """The SMs of the fabric. ``report``: all SMs and hosts that were found. ``sms``: every SM that is or may become
    master, a master last, each with its OpenSM; None if no OpenSM that was examined is known to be this SM.

    A port that has its IsSM bit set and does not answer to SMInfo counts as an SM that may become master.
    """

    report: SmReport
    sms: Sequence[tuple[Manager, RunningOpensm | None]]

    @property
    def manager(self) -> Manager:
        """The master: the last of ``sms``."""
        return self.sms[-1][0]

    @property
    def master(self) -> RunningOpensm:
        """The OpenSM of the master, which must be known."""
        running = self.sms[-1][1]
        assert running is not None  # `find_sms` raises Refused if the master's OpenSM was not found
        return running

    @property
    def opensms(self) -> list[RunningOpensm]:
        """The OpenSMs on hosts that were examined, a master last."""
        return [running for _, running in self.sms if running is not None]

    def non_masters(self) -> Sequence[tuple[Manager, RunningOpensm | None]]:
        """Return all SMs but the master, each with its OpenSM."""
        return self.sms[:-1]


def find_sms(
    managers: Sequence[Manager], reached: Sequence[ReachedHost], own_guid: int, several_masters: bool = False
) -> FoundSms:
    """Return the *managers* of the fabric with the OpenSMs of the hosts *reached*.

    *own_guid*: the GUID of the port that the sweep started from. *several_masters* True: there may be no master or
    more than one; else this raises as `master_in`.
    """
    reports = [report_on_host(each.machine.files, each.host.entry, own_socket()) for each in reached]
    report = join_reports(managers, reports, [own_guid])
    if not several_masters:
        master_in(report)
    machines = {each.machine.name: each.machine for each in reversed(reached)}
    by_port_guid = {each.port_guid: each for each in report.instances() if each.port_guid is not None}
    sms: list[tuple[Manager, RunningOpensm | None]] = []
    for manager in report.managers or ():
        instance = by_port_guid.get(manager.guid)
        if manager.state != "not active":
            running = None if instance is None else RunningOpensm(instance, machines[instance.host], manager)
            sms.append((manager, running))
    return FoundSms(report, sorted(sms, key=lambda each: each[0].is_master))


def master_in(report: SmReport) -> tuple[Manager, Instance]:
    """Return the master in a report, and its OpenSM.

    Raises Refused if there is no master or more than one, or its OpenSM was not found; HostNotReached if it was not
    found and a host on which it may run did not answer; UsageError if it cannot be verified that its process is an
    OpenSM.
    """
    manager = _only_master(report)
    instance = report.master_instance()
    if instance is None:
        raise _master_not_found(report, manager)
    if not instance.process.program_known:
        raise UsageError(f"{instance.name}: {_NO_PROGRAM}")
    return manager, instance


def verify_master(fabric: LiveFabric, manager: Manager, lids: Sequence[int]) -> None:
    """Raise Refused (``stale``) unless *manager* is still the master of *fabric*. *lids*: the MasterSMLIDs of ports, as
    they were read."""
    was = f"the master was the SM of port GUID 0x{manager.guid:016x}"
    try:
        found = find_subnet_manager(fabric, lids)
    except (TransportError, ClosedError) as error:
        raise stale_manager(f"{was}; now none can be asked: {error}") from error
    if found.presence != "active" or found.port_guid != manager.guid:
        raise stale_manager(f"{was}; now {found.evidence or 'none answers'}")


def stale_manager(what: str) -> Refused:
    """Return the refusal for an SM or OpenSM that changed since it was examined. *what*: the change, in words."""
    return stale_for_good(
        f"{what}; nothing more was done: check `ibkeys sm-show` and make sure that one OpenSM is master before you "
        "continue"
    )


def stale_for_good(what: str, details: str = "", is_overtaken: bool = False) -> Refused:
    """Return a refusal by the interlock ``stale`` that nothing overrides. *what*: the change, in words; *details* and
    *is_overtaken*: as in `Refused`."""
    message = f"refused by interlock stale, which cannot be overridden: {what}"
    return Refused(message, "stale", details, is_overtaken)


def _only_master(report: SmReport) -> Manager:
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


def _master_not_found(report: SmReport, manager: Manager) -> IbkeysError:
    """Return the error for a master that could not be matched with exactly one of the OpenSMs found: HostNotReached if
    a host did not answer, else Refused."""
    namesakes = [each.name for each in report.instances() if each.port_guid == manager.guid]
    if len(namesakes) > 1:
        return Refused(
            f"the master, the SM at {manager.port}, was found as {named(namesakes)}: name each host only "
            "once (this host is always examined), and stop the process that is not that SM",
            MASTER,
        )
    silent = [host for host in report.hosts if host.error]
    problems = [f"host {host.name}: {host.error}" for host in silent]
    names = [each.name for each in report.instances()]
    without_port = [each.name for each in report.instances() if each.port_guid is None]
    by_guid = (
        f"; if it is {named(without_port)}, set guid in its options and restart it, to show its port"
        if without_port
        else ""
    )
    text = (
        f"the master is the SM at {manager.port} (port GUID 0x{manager.guid:016x}), and it is not known to be one of "
        f"the OpenSMs that were found ({named(names) if names else 'none'})"
        f"{'; ' + '; '.join(problems) if problems else ''}{by_guid}; or run on its host as root, or name it: "
        + given("--sm-host HOST", "hosts=")
    )
    return HostNotReached(text, silent[0].name) if silent else Refused(text, MASTER)


def _file_state(fact: FileFact | None) -> tuple[object, ...]:
    """Return the facts of a file that differ after it was written or replaced; () for a file without facts."""
    return () if fact is None else (fact.identity, fact.size, fact.written, fact.changed, fact.mode, fact.uid)

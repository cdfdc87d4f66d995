"""Which OpenSM is the master, which others would take over, with which options it works, and which files they read.

Everything is looked at once when a change is planned, and the parts that could turn a right change into a wrong one
again before each step: the process, the master, the options file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from ibkeys.change.writer import Writer
from ibkeys.errors import FileError, HostNotReached, IbkeysError, Refused, StoreError, UsageError
from ibkeys.fabric.subnet_manager import find_subnet_manager
from ibkeys.host.file_access import FileFact
from ibkeys.host.opensm_options import OptionsFile
from ibkeys.partitions.model import Policy
from ibkeys.plan.model import Enforce, SmOptions
from ibkeys.printable import named
from ibkeys.sm.elsewhere.ssh import SshHost
from ibkeys.sm.hands.opening import open_hands
from ibkeys.sm.hands.sm_hands import SmHands
from ibkeys.sm.hosts import SmHost
from ibkeys.sm.instance import Instance, InstanceFile, Role
from ibkeys.sm.managers import Manager, managers_of
from ibkeys.sm.reading import WORDS
from ibkeys.sm.report import HostReport, Report, join, look_at_host
from ibkeys.topology.model import Topology

KEPT_HOSTS: Final = "sm_hosts"
"""Under this name the journal keeps the hosts of an operation."""
OPTIONS: Final = ("allow_both_pkeys", "part_enforce", "no_partition_enforcement", "keep_pkey_indexes")
"""The options of OpenSM that decide what it makes of a policy."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A host with OpenSMs: what the user said of it, and the hands there."""

    host: SmHost
    hands: SmHands


@dataclass(frozen=True, slots=True)
class PolicyPlace:
    """The policy file of one OpenSM. ``path``: as its host has it; ``place``: as that OpenSM sees it."""

    instance: Instance
    hands: SmHands
    path: Path
    place: Path

    @property
    def name(self) -> str:
        """The file, with its host."""
        return f"{self.path} on {self.hands.name}" if self.hands.name else str(self.path)


@dataclass(slots=True)
class Site:
    """The master OpenSM and its surroundings. ``standbys``: the policy files of the other SMs, as far as they are
    reached and are other files; ``out_of_reach``: the other SMs whose file is not; ``options``: what the master works
    with; ``notes``: what is not certain."""

    writer: Writer
    reached: Sequence[Reached]
    manager: Manager
    master: PolicyPlace
    options: SmOptions
    standbys: tuple[PolicyPlace, ...] = ()
    out_of_reach: tuple[str, ...] = ()
    others: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def policy(self) -> Policy | None:
        """What the master's file says now, None where there is no file."""
        return self.master.instance.policy

    @property
    def places(self) -> tuple[PolicyPlace, ...]:
        """All policy files, that of the master last."""
        return (*self.standbys, self.master)

    def unread_edit(self, role: Role) -> str:
        """Return, in words, that somebody changed the master's file of that *role* and OpenSM has not read it; "" where
        nothing says so. The next signal applies it."""
        file = self.master.instance.files[role]
        return f"{file.path}: {WORDS['not-read']}" if file.reading == "not-read" else ""

    @property
    def policy_was_written(self) -> bool:
        """Whether the bytes of the master's policy are newer than its last sweep, as far as its time tells: a new mode,
        owner or name looks like an edit too."""
        fact, swept = self.master.instance.files["policy"].fact, self.master.instance.last_sweep
        return fact is None or fact.written is None or swept is None or fact.written > swept

    def verify(self) -> None:
        """Look again whether the master is the same process, still the one master, with the options file as it was.

        Raises Refused (``stale``), HostNotReached.
        """
        self.verify_process()
        file = self.master.instance.files["options"]
        if file.place is not None and _state(file.fact) != _state(self._fact_now(file.place)):
            what = f"{file.path}, the options file of {self.master.instance.name}"
            raise _stale(f"{what}, was changed meanwhile")
        self.verify_master()

    def _fact_now(self, place: Path) -> FileFact | None:
        try:
            return self.master.hands.files.stat(place)
        except OSError:
            return None

    def verify_process(self) -> None:
        """Ask whether the process is still there. Raises Refused (``stale``), HostNotReached."""
        if not self.master.hands.is_running(self.master.instance.process):
            raise _stale(f"{self.master.instance.name} runs no more, or was started again")

    def verify_master(self) -> None:
        """Ask whether the SM is still the one master. Raises Refused (``stale``)."""
        found = find_subnet_manager(self.writer.fabric, self.writer.master_sm_lids)
        if found.presence != "active" or found.port_guid != self.manager.guid:
            raise _stale(
                f"the master was the SM of port GUID 0x{self.manager.guid:016x}; now {found.evidence or 'none answers'}"
            )


def reach(writer: Writer, hosts: Iterable[SmHost]) -> list[Reached]:
    """Open *hosts* until the writer is closed. Raises HostNotReached."""
    return [Reached(host, writer.enter(open_hands(host))) for host in hosts]


def to_json(reached: Iterable[Reached]) -> list[dict[str, Any]]:
    """Return the other hosts as the journal keeps them, so that an undo reaches them too."""
    hosts = [each.host.ssh for each in reached if each.host.ssh is not None]
    return [{"name": each.name, "sudo": each.sudo, "ssh_config": each.config} for each in hosts]


def hosts_in(kept: Mapping[str, Any]) -> list[SmHost]:
    """Return the hosts that the journal kept. Raises UsageError for what is no host, StoreError for what is no list."""
    try:
        return [
            SmHost(SshHost(str(each["name"]), each["sudo"] is True, each["ssh_config"]))
            for each in kept.get(KEPT_HOSTS, [])
        ]
    except (TypeError, KeyError):
        raise StoreError("the journal is damaged: the hosts of the operation cannot be read") from None


def find_site(writer: Writer, reached: Sequence[Reached], found: Topology) -> Site:
    """Return the site of the one master that the sweep *found*, whose OpenSM has to run on one of the hosts *reached*.

    Raises Refused where there is no master or more than one, or its OpenSM is not seen; UsageError where its policy or
    an option that decides what it makes of one is not known; FileError where its policy is not to be reached,
    HostNotReached where a host did not answer that it may run on.
    """
    report = join(managers_of(found), [_look(each) for each in reached], [writer.fabric.own_guid])
    manager = _the_master(report)
    instance = report.master_instance()
    if instance is None:
        raise _not_seen(report, manager)
    if not instance.process.program_known:
        raise UsageError(f"{instance.name}: {_NO_PROGRAM}")
    options, notes = _options(instance)
    master = _place(instance, _hands(reached, instance))
    site = Site(writer, reached, manager, master, options, notes=notes)
    _find_others(site, report)
    return site


_NO_PROGRAM: Final = "whether it is an OpenSM cannot be seen; run as root"


def _look(reached: Reached) -> HostReport:
    return look_at_host(reached.hands.files, reached.host.named, os.environ.get("IBSIM_SOCKNAME", ""))


_MASTER: Final = "master"
"""What `Refused.interlock` is where there is no one master to go through; nothing overrides that."""


def _the_master(report: Report) -> Manager:
    if not report.masters:
        raise Refused(
            "no subnet manager says that it is master, so there is none to go through; see `ibkeys sm-show`", _MASTER
        )
    if len(report.masters) > 1:
        ports = named([str(each.port) for each in report.masters])
        text = f"{len(report.masters)} subnet managers say that they are master ({ports}): stop all but one"
        raise Refused(text, _MASTER)
    return report.masters[0]


def _not_seen(report: Report, manager: Manager) -> IbkeysError:
    """Return the error for a master that none of the OpenSMs is seen to be; it may be on a host that did not answer."""
    silent = [host for host in report.hosts if host.error]
    problems = [f"host {host.name}: {host.error}" for host in silent]
    seen = [each.name for each in report.instances()]
    text = (
        f"the master is the SM at {manager.port} (port GUID 0x{manager.guid:016x}), and it is not known to be one of "
        f"the OpenSMs that were seen ({named(seen) if seen else 'none'})"
        f"{'; ' + '; '.join(problems) if problems else ''}; run on its host as root, or name it: --sm-host HOST"
    )
    return HostNotReached(text, silent[0].name) if silent else Refused(text, _MASTER)


def _hands(reached: Sequence[Reached], instance: Instance) -> SmHands:
    return next(each.hands for each in reached if each.hands.name == instance.host)


# --- options ----------------------------------------------------------------------------------------------------------


def _options(instance: Instance) -> tuple[SmOptions, list[str]]:
    """Return the options of a running OpenSM, and notes on what may not be in force."""
    settings = {name: instance.options.setting(name) for name in OPTIONS}
    unknown = [name for name, each in settings.items() if each.source == "not known"]
    if unknown:
        file = instance.files["options"]
        raise UsageError(
            f"{instance.name}: what it makes of a policy depends on {', '.join(unknown)}, and its options file "
            f"{f'{file.path} ' if file.path is not None else ''}{file.problem or 'is not known'}"
        )
    notes = [
        f"{name} is taken as {_shown(each.value)}, as the options file says now; whether {instance.name} has read "
        "it is not known"
        for name, each in settings.items()
        if not each.is_certain and _is_in(instance.options.file, name)
    ]
    enforce = str(settings["part_enforce"].value)
    if enforce not in ("both", "in", "out", "off"):
        raise UsageError(f"{instance.name}: part_enforce is {enforce!r}, which is none of both, in, out, off")
    return (
        SmOptions(
            bool(settings["allow_both_pkeys"].value),
            cast(Enforce, enforce),
            bool(settings["no_partition_enforcement"].value),
            bool(settings["keep_pkey_indexes"].value),
        ),
        notes,
    )


def _shown(value: object) -> str:
    return str(value).upper() if isinstance(value, bool) else str(value)


def _is_in(file: OptionsFile | None, name: str) -> bool:
    return file is not None and name in file.values


# --- files ------------------------------------------------------------------------------------------------------------


def _place(instance: Instance, hands: SmHands) -> PolicyPlace:
    """Return the policy file of an OpenSM. Raises UsageError, FileError."""
    file = instance.files["policy"]
    if file.path is None or file.place is None or (file.is_there is not False and instance.policy is None):
        raise UsageError(f"the policy of {instance.name} {f'({file.path}) ' if file.path else ''}{file.problem}")
    if file.place != file.path and not _is_the_hosts_own(file, hands):
        raise FileError(
            f"{file.path}: {instance.name} sees another file of that name than its host (a container, or mounts of its "
            "own); run ibkeys in there, or change the file where it comes from"
        )
    return PolicyPlace(instance, hands, file.path, file.place)


def _is_the_hosts_own(file: InstanceFile, hands: SmHands) -> bool:
    """Whether the file is the same by the name that its host has for it: a service may have mounts of its own."""
    assert file.path is not None
    try:
        return file.fact is not None and hands.files.stat(file.path).identity == file.fact.identity
    except OSError:
        return False


def _find_others(site: Site, report: Report) -> None:
    """Note the other SMs: those whose policy file is reached, and those whose is not."""
    seen = {each.port_guid: each for each in report.instances() if each.port_guid is not None}
    known = {(site.master.hands.name, site.master.path)}
    standbys, unreached = [], []
    for each in report.managers or ():
        if each.guid == site.manager.guid or each.state == "not active":
            continue
        site.others += 1
        state = each.state or "IsSM is set, SMInfo not answered"
        instance = seen.get(each.guid)
        if instance is None:
            unreached.append(f"the SM at {each.port} ({state}): it is on no host that was looked at")
            continue
        try:
            place = _place(instance, _hands(site.reached, instance))
        except (UsageError, FileError) as error:
            unreached.append(f"the SM at {each.port} ({state}): {error}")
            continue
        if (place.hands.name, place.path) not in known:
            known.add((place.hands.name, place.path))
            standbys.append(place)
    unreached += [f"host {host.name}: {host.error}" for host in report.hosts if host.error]
    site.standbys, site.out_of_reach = tuple(standbys), tuple(unreached)


# --- looking again ----------------------------------------------------------------------------------------------------


def _state(fact: FileFact | None) -> tuple[object, ...]:
    """What of a file changes when somebody writes it; nothing of one that is not there, or cannot be seen."""
    return () if fact is None else (fact.identity, fact.size, fact.written, fact.changed, fact.mode, fact.uid)


def _stale(what: str) -> Refused:
    return Refused(
        f"refused by interlock stale, which nothing overrides here: {what}; nothing more was done: look at `ibkeys "
        "sm-show`, and see to it that one OpenSM is master, before you go on",
        "stale",
    )

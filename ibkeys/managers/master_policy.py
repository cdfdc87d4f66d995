"""The policy of the master SM, if that is an OpenSM on this host or on one that the user named: ``--policy opensm``.

A standby may have another policy, which is not in effect. So a few MADs find the port of the master, and this must be
the port of an OpenSM on one of these hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ibkeys.arguments import given
from ibkeys.errors import FileFormatError, HostNotReached, UsageError
from ibkeys.fabric.live import LiveFabric
from ibkeys.fabric.subnet_manager import find_subnet_manager
from ibkeys.host.host_files import THIS_HOST, HostFiles
from ibkeys.mad.const import SMState
from ibkeys.managers.hosts import SmHost, report_on_hosts
from ibkeys.managers.instance import NO_ENTRY, PROGRAM_UNKNOWN, HostEntry, Instance
from ibkeys.managers.journaled_policy import with_operation
from ibkeys.managers.opensm.effective_options import as_written
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.reading import CHANGED
from ibkeys.managers.report import HostReport, assign_ports, report_on_host
from ibkeys.partitions.model import Policy
from ibkeys.printable import Detail, named
from ibkeys.topology.subnet_manager import sm_state_name

_NAME_THE_FILE: Final = "name the policy file"
_MASTER: Final = sm_state_name(SMState.MASTER)


@dataclass(frozen=True, slots=True)
class MasterPolicy:
    """The policy of one OpenSM. ``allow_both_pkeys``, ``part_enforce``: the values of these options, None if not known.
    ``notes``: lines for the user, for example about values that are not certain.
    """

    policy: Policy
    allow_both_pkeys: bool | None
    part_enforce: str | None
    notes: tuple[str, ...]


def policy_of_master(
    fabric: LiveFabric,
    entry: HostEntry = NO_ENTRY,
    host: HostFiles = THIS_HOST,
    others: Sequence[SmHost] | None = None,
    *,
    can_name_file: bool = True,
) -> MasterPolicy:
    """Return the policy of the OpenSM that is master of *fabric*. *entry*: this host's entry in ``sm.toml``; *host*:
    the files of this host; *others*: further hosts, which are examined if the master is not on this one, None if the
    user could not name any; *can_name_file*: whether the user could name a policy file instead.

    Raises UsageError if the master is no OpenSM of these hosts, or cannot be determined; HostNotReached if it may be on
    a host that did not answer; FileFormatError if the policy cannot be read or OpenSM would refuse it.
    """
    if fabric.is_simulated:
        raise UsageError("a simulated subnet has no OpenSM on this host" + _or_name_file(can_name_file))
    report, left_out = _report_of(host, entry, may_be_empty=bool(others), can_name_file=can_name_file)
    manager = find_subnet_manager(fabric)
    guid = manager.port_guid
    if manager.presence != "active" or guid is None:
        raise UsageError(
            f"it is not known whether an OpenSM of this host is master ({manager.evidence})"
            + _or_name_file(can_name_file, "try again when `ibkeys sm-show` shows a master")
        )
    examined = [assign_ports(report, {guid: _MASTER}, [fabric.own_guid])]
    found = _at_port(examined, guid)
    if not found and others:
        examined += [assign_ports(each, {guid: _MASTER}) for each in report_on_hosts(others, own_socket())]
        found = _at_port(examined, guid)
    if len(found) != 1:
        raise _not_found(examined, guid, can_name_hosts=others is not None, can_name_file=can_name_file)
    return _policy_of(with_operation(found[0], fabric.stores.journal), left_out=left_out)


def policy_of_only_one(
    entry: HostEntry = NO_ENTRY,
    host: HostFiles = THIS_HOST,
    require_accepted: bool = True,
    journal: Path | None = None,
) -> MasterPolicy:
    """Return the policy of the only OpenSM on this host. No MAD is sent, so it need not be the master.

    *require_accepted* False: return the policy even if OpenSM would refuse it. *journal*: shows whether an operation
    wrote the policy; None: that is not known. Raises UsageError if there is no OpenSM or more than one; FileFormatError
    as `policy_of_master`.
    """
    report, left_out = _report_of(host, entry)
    if len(report.instances) > 1:
        raise UsageError(f"several OpenSMs run on this host ({_in_words(report)}): {_NAME_THE_FILE}")
    return _policy_of(with_operation(report.instances[0], journal), require_accepted, left_out)


def _at_port(reports: Sequence[HostReport], guid: int) -> list[Instance]:
    """Return the OpenSMs at the port *guid*."""
    return [each for report in reports for each in report.instances if each.port_guid == guid]


def _or_name_file(can_name_file: bool, remedy: str = "") -> str:
    """Return the end of a message: *remedy*, and to name the policy file if the user can."""
    ways = ", or ".join(filter(None, (_NAME_THE_FILE if can_name_file else "", remedy)))
    return f": {ways}" if ways else ""


def _not_found(
    reports: Sequence[HostReport], guid: int, can_name_hosts: bool, can_name_file: bool
) -> UsageError | HostNotReached:
    """Return the error for a master that is not exactly one of the OpenSMs in *reports*."""
    hosts = named(["this host", *(each.name for each in reports if each.name)])
    silent = [each for each in reports if each.error]
    problems = "".join(f"; host {each.name}: {each.error}" for each in silent)
    by_name = f", or name that host: {given('--sm-host HOST', 'hosts=')}" if can_name_hosts else ""
    processes = ", ".join(_in_words(each) for each in reports if each.instances) or "none"
    text = (
        f"the master (port GUID 0x{guid:016x}) is not one of the OpenSMs found on {hosts} ({processes}){problems}"
        + _or_name_file(can_name_file, f"run on the master's host as root{by_name}")
    )
    return HostNotReached(text, silent[0].name) if silent else UsageError(text)


def _report_of(
    host: HostFiles, entry: HostEntry, may_be_empty: bool = False, can_name_file: bool = True
) -> tuple[HostReport, tuple[Instance, ...]]:
    """Return the report on a host, and the instances left out of it. If the program of some process is known to be
    OpenSM, the processes of which only the name is opensm are left out. Raises UsageError if there is no OpenSM, unless
    *may_be_empty*."""
    report = report_on_host(host, entry, own_socket())
    if not report.instances and not may_be_empty:
        sure = "" if host.own_user() == 0 else " (run as root to be certain)"
        remedy = "" if can_name_file else "run on the master's host"
        raise UsageError(f"no OpenSM was found on this host{sure}" + _or_name_file(can_name_file, remedy))
    known = tuple(each for each in report.instances if each.process.program_known)
    if not known:
        return report, ()
    left_out = tuple(each for each in report.instances if not each.process.program_known)
    return replace(report, instances=known), left_out


def _in_words(report: HostReport) -> str:
    return ", ".join(map(_process_in_words, report.instances)) or "none"


def _process_in_words(instance: Instance) -> str:
    process = instance.process
    where = f" on {instance.host}" if instance.host else ""
    return f"process {process.pid}{where}" + ("" if process.program_known else ", whose program could not be examined")


def _policy_of(instance: Instance, require_accepted: bool = True, left_out: Sequence[Instance] = ()) -> MasterPolicy:
    file = instance.files["policy"]
    if instance.policy is None:
        where = f" {file.path}" if file.path is not None else ""
        raise FileFormatError(f"the policy{where} of {instance.name} {file.problem}")
    if require_accepted:
        instance.policy.require_accepted()
    notes: list[str] = [Detail(f"the policy is {file.path}, of {instance.name}")]
    notes += [f"{_process_in_words(each)}, is left out" for each in left_out]
    if not instance.process.program_known:
        notes.append(f"{instance.name}: {PROGRAM_UNKNOWN}")
    if file.doubt:
        notes.append(f"{file.path}: {file.doubt}")
    elif not file.is_certain:
        notes.append("its options file may have changed since it started, and may then have named a different policy")
    if file.reading in CHANGED or file.written_by is not None:
        text = f"{file.path}: {file.reading_in_words}"
        notes.append(text if file.reading == "not-read" else Detail(text))
    both, enforce = (instance.options.setting(name) for name in ("allow_both_pkeys", "part_enforce"))
    for each in (both, enforce):
        if not each.is_certain:
            value = "not known" if each.source == "not known" else as_written(each.value)
            notes.append(f"{each.name} is assumed to be {value}; a different value may be in force")
    return MasterPolicy(
        instance.policy,
        None if both.source == "not known" else bool(both.value),
        None if enforce.source == "not known" else str(enforce.value),
        tuple(notes),
    )

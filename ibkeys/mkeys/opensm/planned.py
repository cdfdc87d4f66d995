"""Planning M_Key runs through OpenSM: a new run, the rest of a run, and the rollback.

OpenSM has one key for the whole subnet, so all ports must have the same key before a run, and get the same new key. A
run is rolled back by steps of the same kind. Restoring the former options file would not do: without lines for the key,
it would remove every key when OpenSM starts again. While some ports have the former key and some the new one, a run can
only be finished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from ibkeys.arguments import given
from ibkeys.change.choosing import choose_method
from ibkeys.change.interlocks.container_layer import objections_to_layers
from ibkeys.change.interlocks.file_owners import objections_to_owners
from ibkeys.change.interlocks.m_keys import (
    first_keys_at_level_0,
    no_keys_left,
    objections_to_lease,
)
from ibkeys.change.interlocks.printed_keys import objections_to_listeners
from ibkeys.change.interlocks.unread_policy import (
    is_written_here,
    objections_to_unread_options,
    objections_to_unread_policy,
)
from ibkeys.change.method import MethodChoice
from ibkeys.change.plan import ExposureNote, StepNote
from ibkeys.change.through_sm import ManagedOpensm
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import OnFound, Wanted
from ibkeys.errors import Incomplete, Refused, UsageError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey, notes_on_levels
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.instance import CHECK_FIRST
from ibkeys.managers.site import KEPT_HOSTS, MASTER, ReachedHost, hosts_in, reach, to_json
from ibkeys.managers.subnet_managers import managers_of
from ibkeys.mkeys.opensm.course import RunKeys, plan_steps
from ibkeys.mkeys.opensm.fit_managers import AFTER_REPAIR, MIXED, find_key_managers, setting_in_options
from ibkeys.mkeys.opensm.known_keys import (
    Guid2MKeyFile,
    options_files,
    read_key_files,
    refuse_hidden_keys,
    refuse_without_keys,
    take_keys_that_opensm_gave,
)
from ibkeys.mkeys.opensm.last_run_record import record_of_last_run
from ibkeys.mkeys.opensm.method import OpensmMethod
from ibkeys.mkeys.opensm.overtaken import files_of_absent, refuse_changed_files
from ibkeys.mkeys.opensm.record import NAME, RunRecord
from ibkeys.mkeys.opensm.rollback import plan_rollback, refuse_mixed_keys, require_raised_level
from ibkeys.mkeys.opensm.secrecy import notes_on_files, objections_to_sa_key
from ibkeys.mkeys.planning_options import PlanningOptions, ViaOpensm
from ibkeys.mkeys.rollout.earlier_run import refuse_strange_ports
from ibkeys.mkeys.rollout.going_back import note_return_of_former_keys, return_of_last_run
from ibkeys.mkeys.rollout.new_keys import object_to_user_key, why_left_alone
from ibkeys.mkeys.rollout.new_run import plan_new_run
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.port_job import PortJob
from ibkeys.mkeys.rollout.removal import NO_KEY_SETTING, why_nothing_to_remove
from ibkeys.mkeys.rollout.rest_of_run import rest_of_last_run
from ibkeys.mkeys.set import changes_of
from ibkeys.printable import counted, named
from ibkeys.store.journal.runs import REMOVAL, RunOptions
from ibkeys.topology.model import Topology

READING: Final = Wanted(link_downed=True, sm_info=True)
"""The attributes that a sweep reads: links, as for every run of keys, and SMInfo."""
_IF_LAYER_IS_GONE: Final = "its OpenSM has another M_Key than the ports, and may lose all of them"


def choose_for_keys(
    writer: ChangeWriter, hosts: Sequence[SmHost], progress: OnFound | None = None
) -> MethodChoice | None:
    """Choose the method for a new run, and return the choice; None on a simulated subnet. *hosts*: the hosts that may
    have an OpenSM, this one first. Raises the errors of `choose_method`, and Refused (``unknown-keys``) if OpenSM has
    keys that ibkeys does not have."""
    return choose_method(writer, hosts, READING, progress, partial(_take_keys, writer))


def plan_keys(
    writer: ChangeWriter,
    command: str,
    options: RunOptions,
    new_key: MKey | None,
    planning: PlanningOptions,
) -> PlannedRun:
    """Plan a new run that gives all ports one M_Key (mkey-deploy, mkey-rotate). *new_key*: the key; None generates one.

    Raises Refused if ports have different settings (`MIXED`), if OpenSM with its present options would lose ports
    (`REFUSAL`), if a key is not known (``unknown-keys``), and while another run is not finished (``open-run``);
    UsageError for a simulated subnet, or if a confirmation is wanted for a run that raises no level; FileError,
    HostNotReached, StoreError; and the errors of `find_key_managers` and `Fabric.sweep`.
    """
    key = new_key or MKey.generate()
    run = _plan_new(
        writer,
        command,
        replace(options, same=True),
        lambda old: old.with_values(key, options.protect, options.lease),
        partial(why_left_alone, command),
        planning,
    )
    object_to_user_key(writer, run, new_key)
    if command == "mkey-deploy" and options.protect is None and run.jobs:
        run.plan.questions = [first_keys_at_level_0(_ports_of_subnet(run))]
    return run


def plan_removal(writer: ChangeWriter, options: RunOptions, planning: PlanningOptions) -> PlannedRun:
    """Plan a new run that removes the M_Key of all ports. Unless ``planning.leaves_open``, the user is asked whether
    the ports may be without a key afterwards. Raises the errors of `plan_keys`."""
    stored = writer.keystore.current()
    run = _plan_new(
        writer,
        REMOVAL,
        options,
        lambda old: NO_KEY_SETTING,
        lambda job: why_nothing_to_remove(job, stored),
        planning,
    )
    if run.jobs and not planning.leaves_open:
        run.plan.questions = [no_keys_left(_ports_of_subnet(run))]
    return run


def _plan_new(
    writer: ChangeWriter,
    command: str,
    options: RunOptions,
    wanted: Callable[[KeySetting], KeySetting],
    left_alone: Callable[[PortJob], str],
    planning: PlanningOptions,
) -> PlannedRun:
    through = planning.through()
    reached = _reach_hosts(writer, through.hosts)
    key_files = _take_keys(writer, reached)
    run = plan_new_run(writer, command, options, wanted, left_alone, progress=planning.progress, reading=READING)
    _give_to_opensm(run)
    refuse_hidden_keys(writer, run, key_files)
    now = _common_setting(run)
    if now is None:
        if command == REMOVAL and any(not each.unread for each in run.skipped):
            # The ports have no key: no OpenSM may have one that it gives them later.
            for each in find_key_managers(writer, reached, managers_of(run.found), NO_KEY_SETTING).all:
                _refuse_other_options(each, NO_KEY_SETTING)
        return run
    managers = find_key_managers(writer, reached, managers_of(run.found), wanted(now))
    _refuse_other_options(managers.master, now)
    record = RunRecord(RunKeys(now, wanted(now)), plan_steps(now, wanted(now), through.open), to_json(reached))
    if through.confirm:
        require_raised_level(record)
    run.method = OpensmMethod(reached, managers, record, through)
    _describe(writer, run, run.method)
    run.plan.objections += objections_to_layers([each.file for each in managers.all], _IF_LAYER_IS_GONE)
    return run


def _ports_of_subnet(run: PlannedRun) -> str:
    return f"{counted(len(run.jobs), 'port')} of the subnet"


def plan_rest(writer: ChangeWriter, planning: PlanningOptions) -> PlannedRun:
    """Plan the rest of the last run, which was interrupted, or during which some ports were offline.

    This also confirms a run that still awaits its confirmation. Raises UsageError if there is no such run, Refused
    (``overtaken``) if another program or administrator has changed its files or ports, Incomplete if none of its ports
    could be read, and the errors of `plan_keys`.
    """
    through = planning.through()
    record, reached = reach_hosts_of_last_run(writer, through)
    run = rest_of_last_run(writer, planning, READING)
    refuse_strange_ports(writer, run)
    _give_to_opensm(run)
    record.rewind({job.old for job in [*run.jobs, *run.already_set]})
    assert run.last is not None
    run.is_open = run.is_open or run.last.operation.goes_back  # the journal records that it stays
    if through.confirm:
        require_raised_level(record)
    run.method = method_of_earlier_run(writer, run.found, record, reached, through, record.keys.wanted)
    _refuse_without_ports(run, record)
    _describe(writer, run, run.method)
    return run


def plan_return(writer: ChangeWriter, planning: PlanningOptions) -> PlannedRun:
    """Plan to give all ports the key, level and lease from before the last run, by steps of the same kind.

    Raises Refused (``overtaken``) if another program or administrator has changed files or ports since, and (`MIXED`)
    while some ports have the former key and some the new one: such a run can only be resumed. Raises UsageError if
    there is no such run, Incomplete if none of its ports could be read, and the errors of `plan_keys` and
    `note_return_of_former_keys`.
    """
    through = planning.through()
    record, reached = reach_hosts_of_last_run(writer, through)
    run = return_of_last_run(writer, planning, READING)
    refuse_strange_ports(writer, run)
    _give_to_opensm(run)
    settings = {job.old for job in [*run.jobs, *run.already_set]}
    refuse_mixed_keys(record, settings)
    goal = record.keys.wanted if record.goes_back else record.keys.former
    run.method = method = method_of_earlier_run(writer, run.found, record, reached, through, goal)
    in_files = [setting_in_options(each) for each in method.managers.all]
    record.rewind(settings)
    plan_rollback(record, settings, in_files[-1], in_files[:-1], through.open)
    if through.confirm:
        require_raised_level(record)
    if record.undoes_nothing:
        run.already_set, run.stages = [*run.jobs, *run.already_set], []
        return run
    _refuse_without_ports(run, record)
    _describe(writer, run, method)
    note_return_of_former_keys(writer, run, planning.leaves_open)
    return run


# --- hosts, files and settings ----------------------------------------------------------------------------------------


def _reach_hosts(writer: ChangeWriter, hosts: Sequence[SmHost]) -> list[ReachedHost]:
    """Connect to the hosts of the OpenSMs. Raises UsageError for a simulated subnet, HostNotReached."""
    if writer.fabric.is_simulated:
        raise UsageError(f"a simulated subnet has no OpenSM on any host: {given('omit --via', 'give via=Direct()')}")
    return reach(writer.enter, hosts)


def _take_keys(writer: ChangeWriter, reached: Sequence[ReachedHost]) -> list[Guid2MKeyFile]:
    """Read the key files of the OpenSMs, put the key of the last run from them into the key ring for the next sweep
    (see `take_keys_that_opensm_gave`), and return the files. Raises Refused (``unknown-keys``), and the errors of
    `read_key_files`."""
    key_files = read_key_files(reached, writer.fabric.own_guid)
    take_keys_that_opensm_gave(writer, key_files)
    refuse_without_keys(writer, key_files)
    return key_files


def _give_to_opensm(run: PlannedRun) -> None:
    """Note that OpenSM sets the ports, and put all jobs into one stage: it sets all ports in one sweep."""
    run.method_name = NAME
    run.stages = [run.jobs] if run.jobs else []


def _common_setting(run: PlannedRun) -> KeySetting | None:
    """Return the setting that all ports of a new run have; None if no port is to be changed. Raises Refused (`MIXED`)
    if the ports have different settings, or if a port that can be read is left alone."""
    if not run.jobs:
        return None
    left_alone = [each for each in run.skipped if not each.unread]
    settings = Counter(job.old for job in [*run.jobs, *run.already_set])
    if len(settings) == 1 and not left_alone:
        return next(iter(settings))
    keys = len({setting.key for setting in settings})
    levels = sorted({f"level {setting.protect}, lease {setting.lease} s" for setting in settings})
    have = [f"they have {counted(keys, 'key')}, {named(levels)}"]
    have += [f"{counted(len(left_alone), 'port')}: {left_alone[0].reason}"] if left_alone else []
    raise Refused(f"the ports do not have one M_Key, level and lease: {'; '.join(have)}", MIXED).unchanged(
        f"let OpenSM set its own on all of them first ({CHECK_FIRST}, then SIGHUP)",
        "OpenSM knows one M_Key, level and lease for the subnet.",
        "`ibkeys mkey-show --all` shows them.",
    )


def _refuse_other_options(manager: ManagedOpensm, now: KeySetting) -> None:
    """Raise Refused (`MIXED`) if the options file of an OpenSM has another setting than the ports, which have *now*."""
    in_file = setting_in_options(manager)
    if in_file != now and not (in_file.key.is_zero and now.key.is_zero):
        other = "another M_Key" if in_file.key != now.key else f"level {in_file.protect}, lease {in_file.lease} s"
        raise Refused(
            f"{manager.file.name} says {other}, but the ports have "
            f"{'none' if now.key.is_zero else f'level {now.protect}, lease {now.lease} s'}",
            MIXED,
        ).unchanged(
            f"let OpenSM set what its file says ({CHECK_FIRST}, then SIGHUP), and run the command again",
            "OpenSM has not set what its file says, or another user or program changed the ports.",
        )


# --- an earlier run ---------------------------------------------------------------------------------------------------


def reach_hosts_of_last_run(writer: ChangeWriter, through: ViaOpensm) -> tuple[RunRecord, list[ReachedHost]]:
    """Connect to the hosts of the last run, or to the hosts that the user names now. Return the record of the run, and
    these hosts.

    Raises UsageError if that run does not go through OpenSM, and for a simulated subnet; Refused (``overtaken``) if
    another program or administrator has changed its options files: a sweep with the keys of this key store would then
    only count violations; Refused (``unknown-keys``), KeyGone, FileError, HostNotReached, StoreError.
    """
    record = record_of_last_run(writer)
    this_host, *others = through.hosts or [SmHost()]
    reached = _reach_hosts(writer, [this_host, *(others or hosts_in({KEPT_HOSTS: record.hosts}))])
    refuse_changed_files(writer, record, options_files(reached, writer.fabric.own_guid))
    _take_keys(writer, reached)
    return record, reached


def method_of_earlier_run(
    writer: ChangeWriter,
    found: Topology,
    record: RunRecord,
    reached: Sequence[ReachedHost],
    through: ViaOpensm,
    goal: KeySetting,
) -> OpensmMethod:
    """Return the method of an earlier run, with the OpenSMs that run now. *found*: the result of a sweep that read
    `READING`; *goal*: the setting that all ports should get. Raises the errors of `find_key_managers`, and Refused
    (``overtaken``) if another program or administrator has changed the options files.
    """
    try:
        managers = find_key_managers(writer, reached, managers_of(found), goal)
    except Refused as error:
        if error.interlock == MASTER:
            where = "if OpenSM died in the middle of the run, type `ibkeys sm-repair` on its host"
            error.going_on(f"{where}: {AFTER_REPAIR}")
        raise
    running = [each.file for each in managers.all]
    # The files are compared again, now under the locks on the hosts, which were taken with the managers.
    refuse_changed_files(writer, record, [*running, *files_of_absent(record, running, reached)])
    return OpensmMethod(reached, managers, record, through)


def _refuse_without_ports(run: PlannedRun, record: RunRecord) -> None:
    """Raise Incomplete if no port of an earlier run could be read: its steps could not be proven."""
    if run.jobs or run.already_set or record.at == len(record.steps):
        return
    reasons = Counter(result.reason for result in run.skipped)
    why = "; ".join(f"{counted(number, 'port')}: {reason}" for reason, number in reasons.most_common(2))
    raise Incomplete(
        f"no port of the run could be read, so none of its steps could be proven; nothing was written, and no OpenSM "
        f"was signalled ({why or 'the sweep found none'})"
    )


# --- the plan in words ------------------------------------------------------------------------------------------------


def _describe(writer: ChangeWriter, run: PlannedRun, method: OpensmMethod) -> None:
    """Fill in the changes, objections and notes of the plan of *run*."""
    plan, record, managers = run.plan, method.record, method.managers
    jobs = [*run.jobs, *run.already_set]
    plan.changes = [change for job in run.jobs for change in changes_of(job.port, job.old, job.wanted)]
    writer.note_master_sm_lids([job.port for job in jobs], [manager.port for manager in managers.report.managers or ()])
    wanted = record.keys.wanted
    if not wanted.key.is_zero:
        plan.objections += objections_to_sa_key(managers) + objections_to_listeners(
            each.running for each in managers.all
        )
        plan.objections += objections_to_lease(f"each of {counted(len(jobs), 'port')}", wanted, None)
        plan.notes += notes_on_levels([wanted.protect])
    plan.objections += objections_to_owners(
        [each.file for each in managers.all], "the M_Key would be removed from every port"
    )
    plan.objections += objections_to_unread_policy(writer, managers.master.running.instance, run.found)
    plan.objections += objections_to_unread_options(managers.files, partial(is_written_here, writer))
    remaining, whole = record.steps[record.at :], len(record.steps)
    steps = range(record.at, whole)
    plan.notes += [StepNote(f"step {number + 1} of {whole}: {record.words(number)}") for number in steps]
    plan.notes += [
        f"{each.name} is stopped before, and started again at level {step.protect}"
        for step in remaining
        if step.standbys
        for each in managers.standbys
    ]
    if any(step.kind == "key" and not step.protect for step in remaining) and not wanted.key.is_zero:
        plan.notes.append(ExposureNote("at level 0 every port shows its M_Key to everybody who asks"))
    plan.notes += [*notes_on_files(managers), *managers.notes]

"""The step for partition enforcement: part_enforce in the options file of every OpenSM, proven at every leaf port that
can enforce.

OpenSM copies the P_Key table of each end port to its leaf port, and then lets the leaf port enforce. So an end port
with exactly the P_Keys of the policy loses no connectivity. An end port with more P_Keys than the policy would lose
some, and an interlock (``drift``) refuses that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from ibkeys.apply.by_sm.prediction import Prediction
from ibkeys.apply.opensm.interlocks import drift_of
from ibkeys.apply.opensm.site import OpensmSite, site_of
from ibkeys.apply.survey import Survey, survey_all_ports
from ibkeys.arguments import given
from ibkeys.change.consent import Objection
from ibkeys.change.interlocks.container_layer import objections_to_layers
from ibkeys.change.interlocks.file_owners import objections_to_owners
from ibkeys.change.interlocks.overtaken import why_overtaken
from ibkeys.change.interlocks.unread_policy import (
    is_written_here,
    objections_to_unread_options,
    objections_to_unread_policy,
)
from ibkeys.change.open_operations import already_undone
from ibkeys.change.subnets import KEPT_SUBNET, subnet_guids
from ibkeys.change.target import PortTarget
from ibkeys.change.through_sm import find_and_lock_sms
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused, UsageError
from ibkeys.harden.enforcement_run import ENFORCE, HARDENED, EnforcementPlan, EnforcingPort
from ibkeys.harden.overtaken import (
    JournaledValue,
    files_of,
    has_unfinished_change_on,
    is_hardening,
    is_of_subnet,
    journaled_values,
    part_enforce_in,
    refuse_changed_files,
    refuse_elsewhere,
    unfinished_changes,
)
from ibkeys.harden.step import COMMAND, HardeningStep, HardenRequest, StepChange, undo_of
from ibkeys.managers.files.opensm_file import FileKey, OpensmFile, merge_files
from ibkeys.managers.files.options_files import explain_missing_opensm, options_file
from ibkeys.managers.opensm.edit import NewValue
from ibkeys.managers.opensm.effective_options import EffectiveOption
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.managers.site import KEPT_HOSTS, FoundSms, RunningOpensm, reach, to_json
from ibkeys.managers.subnet_managers import managers_of
from ibkeys.partitions.opensm_tables import place_leaf
from ibkeys.printable import counted, named
from ibkeys.store.journal import Journal, OperationRecord
from ibkeys.topology.enforcement import Enforcement, leaf_of

_HARDEN: Final = f"ibkeys {COMMAND} --via opensm"
_NO_ENFORCEMENT: Final = "no_partition_enforcement"
_OPTIONS: Final = (ENFORCE, _NO_ENFORCEMENT)
_REFUSAL: Final = "opensm-options"
"""The value of `Refused.interlock` if an OpenSM would not apply the option; it cannot be overridden."""


class PartEnforceStep(HardeningStep):
    """The step that sets part_enforce both."""

    name = "enforcement"
    title = "leaf switch ports enforce partitions both ways"

    def is_due(self, writer: ChangeWriter, asked: HardenRequest) -> bool:
        """Return whether an earlier run of this step, or the undo of one, has not ended, and may concern this subnet
        and one of the hosts: see `has_unfinished_change_on`. Raises StoreError, and the errors of a sweep."""
        return has_unfinished_change_on(writer, {each.name for each in asked.hosts})

    def plan_change(self, writer: ChangeWriter, asked: HardenRequest) -> StepChange | None:
        """Return the change of the options files; None if they have the value already, every leaf port enforces, and no
        earlier change is unfinished.

        Raises the errors of `plan_enforcement`; Refused (``overtaken``) if a change was interrupted and a file that it
        wrote was changed since.
        """
        plan = plan_enforcing(writer, asked)
        if not plan.pending:
            return None
        return StepChange.of(plan, plan.words, undo_of(plan.cut_off), lambda: _make(writer, plan))


ENFORCEMENT: Final = PartEnforceStep()


def plan_enforcing(writer: ChangeWriter, asked: HardenRequest) -> EnforcementPlan:
    """Plan that every OpenSM works with part_enforce both, or the rest of the change that was interrupted.

    Raises the errors of `plan_enforcement`; Refused (``overtaken``) if a change was interrupted and a file that it
    wrote was changed since.
    """
    plan = plan_enforcement(writer, asked, lambda file: HARDENED)
    if unfinished := unfinished_changes(writer, plan.files):
        values = journaled_values(writer)
        hardened = [file for file in plan.changing if file.key in values and values[file.key].is_hardened]
        refuse_changed_files(hardened, values, unfinished)
    plan.objections += objections_to_layers(plan.changing, "its OpenSM would enforce as before") if plan.pending else []
    return plan


def plan_enforcement(
    writer: ChangeWriter, asked: HardenRequest, wanted: Callable[[OpensmFile], str]
) -> EnforcementPlan:
    """Plan that every OpenSM works with a part_enforce of ``both``, ``in``, ``out`` or ``off``. *wanted* returns that
    value for an options file. The leaf ports enforce by the value of the master.

    SMPs: a sweep, and the table of each end port and leaf port. Raises Refused (`_REFUSAL`) if an OpenSM would not
    apply the value, and (``overtaken``) if the change that *writer* resumes wrote other files than those of this
    subnet; UsageError if the options of an OpenSM are not known; FileFormatError for a file that cannot be edited;
    StoreError, and the errors of `find_site`.
    """
    survey = survey_all_ports(writer, (), by_port_guid=True)
    assert survey.topology is not None
    reached = reach(writer.enter, asked.hosts)
    found_sms = find_and_lock_sms(writer, managers_of(survey.topology), reached)
    site = site_of(writer, reached, found_sms)
    plan = EnforcementPlan(
        COMMAND, found_sms=found_sms, wait=asked.wait, progress=asked.listener.progress, say=asked.say, notes=site.notes
    )
    plan.files = options_files_to_write(found_sms, plan.notes)
    if writer.continued is not None:
        refuse_elsewhere(writer, writer.continued, plan.files)
    of_master = wanted(plan.files[-1])
    of_leaves = Enforcement(of_master in ("both", "in"), of_master in ("both", "out"))
    plan.leaves = list(leaf_ports_to_enforce(survey, of_leaves))
    hardens = writer.command == COMMAND
    is_in_force = not hardens or all(each.leaf.enforcement == each.wanted for each in plan.leaves)
    *others, master = plan.files
    plan.new = {file.key: _with_part_enforce(file, wanted(file), True) for file in others}
    plan.new[master.key] = _with_part_enforce(master, of_master, is_in_force)
    unfinished = unfinished_changes(writer, plan.files)
    plan.cut_off = next((each.id for each in reversed(unfinished) if is_hardening(each) == hardens), None)
    opposite = [each for each in unfinished if is_hardening(each) != hardens]
    plan.reverts = next((each.command for each in opposite), "")
    plan.ends = [each.id for each in unfinished]
    plan.kept = {KEPT_HOSTS: to_json(reached), KEPT_SUBNET: subnet_guids(writer, survey.topology)}
    plan.words = _in_words(plan, wanted, of_master)
    if plan.pending:
        plan.objections += [
            # An unread policy comes before drift: drift from it ends when OpenSM reads it.
            *objections_to_unread_policy(writer, found_sms.master.instance, survey.topology),
            *objections_to_unread_options(plan.files, partial(is_written_here, writer)),
            *_objections_to_drift(site, survey, of_master),
            *objections_to_unreached_sms(found_sms),
            *objections_to_owners(plan.changing),
        ]
    return plan


def plan_rest(writer: ChangeWriter, asked: HardenRequest, begun: OperationRecord) -> EnforcementPlan:
    """Plan the rest of the unfinished change *begun*: a hardening, or the undo of one.

    *writer*: made for the command that `command_of_writer` returns. Raises Refused (``stale``) if the change has ended
    in the meantime, and the errors of `plan_enforcing` or `plan_restoring`.
    """
    plan = (plan_enforcing if is_hardening(begun) else plan_restoring)(writer, asked)
    if plan.cut_off != begun.id:  # *begun* was read before this process held the lock
        raise Refused(f"operation {begun.id} has ended in the meantime", "stale").unchanged("see `ibkeys journal`")
    return plan


def command_of_writer(begun: OperationRecord) -> str:
    """Return the command for the `ChangeWriter` that finishes the unfinished change *begun*."""
    return COMMAND if is_hardening(begun) else "undo"


def plan_restoring(writer: ChangeWriter, asked: HardenRequest, undoes: int | None = None) -> EnforcementPlan:
    """Plan to restore in each options file the part_enforce that the last hardening found there.

    A file is not changed if the journal has no value for it, or the hardening of that file was undone. *undoes*: the
    number of the hardening's operation, which is undone; None if an undo that was begun is finished.

    Raises UsageError if the journal has neither a value for any file nor an unfinished change on this subnet; the
    errors of `plan_enforcement`; Refused (``overtaken``) if another program has changed part_enforce since that
    hardening, or since the hardening was undone.
    """
    values = journaled_values(writer)
    if not values and not unfinished_changes(writer):
        raise _nothing_to_restore()

    def wanted(file: OpensmFile) -> str:
        value = values.get(file.key)
        return value.former if value is not None and value.is_hardened else part_enforce_in(file.data)

    plan = plan_enforcement(writer, asked, wanted)
    unfinished = unfinished_changes(writer, plan.files)
    known = [file for file in plan.files if file.key in values]
    hardened = [file for file in known if values[file.key].is_hardened]
    if not known and not unfinished:
        raise _nothing_to_restore()
    refuse_changed_files(hardened if hardened or unfinished else known, values, unfinished)
    plan.undoes = undoes
    plan.notes += _notes_on_unchanged(plan.files, values)
    return plan


def _notes_on_unchanged(files: Iterable[OpensmFile], values: Mapping[FileKey, JournaledValue]) -> Iterator[str]:
    """Yield a note for each file whose part_enforce stays because neither a hardening nor its undo set it."""
    for file in files:
        value = part_enforce_in(file.data)
        if file.key not in values:
            yield f"{file.name}: {ENFORCE} {value} stays: the journal has no value from before a hardening"
        elif value not in values[file.key].known:
            yield f"{file.name}: {ENFORCE} {value} stays: another program set it after the hardening was undone"


def _nothing_to_restore() -> UsageError:
    return UsageError(
        f"the journal knows no {ENFORCE} from before a hardening of these OpenSMs, so there is nothing to restore"
    ).explained(f"If that journal was lost, `{_HARDEN}` sets {ENFORCE} both; another value is set by hand.")


def why_not_finishable(writer: ChangeWriter, asked: HardenRequest) -> str | None:
    """Return why an unfinished change of part_enforce can be neither finished nor undone: another program has changed
    part_enforce since. Return None if the change can be finished or undone.

    Raises UsageError if every change has ended, and the other errors of `plan_enforcing` and `plan_restoring`.
    """
    if not unfinished_changes(writer):
        raise UsageError(f"every change of {ENFORCE} in the journal has ended")
    return why_overtaken(partial(plan_enforcing, writer, asked), partial(plan_restoring, writer, asked))


def refuse_undo(writer: ChangeWriter, operation: int) -> None:
    """Raise UsageError for a change of part_enforce that is an undo itself, or not the last hardening of its subnet;
    StoreError for a hardening that was undone already, and for an unknown number. *operation*: the number of the
    change."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        record = journal.find(operation)
        files = files_of(journal, operation)
        in_force = [each.id for each in journal.list_operations() if is_hardening(each) and each.state != "undone"]
        on_subnet = [each for each in in_force if is_of_subnet(journal, each, files)]
    name = f"operation {record.id} ({record.command})"
    if not is_hardening(record):
        raise UsageError(
            f"{name} restored the former {ENFORCE}, and this cannot be undone: `ibkeys resume` finishes it where it is "
            f"open; `{_HARDEN}` sets {ENFORCE} both again"
        )
    if record.state == "undone":
        raise already_undone(record)
    if on_subnet[-1] != record.id:
        raise UsageError(
            f"{name} is not the last hardening of {ENFORCE} on its subnet that was not undone: `ibkeys undo "
            f"{on_subnet[-1]}` restores in each options file the value from before"
        )


def _make(writer: ChangeWriter, plan: EnforcementPlan) -> Sequence[str]:
    """Make the change, and return the leaf ports that did not answer."""
    writer.apply(plan)
    return plan.silent


# --- the options files ------------------------------------------------------------------------------------------------


def options_files_to_write(found_sms: FoundSms, notes: list[str]) -> list[OpensmFile]:
    """Return the options files of the OpenSMs that are reached, with the master's file last. Add to *notes* what is not
    certain about them."""
    files = []
    for running in found_sms.opensms:
        settings, uncertain = running.settings(_OPTIONS, "which ports enforce partitions")
        _refuse_command_line(running, settings)
        conf, doubts = options_file(running, _REFUSAL)
        notes += [each for each in [*uncertain, *doubts] if each not in notes]
        files.append(conf)
    return merge_files(files)


def _refuse_command_line(running: RunningOpensm, settings: Mapping[str, EffectiveOption]) -> None:
    """Raise Refused (`_REFUSAL`) if the command line of an OpenSM sets partition enforcement."""
    if any(setting.source == "command line" for setting in settings.values()):
        raise Refused(
            f"{running.instance.name}: enforcement of leaf ports is set on its command line, which may override its "
            "options file: start it without that option",
            _REFUSAL,
        ).unchanged()


def _with_part_enforce(file: OpensmFile, wanted: str, is_in_force: bool) -> bytes:
    """Return the contents of the options file with part_enforce *wanted*, and FALSE in an older option that has
    precedence over part_enforce.

    *is_in_force*: False if the leaf ports show that the OpenSM of the file does not work with *wanted*. Then both
    options get a line if the file has none: a running OpenSM keeps the value of a line that was removed.
    """
    options = read_options(file.data)
    if options.value(ENFORCE) == wanted and (is_in_force or ENFORCE in options.values):
        return file.data
    is_older_false = options.value(_NO_ENFORCEMENT) is False and ENFORCE in options.values
    older: dict[str, NewValue] = {} if is_older_false else {_NO_ENFORCEMENT: False}
    return file.with_options({**older, ENFORCE: wanted})


def _in_words(plan: EnforcementPlan, wanted: Callable[[OpensmFile], str], of_master: str) -> list[str]:
    words = [_file_in_words(file, part_enforce_in(file.data), wanted(file)) for file in plan.changing]
    changing = sum(leaf.difference() != "" for leaf in plan.leaves)
    ends = [f"the {plan.reverts} that did not end is closed in the journal"] if plan.reverts else []
    return [*words, f"{counted(changing, 'leaf port')} of {len(plan.leaves)} will enforce {of_master}", *ends]


def _file_in_words(file: OpensmFile, former: str, wanted: str) -> str:
    if former == wanted:
        return f"{file.name}: lines for {ENFORCE} {wanted}, because OpenSM keeps the value of a line that was removed"
    return f"{file.name}: {ENFORCE} {former} -> {wanted}"


# --- the leaf ports ---------------------------------------------------------------------------------------------------


def leaf_ports_to_enforce(survey: Survey, wanted: Enforcement) -> Iterator[EnforcingPort]:
    """Yield the leaf ports that can enforce, each with its end port and the enforcement that it should have.

    A leaf port whose table has no room for all P_Keys of its end port is left out: OpenSM lets it enforce nothing.
    """
    targets: Mapping[tuple[int, int], PortTarget] = survey.targets
    for target in targets.values():
        port = leaf_of(target.port) if not target.port.is_external else None
        leaf = targets.get((port.node.guid, port.num)) if port is not None else None
        switch = port.node.switch_info if port is not None else None
        if leaf is None or switch is None or not switch.partition_enforcement_cap:
            continue
        if place_leaf(leaf.table, target.table, leaf.port.capacity or 0).enforces:
            inbound = wanted.inbound and bool(switch.inbound_enforcement_cap)
            outbound = wanted.outbound and bool(switch.outbound_enforcement_cap)
            yield EnforcingPort(leaf, target, Enforcement(inbound, outbound))


# --- interlocks -------------------------------------------------------------------------------------------------------


def _objections_to_drift(site: OpensmSite, survey: Survey, wanted: str) -> Iterator[Objection]:
    """Yield ``drift`` if the P_Keys of end ports differ from those that OpenSM gave them: to the leaf port, OpenSM
    copies only what it gave to the end port. *wanted*: the new part_enforce of the master; with ``off`` no port loses
    connectivity."""
    if wanted == "off":
        return
    options = replace(site.options, part_enforce="off")
    drift = drift_of(Prediction(survey, options, site.manager.guid), site.policy, site.policy, ())
    if drift.texts_elsewhere:
        yield Objection(
            "drift",
            f"{counted(len(drift.texts_elsewhere), 'port')} not matching OpenSM's policy: "
            f"{named(drift.texts_elsewhere)}; first correct the policy",
            "Switches would pass what the policy allows and drop the rest.",
        )


def objections_to_unreached_sms(found_sms: FoundSms) -> Iterator[Objection]:
    """Yield ``standby-differs`` if, for an SM that is not master, no OpenSM was found on the hosts that were reached:
    when it takes over, it works with its own part_enforce."""
    strangers = [str(manager.port) for manager, running in found_sms.non_masters() if running is None]
    if strangers:
        why = explain_missing_opensm([each.name for each in found_sms.report.instances() if each.port_guid is None])
        reach_it = given("reach it with --sm-host", "name its host in hosts=")
        yield Objection(
            "standby-differs",
            f"the SM at {named(strangers)}: {why}; when it takes over, its own part_enforce applies; {reach_it}",
        )

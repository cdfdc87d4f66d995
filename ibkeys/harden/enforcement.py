"""The step for partition enforcement: part_enforce in the options file of every OpenSM, proven at every leaf port.

OpenSM copies the table of each end port to the switch port before it, and then lets that port enforce; so ports with
exactly the P_Keys of the policy lose no connectivity. Ports with more would lose it, which triggers an interlock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from ibkeys.apply.by_sm.steps import Prediction
from ibkeys.apply.opensm.interlocks import drift_of
from ibkeys.apply.opensm.site import OpensmSite, site_of
from ibkeys.apply.survey import Survey, look_at_all
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
from ibkeys.change.subnets import KEPT_SUBNET, ports_that_stay
from ibkeys.change.target import PortTarget
from ibkeys.change.through_sm import sms_for
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused, UsageError
from ibkeys.harden.enforcement_run import ENFORCE, HARDENED, EnforcementPlan, EnforcingPort
from ibkeys.harden.overtaken import (
    files_of,
    goes_forth,
    is_left_on,
    is_of,
    not_ended,
    own_values,
    refuse_changed_files,
    refuse_elsewhere,
    value_in,
)
from ibkeys.harden.step import COMMAND, HardeningStep, HardenRequest, StepChange, undo_of
from ibkeys.managers.files.opensm_file import OpensmFile, merged
from ibkeys.managers.files.options_files import options_file, where_it_may_be
from ibkeys.managers.opensm.edit import NewValue
from ibkeys.managers.opensm.effective_options import EffectiveOption
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.managers.site import KEPT_HOSTS, FoundSms, Running, reach, to_json
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
        """Return whether an earlier run of this step, or its undo, was begun on these hosts and this subnet and has not
        ended."""
        return is_left_on(writer, {each.name for each in asked.hosts})

    def plan_change(self, writer: ChangeWriter, asked: HardenRequest) -> StepChange | None:
        """Return the change of the options files, None if they have the value already and every leaf port enforces.

        Raises the errors of `plan_enforcement`; Refused (``overtaken``) if a change was interrupted and a file that it
        wrote was changed since.
        """
        plan = plan_forth(writer, asked)
        if not plan.pending:
            return None
        return StepChange.of(plan, plan.words, undo_of(plan.cut_off), lambda: _make(writer, plan))


ENFORCEMENT: Final = PartEnforceStep()


def plan_forth(writer: ChangeWriter, asked: HardenRequest) -> EnforcementPlan:
    """Plan that every OpenSM works with part_enforce both, or the rest of the change that was interrupted.

    Raises the errors of `plan_enforcement`; Refused (``overtaken``) if a change was interrupted and a file that it
    wrote was changed since.
    """
    plan = plan_enforcement(writer, asked, lambda file: HARDENED)
    if left := not_ended(writer, plan.files):
        own = own_values(writer)
        refuse_changed_files(
            [file for file in plan.changing if file.key in own and own[file.key].is_hardened], own, left
        )
    plan.objections += objections_to_layers(plan.changing, "its OpenSM would enforce as before") if plan.pending else []
    return plan


def plan_enforcement(
    writer: ChangeWriter, asked: HardenRequest, wanted: Callable[[OpensmFile], str]
) -> EnforcementPlan:
    """Plan that every OpenSM works with part_enforce as *wanted* returns it for its options file.

    The values are ``both``, ``in``, ``out`` or ``off``; the leaf ports enforce by the value of the master.

    SMPs: a sweep, and the table of each end port and leaf port. Raises Refused if an OpenSM would not apply it, and
    (``overtaken``) if the change that *writer* resumes wrote other files than those of this subnet, UsageError if its
    options are not known, FileFormatError for a file that cannot be edited, and the errors of `find_site`.
    """
    survey = look_at_all(writer, (), by_port_guid=True)
    assert survey.topology is not None
    reached = reach(writer.enter, asked.hosts)
    found_sms = sms_for(writer, managers_of(survey.topology), reached)
    site = site_of(writer, reached, found_sms)
    plan = EnforcementPlan(
        COMMAND, found_sms=found_sms, wait=asked.wait, progress=asked.listener.progress, say=asked.say, notes=site.notes
    )
    plan.files = _files(found_sms, plan.notes)
    if writer.goes_on is not None:
        refuse_elsewhere(writer, writer.goes_on, plan.files)
    plan.new = {file.key: _edited(file, wanted(file)) for file in plan.files}
    enforced = wanted(plan.files[-1])
    plan.leaves = list(_leaves(survey, Enforcement(enforced in ("both", "in"), enforced in ("both", "out"))))
    left, is_forth = not_ended(writer, plan.files), writer.command == COMMAND
    plan.cut_off = next((each.id for each in reversed(left) if goes_forth(each) == is_forth), None)
    others = [each for each in left if goes_forth(each) != is_forth]
    plan.reverts = next((each.command for each in others), "")
    plan.ends = [each.id for each in left]
    plan.kept = {KEPT_HOSTS: to_json(reached), KEPT_SUBNET: ports_that_stay(writer, survey.topology)}
    plan.words = _in_words(plan, wanted, enforced)
    if plan.pending:
        plan.objections += [
            # First: drift from a policy that OpenSM has not read yet ends when it reads it.
            *objections_to_unread_policy(writer, found_sms.master.instance, survey.topology),
            *objections_to_unread_options(plan.files, partial(is_written_here, writer)),
            *_of_drift(site, survey, enforced),
            *objections_to_strangers(found_sms),
            *objections_to_owners(plan.changing),
        ]
    return plan


def plan_rest(writer: ChangeWriter, asked: HardenRequest, begun: OperationRecord) -> EnforcementPlan:
    """Plan the rest of the change that was *begun*, in its own direction; `writer_command` names the command of
    *writer*.

    Raises Refused (``stale``) if it has ended meanwhile, and the errors of `plan_enforcement`.
    """
    plan = (plan_forth if goes_forth(begun) else plan_back)(writer, asked)
    if plan.cut_off != begun.id:  # it was found before the lock was held
        raise Refused(f"operation {begun.id} has ended in the meantime", "stale").unchanged("see `ibkeys journal`")
    return plan


def writer_command(begun: OperationRecord) -> str:
    """Return the command of the writer that finishes the change *begun*."""
    return COMMAND if goes_forth(begun) else "undo"


def plan_back(writer: ChangeWriter, asked: HardenRequest, undoes: int | None = None) -> EnforcementPlan:
    """Plan to restore in each options file the part_enforce that the last hardening found there.

    A file of which the journal has no value is not changed. *undoes*: the operation of that hardening, which this
    undoes; None where an undoing by an earlier version of ibkeys is finished.

    Raises UsageError if the journal has no value at all, the errors of `plan_enforcement`, and Refused (``overtaken``)
    if another program has changed it since that hardening, or since it was undone.
    """
    own = own_values(writer)
    if not own and not not_ended(writer):
        raise _nothing_to_restore()

    def wanted(file: OpensmFile) -> str:
        value = own.get(file.key)
        return value.former if value is not None and value.is_hardened else value_in(file.data)

    plan = plan_enforcement(writer, asked, wanted)
    left = not_ended(writer, plan.files)
    known = [file for file in plan.files if file.key in own]
    hardened = [file for file in known if own[file.key].is_hardened]
    if not known and not left:
        raise _nothing_to_restore()
    refuse_changed_files(hardened if hardened or left else known, own, left)
    plan.undoes = undoes
    plan.notes += [
        f"{file.name}: {ENFORCE} {value_in(file.data)} stays, because the journal knows none from before a hardening"
        for file in plan.files
        if file.key not in own or value_in(file.data) not in own[file.key].known
    ]
    return plan


def _nothing_to_restore() -> UsageError:
    return UsageError(
        f"the journal knows no {ENFORCE} from before a hardening of these OpenSMs, so there is nothing to restore"
    ).explained(f"If that journal was lost, `{_HARDEN}` sets {ENFORCE} both; another value is set by hand.")


def why_it_may_end(writer: ChangeWriter, asked: HardenRequest) -> str | None:
    """Return why a change of part_enforce that has not ended can be neither finished nor undone: another program has
    changed it since.

    None if it can. Raises UsageError if all have ended, and other errors of the two.
    """
    if not not_ended(writer):
        raise UsageError(f"every change of {ENFORCE} in the journal has ended")
    return why_overtaken(partial(plan_forth, writer, asked), partial(plan_back, writer, asked))


def refuse_way_back(writer: ChangeWriter, operation: int) -> None:
    """Raise UsageError for a change of part_enforce that is an undoing itself, or not the last hardening, StoreError
    for one that was undone already. *operation*: its number."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        record = journal.find(operation)
        files = files_of(journal, operation)
        forth = [each.id for each in journal.list_operations() if goes_forth(each) and each.state != "undone"]
        stands = [each for each in forth if is_of(journal, each, files)]
    name = f"operation {record.id} ({record.command})"
    if not goes_forth(record):
        raise UsageError(
            f"{name} gave the former {ENFORCE} back, and that is not undone: `ibkeys resume` finishes it where it is "
            f"open; `{_HARDEN}` sets {ENFORCE} both again"
        )
    if record.state == "undone":
        raise already_undone(record)
    if stands[-1] != record.id:
        raise UsageError(
            f"{name} is not the last change of {ENFORCE} that stands on its subnet: `ibkeys undo {stands[-1]}` "
            "restores in each options file what was there before"
        )


def _make(writer: ChangeWriter, plan: EnforcementPlan) -> Sequence[str]:
    writer.apply(plan)
    return plan.silent


# --- the options files ------------------------------------------------------------------------------------------------


def _files(found_sms: FoundSms, notes: list[str]) -> list[OpensmFile]:
    """Return the options files of the OpenSMs that are reached, that of the master last."""
    files = []
    for running in found_sms.opensms:
        settings, uncertain = running.settings(_OPTIONS, "which ports enforce partitions")
        _refuse_command_line(running, settings)
        conf, doubts = options_file(running, _REFUSAL)
        notes += [each for each in [*uncertain, *doubts] if each not in notes]
        files.append(conf)
    return merged(files)


def _refuse_command_line(running: Running, settings: Mapping[str, EffectiveOption]) -> None:
    if any(setting.source == "command line" for setting in settings.values()):
        raise Refused(
            f"{running.instance.name}: enforcement of leaf ports is set on its command line, which may override its "
            "options file: start it without that option",
            _REFUSAL,
        ).unchanged()


def _edited(file: OpensmFile, wanted: str) -> bytes:
    """Return the options file with part_enforce *wanted*, and FALSE in an older option that has precedence over it."""
    options = read_options(file.data)
    if options.value(ENFORCE) == wanted:
        return file.data
    older: dict[str, NewValue] = {_NO_ENFORCEMENT: False} if options.value(_NO_ENFORCEMENT) is True else {}
    return file.with_options({**older, ENFORCE: wanted})


def _in_words(plan: EnforcementPlan, wanted: Callable[[OpensmFile], str], enforced: str) -> list[str]:
    words = [f"{file.name}: {ENFORCE} {value_in(file.data)} -> {wanted(file)}" for file in plan.changing]
    changing = sum(leaf.difference() != "" for leaf in plan.leaves)
    ends = [f"the {plan.reverts} that did not end is closed in the journal"] if plan.reverts else []
    return [*words, f"{counted(changing, 'leaf port')} of {len(plan.leaves)} will enforce {enforced}", *ends]


# --- the leaf ports ---------------------------------------------------------------------------------------------------


def _leaves(survey: Survey, wanted: Enforcement) -> Iterator[EnforcingPort]:
    """Yield the leaf ports that can enforce, each with its end port.

    A port whose table the P_Keys of the end port fill is left out: OpenSM lets it enforce nothing.
    """
    targets: Mapping[tuple[int, int], PortTarget] = survey.targets
    for target in targets.values():
        leaf = leaf_of(target.port) if not target.port.is_external else None
        before = targets.get((leaf.node.guid, leaf.num)) if leaf is not None else None
        switch = leaf.node.switch_info if leaf is not None else None
        if before is None or switch is None or not switch.partition_enforcement_cap:
            continue
        if place_leaf(before.table, target.table, before.port.capacity or 0).enforces:
            inbound = wanted.inbound and bool(switch.inbound_enforcement_cap)
            outbound = wanted.outbound and bool(switch.outbound_enforcement_cap)
            yield EnforcingPort(before, target, Enforcement(inbound, outbound))


# --- interlocks -------------------------------------------------------------------------------------------------------


def _of_drift(site: OpensmSite, survey: Survey, wanted: str) -> Iterator[Objection]:
    """Yield ``drift``: end ports have P_Keys that OpenSM did not give them. It copies those it remembers to the leaf
    port."""
    if wanted == "off":
        return
    options = replace(site.options, part_enforce="off")
    drift = drift_of(Prediction(survey, options, site.manager.guid), site.policy, site.policy, ())
    if drift.elsewhere:
        yield Objection(
            "drift",
            f"{counted(len(drift.elsewhere), 'port')} not matching OpenSM's policy: {named(drift.elsewhere)}; first "
            "correct the policy",
            "Switches would pass what the policy allows and drop the rest.",
        )


def objections_to_strangers(found_sms: FoundSms) -> Iterator[Objection]:
    """Yield ``standby-differs``: an SM that would take over works with its own part_enforce."""
    strangers = [str(manager.port) for manager, running in found_sms.non_masters() if running is None]
    if strangers:
        why = where_it_may_be([each.name for each in found_sms.report.instances() if each.port_guid is None])
        reach_it = given("reach it with --sm-host", "name its host in hosts=")
        yield Objection(
            "standby-differs",
            f"the SM at {named(strangers)}: {why}; when it takes over, its own part_enforce applies; {reach_it}",
        )

"""The course of a change through OpenSM, worked out before anything is written: the policies, the files that get them,
and the tables after each policy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from ibkeys.apply.by_sm.course import CarrierSettings, TablesCourse, TablesStep
from ibkeys.apply.by_sm.prediction import Prediction, breaks_of, partitions_in, unused_partition
from ibkeys.apply.by_sm.wanted import (
    enforcement_of,
    goal_of,
)
from ibkeys.apply.former_values import FormerValues
from ibkeys.apply.opensm.interlocks import (
    drift_of,
    notes_on_older_policy,
    objections_to_edits,
    objections_to_later_policy,
    objections_to_older_policy,
    objections_to_others_work,
    objections_to_self,
    objections_to_standbys,
    objections_to_uncertain_policy,
    refuse_unread_policy,
    set_drift_aside,
)
from ibkeys.apply.opensm.policy_files import digest_of, step_contents_in
from ibkeys.apply.opensm.site import OpensmSite, policy_for
from ibkeys.change.interlocks.container_layer import objections_to_layers
from ibkeys.change.interlocks.file_owners import objections_to_owners
from ibkeys.change.opensm_files import NewFiles
from ibkeys.change.wanted import Entries
from ibkeys.errors import UsageError
from ibkeys.keys.pkey import PKey
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.site import stale_for_good
from ibkeys.partitions.living_groups import LivingGroups
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.model import PartitionPlan
from ibkeys.plan.sm_policies import SmPolicies, policies_between
from ibkeys.printable import counted, named
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.port_id import PortKey


@dataclass(slots=True)
class PolicyCourse(TablesCourse[NewFiles]):
    """The course of a change through OpenSM. ``files``: the policy files that are replaced, the master's last.
    ``local_files``: the files of this host that change with the policy; ``set_places``: changes the places in the key
    store, at the end; ``enforcement_notes``: notes on leaf ports whose former enforcement a rollback does not
    restore."""

    files: list[OpensmFile] = field(default_factory=list)
    local_files: list[OpensmFile] = field(default_factory=list)
    set_places: Callable[[Callable[[], KeyStore]], None] = lambda open_store: None
    enforcement_notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class OpensmPlanning:
    """Works out the course of one change. *files*: the policy files of the site, the master's last. *local_files*: the
    files of this host that change with the policy, with their new contents."""

    site: OpensmSite
    files: list[OpensmFile]
    local_files: list[tuple[OpensmFile, bytes]]
    prediction: Prediction
    settings: CarrierSettings

    def plan_course(self, plan: PartitionPlan, former: FormerValues | None) -> PolicyCourse:
        """Return the course of a plan. *former*: the values that an earlier run of the plan found and wrote.

        Raises UsageError, FileFormatError, Refused.
        """
        site, prediction = self.site, self.prediction
        local_files = [file for file, _ in self.local_files]
        course = PolicyCourse(dict(prediction.present), files=self.files, local_files=local_files)
        course.set_places = self.settings.changed_together.places.record
        new = policy_for(plan, site)
        self._refuse_other_master(plan, new)
        images = former.files if former is not None else []
        contents = step_contents_in(images).get(self.files[-1].key)
        goal = goal_of(plan, prediction, course.remaining, former, map(policy_in_file, dict.fromkeys(contents or ())))
        old = site.policy
        rewrite = None
        if self.settings.rewrite:
            used = {each.base for policy in (old, new) if policy is not None for each in policy.partitions}
            rewrite = unused_partition(used | partitions_in(prediction.present.values()))
            prediction.drifted = drift_of(prediction, old, new, ()).guids
        else:
            self._set_drift_aside(course, plan, new, former)
        self._add_unplanned_ports(goal, plan, new)
        found = policies_between(
            old,
            new,
            [replace(each, after=goal[each.port.key]) for each in prediction.tables],
            site.manager.guid,
            site.options,
            plan_digest(plan),
            others=prediction.unread,
            gaps=self.settings.gaps,
            rewrite=rewrite,
        )
        self._refuse_other_choice_of_keys(plan, found)
        self._note(found)
        course.breaks = breaks_of(found.cycles, prediction)
        blind = set(prediction.not_enforcing(found.tables[-1]))
        changes = enforcement_of(plan, prediction.survey, course.remaining)
        short = dict(prediction.cut_short(found.tables[-1]))
        course.enforcement = [each for each in changes if each.port.key not in blind | short.keys()]
        self._refuse_cut_short(short)
        self._note_blind(blind)
        self._note_left_over(dict(prediction.left_over(found.tables[-1])))
        self.lay_out(course, found.texts)
        ours = {image.after for image in images}
        is_ours = site.policy is not None and site.policy.data in ours
        # These come first: a port that differs from a policy that OpenSM has not read yet has not drifted.
        if self.settings.spreads:
            refuse_unread_policy(site, prediction)
            course.objections += objections_to_uncertain_policy(site, prediction)
        else:
            course.objections[:0] = objections_to_edits(site, prediction, is_ours)
        if former is None:
            course.objections += objections_to_later_policy(self.files[-1], plan)
        else:
            known = former.found_files | {digest_of(each) for image in images for each in (image.before, image.after)}
            # This objection comes before that to an unread edit: a user who keeps the changed file need not let OpenSM
            # read it.
            course.objections[:0] = objections_to_others_work([*local_files, *self.files], known, former.operation)
        known_texts = {image.before for image in images} | ours | {found.texts[-1]}
        if self.settings.spreads:  # to replace them is what the user asks for
            known_texts |= {file.seen.data for file in self.files}
            course.objections += objections_to_older_policy(site, self.files[-1])
            site.notes += notes_on_older_policy(site, self.files[-1], starts=False) if not course.steps else ()
        elif former is None:
            site.notes += notes_on_older_policy(site, self.files[-1])
        course.objections += objections_to_standbys(site, self.files, known_texts)
        present = policy_in_file(contents[0]) if contents is not None and is_ours else site.policy
        self.note_unverifiable(course, present, new)
        course.objections += objections_to_self(site, new, present)
        course.objections += objections_to_owners([*local_files, *self.files])
        if former is None:
            course.objections += objections_to_layers(self.files, "its OpenSM would undo this change")
        return course

    def _refuse_other_master(self, plan: PartitionPlan, new: Policy) -> None:
        """Raise Refused (``stale``) if the SM of another port is master than when *plan* was made, and the policy
        therefore gives ports other P_Keys: SELF is the port of the master (opensm osm_prtn_config.c)."""
        manager, made_for = self.site.manager, plan.fabric.sm_guid
        if made_for in (None, manager.guid):
            return
        here = self.prediction.memberships(new)
        there = replace(self.prediction, sm_port_guid=made_for).memberships(new)
        differing = [str(port) for port in self.prediction.end_ports if here[port.guid] != there[port.guid]]
        if differing:
            raise stale_for_good(
                f"the SM at {manager.port} is master now, and the plan was made while the SM at the port GUID "
                f"0x{made_for:016x} was master; the policy uses SELF, which means another port now"
            ).unchanged(
                "let the former SM be master again, or make a new plan (`ibkeys plan`)",
                f"Other P_Keys than planned would go to: {named(differing)}.",
            )

    def _refuse_other_choice_of_keys(self, plan: PartitionPlan, found: SmPolicies) -> None:
        """Raise UsageError if a table is too small, and OpenSM leaves out other P_Keys than the plan does."""
        last, targets = found.tables[-1], self.prediction.survey.targets
        for table in plan.tables:
            target = targets.get(table.port.key)
            if target is None or target.port.is_external or target.port.guid in self.prediction.guids_set_aside:
                continue
            made, planned = ({*each.values()} for each in (last[target.port.guid].entries, table.after))
            if made != planned:
                raise UsageError(
                    f"{target.id}: the policy gives it more P_Keys than its table has entries, and OpenSM and the plan "
                    f"leave out different ones ({named(sorted(made ^ planned))}): remove P_Keys from the policy"
                )

    def _add_unplanned_ports(self, goal: dict[PortKey, Entries], plan: PartitionPlan, new: Policy) -> None:
        """Add to *goal* the P_Keys of end ports that the plan does not name, because they were connected after it was
        made."""
        planned, wanted = {table.port.key for table in plan.tables}, self.prediction.memberships(new)
        late = []
        for key, target in self.prediction.survey.targets.items():
            port = target.port
            if port.is_external or key in planned or port.guid in self.prediction.guids_set_aside:
                continue
            gets = wanted[port.guid]
            if gets != {*target.table.values()} and len(gets) < (port.capacity or 0):
                goal[key] = dict(enumerate(sorted(gets)))
                late.append(target.id)
        if late:
            self.site.notes.append(
                f"{counted(len(late), 'port')} that the plan does not name also "
                f"{'changes' if len(late) == 1 else 'change'}, because OpenSM applies the policy to every "
                f"port: {named(late)}"
            )

    def _set_drift_aside(
        self, course: PolicyCourse, plan: PartitionPlan, new: Policy, former: FormerValues | None
    ) -> None:
        """Set ports aside that OpenSM would not write, and add an objection if the change is for such ports. A port
        that an earlier run of the same plan touched has not drifted."""
        changing = {table.port.key for table in plan.tables if table.differs}
        moved = {key.partition for table in plan.tables for key in {*table.before.values()} ^ {*table.after.values()}}
        if former is not None:
            self.site.notes += set_drift_aside(
                self.prediction, self.site.policy, new, {*changing, *former.ports}
            ).notes()
            return
        drift = drift_of(self.prediction, self.site.policy, new, changing, moved)
        course.objections += drift.objections()
        self.site.notes += drift.notes()
        if drift.rewritten:
            self.site.notes.append(
                f"{counted(drift.rewritten, 'port')} {'does' if drift.rewritten == 1 else 'do'} not match OpenSM's "
                "present policy; this change rewrites them, or the new policy already matches"
            )
        # Drifted ports of the change stay a part of it, unless the user lets them stay as they are.
        may_stay = self.site.writer.consent.covers("drift")
        self.prediction.guids_set_aside = (
            drift.guids_set_aside if may_stay else drift.guids_set_aside - drift.guids_of_change
        )
        self.prediction.drifted = drift.guids

    def _refuse_cut_short(self, short: Mapping[PortKey, bool]) -> None:
        """Raise UsageError for a leaf port that would enforce without some P_Keys of its end port. A port that is so
        already is only noted. *short*: these ports, and whether each changes (`Prediction.cut_short`)."""
        if not short:
            return
        targets = self.prediction.survey.targets
        changing = [targets[key].id for key, changes in short.items() if changes]
        listed = named(changing or [targets[key].id for key in short])
        text = (
            f"the P_Key table of {listed} has no room for all P_Keys of its end port, and OpenSM lets such a port "
            "enforce partitions all the same, which cuts the end port off"
        )
        if changing:
            raise UsageError(f"{text}: remove P_Keys from the policy, or set OpenSM's part_enforce off")
        self.site.notes.append(f"{text}; it is so already")

    def _note_blind(self, blind: Collection[PortKey]) -> None:
        """Add a note on the leaf ports on which OpenSM switches enforcement off. Raises UsageError for those that
        enforce now."""
        targets = [self.prediction.survey.targets[key] for key in blind]
        losing = [each for each in targets if each.enforcement != Enforcement(False, False)]
        if not targets:
            return
        text = (
            f"the policy fills the P_Key table of {named([each.id for each in losing or targets])} to the last entry, "
            "and OpenSM does not let such a port enforce partitions"
        )
        if losing:
            raise UsageError(f"{text}, but it enforces now, and the plan does not say that this changes")
        self.site.notes.append(f"{text}, and it does not enforce now")

    def _note_left_over(self, stay: Mapping[PortKey, Collection[PKey]]) -> None:
        """Add a note on the leaf ports in whose table P_Keys stay that the end port no longer has."""
        if not stay:
            return
        targets = self.prediction.survey.targets
        keys = sorted({key for each in stay.values() for key in each})
        self.site.notes.append(
            f"OpenSM leaves P_Keys in the table of {named([targets[key].id for key in stay])} that the end port no "
            f"longer has ({named(keys)}), because it does not clear a block of 32 entries that it no longer needs: "
            "the port still lets their packets pass; a new plan with `ibkeys apply PLAN --via direct --override "
            "active-sm` removes them"
        )

    def lay_out(self, course: PolicyCourse, texts: Sequence[bytes]) -> None:
        """Set the steps of an apply; none if there is only one policy, and files, tables and enforcement are already as
        it says."""
        tables = self.prediction.tables_after(map(parse_policy, texts))
        names = ["between"] * (len(texts) - 1) + ["policy"]
        if self.settings.rewrite:
            names[0] = "rewrite"
        contents: list[NewFiles] = [[(file, text) for file in self.files] for text in texts]
        contents[-1] = [*self.local_files, *contents[-1]]
        steps = [TablesStep(*each) for each in zip(names, contents, tables, strict=True)]  # type: ignore[arg-type]
        is_there = all(file.seen.data == new for file, new in contents[-1])
        if len(steps) == 1 and is_there and steps[0].tables == course.start and not course.enforcement:
            return
        course.steps = steps

    def note_unverifiable(
        self, course: PolicyCourse, present: Policy | None, later: Policy | None, is_undo: bool = False
    ) -> None:
        """Add notes on facts that no fresh read can verify: multicast groups that OpenSM keeps as they are, with the
        flags that no port shows, and members that changed and are not on the fabric. A port that is in no partition any
        more, such as that of a replaced adapter, is left out."""
        groups = LivingGroups.between(present, later)
        course.waiting = groups.flags
        self.site.notes += groups.notes(is_undo)
        on_fabric = {port.guid for port in self.prediction.survey.end_ports}
        members = _named_members(later)
        changed = {guid for _, guid, _ in _named_members(present) ^ members} & {guid for _, guid, _ in members}
        absent = [f"0x{guid:016x}" for guid in sorted(changed - on_fabric)]
        if absent:
            course.waiting += tuple(absent)
            self.site.notes.append(
                f"{named(absent)}: not on the fabric, or not read: OpenSM gives a port the P_Keys of the policy once "
                "it has found it"
            )

    def _note(self, found: SmPolicies) -> None:
        notes = self.site.notes
        ports_by_guid = {port.guid: str(port) for port in self.prediction.survey.end_ports}

        def name(guid: int) -> str:
            return ports_by_guid.get(guid, f"port GUID 0x{guid:016x}")

        if found.given_default:
            ports = named(list(map(name, found.given_default)))
            notes.append(f"OpenSM gives {ports} a P_Key of the default partition, which they do not have now")
        if found.torn:
            listed = named([f"{name(guid)} in partition 0x{base:04x}" for _, guid, base in found.torn])
            notes.append(f"OpenSM moves a P_Key to another block of its table, so it is briefly absent: {listed}")
        notes += notes_on_moved_groups(found.moved_groups)


def notes_on_moved_groups(moved: Iterable[tuple[int, int, int]]) -> Iterator[str]:
    """Yield notes on at most three multicast groups that a policy moves, each with its former and its new partition."""
    for mgid, source, target in islice(moved, 3):
        yield (
            f"the policy moves multicast group {mgid:032x} from partition 0x{source:04x} to 0x{target:04x}: when the "
            "first partition is removed, OpenSM 3.3.23 may crash now or at a later change; give the group to a "
            "partition that stays"
        )


def _named_members(policy: Policy | None) -> set[tuple[int, int, str]]:
    """Return the partition, the port GUID and the membership of each member that a policy names by a GUID."""
    return {
        (each.base, rule.guid, rule.membership)
        for each in (policy.partitions if policy is not None else ())
        for definition in each.definitions
        for rule in definition.rules
        if rule.who == "GUID"
    }


def policy_in_file(text: bytes | None) -> Policy | None:
    """Return the policy in the bytes of a file; None if there is no file."""
    return None if text is None else parse_policy(text)

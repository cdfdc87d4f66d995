"""The course of a change through UFM, worked out before anything is sent: the memberships that change, in steps. The
intermediate states are those of `ibkeys.plan.steps`, as with OpenSM: no pair is disconnected or newly connected for a
time, except pairs that a cycle cuts, which are named. UFM changes one partition at a time, so each state is made in two
steps, first the additions, then the removals; each is verified on the ports before the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ibkeys.apply.by_sm.course import CarrierSettings, TablesCourse, TablesStep
from ibkeys.apply.by_sm.prediction import Prediction, breaks_of
from ibkeys.apply.by_sm.wanted import enforcement_of, goal_of
from ibkeys.apply.former_values import FormerValues
from ibkeys.apply.ufm.stored_partition import (
    Flags,
    MembersChange,
    MembershipsByBase,
    StoredPartition,
    changes_in,
    flags_in,
    with_changes,
)
from ibkeys.arguments import given
from ibkeys.change.consent import Objection
from ibkeys.change.wanted import Entries, differing_places
from ibkeys.errors import UsageError
from ibkeys.keys.pkey import FULL_BIT, PKey
from ibkeys.managers.ufm.answers import UfmMembership, UfmPartition, membership_of
from ibkeys.managers.ufm.limits import find_full_tables, refuse_impossible
from ibkeys.partitions.explicit import explicit_policy
from ibkeys.partitions.model import Policy
from ibkeys.plan.model import PartitionPlan
from ibkeys.plan.order import PhaseName
from ibkeys.plan.steps import one_partition_at_a_time, steps_between
from ibkeys.printable import counted, named
from ibkeys.topology.port_id import PortKey

TableState = Mapping[int, frozenset[PKey]]
"""Port GUID → P_Keys."""


@dataclass(slots=True)
class UfmCourse(TablesCourse[MembershipsByBase]):
    """The course of a change through UFM. ``stored``: the partitions that change, as UFM has them. The contents of a
    step are their members after it."""

    stored: dict[int, StoredPartition] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def overwritten(self) -> list[int]:
        """Return the partitions that UFM has and whose whole list of members is set by a PUT in some step. Raises
        UsageError as `StoredPartition.calls_to`."""
        found = []
        for base, each in self.stored.items():
            states = [each.members, *(step.contents[base] for step in self.steps)]
            pairs = itertools.pairwise(states)
            calls = (call for was, will in pairs for call in each.with_members(was).calls_to(will))
            if any(call.method == "PUT" for call in calls) and each.exists:
                found.append(base)
        return found


@dataclass(slots=True)
class UfmPlanning:
    """Works out the course of one change. *url*: the URL of the UFM; *partitions*: its partitions by number.

    ``present_keys``: the P_Keys of each end port, by its GUID; ``changed_before``: partition and GUID of each
    membership that the operation changed before; ``extra``: by partition, the memberships that GUIDs without a port
    get.
    """

    url: str
    partitions: Mapping[int, UfmPartition]
    prediction: Prediction
    settings: CarrierSettings
    may_drift: bool
    policy: Policy | None = None
    had_flags: Mapping[int, Flags] = field(default_factory=dict)
    extra: dict[int, dict[int, UfmMembership | None]] = field(default_factory=dict)
    changed_before: set[tuple[int, int]] = field(default_factory=set)
    course: UfmCourse = field(init=False)
    present_keys: TableState = field(init=False)

    def __post_init__(self) -> None:
        self.course = UfmCourse(dict(self.prediction.present))
        self.present_keys = self._keys_by_guid(self.prediction.present)

    def plan_course(self, plan: PartitionPlan, former: FormerValues | None) -> UfmCourse:
        """Return the course of a plan. *former*: the values that an earlier run of the plan found and wrote. Raises
        UsageError, StoreError."""
        if plan.options.disconnect_unconfigured:
            raise UsageError(
                "the plan disconnects ports that no partition names, and UFM gives each port its default P_Key: plan "
                "again without " + given("--disconnect-unconfigured")
            )
        self.policy = plan.policy.parsed()
        goal = goal_of(plan, self.prediction, self.course.remaining, former, by_partition=True)
        self._refuse_enforcement(plan)
        if former is not None:
            self.had_flags = flags_in(former.files, self.url)
            for base, pairs in changes_in(former.files, self.url).items():
                self.changed_before |= {(base, guid) for guid in pairs}
                self._note_foreign(base, pairs)
        self._lay_out(self._keys_by_guid(goal))
        return self.course

    def rollback_course(self, former: FormerValues) -> UfmCourse:
        """Return the rollback: memberships that an operation changed get their former values. Members that were added
        since stay. Raises UsageError, StoreError."""
        wanted_keys = {guid: set(keys) for guid, keys in self.present_keys.items()}
        self.had_flags = flags_in(former.files, self.url)
        for base, pairs in changes_in(former.files, self.url).items():
            self._refuse_unknown(base, pairs)
            foreign = self._note_foreign(base, pairs)
            for guid, (was, _) in pairs.items():
                if guid in foreign:
                    continue
                self.changed_before.add((base, guid))
                if guid in wanted_keys:
                    wanted_keys[guid] = {key for key in wanted_keys[guid] if key.partition != base} | _keys(base, was)
                else:
                    self.extra.setdefault(base, {})[guid] = was
        self._lay_out({guid: frozenset(keys) for guid, keys in wanted_keys.items()})
        return self.course

    def _note_foreign(self, base: int, pairs: MembersChange) -> list[int]:
        """Note the GUIDs whose present membership in UFM an earlier run neither found nor wrote; return them."""
        entry = self.partitions.get(base)
        now = entry.words if entry is not None else {}
        foreign = [guid for guid, (_, known) in pairs.items() if now.get(guid) not in known]
        self.course.remaining.foreign += [
            (None, f"GUID {guid:016x} in UFM's partition {base:#x} is {now.get(guid) or 'no member'}")
            for guid in foreign
        ]
        return foreign

    # --- refusals ----------------------------------------------------------------------------------------------------

    def _refuse_enforcement(self, plan: PartitionPlan) -> None:
        changes = enforcement_of(plan, self.prediction.survey, self.course.remaining)
        if changes:
            raise UsageError(
                f"the plan changes the enforcement of {counted(len(changes), 'leaf port')} "
                f"({named([each.port for each in changes])}), which UFM's REST interface cannot do; plan "
                f"again with the {given('--enforce')} that the fabric has"
            )

    def _refuse_unknown(self, base: int, ours: Collection[int]) -> None:
        """Raise UsageError for a partition whose members UFM does not list, although ports other than *ours*, which the
        operation changed before, have it: a PUT of ours alone would remove them."""
        entry = self.partitions.get(base)
        if entry is not None and entry.members is not None:
            return
        if entry is not None and entry.lacks_memberships:
            raise UsageError(
                f"UFM lists members of partition {base:#x} without their membership, so a call could "
                "change it: the partition is left unchanged; check it in UFM"
            )
        there = [guid for guid, keys in self.present_keys.items() if guid not in ours and membership_of(keys, base)]
        if there:
            what = "lists no members" if entry is not None else "has no entry"
            have = "port has" if len(there) == 1 else "ports have"
            raise UsageError(
                f"UFM {what} of partition {base:#x}, and {len(there)} {have} it ({named(self._names(there))}): its "
                "members in UFM are unknown, so the partition is not changed; check it in UFM"
            )

    # --- the steps ---------------------------------------------------------------------------------------------------

    def _lay_out(self, wanted_keys: TableState) -> None:
        course, present_keys, changed_before = self.course, self.present_keys, self.changed_before
        refuse_impossible(present_keys, wanted_keys, self._names)
        changed_partitions = {
            guid: {key.partition for key in present_keys[guid] ^ wanted_keys[guid]}
            for guid in present_keys
            if present_keys[guid] != wanted_keys[guid]
        }
        wire = {base for bases in changed_partitions.values() for base in bases}
        for base in sorted(wire | {base for base, _ in changed_before}):
            self._refuse_unknown(base, {guid for each, guid in changed_before if each == base})
        self._find_drift(wanted_keys, changed_partitions)
        for base in sorted(wire | self.extra.keys() | {base for base, _ in changed_before}):
            flags = self.had_flags.get(base) or Flags.planned(base, self.policy)
            course.stored[base] = StoredPartition.of(base, self.partitions.get(base), flags)
        pairs = {(base, guid) for guid, bases in changed_partitions.items() for base in bases} | changed_before
        states = self._states_between(wanted_keys)
        is_late = any(
            any(
                differing_places(
                    each.members, with_changes(each.members, self._changes(base, wanted_keys, pairs, True))
                )
            )
            for base, each in course.stored.items()
        )
        if not states and is_late:
            # The ports have the wanted P_Keys, but UFM has stored other members.
            states.append(("members-set", wanted_keys))
        tables = self.prediction.tables_after(explicit_policy(state, {}, lambda _: ()) for _, state in states)
        is_last = len(states) - 1
        for number, ((name, state), table) in enumerate(zip(states, tables, strict=True)):
            members = {
                base: with_changes(each.members, self._changes(base, state, pairs, number == is_last))
                for base, each in course.stored.items()
            }
            course.steps.append(TablesStep(name, members, table))
        course.overwritten()  # raises now if a call is impossible, before anything is sent

    def _changes(
        self, base: int, state: TableState, pairs: Collection[tuple[int, int]], is_last: bool
    ) -> dict[int, UfmMembership | None]:
        found = {guid: membership_of(state[guid], base) for each, guid in pairs if each == base and guid in state}
        return found | (self.extra.get(base, {}) if is_last else {})

    def _states_between(self, wanted_keys: TableState) -> list[tuple[PhaseName, TableState]]:
        """Return the states after each step, with the name of the step. Raises UsageError if a table has no room."""
        course, present_keys, rooms = self.course, self.present_keys, self._rooms()
        found = steps_between(present_keys, wanted_keys, rooms, gaps=self.settings.gaps)
        course.breaks = breaks_of(found.cycles, self.prediction)
        if self.settings.at_once:
            course.breaks = ()
            return [("members-set", wanted_keys)] if present_keys != wanted_keys else []
        states: list[tuple[PhaseName, TableState]] = []
        before = present_keys
        for is_adding, state in one_partition_at_a_time(present_keys, found.states):
            tight = find_full_tables(before, state, rooms)
            if tight:
                raise UsageError(
                    f"{named(self._names(tight))}: the P_Key table has no room for the old and the new P_Keys "
                    "together, which UFM needs because it changes one partition at a time: free an entry first"
                )
            states.append(("members-add" if is_adding else "members-remove", state))
            before = state
        return states

    def _find_drift(self, wanted_keys: TableState, changed_partitions: Mapping[int, Collection[int]]) -> None:
        """Add objections or notes for ports that differ from UFM's members. Such ports outside the change are set
        aside, because UFM's SM may write them at any time; with ``may_drift``, those of the change too."""
        foreign, drifted = [], dict[int, list[str]]()
        for base, entry in self.partitions.items():
            if entry.members is None:
                continue
            for guid, keys in self.present_keys.items():
                in_ufm, on_port = entry.words.get(guid), membership_of(keys, base)
                if in_ufm == on_port or (base, guid) in self.changed_before:
                    continue
                state = f"{in_ufm or 'no member'} of {base:#x} in UFM and {on_port or 'none'} on the port"
                text = f"{self._name(guid)} is {state}"
                if base in changed_partitions.get(guid, ()) and in_ufm != membership_of(wanted_keys[guid], base):
                    foreign.append(text)
                else:
                    drifted.setdefault(guid, []).append(text)
        self.course.remaining.foreign += [(None, each) for each in foreign]
        lasting = [text for guid, texts in drifted.items() if guid in changed_partitions for text in texts]
        elsewhere = [text for guid, texts in drifted.items() if guid not in changed_partitions for text in texts]
        if lasting:
            self.course.objections.append(
                Objection("drift", f"{named(lasting)}: UFM's SM has not written that, and may not write it now")
            )
        if elsewhere:
            self.course.notes.append(
                f"there are other differences outside this change, which may remain: {named(elsewhere)}"
            )
        of_change = {guid for guid in drifted if guid in changed_partitions}
        self.prediction.guids_set_aside = set(drifted) - (set() if self.may_drift else of_change)

    # --- ports and GUIDs ---------------------------------------------------------------------------------------------

    def _keys_by_guid(self, tables: Mapping[PortKey, Entries]) -> dict[int, frozenset[PKey]]:
        """Return the P_Keys of each end port, by its GUID."""
        return {
            target.port.guid: frozenset(tables[key].values())
            for key, target in self.prediction.survey.targets.items()
            if not target.port.is_external and target.port.guid
        }

    def _rooms(self) -> dict[int, int]:
        survey = self.prediction.survey
        found = {}
        for target in survey.targets.values():
            if target.port.is_external or not target.port.guid:
                continue
            leaf = survey.targets.get(target.peer) if target.peer is not None else None
            sizes = [target.port.capacity or 0]
            if leaf is not None and leaf.port.is_external and self.prediction.options.enforce != "off":
                sizes.append(leaf.port.capacity or 0)
            found[target.port.guid] = min(sizes)
        return found

    def _name(self, guid: int) -> str:
        return next(iter(self._names([guid])), f"GUID {guid:016x}")

    def _names(self, guids: Collection[int]) -> list[str]:
        wanted = set(guids)
        return [str(port) for port in self.prediction.survey.end_ports if port.guid in wanted]


def _keys(base: int, word: UfmMembership | None) -> set[PKey]:
    return set() if word is None else {PKey(base | (FULL_BIT if word == "full" else 0))}

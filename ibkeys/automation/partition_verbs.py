"""The partitions of the policy in force for a script: changed, and shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from ibkeys.apply.apply import Permissions, plan_apply
from ibkeys.apply.apply_plan import ApplyHooks, ApplyPlan
from ibkeys.apply.carriers import carrier_for
from ibkeys.apply.spread import files_of, plan_spread
from ibkeys.arguments import given, require
from ibkeys.automation.making import ChangeArguments, How
from ibkeys.automation.methods import ThroughOpenSM
from ibkeys.automation.partition_edits import RequestedEdit, added, deleted, removed, renamed
from ibkeys.automation.partitions import carrier_choice, change_partitions
from ibkeys.automation.policy_in_force import plan_edit, read_policy_in_force, refuse_other_removals
from ibkeys.automation.replaced_adapters import ReplacedAdapters
from ibkeys.automation.result import ChangeResult
from ibkeys.automation.shown_partitions import ShownPolicy, choose_partitions, show_partitions
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import Wanted
from ibkeys.errors import UsageError
from ibkeys.fabric.live import LiveFabric
from ibkeys.fabric.snapshot_file import load_snapshot
from ibkeys.partitions.editing.flag_texts import FlagTexts
from ibkeys.partitions.editing.partition_name import PartitionName
from ibkeys.partitions.model import Policy
from ibkeys.store.journal.records import SPREAD

Number = int | str
"""A number, or ``default``, which removes the flag."""


class Partitions:
    """The partitions of a fabric, by the policy that its master OpenSM uses. `Fabric.partitions` makes it.

    Each change edits that policy, plans it for the fabric as it is, and applies it through OpenSM, as the command of
    the same name does: `ibkeys partition-add`, `partition-remove`, `partition-delete`, `partition-rename` and
    `replace`. It is one operation of the journal, which `Operation.undo` takes back. A partition is named by its name,
    its P_Key, or both: ``lustre``, ``0x21``, ``lustre=0x21``. Ports are named by words, as in the commands: ``tank*``,
    ``stage[1-48]``, a GUID, or a LID.

    Every change takes the arguments of `ibkeys.How`; ``via`` is ``ThroughOpenSM``, which is the default and has the
    other hosts with OpenSMs. *allow_removals*: P_Keys of other partitions may be removed where the fabric differs from
    the policy in force. *allow_break*: pairs may temporarily lose connectivity. Results and errors are those of
    `Fabric.apply`; UsageError also if the master is no OpenSM of these hosts, AddressError for a word that names no
    port.
    """

    def __init__(self, fabric: LiveFabric) -> None:
        self._fabric = fabric

    def add(
        self,
        partition: str,
        *,
        full: Sequence[str] = (),
        limited: Sequence[str] = (),
        out_of: str | None = None,
        keeping: Sequence[str] = (),
        ipoib: bool | None = None,
        mtu: Number | None = None,
        rate: Number | None = None,
        sl: Number | None = None,
        scope: Sequence[Number] = (),
        q_key: Number | None = None,
        defmember: str | None = None,
        indx0: bool | None = None,
        mgid: Sequence[str] = (),
        without_mgid: Sequence[str] = (),
        allow_removals: bool = False,
        allow_break: bool = False,
        **how: Unpack[How],
    ) -> ChangeResult:
        """Add ports to a partition, or set its flags. The partition is made if it is named with its P_Key.

        *full*, *limited*: the ports that become such members. *out_of*: the partition from which the ports are moved;
        those of *keeping* keep their membership. The other arguments are the flags, which `ibkeys partition-add` has as
        options: *mtu* in bytes, *rate* in Gb/s. A flag that is not given stays as it is.
        """
        flags = FlagTexts(
            ipoib,
            _text(mtu),
            _text(rate),
            _text(sl),
            tuple(map(str, _listed("scope", scope))),
            _text(q_key),
            _text(defmember),
            indx0,
            tuple(_listed("mgid", mgid)),
            tuple(_listed("without_mgid", without_mgid)),
        )
        source = PartitionName.parse(out_of) if out_of is not None else None
        members = _listed("full", full), _listed("limited", limited)
        requested = added(PartitionName.parse(partition), *members, flags, source, _listed("keeping", keeping))
        return self._change(requested, allow_removals, allow_break, how)

    def remove(
        self,
        partition: str,
        ports: Sequence[str],
        *,
        allow_removals: bool = False,
        allow_break: bool = False,
        **how: Unpack[How],
    ) -> ChangeResult:
        """Remove ports from a partition. Refused for a port that is a member through a keyword such as ALL."""
        requested = removed(PartitionName.parse(partition), _listed("ports", ports))
        return self._change(requested, allow_removals, allow_break, how)

    def delete(
        self, partition: str, *, allow_removals: bool = False, allow_break: bool = False, **how: Unpack[How]
    ) -> ChangeResult:
        """Delete a partition with all its members."""
        return self._change(deleted(PartitionName.parse(partition)), allow_removals, allow_break, how)

    def rename(
        self, partition: str, name: str, *, allow_removals: bool = False, allow_break: bool = False, **how: Unpack[How]
    ) -> ChangeResult:
        """Give a partition another name. P_Keys stay."""
        return self._change(renamed(PartitionName.parse(partition), name), allow_removals, allow_break, how)

    def replace(
        self,
        old: str | None = None,
        new: str | None = None,
        *,
        baseline: str | Path | None = None,
        node_name_map: str | Path | None = None,
        waivers: str | Path | None = None,
        allow_removals: bool = False,
        allow_break: bool = False,
        **how: Unpack[How],
    ) -> ChangeResult:
        """Give a new adapter the place of the former one, as `ibkeys replace` does: its memberships, and with them its
        lines of *node_name_map*, its *waivers* and its place in the key store.

        *old*: the former adapter, by a name or GUID in the snapshot *baseline*, or without that by a GUID. *new*: the
        one that took its place; without it, the new one with the same name at the same place. Without both, all such
        pairs. Raises Refused while *old* answers, for a *new* that the policy names, and (``replaced-adapter``) for a
        pair with something unusual; StoreError for a snapshot that cannot be read.
        """
        notes = list[str]()
        adapters = ReplacedAdapters(
            old,
            new,
            load_snapshot(Path(baseline)).fabric if baseline is not None else None,
            self._fabric.stores.keystore,
            Path(node_name_map) if node_name_map is not None else None,
            Path(waivers) if waivers is not None else None,
            notes.append,
            notes.append,
        )
        result = self._change(adapters.requested(), allow_removals, allow_break, how)
        return replace(result, notes=(*notes, *result.notes))

    def spread(self, **how: Unpack[How]) -> ChangeResult:
        """Bring the policy files of all OpenSMs to the master's, as `ibkeys partition-spread` does.

        ``notes`` of the result name the files that differed. No port changes, and no OpenSM is signalled. Refused
        (``older-policy``) if the master's policy is older than the last change of the journal, and (``stale``) if the
        master has not read it.
        """
        asked = ChangeArguments.of(self._fabric, how)
        via = _through_opensm(asked)
        master = read_policy_in_force(self._fabric, via.sm_hosts())
        choice = carrier_choice(asked, breaks=False)
        files = list[str]()

        def prepare(writer: ChangeWriter, hooks: ApplyHooks) -> ApplyPlan:
            plan = plan_spread(writer, master, choice, hooks)
            files[:] = [f"{each.file.name} differs from the master's policy" for each in files_of(plan) if each.differs]
            return plan

        result = change_partitions(SPREAD, asked, prepare)
        return replace(result, notes=(*master.notes, *files, *result.notes))

    def show(
        self, partition: str | None = None, *, policy: Policy | None = None, via: ThroughOpenSM | None = None
    ) -> ShownPolicy:
        """Return a partition, or all, with the members that OpenSM gives them on this fabric.

        *policy*: by default the one in force, which needs *via* if the master is on another host. SMPs: a sweep with
        SMInfo. Raises UsageError for a partition that does not exist, and if the master is no OpenSM of these hosts;
        FileFormatError for a policy that OpenSM would refuse.
        """
        wanted = PartitionName.parse(partition) if partition is not None else None
        allow_both = False
        require("via", via, (ThroughOpenSM, type(None)), "an ibkeys.ThroughOpenSM")
        require("policy", policy, (Policy, type(None)), "an ibkeys.partitions.Policy")
        if policy is None:
            master = read_policy_in_force(self._fabric, (via or ThroughOpenSM()).sm_hosts())
            policy, allow_both = master.policy, bool(master.allow_both_pkeys)
        policy.require_accepted()
        chosen = choose_partitions(policy, wanted)
        topology = self._fabric.sweep(wanted=Wanted(sm_info=True))
        self._fabric.read_alias_guids(topology, policy.named_guids)
        return show_partitions(policy, chosen, topology, allow_both)

    def _change(self, requested: RequestedEdit, allow_removals: bool, allow_break: bool, how: How) -> ChangeResult:
        fabric = self._fabric
        asked = ChangeArguments.of(fabric, how, allow_removals=allow_removals, allow_break=allow_break)
        via = _through_opensm(asked)
        notes = list[str]()
        master = read_policy_in_force(fabric, via.sm_hosts())
        notes += master.notes
        planned = plan_edit(fabric, requested, master, notes.append, notes.append)
        plan = planned.plan
        if plan is None:
            return ChangeResult(requested.command, proven=True, notes=tuple(notes))
        if not allow_removals:
            refuse_other_removals(plan, requested, planned.edited)
        choice = carrier_choice(asked, allow_break)
        choice = replace(choice, settings=replace(choice.settings, changed_together=planned.changed_together))

        def prepare(writer: ChangeWriter, hooks: ApplyHooks) -> ApplyPlan:
            requested.refuse_index_0(planned.edited, writer.consent)
            # The removals in it are those of the edited partition, or permitted.
            permissions = Permissions(removals=True, breaks=allow_break)
            apply_plan = plan_apply(writer, plan, permissions, hooks, carrier_for(writer, choice, plan))
            apply_plan.questions += planned.questions
            apply_plan.objections[:0] = planned.objections
            return apply_plan

        asked.subject = requested.subject
        result = change_partitions(requested.command, asked, prepare)
        return replace(result, notes=(*notes, *result.notes))


def _through_opensm(asked: ChangeArguments) -> ThroughOpenSM:
    """Return the method of *asked*, and set it there if it has none. Raises UsageError for another method."""
    if asked.via is None:
        asked.via = ThroughOpenSM()
    if not isinstance(asked.via, ThroughOpenSM):
        raise UsageError(f"the policy in force changes through OpenSM: give {given('--via opensm')}, or omit it")
    return asked.via


def _text(value: Number | None) -> str | None:
    return None if value is None else str(value)


def _listed(name: str, words: Sequence[str] | Sequence[Number]) -> Sequence[str]:
    """Return the words of an argument. Raises UsageError for a text in place of a list, which would be one word for
    each letter."""
    if isinstance(words, str):
        raise UsageError(f"{name}= is a list of texts: write [{words!r}]")
    require(name, words, Iterable, "a list of texts")
    return [str(each) for each in words]

"""The interlocks of a change through OpenSM: what can be right for the master at this moment and wrong all the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ibkeys.apply.by_sm.steps import Prediction
from ibkeys.apply.opensm.policy_files import digest_of
from ibkeys.apply.opensm.site import OpensmSite
from ibkeys.arguments import given
from ibkeys.change.consent import Objection
from ibkeys.change.interlocks.unread_policy import objection_to_edits
from ibkeys.change.next_commands import KEEPS_IT
from ibkeys.change.target import PortTarget
from ibkeys.host.replacing.contents import WITHOUT_KEYS, difference
from ibkeys.keys.pkey import PKey
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.partitions.model import Policy
from ibkeys.partitions.opensm_tables import packed
from ibkeys.plan.model import PartitionPlan
from ibkeys.printable import counted, named
from ibkeys.topology.port_id import PortKey


def objections_to_edits(site: OpensmSite, prediction: Prediction, is_ours: bool) -> Iterator[Objection]:
    """``stale``: an edit that nobody has read would come into force with the change.

    *is_ours*: the policy is what an earlier run of this change wrote. One that has a new mode or owner, and makes the
    tables what they are, is a note.
    """
    edits = [site.unread_edit("options")]
    policy = "" if is_ours else site.unread_edit("policy")
    if policy and not site.policy_was_written and prediction.follow([site.policy])[0] == prediction.now:
        site.notes.append(
            f"{policy}; only the mode or owner of the file changed: the P_Keys in it are already in force"
        )
    elif policy:
        edits.append(policy)
    edits = [edit for edit in edits if edit]
    if edits:
        yield objection_to_edits(edits, site.master.instance.faulty_policy)


def objections_to_others_work(files: Sequence[OpensmFile], known: Collection[str]) -> Iterator[Objection]:
    """``stale``: a file holds somebody else's work, whether OpenSM has read it or not.

    *known*: the SHA-256 of all that an earlier run of this change found and wrote; empty where the journal says
    nothing.
    """
    for file in files:
        if known and digest_of(file.seen.data) not in known:
            yield Objection(
                "stale",
                f"{file.name} has neither its former content nor what the operation wrote{_since(file)}, and would be "
                f"overwritten; check it, and make a new plan (`ibkeys plan`) if its content is needed; {KEEPS_IT}",
                is_overtaken=True,
            )


def objections_to_later_policy(file: OpensmFile, plan: PartitionPlan) -> Iterator[Objection]:
    """``stale``: the master's policy is not the one that it had when the plan was made, nor that of the plan."""
    live = plan.live_policy
    if live is not None and digest_of(file.seen.data) not in (live.digest, plan.policy.digest):
        yield Objection(
            "stale",
            f"{file.name} was changed after the plan was made{_since(file)}, and would be overwritten; "
            "`ibkeys plan` makes a new one if that is needed",
            details=difference(live.text, file.seen.data, WITHOUT_KEYS, ("when the plan was made", "now")),
        )


def _since(file: OpensmFile) -> str:
    found = file.seen.found
    if found is None:
        return ""
    return f" (written {datetime.fromtimestamp(found.modified_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC)"


def objections_to_standbys(
    site: OpensmSite, files: Sequence[OpensmFile], ours: Collection[bytes | None] = ()
) -> Iterator[Objection]:
    """``standby-differs``: an SM that would take over has, or may have, another policy than the master.

    *ours*: what an earlier run of this change found in the files, or wrote: where it stopped, they differ; and the
    policy of the plan, which a standby may have before the master that came back has.
    """
    *standbys, master = files
    differing = [
        f"{each.name}, on a standby, differs from the master's and would be replaced"
        for each in standbys
        if each.seen.data != master.seen.data and each.seen.data not in ours
    ]
    remedies = []
    if site.out_of_reach:
        remedies.append(
            f"start it if it is stopped, and reach it with {given('--sm-host')}: it then gets the new policy too"
        )
    if differing:
        remedies.append("`ibkeys sm-show` compares the policies; put into that of the plan what shall stay")
    if remedies:
        yield Objection(
            "standby-differs",
            f"{named([*site.out_of_reach, *differing])}; {'; '.join(remedies)}",
            "When another SM takes over, it applies its own policy to every table.",
        )


def objections_to_self(site: OpensmSite, new: Policy, present: Policy | None) -> Iterator[Objection]:
    """``self-takeover``: SELF is the port of the master of the moment. *present*: the policy before the change began;
    those on the way name every port by its GUID."""
    wanted, there = _named_self(new), _named_self(present)
    if not site.others or not wanted:
        return
    if wanted <= there:
        site.notes.append(
            "the policy already used SELF: after a takeover the former master's port loses the P_Keys that SELF gave it"
        )
        return
    listed = ", ".join(f"0x{base:04x}" for base in sorted(wanted - there))
    yield Objection(
        "self-takeover",
        f"the policy newly uses SELF in {listed}, and {counted(site.others, 'other SM')} may take over: "
        "name both ports by their GUIDs",
        "SELF then means the port of the new master, and the present master's port loses the P_Keys that SELF gave it.",
    )


def _named_self(policy: Policy | None) -> frozenset[int]:
    if policy is None:
        return frozenset()
    return frozenset(
        partition.base for partition in policy.partitions if any(rule.who == "SELF" for rule in partition.rules)
    )


@dataclass(slots=True)
class Drift:
    """Where the ports differ from what OpenSM wrote. ``lasting``: ports of this change that OpenSM would not write in
    it, ``elsewhere``: other ones; ``aside``: the GUIDs of the end ports of both, ``of_change``: of those that the plan
    names; ``mended``: how many OpenSM writes; ``guids``: of all."""

    lasting: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    aside: set[int] = field(default_factory=set)
    of_change: set[int] = field(default_factory=set)
    mended: int = 0
    guids: set[int] = field(default_factory=set)

    def objections(self) -> Iterator[Objection]:
        """``drift``: OpenSM writes what differs from what it remembers, so it would leave these ports as they are."""
        if self.lasting:
            count = len(self.lasting)
            yield Objection(
                "drift",
                f"{counted(count, 'port')} of this change {'does' if count == 1 else 'do'} not match OpenSM's policy: "
                f"{named(self.lasting)}; {given('--rewrite')} makes it rewrite every table first",
                f"OpenSM assumes that {'it is' if count == 1 else 'they are'} correct and would not "
                f"rewrite {'it' if count == 1 else 'them'}.",
            )

    def notes(self) -> Iterator[str]:
        """Say where it is none of this change's."""
        if self.elsewhere:
            count = len(self.elsewhere)
            yield (
                f"{counted(count, 'port')} that this change leaves alone {'does' if count == 1 else 'do'} not match "
                f"OpenSM's policy, and OpenSM may leave it that way: {named(self.elsewhere)}"
            )


def drift_of(
    prediction: Prediction,
    old: Policy | None,
    new: Policy | None,
    changing: Collection[PortKey],
    partitions: Collection[int] = (),
) -> Drift:
    """Compare the ports with what *old*, the policy that OpenSM has read, makes of it; *new* is the last one of the
    change. *changing*: the ports that the change is for; *partitions*: the partition numbers that it is for.

    OpenSM writes a block where the new policy differs from what it remembers; what it remembers is what the old policy
    gave. Source: opensm osm_pkey_mgr.c, observed.
    """
    drift = Drift()
    remembered, wanted = prediction.memberships(old), prediction.memberships(new)
    for key, target in prediction.survey.targets.items():
        end = end_of(target, prediction)
        if end is None:
            continue
        guid = end.port.guid
        shown, should = _compared(target, remembered.get(guid, frozenset()))
        if shown == should:
            continue
        drift.guids.add(guid)
        if remembered[guid] != wanted[guid]:
            drift.mended += 1
            continue
        touched = key in changing or any(each.partition in partitions for each in shown ^ should)
        texts = [named(sorted(keys)) or "no P_Key" for keys in (shown, should)]
        found = f"{target.id} has {texts[0]}, and the policy gives it {texts[1]}"
        (drift.lasting if touched else drift.elsewhere).append(found)
        drift.aside.add(guid)
        if key in changing:
            drift.of_change.add(guid)
    return drift


def set_aside(prediction: Prediction, old: Policy | None, new: Policy | None, touched: Collection[PortKey]) -> Drift:
    """Expect nothing of ports that have drifted and are none of the change's. *touched*: the ports that it is for, or
    was at before: what they have is no drift, wherever it stopped."""
    drift = drift_of(prediction, old, new, touched)
    ports = [prediction.survey.targets[key].port for key in touched if key in prediction.survey.targets]
    ends = [port.peer if port.is_external else port for port in ports]
    prediction.aside = drift.aside - {end.guid for end in ends if end is not None}
    prediction.drifted = drift.guids
    return drift


def end_of(target: PortTarget, prediction: Prediction) -> PortTarget | None:
    """Return the end port that a table belongs to: of a leaf port the one behind it, where that was read."""
    if not target.port.is_external:
        return target
    peer = target.port.peer
    if peer is None or not peer.is_end_port or prediction.options.enforce == "off":
        return None
    return prediction.survey.targets.get(target.peer) if target.peer is not None else None


def _compared(target: PortTarget, given: frozenset[PKey]) -> tuple[frozenset[PKey], frozenset[PKey]]:
    """Return the P_Keys that a port shows and those that OpenSM gave it. *given*: what it gave the end port."""
    capacity = target.port.capacity or 0
    if target.port.is_external:
        given = frozenset(packed(dict(enumerate(sorted(given)))))
    shown = frozenset(target.table.values())
    if len(given) > capacity and shown < given:
        given = shown  # no room for all of them
    return shown, given

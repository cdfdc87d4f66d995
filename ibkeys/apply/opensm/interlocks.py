"""The interlocks of a change through OpenSM: unread edits, foreign files, standbys with another policy, SELF, and
drift."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from ibkeys.apply.by_sm.prediction import Prediction
from ibkeys.apply.opensm.policy_files import digest_of
from ibkeys.apply.opensm.site import OpensmSite
from ibkeys.arguments import given
from ibkeys.change.consent import Objection
from ibkeys.change.interlocks.unread_policy import objection_to_edits
from ibkeys.change.next_commands import advice_to_keep
from ibkeys.change.target import PortTarget
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, difference
from ibkeys.keys.pkey import PKey
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.reading import CHANGED, WORDS
from ibkeys.managers.site import stale_for_good
from ibkeys.partitions.model import Policy
from ibkeys.partitions.opensm_tables import packed
from ibkeys.plan.model import PartitionPlan
from ibkeys.printable import Detail, counted, named
from ibkeys.topology.port_id import PortKey

STANDBY_DIFFERS: Final = "standby-differs"


def objections_to_edits(site: OpensmSite, prediction: Prediction, is_ours: bool) -> Iterator[Objection]:
    """Yield ``stale`` if an edit that OpenSM has not read would come into force with the change. *is_ours*: an earlier
    run of this change wrote the policy. A policy that only has a new mode or owner, and fits the present tables,
    becomes a note.
    """
    edits = [site.unread_edit("options"), "" if is_ours else _unread_policy(site, prediction)]
    edits = [edit for edit in edits if edit]
    if edits:
        yield objection_to_edits(edits, site.master.instance.policy_fault)


def refuse_unread_policy(site: OpensmSite, prediction: Prediction) -> None:
    """Raise Refused (``stale``) if the master's OpenSM has not read its policy, which therefore is not in force: it
    must not be spread. Nothing overrides that."""
    if edit := _unread_policy(site, prediction):
        raise stale_for_good(f"{edit}; only a policy that is in force is spread").unchanged(
            "let OpenSM read it first, by a change such as partition-add, or put the former one back"
        )


def objections_to_uncertain_policy(site: OpensmSite, prediction: Prediction) -> Iterator[Objection]:
    """Yield ``stale`` if the master's policy, which is to be spread, may not be in force: it is not known whether
    OpenSM has read it since it changed, and ports have other P_Keys than it gives them."""
    file = site.master.instance.files["policy"]
    differing = [str(port) for port in prediction.end_ports if port.guid in prediction.drifted]
    if differing and file.reading in CHANGED and not site.is_of_last_change:
        yield Objection(
            "stale",
            f"{file.path}: {WORDS[file.reading]}; {counted(len(differing), 'port')} "
            f"{'has' if len(differing) == 1 else 'have'} other P_Keys than it gives: {named(differing)}; "
            "`ibkeys compare --policy opensm` shows the difference, and SIGHUP lets OpenSM read it",
            "Only a policy that is in force should be spread.",
        )


def _unread_policy(site: OpensmSite, prediction: Prediction) -> str:
    """Return, in words, that the master's policy was edited and OpenSM has not read the edit; "" if nothing shows that,
    or if the last change of the journal wrote it, and OpenSM was told. If only the mode or owner of the file is new,
    that is noted."""
    edit = "" if site.is_of_last_change else site.unread_edit("policy")
    if edit and not site.policy_was_written and prediction.tables_after([site.policy])[0] == prediction.present:
        site.notes.append(f"{edit}; only the mode or owner of the file changed: the P_Keys in it are already in force")
        return ""
    return edit


def objections_to_others_work(
    files: Sequence[OpensmFile], known: Collection[str], operation: int
) -> Iterator[Objection]:
    """Yield ``stale`` for each file that another program or administrator has written, whether OpenSM has read it or
    not. *known*: the SHA-256 of all contents that an earlier run of *operation* found and wrote; empty if the
    journal has none.
    """
    for file in files:
        if known and digest_of(file.seen.data) not in known:
            yield Objection(
                "stale",
                f"{file.name} has neither its former content nor what the operation wrote{_since(file)}, and would be "
                "overwritten; check it, and make a new plan (`ibkeys plan`) if its content is needed; "
                f"{advice_to_keep(operation)}",
                is_overtaken=True,
            )


def objections_to_later_policy(file: OpensmFile, plan: PartitionPlan) -> Iterator[Objection]:
    """Yield ``stale`` if the master's policy is neither the one from when the plan was made nor the plan's own."""
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


def objections_to_older_policy(site: OpensmSite, file: OpensmFile) -> Iterator[Objection]:
    """Yield ``older-policy`` if the master's policy *file*, which the other OpenSMs would get, is older than the last
    change of the journal."""
    for why in _why_older(site, file):
        yield Objection(
            "older-policy",
            f"{why}; `ibkeys journal` lists the changes that are not in it: check it, or make the SM master "
            "that has them",
            "An SM that was off, and kept its former policy, may have taken over. To spread its policy would lose the "
            "changes everywhere.",
        )


def notes_on_older_policy(site: OpensmSite, file: OpensmFile, starts: bool = True) -> Iterator[str]:
    """Yield a note if the master's policy *file* is older than the last change of the journal. *starts*: whether a
    change starts from it."""
    effect = "the change starts from that older policy" if starts else "that older policy is in force"
    for why in _why_older(site, file):
        yield f"{why}: {effect}; `ibkeys journal` lists what is not in it"


def _why_older(site: OpensmSite, file: OpensmFile) -> Iterator[str]:
    why = site.last_change.why_older(file) if site.last_change is not None else ""
    if why:
        yield why


def objections_to_standbys(
    site: OpensmSite, files: Sequence[OpensmFile], ours: Collection[bytes | None] = ()
) -> Iterator[Objection]:
    """Yield ``standby-differs`` if an SM that would take over has, or may have, another policy than the master. *ours*:
    policies that do not count as different: those that an earlier run of this change found or wrote before it stopped,
    and the policy of the plan, because a standby may get it before a master that came back."""
    *standbys, master = files
    differing = [
        f"{each.name}, on a standby, differs from the master's and would be replaced"
        for each in standbys
        if each.seen.data != master.seen.data and each.seen.data not in ours
    ]
    older = next(_why_older(site, master), "")
    remedies = []
    if site.out_of_reach and older:
        remedies.append(
            f"{older}, so an SM that is away may have the newer one: make that one master, if it can be started"
        )
    elif site.out_of_reach:
        remedies.append(
            f"reach it with {given('--sm-host')} (if it is stopped, start it first): it then gets the new policy too"
        )
    if differing:
        remedies.append(
            "`ibkeys partition-spread` shows the differences, and gives each standby the master's policy; what only a "
            "standby's policy has, and is needed, must be added to the new policy first"
        )
    if remedies:
        yield Objection(
            STANDBY_DIFFERS,
            f"{named([*site.out_of_reach, *differing])}; {'; '.join(remedies)}",
            "When another SM takes over, it applies its own policy to every table.",
        )


def objections_to_standbys_after_undo(
    site: OpensmSite, others: Sequence[OpensmFile], unreached: Sequence[str], former: bytes | None
) -> Iterator[Objection]:
    """Yield ``standby-differs`` if an SM that would take over has, or may have, another policy than *former*, which the
    master gets back by an undo. *others*: the files of standbys that the undo leaves as they are; *unreached*: the
    files that the operation wrote on hosts that are not reached. At a takeover such a standby would bring back what was
    undone."""
    differing = [
        f"{each.name}, on a standby, would differ from the former policy, and the undo leaves it as it is"
        for each in others
        if each.seen.data != former
    ]
    differing += [f"{each}, which has the policy that is undone, is not reached" for each in unreached]
    remedies = []
    if site.out_of_reach or unreached:
        reach = given("--sm-host")
        remedies.append(
            f"reach it with {reach} (if it is stopped, start it first): then its file is compared and undone too"
        )
    if differing:
        remedies.append(
            "`ibkeys sm-show` compares the policies; after the undo, `ibkeys partition-spread` makes them alike"
        )
    if remedies:
        yield Objection(
            STANDBY_DIFFERS,
            f"{named([*site.out_of_reach, *differing])}; {'; '.join(remedies)}",
            "When another SM takes over, it applies its own policy to every table: what is undone may come back.",
        )


def objections_to_self(site: OpensmSite, new: Policy, present: Policy | None) -> Iterator[Objection]:
    """Yield ``self-takeover`` if the policy newly uses SELF, which is the port of the present master, and another SM
    may take over. If it used SELF already, this is only noted. *present*: the policy before the change began;
    intermediate policies name every port by its GUID."""
    wanted, there = _named_self(new), _named_self(present)
    if not site.other_sm_count or not wanted:
        return
    if wanted <= there:
        site.notes.append(
            Detail(
                "the policy already used SELF: after a takeover the former master's port loses the P_Keys that SELF "
                "gave it"
            )
        )
        return
    listed = ", ".join(f"0x{base:04x}" for base in sorted(wanted - there))
    yield Objection(
        "self-takeover",
        f"the policy newly uses SELF in {listed}, and {counted(site.other_sm_count, 'other SM')} may take over: "
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
    """The ports that differ from the tables that OpenSM wrote. ``texts_of_change``: ports of this change that OpenSM
    would not rewrite in it, in words; ``texts_elsewhere``: other such ports; ``guids_set_aside``: the GUIDs of the end
    ports of both; ``guids_of_change``: the GUIDs of those that the plan names; ``rewritten``: the number of ports that
    OpenSM rewrites; ``guids``: the GUIDs of all end ports whose tables differ."""

    texts_of_change: list[str] = field(default_factory=list)
    texts_elsewhere: list[str] = field(default_factory=list)
    guids_set_aside: set[int] = field(default_factory=set)
    guids_of_change: set[int] = field(default_factory=set)
    rewritten: int = 0
    guids: set[int] = field(default_factory=set)

    def objections(self) -> Iterator[Objection]:
        """Yield ``drift`` for ports of the change: OpenSM only writes blocks that differ from its memory, so it would
        leave these ports as they are."""
        if self.texts_of_change:
            count = len(self.texts_of_change)
            yield Objection(
                "drift",
                f"{counted(count, 'port')} of this change {'does' if count == 1 else 'do'} not match OpenSM's policy: "
                f"{named(self.texts_of_change)}; `apply` with {given('--rewrite')} makes it rewrite every table first",
                f"OpenSM assumes that {'it is' if count == 1 else 'they are'} correct and would not "
                f"rewrite {'it' if count == 1 else 'them'}.",
            )

    def notes(self) -> Iterator[str]:
        """Yield a note on ports that drifted and do not belong to this change."""
        if self.texts_elsewhere:
            count = len(self.texts_elsewhere)
            yield (
                f"{counted(count, 'port')} that this change leaves alone {'does' if count == 1 else 'do'} not match "
                f"OpenSM's policy, and OpenSM may not correct that: {named(self.texts_elsewhere)}"
            )


def drift_of(
    prediction: Prediction,
    old: Policy | None,
    new: Policy | None,
    changing_ports: Collection[PortKey],
    partitions: Collection[int] = (),
) -> Drift:
    """Return the ports whose P_Keys differ from those that *old*, the policy that OpenSM has read, gives them. *new*:
    the last policy of the change. *changing_ports*: the ports of the change; *partitions*: its partition numbers.

    OpenSM writes a block if the new policy differs from its memory, and its memory has the tables of the old policy.
    Source: opensm osm_pkey_mgr.c, observed.
    """
    drift = Drift()
    remembered, wanted = prediction.memberships(old), prediction.memberships(new)
    for key, target in prediction.survey.targets.items():
        end = end_of(target, prediction)
        if end is None:
            continue
        guid = end.port.guid
        shown, should = _compare_keys(target, end, remembered.get(guid, frozenset()))
        if shown == should:
            continue
        drift.guids.add(guid)
        if remembered[guid] != wanted[guid]:
            drift.rewritten += 1
            continue
        touched = key in changing_ports or any(each.partition in partitions for each in shown ^ should)
        texts = [named(sorted(keys)) or "no P_Key" for keys in (shown, should)]
        found = f"{target.id} has {texts[0]}, and the policy gives it {texts[1]}"
        (drift.texts_of_change if touched else drift.texts_elsewhere).append(found)
        drift.guids_set_aside.add(guid)
        if key in changing_ports:
            drift.guids_of_change.add(guid)
    return drift


def set_drift_aside(
    prediction: Prediction, old: Policy | None, new: Policy | None, touched_ports: Collection[PortKey]
) -> Drift:
    """Set aside, in *prediction*, the ports that have drifted and do not belong to the change; return the drift.
    *touched_ports*: the ports of the change, and those that an earlier run touched: a difference there sets no port
    aside, wherever that run stopped."""
    drift = drift_of(prediction, old, new, touched_ports)
    ports = [prediction.survey.targets[key].port for key in touched_ports if key in prediction.survey.targets]
    ends = [port.peer if port.is_external else port for port in ports]
    prediction.guids_set_aside = drift.guids_set_aside - {end.guid for end in ends if end is not None}
    prediction.drifted = drift.guids
    return drift


def ports_as_policy(prediction: Prediction, policy: Policy | None) -> set[PortKey]:
    """Return the ports that have exactly the P_Keys that OpenSM gives them by *policy*."""
    given_keys = prediction.memberships(policy)
    found = set()
    for key, target in prediction.survey.targets.items():
        end = end_of(target, prediction)
        if end is not None:
            shown, should = _compare_keys(target, end, given_keys.get(end.port.guid, frozenset()))
            found |= {key} if shown == should else set()
    return found


def end_of(target: PortTarget, prediction: Prediction) -> PortTarget | None:
    """Return the end port that a table belongs to: for a leaf port the end port behind it; None if it was not read, or
    OpenSM does not write leaf ports."""
    if not target.port.is_external:
        return target
    peer = target.port.peer
    if peer is None or not peer.is_end_port or prediction.options.enforce == "off":
        return None
    return prediction.survey.targets.get(target.peer) if target.peer is not None else None


def _compare_keys(
    target: PortTarget, end: PortTarget, policy_keys: frozenset[PKey]
) -> tuple[frozenset[PKey], frozenset[PKey]]:
    """Return the P_Keys that a port shows and those that OpenSM gave it. *policy_keys*: the P_Keys that the policy
    gives *end*, its end port."""
    capacity = min(target.port.capacity or 0, end.port.capacity or 0)
    if target.port.is_external:
        policy_keys = frozenset(packed(dict(enumerate(sorted(policy_keys)))))
    shown = frozenset(target.table.values())
    if len(policy_keys) > capacity and shown < policy_keys:
        policy_keys = shown  # OpenSM left out those for which there is no room
    return shown, policy_keys

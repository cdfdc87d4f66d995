"""Rules that compare P_Key tables with a policy: extra and missing P_Keys, forbidden pairs that can communicate."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from ibkeys.arguments import given
from ibkeys.audit.inputs import BETWEEN_SWITCHES, AuditInput, PKeyTableFacts
from ibkeys.audit.rule import VIRTUAL_TABLES, Evidence, RuleVerdict, p_keys, rule
from ibkeys.audit.rules.forbidden import Deviating, Partners, deviating_classes
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK
from ibkeys.partitions.model import DEFAULT_PARTITION
from ibkeys.port_text import PortText, common_of
from ibkeys.reach.routes import numbers_in
from ibkeys.reach.sets import ReachedField
from ibkeys.topology.nodes import Port

LISTED_PAIRS: Final = 1000
"""Up to so many forbidden pairs are reported pair by pair; of more, each port with its partners."""
NAMED_PARTNERS: Final = 4
_NAMED_PARTITIONS: Final = 8
WAYS: Final[tuple[ReachedField, ...]] = get_args(ReachedField)
NO_TENANT: Final = "-"
"""The owner, in a registry, of a partition that belongs to no tenant."""
_UNLESS_SM: Final = "; it depends on where the SM runs, and no master SM was found"
_LEFT_OPEN: Final = "; the policy's source does not list the members of that partition"
_APART: Final = "; the policy keeps them apart"
_INFRASTRUCTURE_NAMES: Final = frozenset({"", "default", "management", "mgmt"})


def named_full_in_default(data: AuditInput) -> frozenset[int]:
    """Return the port GUIDs that the policy names one by one as full members of the default partition."""
    default = data.policy.partition(DEFAULT_PARTITION) if data.policy is not None else None
    rules = default.rules if default is not None else ()
    return frozenset(rule.guid for rule in rules if rule.who == "GUID" and rule.membership != "limited")


def _wanted(verdict: RuleVerdict) -> Iterator[tuple[Port, PKeyTableFacts, frozenset[int]]]:
    """Yield the end ports with their table and the P_Keys that the policy gives them. Ports whose table was not read
    are recorded as unknown.
    """
    for port, table in verdict.end_port_tables():
        yield port, table, verdict.data.wanted.get(port.guid, frozenset())


def _fail(
    verdict: RuleVerdict,
    port: Port,
    keys: Collection[int],
    message: str,
    evidence: Evidence,
    partners: Iterable[Port] = (),
) -> None:
    """Fail a port because of P_Keys or partitions. The result is unknown if for none of these partitions the members
    are known.
    """
    data = verdict.data
    if not all(key & PARTITION_MASK in data.uncertain_bases for key in keys):
        verdict.fail(port, message, evidence, partners=partners)
    elif data.policy is not None and all(map(data.policy.leaves_open, keys)):
        verdict.unknown(port, PortText.joined(message, _LEFT_OPEN), evidence)
    else:
        verdict.unknown(port, PortText.joined(message, _UNLESS_SM), evidence)


def _judge(
    verdict: RuleVerdict, port: Port, wrong: list[tuple[int, int]], message: str, *, in_policy: bool = False
) -> None:
    """Fail a port because of (index, P_Key) entries whose partitions have known members. If it has other entries only,
    the result is unknown.

    *in_policy*: the policy defines their partitions, and the evidence has the lines.
    """
    if not wrong:
        verdict.passed += 1
        return
    uncertain = verdict.data.uncertain_bases
    told = [(index, key) for index, key in wrong if key & PARTITION_MASK not in uncertain] or wrong
    keys = [key for _, key in told]
    evidence = p_keys(*told)
    if in_policy:
        evidence["policy"] = _line_of(verdict.data, keys[0])
    _fail(verdict, port, keys, f"{', '.join(f'0x{key:04x}' for key in keys)}: {message}", evidence)


def _line_of(data: AuditInput, key: int) -> dict[str, Any]:
    """Return where the policy defines the partition of a P_Key."""
    assert data.policy is not None
    partition = data.policy.partition(key & PARTITION_MASK)
    return {"file": data.policy.path, "line": partition.definitions[0].line if partition is not None else None}


@rule(
    id="PK002",
    title="P_Key not in policy",
    severity="critical",
    evidence="valid entries of the P_KeyTable whose partition the policy does not give the port",
    why="A user added it without the subnet manager, or it was left when the policy changed.",
    sources=("NICO", "OSM"),
    remedy=(
        "`ibkeys plan FILE --out PLAN` removes what the policy does not have. Then `ibkeys apply PLAN`, through "
        "OpenSM, UFM or by Sets."
    ),
    false_positives="A policy that is older than the fabric.",
    needs="policy",
)
def not_in_policy(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail ports with P_Keys that the policy does not give them (PK002)."""
    for port, table, wanted in _wanted(verdict):
        bases = {key & PARTITION_MASK for key in wanted}
        wrong = [(index, key) for index, key in table.entries.items() if key & PARTITION_MASK not in bases]
        _judge(verdict, port, wrong, "in the table, and not in the policy for this port")


@rule(
    id="PK003",
    title="P_Key missing",
    severity="medium",
    evidence=("P_Keys of the policy that are not in the P_KeyTable, or only as limited instead of full"),
    why="The application that needs it fails.",
    sources=("NICO",),
    remedy=(
        "Let the SM sweep. Or `ibkeys plan FILE --out PLAN`, then `ibkeys apply PLAN`, through OpenSM, UFM or by Sets."
    ),
    false_positives=(
        "A node that has just booted: without IsPKeyNVRAM a reset leaves only index 0, with 0xffff or 0x7fff."
    ),
    needs="policy",
)
def missing(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail ports that lack P_Keys of the policy (PK003)."""
    for port, table, wanted in _wanted(verdict):
        gone = [key for key in sorted(wanted) if not table.bases.get(key & PARTITION_MASK, frozenset()) & _serves(key)]
        if not gone:
            verdict.passed += 1
            continue
        lacking = [f"0x{key:04x}" for key in gone]
        evidence = {**p_keys(*table.entries.items()), "policy": {**_line_of(data, gone[0]), "missing": lacking}}
        _fail(verdict, port, gone, f"{', '.join(lacking)}: in the policy, and not in the table", evidence)


def _serves(key: int) -> frozenset[int]:
    """Return the P_Keys that satisfy a P_Key of the policy. The full form satisfies a limited P_Key; PK004 reports such
    a port.
    """
    return frozenset({key, key | FULL_BIT})


@rule(
    id="PK004",
    title="membership raised",
    severity="high",
    evidence="a full P_Key in the table where the policy says limited",
    why="A full member reaches every member of the partition, a limited one only full ones.",
    sources=("SEED2",),
    remedy="`ibkeys plan FILE --out PLAN`, then `ibkeys apply PLAN`, through OpenSM, UFM or by Sets.",
    false_positives="Policies that say both, where both are allowed.",
    needs="policy",
)
def raised(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail ports that are full members where the policy makes them limited ones (PK004)."""
    for port, table, wanted in _wanted(verdict):
        wrong = [
            (index, key)
            for index, key in table.entries.items()
            if key & FULL_BIT and key not in wanted and key & PARTITION_MASK in wanted
        ]
        _judge(verdict, port, wrong, "full in the table, limited in the policy", in_policy=True)


@rule(
    id="PK005",
    title="forbidden pair can talk",
    severity="critical",
    evidence=(
        "pairs of ports that the policy keeps apart but that share a partition (at least one as a full member), unless "
        "switches block both directions; not known where the route decides (enforcement between switches)"
    ),
    why="Isolation of tenants has to prevent this. Packets in one direction are enough for flooding and forging.",
    sources=("ISV",),
    remedy=(
        "`ibkeys why A B` shows by which P_Key, `ibkeys plan FILE --out PLAN` what to change. Then `ibkeys apply "
        "PLAN`, through OpenSM, UFM or by Sets."
    ),
    false_positives="Services that all tenants share: waive them by pair.",
    needs="policy",
)
def forbidden(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail pairs of ports that can communicate although the policy forbids it (PK005)."""
    for port in data.reach.unread:
        verdict.unknown(port, "its P_Key table, or enforcement and table of its switch port, was not read")
    for port in data.reach.virtualized:
        verdict.unknown(port, VIRTUAL_TABLES)
    found = deviating_classes(data)
    accused = concerned = 0
    for each in found:
        accused |= each.ports
        concerned |= each.ports | each.partners
    if sum(each.ports.bit_count() * each.partners.bit_count() for each in found) <= LISTED_PAIRS:
        _say_pairs(verdict, found, accused)
    else:
        for each, at, way, others in _by_port(found):
            _say(verdict, each, data.reach.ports[at], Partners(data.reach.ports, others), way)
    unknown = {*data.reach.unread, *data.reach.virtualized}
    not_passed = {data.reach.ports[at] for at in numbers_in(concerned)} | unknown
    verdict.passed = sum(port not in not_passed for port in data.end_ports)


def _by_port(found: Iterable[Deviating]) -> Iterator[tuple[Deviating, int, ReachedField, int]]:
    """Yield each deviating class and the place of one of its ports, with a direction and the places of its partners."""
    for each in found:
        for at in numbers_in(each.ports):
            for way, partners in zip(WAYS, each.found, strict=True):
                if others := partners & ~(1 << at):
                    yield each, at, way, others


def _say_pairs(verdict: RuleVerdict, found: Sequence[Deviating], accused: int) -> None:
    """Report each pair once: by the first port if both deviate, by the sender if packets pass in one direction only."""
    reach = verdict.data.reach
    for each, at, way, others in _by_port(found):
        for other in numbers_in(others):
            by_the_other = accused >> other & 1 and (way == "by" or (way != "to" and other < at))
            if not by_the_other:
                _say(verdict, each, reach.ports[at], Partners(reach.ports, 1 << other), way)


def _say(verdict: RuleVerdict, each: Deviating, port: Port, partners: Partners, way: ReachedField) -> None:
    """Report that *port*, of the class *each*, has *partners* in the direction *way*, and in which partitions."""
    data = verdict.data
    bases = data.reach.meeting(each.profile, partners.places, way)
    named = list(itertools.islice(partners, NAMED_PARTNERS))
    more = len(partners) - len(named)
    listed = PortText.of(
        ", ".join(["{}"] * len(named)) + (f" and {more} more (all of them: `ibkeys matrix --pairs`)" if more else ""),
        *named,
    )
    where = ", ".join(f"0x{base:04x}" for base in bases[:_NAMED_PARTITIONS])
    where += f" and {len(bases) - _NAMED_PARTITIONS} more (all of them: why)" if len(bases) > _NAMED_PARTITIONS else ""
    table = data.table(port)
    entries = table.entries.items() if table is not None else ()
    evidence: dict[str, Mapping[str, Any]] = {
        **p_keys(*((index, key) for index, key in entries if key & PARTITION_MASK in bases)),
        "partners": {f"0x{each.port_guid:016x}": str(each) for each in named},
    }
    if way == "unknown":
        stops = _what_may_stop(data, bases)
        evidence[BETWEEN_SWITCHES] = {"may_be_stopped_by": stops}
        why = f" in partition {where}, on routes that do not lead through {stops}, and the routes are not known"
        message = PortText.joined("may be able to talk to ", listed, why, _APART)
    elif way == "both":
        message = PortText.joined("can talk to ", listed, f" in partition {where}", _APART)
    else:
        ends = (port, named[0]) if way == "to" else (named[0], port)
        stopped = _what_stops_answers(data, *ends, bases)
        own = PortText.of("{}", port)
        sender, receiver = (own, listed) if way == "to" else (listed, own)
        evidence["one_way"] = {"from": str(ends[0]), "to": str(ends[1]), "answer_stopped_by": stopped}
        why = f": packets get through in partition {where} and the answers do not ("
        message = PortText.joined("one way, ", sender, " to ", receiver, why, stopped, ")", _APART)
    if way == "unknown":
        verdict.unknown(port, message, evidence)
    else:
        _fail(verdict, port, bases, message, evidence, partners)


def _what_may_stop(data: AuditInput, bases: Collection[int]) -> str:
    """Return, as text, the ports on links between switches that stop packets in these partitions, or were not read; of
    many, the first `NAMED_PARTNERS`."""
    ports = list(map(str, itertools.islice(data.reach.deciding(bases), NAMED_PARTNERS + 1)))
    more = " and more (all of them: matrix -f json)" if len(ports) > NAMED_PARTNERS else ""
    return ", ".join(ports[:NAMED_PARTNERS]) + more


def _what_stops_answers(data: AuditInput, sender: Port, receiver: Port, bases: Collection[int]) -> PortText:
    """Return which switch ports drop the answers of *receiver*, and by which rule."""
    found = dict.fromkeys(
        PortText.of(f"{{}} drops {check.p_key} by {check.direction} enforcement", check.port)
        for match in data.reach.matches(sender, receiver)
        for check in match.b_to_a
        if check.index is None and check.p_key.partition in bases
    )
    return PortText(", ".join(found), ", ".join(map(common_of, found)))


@rule(
    id="PK014",
    title="tenant in the default partition",
    severity="critical",
    evidence="the default partition in the policy or the registry: a tenant's name, or full membership for every CA",
    why="The default partition spans all ports, so a tenant there reaches everybody.",
    sources=("ISV",),
    remedy=(
        "In the policy, give the tenant a P_Key of its own (`ibkeys partition-add`) and make everybody limited in "
        "0x7fff. Then `ibkeys harden --policy FILE`, or `ibkeys plan FILE --out PLAN` and `ibkeys apply PLAN`."
    ),
    false_positives="A site with one tenant.",
    over_fabric=False,
)
def tenant_on_default(data: AuditInput, verdict: RuleVerdict) -> RuleVerdict:
    """Fail a default partition that belongs to a tenant, or that has every CA port as a full member (PK014)."""
    if data.policy is None and data.registry is None:
        note = f"no policy or registry was given ({given('--policy or --registry')})"
        return RuleVerdict.without(data, note, "--policy")
    owner = (data.registry or {}).get(DEFAULT_PARTITION, NO_TENANT)
    if owner != NO_TENANT:
        message = f"the registry gives the default partition 0x7fff to {owner!r}"
        verdict.fail(None, message, {"registry": {"partition": "0x7fff", "owner": owner}}, labels=("0x7fff",))
    default = data.policy.partition(DEFAULT_PARTITION) if data.policy is not None else None
    for definition in default.definitions if default is not None else ():
        problem = ""
        if (definition.name or "").lower() not in _INFRASTRUCTURE_NAMES:
            problem = f"the policy gives the default partition 0x7fff the name {definition.name!r}"
        elif any(rule.who in ("ALL", "ALL_CAS") and rule.membership != "limited" for rule in definition.rules):
            problem = "the policy makes every CA port a full member of the default partition 0x7fff"
        if problem and data.policy is not None:
            evidence = {"policy": {"file": data.policy.path, "line": definition.line, "name": definition.name}}
            verdict.fail(None, problem, evidence, labels=("0x7fff",))
    verdict.passed = 0 if verdict.findings else 1
    return verdict

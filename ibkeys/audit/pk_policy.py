"""Rules that hold P_Key tables against a policy: what is too much, what is missing, who can talk and may not."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ibkeys.audit.forbidden import ForbiddenPair, PortClass, forbidden_pairs
from ibkeys.audit.inputs import AuditInput, Table
from ibkeys.audit.rule import Rule, Verdict, p_keys
from ibkeys.fabric.model import Port
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK
from ibkeys.policy.model import DEFAULT_PARTITION

NO_POLICY: Final = "no policy to compare with (--policy)"
LISTED_PAIRS: Final = 1000
"""Up to so many forbidden pairs are named one by one; of more, each port with those that it can talk to."""
_NAMED_PARTNERS: Final = 4
_NAMED_PARTITIONS: Final = 8
NO_TENANT: Final = "-"
"""The owner, in a registry, of a partition that belongs to no tenant."""
_UNLESS_SM: Final = "; it depends on where the SM runs, and no master SM was found"
_INFRASTRUCTURE_NAMES: Final = frozenset({"", "default", "management", "mgmt"})


def named_full_in_default(data: AuditInput) -> frozenset[int]:
    """Return the port GUIDs that the policy names one by one as full members of the default partition."""
    default = data.policy.partition(DEFAULT_PARTITION) if data.policy is not None else None
    rules = default.rules if default is not None else ()
    return frozenset(rule.guid for rule in rules if rule.who == "GUID" and rule.membership != "limited")


def _wanted(verdict: Verdict) -> Iterator[tuple[Port, Table, frozenset[int]]]:
    """Yield the end ports with their table and what the policy gives them; those not read are unknown."""
    for port in verdict.with_tables(verdict.data.end_ports):
        table = verdict.data.table(port)
        assert table is not None
        yield port, table, verdict.data.wanted.get(port.guid, frozenset())


def _judge(verdict: Verdict, port: Port, wrong: list[tuple[int, int]], message: str) -> None:
    """Fail a port for (index, P_Key) entries; it is unknown where the SM's place decides and is not known."""
    uncertain = verdict.data.uncertain_bases
    certain = [(index, key) for index, key in wrong if key & PARTITION_MASK not in uncertain]
    listed = ", ".join(f"0x{key:04x}" for _, key in certain or wrong)
    if certain:
        verdict.fail(port, f"{listed}: {message}", p_keys(*certain))
    elif wrong:
        verdict.unknown(port, f"{listed}: {message}{_UNLESS_SM}", p_keys(*wrong))
    else:
        verdict.passed += 1


def not_in_policy(data: AuditInput) -> Verdict:
    """PK002."""
    if data.policy is None:
        return Verdict.without(data, NO_POLICY)
    verdict = Verdict.over_fabric(data)
    for port, table, wanted in _wanted(verdict):
        bases = {key & PARTITION_MASK for key in wanted}
        wrong = [(index, key) for index, key in table.entries.items() if key & PARTITION_MASK not in bases]
        _judge(verdict, port, wrong, "in the table, and not in the policy for this port")
    return verdict


def missing(data: AuditInput) -> Verdict:
    """PK003."""
    if data.policy is None:
        return Verdict.without(data, NO_POLICY)
    verdict = Verdict.over_fabric(data)
    for port, table, wanted in _wanted(verdict):
        gone = [key for key in sorted(wanted) if not table.bases.get(key & PARTITION_MASK, frozenset()) & _serves(key)]
        if not gone:
            verdict.passed += 1
            continue
        listed = ", ".join(f"0x{key:04x}" for key in gone)
        evidence = {**p_keys(*table.entries.items()), "policy": {"missing": listed}}
        if all(key & PARTITION_MASK in data.uncertain_bases for key in gone):
            verdict.unknown(port, f"{listed}: in the policy, and not in the table{_UNLESS_SM}", evidence)
        else:
            verdict.fail(port, f"{listed}: in the policy, and not in the table", evidence)
    return verdict


def _serves(key: int) -> frozenset[int]:
    """Return the P_Keys that do for one of the policy: a full one does for a limited one, which PK004 reports."""
    return frozenset({key, key | FULL_BIT})


def raised(data: AuditInput) -> Verdict:
    """PK004."""
    if data.policy is None:
        return Verdict.without(data, NO_POLICY)
    verdict = Verdict.over_fabric(data)
    for port, table, wanted in _wanted(verdict):
        wrong = [
            (index, key)
            for index, key in table.entries.items()
            if key & FULL_BIT and key not in wanted and key & PARTITION_MASK in wanted
        ]
        _judge(verdict, port, wrong, "full in the table, limited in the policy")
    return verdict


def forbidden(data: AuditInput) -> Verdict:
    """PK005."""
    if data.policy is None:
        return Verdict.without(data, NO_POLICY)
    verdict = Verdict.over_fabric(data)
    for port in data.reach.unread:
        verdict.unknown(port, "its P_Key table, or enforcement and table of the switch port before it, was not read")
    pairs = forbidden_pairs(data)
    if sum(pair.size for pair in pairs) <= LISTED_PAIRS:
        for pair in pairs:
            for at, port in enumerate(pair.a.ports):
                for other in pair.a.ports[at + 1 :] if pair.a is pair.b else pair.b.ports:
                    _say(verdict, port, [[other]], 1, pair.bases)
    else:
        _say_by_port(verdict, pairs)
    concerned = {port for pair in pairs for each in (pair.a, pair.b) for port in each.ports} | {*data.reach.unread}
    verdict.passed = sum(port not in concerned for port in data.end_ports)
    return verdict


def _say_by_port(verdict: Verdict, pairs: Iterable[ForbiddenPair]) -> None:
    """Say for each port of the first classes, once, with how many it can talk: never as many subjects as pairs."""
    by_class: dict[PortClass, list[ForbiddenPair]] = {}
    for pair in pairs:
        by_class.setdefault(pair.a, []).append(pair)
    for each, found in by_class.items():
        partners = [pair.b.ports for pair in found]
        bases = tuple(sorted({base for pair in found for base in pair.bases}))
        total = sum(map(len, partners)) - any(pair.b is each for pair in found)
        for port in each.ports:
            _say(verdict, port, partners, total, bases)


def _say(verdict: Verdict, port: Port, partners: Sequence[Sequence[Port]], total: int, bases: tuple[int, ...]) -> None:
    """Say that *port* can talk to *total* ports: those of all groups of *partners* but itself."""
    data = verdict.data
    others = (each for group in partners for each in group if each is not port)
    named = list(itertools.islice(others, _NAMED_PARTNERS))
    listed = ", ".join(map(str, named)) + (f" and {total - len(named)} more" if total > len(named) else "")
    where = ", ".join(f"0x{base:04x}" for base in bases[:_NAMED_PARTITIONS])
    where += f" and {len(bases) - _NAMED_PARTITIONS} more" if len(bases) > _NAMED_PARTITIONS else ""
    table = data.table(port)
    entries = table.entries.items() if table is not None else ()
    evidence = p_keys(*((index, key) for index, key in entries if key & PARTITION_MASK in bases))
    evidence["partners"] = {f"0x{each.port_guid:016x}": str(each) for each in named}
    message = f"can talk to {listed} in partition {where}; the policy keeps them apart"
    if all(base in data.uncertain_bases for base in bases):
        verdict.unknown(port, message + _UNLESS_SM, evidence)
    else:
        verdict.fail(port, message, evidence, partners=partners)


def tenant_on_default(data: AuditInput) -> Verdict:
    """PK014."""
    if data.policy is None and data.registry is None:
        return Verdict.without(data, "neither a policy nor a registry to look at (--policy, --registry)")
    verdict = Verdict(data)
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
    verdict.passed = 0 if verdict.drafts else 1
    return verdict


RULES: Final = (
    Rule(
        "PK002",
        "P_Key not in policy",
        "critical",
        "valid entries of the P_KeyTable whose partition the policy does not give the port",
        "Somebody added it past the subnet manager, or it was left when the policy changed.",
        ("NICO", "OSM"),
        "ibkeys plan --policy FILE, then apply: it removes what the policy does not have.",
        "A policy that is older than the fabric.",
        not_in_policy,
    ),
    Rule(
        "PK003",
        "P_Key missing",
        "medium",
        "P_Keys of the policy that are not in the P_KeyTable, or there as a limited one in the place of a full one",
        "The application that needs it fails.",
        ("NICO",),
        "Let the SM sweep, or ibkeys plan --policy FILE and apply.",
        "A node that has just booted.",
        missing,
    ),
    Rule(
        "PK004",
        "membership raised",
        "high",
        "a full P_Key in the table where the policy says limited",
        "A full member reaches every member of the partition, a limited one only full ones.",
        ("SEED2",),
        "ibkeys plan --policy FILE, then apply.",
        "Policies that say both (--allow-both-pkeys).",
        raised,
    ),
    Rule(
        "PK005",
        "forbidden pair can talk",
        "critical",
        "pairs of ports with a common partition, one of them full, that no switch stops and the policy keeps apart",
        "This is what isolation of tenants is for.",
        ("ISV",),
        "Correct the tables: ibkeys why A B shows by which P_Key, ibkeys plan what to change.",
        "Services that all tenants share: waive them by pair.",
        forbidden,
    ),
    Rule(
        "PK014",
        "tenant on default base",
        "critical",
        "the default partition in the policy or the registry: a tenant's name, or full membership for every CA",
        "The default partition spans all ports, so a tenant there reaches everybody.",
        ("ISV",),
        "Give the tenant a P_Key of its own, and make everybody limited in 0x7fff.",
        "A site with one tenant.",
        tenant_on_default,
    ),
)

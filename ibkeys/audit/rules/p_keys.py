"""Rules about P_Key tables: their entries, changes since a baseline, and the partitions of the whole fabric."""

from __future__ import annotations

from typing import Final

from ibkeys.arguments import given
from ibkeys.audit.inputs import AuditInput, PKeyTableFacts
from ibkeys.audit.rule import VIRTUAL_TABLES, Evidence, RuleVerdict, p_keys, rule
from ibkeys.audit.rules import p_keys_policy as pk_policy
from ibkeys.grouping import gathered
from ibkeys.keys.pkey import FULL_BIT
from ibkeys.partitions.model import DEFAULT_PARTITION
from ibkeys.printable import counted
from ibkeys.reach.forms import LIMITED
from ibkeys.reach.reach import PartitionPorts
from ibkeys.topology.enforcement import leaf_of
from ibkeys.topology.nodes import Port

_EMPTY: Final[frozenset[int]] = frozenset()


@rule(
    id="PK001",
    title="full member of default",
    severity="high",
    evidence="0xffff in the P_KeyTable of a CA port that runs no SM",
    why=(
        "All full members of the default partition can talk to each other, whatever other partitions "
        "they are in. A full member can still send if the P_Key table of its switch port has this P_Key as limited."
    ),
    sources=("NVG", "NICO"),
    remedy=(
        "Default=0x7fff : ALL=limited, SELF=full; in partitions.conf, then `ibkeys harden --policy FILE`, or only "
        "`ibkeys plan FILE --out PLAN` and `ibkeys apply PLAN`. default_membership limited in NVIDIA's SM."
    ),
    false_positives=(
        "Ports of an SM, of UFM, of gateways. Ports on the list of SMs or named by the policy by GUID are left out. A "
        "port without IsPKeyNVRAM that was reset has 0xffff or 0x7fff alone until the SM has written its table: one "
        "that has 0xffff is open for that time."
    ),
    if_empty="no port but those of subnet managers, switches, routers",
)
def full_default(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail CA ports without an SM that are full members of the default partition (PK001)."""
    named = pk_policy.named_full_in_default(data)
    exempt = (data.sm_guids or _EMPTY) | named
    full = DEFAULT_PARTITION | FULL_BIT
    for port, table in verdict.end_port_tables():
        if port.node.type_name != "ca" or port in data.sm_ports or port.guid in exempt:
            continue
        if full in table.bases.get(DEFAULT_PARTITION, ()):
            message = f"full member of the default partition: {_what_default_reaches(data, port)}"
            verdict.fail(port, message, p_keys((table.index_of(full), full)))
        else:
            verdict.passed += 1


_DEFAULT_REACHES: Final = {
    # whether the port sends to limited members, and whether limited members send to the port
    (True, True): "it may talk to every port of the fabric",
    (True, False): "one way, it may send to every port of the fabric; {leaf} stops {what}",
    (False, True): "one way, every port of the fabric may send to it; {leaf} stops what it sends (inbound enforcement)",
    (False, False): "its packets do not pass {leaf}, which enforces partitions and does not have this P_Key",
}


def _what_default_reaches(data: AuditInput, port: Port) -> str:
    """Return, in words, which ports a full member of the default partition reaches, as far as its switch port
    allows."""
    found = data.reach.traffic(port, DEFAULT_PARTITION)
    if found is None:
        return "it may talk to every port of the fabric, unless its switch port, which was only partly read, stops it"
    what = "answers of limited members" if found.arrives else "all answers"
    text = _DEFAULT_REACHES[bool(found.leaves), bool(found.arrives & LIMITED)]
    return text.format(leaf=leaf_of(port), what=f"{what} (outbound enforcement)")


@rule(
    id="PK006",
    title="full and limited P_Key of one partition",
    severity="medium",
    evidence="both forms of a P_Key in one table, where the policy does not say both",
    why="The full one wins, so the limited one has no effect; OpenSM's allow_both_pkeys is off by default.",
    sources=("OSM",),
    remedy="Choose one in the policy and apply it.",
    false_positives="Sites with virtual functions that need both (both are allowed, and the policy says so).",
)
def both_forms(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail ports with the full and the limited P_Key of one partition (PK006)."""
    for port, table in verdict.end_port_tables():
        wanted = data.wanted.get(port.guid, _EMPTY) if data.policy is not None else _EMPTY
        double = [base for base, keys in table.bases.items() if len(keys) > 1 and not {base, base | FULL_BIT} <= wanted]
        if double:
            entries = [(index, key) for index, key in table.entries.items() if key & DEFAULT_PARTITION in double]
            listed = ", ".join(f"0x{base:04x}" for base in double)
            verdict.fail(port, f"full and limited member of {listed} at once: it acts as a full one", p_keys(*entries))
        else:
            verdict.passed += 1


@rule(
    id="PK007",
    title="invalid or duplicate entry",
    severity="low",
    evidence="0x8000 in a P_KeyTable, or the same 16 bits twice",
    why="It wastes capacity, and it is undefined which of the two indexes a look-up finds.",
    sources=("SEED2",),
    remedy="Clear it: ibkeys pkey-set ADDR INDEX=.",
    false_positives="None known.",
)
def odd_entries(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail ports with 0x8000 or a P_Key at two indexes in their table (PK007)."""
    for port in verdict.with_tables([*data.end_ports, *data.external_ports]):
        table = data.table(port)
        assert table is not None
        if not table.odd and not table.twice:
            verdict.passed += 1
            continue
        problems = [f"0x{key:04x} is in the table more than once" for key in table.twice]
        if table.odd:
            problems.insert(0, f"0x8000 at index {', '.join(map(str, table.odd))} matches nothing")
        entries = [(index, FULL_BIT) for index in table.odd]
        entries += [(index, key) for index, key in table.entries.items() if key in table.twice]
        verdict.fail(port, "; ".join(problems), p_keys(*entries))


@rule(
    id="PK008",
    title="unexpected P_Key at index 0",
    severity="high",
    evidence="index 0 of the P_KeyTable is empty, or not the default partition although the policy has no indx0",
    why="NCCL, NVSHMEM, IPoIB and SA queries take the P_Key at index 0 unless they are configured otherwise.",
    sources=("OSM", "NICO"),
    remedy="Move it with a plan, in a maintenance window: running QPs keep their index.",
    false_positives="Hosts whose driver needs the tenant's P_Key at index 0 (WinOF): indx0 in the policy says so.",
)
def index_0(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail ports whose entry at index 0 is empty or unexpected (PK008)."""
    for port, table in verdict.end_port_tables():
        if not port.capacity:
            continue
        first = table.entries.get(0, 0)
        holds, evidence = f"index 0 holds 0x{first:04x}", p_keys((0, first))
        wanted = data.resolution.index0.get(port.guid) if data.resolution is not None else None
        if first == 0:
            verdict.fail(port, "index 0 is empty: software that takes its P_Key from index 0 cannot send", evidence)
        elif first & DEFAULT_PARTITION == (wanted.partition if wanted is not None else DEFAULT_PARTITION):
            verdict.passed += 1
        elif wanted is not None:
            verdict.fail(port, f"{holds}, the policy wants {wanted} there (indx0)", evidence)
        elif data.policy is None:
            why = f"not the default partition; a policy ({given('--policy')}) would show whether it should"
            verdict.unknown(port, f"{holds}, {why}", evidence)
        else:
            why = "not the default partition, and the policy has no indx0 for this port"
            verdict.fail(port, f"{holds}, {why}", evidence)


@rule(
    id="PK009",
    title="table nearly full",
    severity="low",
    evidence="entries in use, 90 % or more of NodeInfo.PartitionCap",
    why="When no entry is free OpenSM logs ERR 0512 and leaves the next P_Key out.",
    sources=("OSM",),
    remedy="Remove P_Keys that no application needs.",
    false_positives="Old HCAs and switch ports 0 with very small tables.",
)
def nearly_full(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail ports whose P_Key table is nearly full (PK009)."""
    for port, table in verdict.end_port_tables():
        capacity, used = port.capacity, len(table.entries)
        if not capacity:
            continue
        if used < data.thresholds.fill * capacity:
            verdict.passed += 1
        else:
            evidence = {"NodeInfo": {"partition_cap": capacity}, "P_KeyTable": {"used": used}}
            verdict.fail(port, f"{used} of {capacity} entries in use", evidence)


@rule(
    id="PK010",
    title="index moved",
    severity="high",
    evidence="a P_Key at another index than in the baseline",
    why="A QP holds an index, not a P_Key: it now sends and accepts the P_Key at that index.",
    sources=("SEED1",),
    remedy="Put it back at its index, or restart the programs that use it.",
    false_positives="OpenSM with keep_pkey_indexes FALSE after a reboot of the node.",
    needs="baseline",
)
def index_moved(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail ports with a P_Key at another index than in the baseline (PK010)."""
    assert data.baseline is not None
    for port, table in verdict.end_port_tables():
        before = data.before(port)
        if before is None and not data.baseline.fabric.troubles:
            continue  # it appeared after the baseline
        if before is None or before.p_key_raw is None:
            verdict.unknown(port, "the baseline does not have its P_Key table")
            continue
        if before.p_key_raw == port.p_key_raw:
            verdict.passed += 1
            continue
        moved = _moved(PKeyTableFacts.of(before.p_key_raw), table)
        if moved:
            listed = ", ".join(f"0x{key:04x} from index {old} to {new}" for key, old, new in moved)
            entries = p_keys(*((new, key) for key, _, new in moved))
            verdict.fail(port, f"{listed}: QPs keep the index, and now use another P_Key", entries)
        else:
            verdict.passed += 1


def _moved(before: PKeyTableFacts, now: PKeyTableFacts) -> list[tuple[int, int, int]]:
    """Return (P_Key, old index, new index) for each P_Key that is no longer at any of its old indexes."""
    was = gathered((key, index) for index, key in before.entries.items())
    current = set(now.entries.values())
    return [
        (key, indexes[0], now.index_of(key))
        for key, indexes in was.items()
        if key in current and not any(now.entries.get(index) == key for index in indexes)
    ]


@rule(
    id="PK011",
    title="partition connects no ports",
    severity="low",
    evidence="partitions with one member, or with limited members only",
    why="Limited members cannot talk to each other, and a single member has no port to talk to. Often this "
    "is a typing error.",
    sources=("SEED2",),
    remedy="Make a member full, or add the missing one.",
    false_positives="A partition that is still being set up.",
)
def connects_no_ports(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail partitions with one member, or with limited members only (PK011)."""
    unread = [port for port in data.end_ports if port.p_key_raw is None]
    for port in unread:
        verdict.unread(port, "P_KeyTable")
    for port in data.reach.virtualized:
        verdict.unknown(port, VIRTUAL_TABLES)
    complete = not unread and not data.hidden and not data.reach.virtualized
    for each in data.reach.memberships():
        name, members = f"0x{each.partition:04x}", each.members
        if each.full and len(members) > 1:
            verdict.passed += 1
            continue
        if len(members) == 1:
            problem = f"partition {name} has one member, which has no port to talk to"
        else:
            problem = f"partition {name} has {counted(len(members), 'member')}, all limited: none can talk to another"
        if complete:
            verdict.fail(members[0], problem, _members(each), labels=(name,))
        else:
            verdict.unknown(members[0], f"{problem}, as far as tables were read", _members(each), labels=(name,))


def _members(each: PartitionPorts) -> Evidence:
    return {"partition": {"number": f"0x{each.partition:04x}", "full": len(each.full), "limited": len(each.limited)}}


@rule(
    id="PK012",
    title="P_Key without owner",
    severity="medium",
    evidence="partitions in tables that neither the policy nor the registry knows",
    why="No tenant is responsible for it: it was left over, or added out of band.",
    sources=("NICO",),
    remedy="Add its owner to the registry, or remove it with a plan.",
    false_positives="P_Keys of SHARP and of gateways, which other software creates.",
)
def without_owner(data: AuditInput, verdict: RuleVerdict) -> RuleVerdict:
    """Fail P_Keys that neither the policy nor the registry knows (PK012)."""
    if data.policy is None and data.registry is None:
        note = f"no policy or registry to compare with ({given('--policy or --registry')})"
        return RuleVerdict.without(data, note, "--policy")
    owned = {DEFAULT_PARTITION} | set(data.registry or ())
    owned |= {partition.base for partition in data.policy.partitions} if data.policy is not None else set()
    for port in data.end_ports:
        if port.p_key_raw is None:
            verdict.unread(port, "P_KeyTable")
        elif port.hides_p_keys:
            verdict.unknown(port, VIRTUAL_TABLES)
    for each in data.reach.memberships():
        if each.partition in owned:
            verdict.passed += 1
            continue
        name, members = f"0x{each.partition:04x}", each.members
        where = counted(len(members), "port")
        message = f"partition {name} is in the tables of {where}, but in no policy or registry"
        verdict.fail(members[0], message, _members(each), labels=(name,))
    return verdict


@rule(
    id="PK013",
    title="planes differ",
    severity="high",
    evidence="P_KeyTables of the planes of one XDR port: CA ports with the same port GUID",
    why="Traffic is spread over the planes; on the one without the P_Key it is lost.",
    sources=("IBDSRC",),
    remedy="Let the SM sweep again.",
    false_positives="A snapshot that was taken while the SM was writing the tables.",
    if_empty="no CA has several ports with one port GUID (planes)",
)
def planes_differ(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail planes of an XDR port whose P_Keys differ from those of the first plane (PK013)."""
    for planes in data.planes:
        first, *others = planes
        missing = [port for port in planes if port.p_key_raw is None]
        for port in missing:
            verdict.unread(port, "P_KeyTable")
        if missing:
            continue
        keys = {port: frozenset((data.table(port) or PKeyTableFacts.of(b"")).entries.values()) for port in planes}
        odd = [port for port in others if keys[port] != keys[first]]
        for port in odd:
            listed = ", ".join(f"0x{key:04x}" for key in sorted(keys[port] ^ keys[first]))
            message = f"its P_Keys are not those of plane {first.num} of the same port: {listed} on one of the two only"
            verdict.fail(port, message, p_keys(*(data.table(port) or PKeyTableFacts.of(b"")).entries.items()))
        if odd:
            continue
        hiding = [port for port in planes if port.hides_p_keys]  # these P_Keys are spread over the planes too
        for port in hiding:
            verdict.unknown(port, VIRTUAL_TABLES)
        if not hiding:
            verdict.passed += 1

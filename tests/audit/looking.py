"""Short words for tests of the audit: look at a simulated subnet, and what rules say of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ibkeys.audit.catalogue import rule_named
from ibkeys.audit.engine import audit
from ibkeys.audit.findings import Report, RuleResult
from ibkeys.audit.inputs import AuditedHost, AuditInput
from ibkeys.classkeys.key_files import ClassKeys
from ibkeys.fabric.probes import probe_sa
from ibkeys.fabric.snapshot import Snapshot, take_snapshot
from ibkeys.fabric.snapshot_file import load_snapshot, save_snapshot
from ibkeys.host.file_access import FileFact
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.managers.host_facts import Device, HostFacts, KeyFile
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import parse_policy
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.fabricsim import tool
from tests.protectedsim import ring_of

KEY = 0x8F3C_91D7_E2A6_5B40
"""A good M_Key."""
SECRET = Fingerprints(bytes(range(32)))
CLEAN = "Default=0x7fff : ALL=limited, SELF=full ;"


def taken(net: Subnet, key: int | None = None, probe: bool = False, at: str | None = None) -> Snapshot:
    """Return a snapshot of *net*, read with *key*."""
    with tool(net, at, **({"m_key": key} if key is not None else {})) as fabric:
        snapshot = take_snapshot(fabric, SECRET)
        if probe:
            snapshot.sa_probes = probe_sa(fabric)
        return snapshot


def with_class_keys(net: Subnet, keys: ClassKeys | None = None, *, ask_unkeyed: bool = True) -> AuditInput:
    """Return the input of an audit whose snapshot holds what end ports said of keys of classes, asked with *keys*; all
    their places are known."""
    with tool(net) as fabric:
        fabric.ring.neighbors = ring_of(net).neighbors
        fabric.ring.class_keys = keys or {}
        snapshot = take_snapshot(fabric, SECRET)
        ports = snapshot.fabric.end_ports()
        questions = fabric.class_key_questions(ports, KEY_CLASSES.values(), ask_unkeyed=ask_unkeyed)
        snapshot.class_keys = fabric.ask_class_keys(questions)
    return AuditInput(snapshot)


def look(net: Subnet, key: int | None = None, probe: bool = False, **given: Any) -> AuditInput:
    """Return the input of an audit of *net*; *given* is what it is compared with."""
    return AuditInput(taken(net, key, probe), **given)


def from_file(data: AuditInput, folder: Path) -> AuditInput:
    """Return the same input with its snapshot, and its baseline, written to a file and read again."""
    given = {name: getattr(data, name) for name in AuditInput.__dataclass_fields__}
    for name in ("snapshot", "baseline"):
        if given[name] is not None:
            save_snapshot(folder / f"{name}.db", given[name])
            given[name] = load_snapshot(folder / f"{name}.db", lambda: SECRET)
    return AuditInput(**given)


def result_of(rule: str, data: AuditInput, **options: Any) -> RuleResult:
    """Return what one rule says."""
    (result,) = audit(data, rules=[rule_named(rule)], **options).results
    return result


def by_id(report: Report) -> dict[str, RuleResult]:
    return {each.rule: each for each in report.results}


def policy(*lines: str) -> Policy:
    found = parse_policy("\n".join([CLEAN, *lines]) + "\n", "partitions.conf")
    assert found.accepted
    return found


# --- states of a subnet -----------------------------------------------------------------------------------------------


def end_ports(net: Subnet) -> Iterable[SimPort]:
    return [port for node in net.nodes for port in node.end_ports]


def good_key(number: int) -> int:
    """Return the *number*-th good key: random, and none with the shape of $RANDOM."""
    key = int.from_bytes(hashlib.sha256(f"good {number}".encode()).digest()[:8])
    return key | 1 << 63


def protect(net: Subnet, bits: int, lease: int = 60, key: int | None = KEY) -> None:
    """Give every end port M_Key *key* (None: each its own), ProtectBits and a lease."""
    for number, port in enumerate(end_ports(net)):
        port.m_key = good_key(number) if key is None else key
        port.protect_bits, port.lease_period = bits, lease


def enforce(net: Subnet, inbound: bool = True, outbound: bool = True) -> None:
    """Let every leaf port enforce, with the table of the port behind it."""
    for port in end_ports(net):
        leaf = port.peer
        if leaf is not None and leaf.node.is_switch and not port.node.is_switch:
            leaf.inbound_enforcement, leaf.outbound_enforcement = int(inbound), int(outbound)
            leaf.p_keys = [key for key in port.p_keys if key]


def apply_clean_policy(net: Subnet, sm: str = "node01 mlx4_0") -> None:
    """Make every table what `CLEAN` says, with a master SM on *sm*."""
    net.set_sm(sm)
    for port in end_ports(net):
        port.p_keys = [0xFFFF if port.node.description == sm else 0x7FFF]


# --- hosts ------------------------------------------------------------------------------------------------------------

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def key_file(mode: int, kind: str = "guid2mkey", holds_key: bool | None = True) -> KeyFile:
    parents = ((Path("/var/cache"), 0o755, 0), (Path("/"), 0o755, 0))
    return KeyFile(kind, FileFact(Path("/var/cache/guid2mkey"), mode, 0, 0, NOW, parents), holds_key)


def umad(mode: int) -> Device:
    return Device(Path("/dev/infiniband/umad0"), mode, 0, 0)


def host(
    *,
    files: Iterable[KeyFile] = (),
    devices: Iterable[Device] = (),
    privileged_qkey: bool | None = None,
    guid2mkey: dict[Path, frozenset[int] | None] | None = None,
) -> AuditedHost:
    facts = HostFacts(tuple(files), (), (), tuple(devices), privileged_qkey)
    return AuditedHost(facts, guid2mkey or {})

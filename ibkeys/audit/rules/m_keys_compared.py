"""Rules on M_Key violations since the baseline, on levels and M_Keys that differ from the key store, and on ports that
did not answer.
"""

from __future__ import annotations

from typing import Final

from ibkeys.audit.inputs import AuditInput, StoredPort, key_number, number, protect_bits
from ibkeys.audit.rule import RuleVerdict, m_key_text, port_info, rule
from ibkeys.audit.rules.counters import judge_counters
from ibkeys.audit.rules.m_keys import why_key_unknown
from ibkeys.mad.attributes import PortInfo
from ibkeys.topology.nodes import Port

_KEY: Final = (PortInfo.m_key, PortInfo.m_key_protect_bits)


@rule(
    id="MK006",
    title="M_Key violations",
    severity="high",
    evidence="PortInfo.M_KeyViolations compared with the baseline",
    why="A program sent a Set, or a Get at level 2, without the right key.",
    sources=("SEED5", "OSM"),
    remedy="Trap 256 in the SM's log names the LID that sent it; find that host.",
    false_positives="Your own tools, run without the key; a counter that stays at 65535.",
)
def violations(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail ports whose M_KeyViolations rose since the baseline (MK006)."""
    for port in verdict.with_port_info(data.end_ports):
        judge_counters(verdict, port, (PortInfo.m_key_violations,))


@rule(
    id="MK009",
    title="protection dropped",
    severity="critical",
    evidence="the key store's ProtectBits 1 or more, PortInfo.M_KeyProtectBits 0",
    why=(
        "If the M_Key is still set, the lease ran out and everyone can read the key. If not, a reset or a subnet "
        "manager without m_key removed key and level, and any host can change the port."
    ),
    sources=("SEED5",),
    remedy=(
        "Check that the SM runs and that its opensm.conf has the key (`ibkeys keystore export DIR --opensm-conf "
        "FILE` checks that). Give this port a new M_Key: `ibkeys mkey-set`."
    ),
    false_positives="The SM is being restarted.",
    needs="store",
    if_empty="the key store has none of these ports as protected",
)
def dropped(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail end ports at level 0 that the key store has at a higher level (MK009)."""
    assert data.store is not None
    for port in verdict.with_port_info(data.end_ports):
        stored = data.store.ports.get(port.guid)
        if stored is None or not stored.protect_bits:
            continue
        if protect_bits(port) == 0:
            message = f"the key store says ProtectBits {stored.protect_bits}, the port has 0{_how_it_fell(port)}"
            verdict.fail(port, message, port_info(data, port, *_KEY, PortInfo.m_key_lease_period))
        else:
            verdict.passed += 1


def _how_it_fell(port: Port) -> str:
    """Return the likely cause of a lower level, in words. A lease can only be the cause if the port has a lease, and
    its expiry leaves the key in place.
    """
    if port.m_key_state == "unreadable":
        return ""
    if port.m_key_state == "zero":
        return " and no M_Key: a reset removed both, or a subnet manager whose m_key is not set (no lease does that)"
    if not number(port, PortInfo.m_key_lease_period):
        return " and the M_Key is exposed: a user who has the key lowered it: no lease could expire"
    return " and the M_Key is exposed: its lease ran out, or a user who has the key lowered it"


@rule(
    id="MK010",
    title="key in store is wrong",
    severity="high",
    evidence="the key store's M_Key, compared with the one that the port shows or refuses",
    why="The SM set another key, the HCA was swapped, or a store was rolled back: at level 2 the port is out of reach.",
    sources=("SEED5",),
    remedy="ibkeys mkey-recover, or import the SM's files again: ibkeys keystore import.",
    false_positives="A key store that is an old copy.",
    needs="store",
    if_empty="the key store has no key of these ports",
)
def store_is_wrong(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail end ports whose M_Key is not the one in the key store (MK010)."""
    assert data.store is not None
    for port in verdict.with_port_info(data.end_ports):
        stored = data.store.ports.get(port.guid)
        if stored is not None and stored.keys:
            _compare_with_store(verdict, port, stored)


def _compare_with_store(verdict: RuleVerdict, port: Port, stored: StoredPort) -> None:
    data = verdict.data
    evidence = port_info(data, port, *_KEY)
    newest = stored.keys[0][0]
    valid = [key for state, key in stored.keys if state in ("current", "pending", newest)]
    if why := why_key_unknown(port):
        if port.m_key_state == "hidden" and data.snapshot.about.has_keys and port.m_key in valid:
            message = "the key store's M_Key was sent, and the port still hides its key, so the key is a different one"
            verdict.fail(port, message, evidence)
        else:
            verdict.unknown(port, why, evidence)
        return
    numbers = [data.snapshot.number_of(key) for key in valid]
    if None in numbers:
        verdict.unknown(port, "this snapshot's fingerprints were made with another secret", evidence)
    elif key_number(port) in numbers:
        verdict.passed += 1
    elif port.m_key_state == "zero":
        verdict.fail(port, "the key store has an M_Key for this port, the port has none", evidence)
    else:
        formers = {data.snapshot.number_of(key) for _, key in stored.keys}
        more = ": it is an earlier key of the store" if key_number(port) in formers else ""
        shown = m_key_text(data, port)
        verdict.fail(port, f"the port's M_Key ({shown}) differs from the one in the key store{more}", evidence)


@rule(
    id="MK011",
    title="port not auditable",
    severity="medium",
    evidence="a link that is up, and no answer to NodeInfo or PortInfo",
    why="A port at level 2 whose key is not available looks like this, and so does one behind a firewall for SMPs.",
    sources=("SEED5",),
    remedy="Give its key (key store, OpenSM's key files), or see what is behind the link.",
    false_positives="A node that is dead or booting while its link is up.",
    over_fabric=False,
)
def not_auditable(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail links that are up and whose far end did not answer, and ports that were not read (MK011)."""
    for trouble in data.fabric.troubles:
        if trouble.attribute not in ("NodeInfo", "PortInfo"):
            continue
        if trouble.reading == "not-asked":
            verdict.unknown_of(trouble)
        else:
            where = "the link is up, but " if trouble.is_behind else f"{trouble.attribute}: "
            verdict.fail_of(trouble, where + trouble.error)
    verdict.passed = sum(port.info is not None for port in data.end_ports)

"""Rules about M_Keys as the ports show them.

An M_Key that reads as 0 proves nothing while ProtectBits is 1: the port hides its key then (IBA 14.2.4).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from ibkeys.audit.findings import Severity
from ibkeys.audit.inputs import AuditInput, key_number, protect_bits
from ibkeys.audit.inputs import number as field_of
from ibkeys.audit.rule import RuleVerdict, port_info, rule
from ibkeys.keys.guessable import SHELL_RANDOM, TRAIT_TEXT
from ibkeys.keys.key_setting import SWEEPS_OF_A_LEASE, least_lease
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.topology.nodes import Port

_KEY: Final = (PortInfo.m_key, PortInfo.m_key_protect_bits)
_HIDDEN: Final = "ProtectBits 1 hides the M_Key from requests without the key: give the key to see it"
_NOT_IN_FILE: Final = "PortInfo is from a file that does not have the M_Key"


def why_key_unknown(port: Port) -> str:
    """Return why the M_Key of an end port whose PortInfo was read is not known; "" if it is known."""
    return {"hidden": _HIDDEN, "unreadable": _NOT_IN_FILE}.get(port.m_key_state, "")


def _with_key(verdict: RuleVerdict) -> Iterator[Port]:
    """Yield the end ports whose M_Key is known, 0 included; the others are recorded as unknown."""
    for port in verdict.with_port_info(verdict.data.end_ports):
        if why := why_key_unknown(port):
            verdict.unknown(port, why, port_info(verdict.data, port, *_KEY))
        else:
            yield port


@rule(
    id="MK001",
    title="M_Key unset",
    severity="critical",
    evidence="PortInfo.M_Key 0 where it is not hidden (ProtectBits 0, 2 or 3)",
    why=(
        "Without an M_Key any host can set anything on the port: LID, P_Keys, enforcement, an M_Key of its own. It is "
        "OpenSM's default."
    ),
    sources=("OSM", "CMX"),
    remedy=(
        "`ibkeys harden` sets an M_Key on every port through OpenSM. Only the M_Keys, or where no SM runs: `ibkeys "
        "mkey-deploy --same --protect 2 --lease 60`. Another SM: m_key in its configuration."
    ),
    false_positives="A lab without tenants.",
)
def unset(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail end ports whose M_Key is 0 (MK001)."""
    for port in _with_key(verdict):
        if port.m_key_state == "set":
            verdict.passed += 1
            continue
        bits = protect_bits(port)
        more = f"; ProtectBits {bits} has no effect then" if bits else ""
        verdict.fail(port, f"M_Key is 0: any host can change this port{more}", port_info(data, port, *_KEY))


@rule(
    id="MK002",
    title="M_Key readable by all",
    severity="high",
    evidence="PortInfo.M_Key other than 0 with ProtectBits 0",
    why="At level 0 every Get(PortInfo) answers with the key, and anyone who has the key can change the port.",
    sources=("SEED5",),
    remedy=(
        "`ibkeys harden` sets ProtectBits 2 through OpenSM. New keys too, because everyone could read these, or where "
        "no SM runs: `ibkeys mkey-rotate --same --protect 2 --lease 60`. Another SM: m_key_protection_level 2."
    ),
    false_positives="A recovery under way: the lease ran out so that the key could be read.",
    if_empty="no port has an M_Key to show",
)
def readable(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail end ports that show their M_Key to every requester (MK002)."""
    for port in verdict.with_port_info(data.end_ports):
        if port.m_key_state == "set" and protect_bits(port) == 0:
            verdict.fail(port, "ProtectBits 0 shows the M_Key to everyone who reads it", port_info(data, port, *_KEY))
        elif port.m_key_state == "unreadable" and protect_bits(port) == 0:
            verdict.unknown(port, why_key_unknown(port), port_info(data, port, *_KEY))
        elif port.m_key_state != "zero":
            verdict.passed += 1


@rule(
    id="MK003",
    title="reads open",
    severity="medium",
    evidence="PortInfo.M_KeyProtectBits 1",
    why="At level 1 P_Key tables, forwarding tables and topology are open to anyone who sends an SMP.",
    sources=("NVG",),
    remedy=(
        "`ibkeys harden --fail-on medium` sets ProtectBits 2 through OpenSM. Where no SM runs: `ibkeys mkey-rotate "
        "--same --protect 2`. Another SM: m_key_protection_level 2."
    ),
    false_positives="Sites whose diagnostics run without a key.",
    lower_in_cloud=True,
    if_empty="no port is protected at all: see MK001 and MK002",
)
def reads_open(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail end ports at level 1, which answer every Get (MK003)."""
    for port in verdict.with_port_info(data.end_ports):
        bits = protect_bits(port)
        if bits == 1:
            message = "ProtectBits 1: tables and topology can be read without the M_Key"
            verdict.fail(port, message, port_info(data, port, *_KEY))
        elif bits and port.m_key_state == "set":
            verdict.passed += 1


@rule(
    id="MK004",
    title="one M_Key on many nodes",
    severity="high",
    evidence="the same PortInfo.M_Key on more nodes than may share one (1)",
    why="One key that leaks opens every node that has it; a key for each port limits the damage to one.",
    sources=("NVG", "NICO", "CMX"),
    remedy="m_key_per_port in NVIDIA's subnet manager; `ibkeys mkey-rotate --per-port` where no SM sets keys.",
    false_positives="Upstream OpenSM knows one key for the whole subnet: medium where it runs on this host.",
    lower_in_cloud=True,
)
def shared(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail end ports whose M_Key is on more than --max-share nodes (MK004)."""
    nodes: dict[int, set[int]] = {}
    ports = [port for port in _with_key(verdict) if port.m_key_state == "set"]
    for port in ports:
        nodes.setdefault(key_number(port), set()).add(id(port.node))
    severity: Severity | None = "medium" if _sm_cannot_do_better(data) else None
    for port in ports:
        holders = len(nodes[key_number(port)])
        if holders <= data.thresholds.max_share:
            verdict.passed += 1
            continue
        message = f"{holders} nodes have this M_Key: anyone who learns it from one of them can change them all"
        verdict.fail(port, message, port_info(data, port, PortInfo.m_key), severity=severity)
    verdict.note = "" if ports or verdict.findings else "no port has an M_Key"


def _sm_cannot_do_better(data: AuditInput) -> bool:
    """Return whether OpenSM runs on this host and none of its configurations knows m_key_per_port. Upstream OpenSM has
    one M_Key for all ports.
    """
    configs = data.running_configs
    return configs is not None and not any(config.m_key_per_port for config in configs)


@rule(
    id="MK005",
    title="lease absent or out of range",
    severity="medium",
    evidence="ProtectBits above 0 and M_KeyLeasePeriod 0, below 3 sweep intervals of the SM, or above 3600 s",
    why="Without a lease, a port whose key is lost stays locked. A lease that is too short expires "
    "where one sweep is late or lost, and exposes the key.",
    sources=("NVG", "SEED5", "OSM"),
    remedy=(
        "`ibkeys harden --fail-on medium --lease 60` through OpenSM; at least 3 sweep intervals. Another SM: "
        "m_key_lease_period."
    ),
    false_positives=(
        "Keys in escrow, so that none is lost. Where the sweep interval is not given and no OpenSM runs on "
        "this host, it is not checked."
    ),
    if_empty="no port is protected, so no lease has an effect",
)
def lease(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail end ports without a lease, or with one that is too short or too long (MK005)."""
    sweep, most = sweep_interval(data), data.thresholds.lease_limit
    for port in verdict.with_port_info(data.end_ports):
        if not protect_bits(port) or port.m_key_state == "zero":
            continue
        period = field_of(port, PortInfo.m_key_lease_period)
        problem = ""
        if period == 0:
            problem = "no lease: if the M_Key is lost, only a reset makes this port accessible again"
        elif sweep is not None and period <= sweep:
            problem = f"a lease of {period} s is not above the SM's sweep interval ({sweep} s): it can run out between"
        elif sweep is not None and period < least_lease(sweep):
            problem = (
                f"a lease of {period} s is below {SWEEPS_OF_A_LEASE} sweep intervals of the SM ({sweep} s): it can run "
                "out where a sweep is late or lost"
            )
        elif period > most:
            problem = f"a lease of {period} s is above the limit of {most} s: a lost key locks this port for that long"
        if problem:
            verdict.fail(port, problem, port_info(data, port, PortInfo.m_key_protect_bits, PortInfo.m_key_lease_period))
        else:
            verdict.passed += 1


def sweep_interval(data: AuditInput) -> int | None:
    """Return the SM's sweep interval in seconds: the given interval, or else the interval of an OpenSM that runs on
    this host. None if it is not known.
    """
    if data.thresholds.sweep_interval is not None:
        return data.thresholds.sweep_interval
    return next((config.sweep_interval for config in data.running_configs or ()), None)


@rule(
    id="MK007",
    title="guessable M_Key",
    severity="high",
    evidence=(
        "whether the M_Key is easy to guess: small, a repeated pattern, counting digits, a GUID, the "
        "SM_Key or SA_Key, from documentation, all ones; 4 or more different keys that look like $RANDOM "
        "(bits 15, 31, 47, 63 clear) are low"
    ),
    why=(
        "Keys from documentation are often copied. With all ones NVIDIA's SM chooses a random key, but "
        "any other SM uses the value itself. Four values of a shell's $RANDOM give only 60 weak bits."
    ),
    sources=("NVG", "NICO"),
    remedy=(
        "`ibkeys harden`, or only `ibkeys mkey-rotate --same`: 64 bits of a cryptographic random source. For another "
        "SM: `ibkeys keystore generate`."
    ),
    false_positives=(
        "One good key in 16 looks like $RANDOM by chance, so these keys are reported only if there are "
        "more than chance explains."
    ),
)
def guessable(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail end ports with an M_Key that is easy to guess (MK007)."""
    ports = [port for port in _with_key(verdict) if port.m_key_state == "set"]
    traits_by_port = {port: data.snapshot.m_key_traits.get(port, ()) for port in ports}
    shell_random_count = _shell_keys_stand_out(traits_by_port)
    configured = _keys_of_configurations(data, ports)
    for port, traits in traits_by_port.items():
        evidence = port_info(data, port, PortInfo.m_key)
        evidence["M_Key"] = {"traits": list(traits)}
        reasons = [TRAIT_TEXT[trait] for trait in traits if trait != SHELL_RANDOM]
        if key_number(port) in configured:
            reasons.append("is also the SM_Key or SA_Key of an opensm.conf on this host")
        if reasons:
            verdict.fail(port, f"the M_Key {', and '.join(reasons)}", evidence)
        elif SHELL_RANDOM in traits and shell_random_count:
            message = f"the M_Key is one of {shell_random_count} whose {TRAIT_TEXT[SHELL_RANDOM]}"
            verdict.fail(port, message, evidence, severity="low")
        else:
            verdict.passed += 1
    verdict.note = "" if ports or verdict.findings else "no port has an M_Key"


def _shell_keys_stand_out(traits_by_port: Mapping[Port, tuple[str, ...]]) -> int:
    """Return how many different keys look like $RANDOM; 0 if chance explains that many, because one good key in 16
    looks so.

    For up to 16 keys the limit is 4 keys. For more keys the limit is 5 standard deviations above the mean. With 3
    standard deviations, one good rotation of 50 ports in 300 was called guessable.
    """
    keys = {key_number(port): SHELL_RANDOM in traits for port, traits in traits_by_port.items()}
    shaped, total = sum(keys.values()), len(keys)
    by_chance = 3 if total <= 16 else total / 16 + 5 * math.sqrt(total * 15 / 256)
    return shaped if shaped > by_chance else 0


def _keys_of_configurations(data: AuditInput, ports: list[Port]) -> set[int]:
    """Return the M_Keys that are also used as SM_Key or SA_Key. Keys that were not read, or only as fingerprints, are
    left out.
    """
    if data.host is None or not data.snapshot.about.has_keys:
        return set()
    configs = data.host.facts.opensm_configs
    keys = {key_number(port) for port in ports}
    return {key for key in keys if any(config.is_sm_or_sa_key(MKey(key)) for config in configs)}


@rule(
    id="MK008",
    title="ProtectBits or lease differ",
    severity="medium",
    evidence="M_KeyProtectBits and M_KeyLeasePeriod of all end ports: values that differ from those of most ports",
    why="A rollout that stopped half way, or a node that came back from a reset without its protection.",
    sources=("NVG",),
    remedy="Let the SM sweep again (ibkeys policy-check, then SIGHUP to OpenSM), or set the port with ibkeys mkey-set.",
    false_positives="A staged rotation under way: where the key store has one, the finding says so.",
)
def differing_protection(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail end ports whose ProtectBits or lease differ from those of most ports (MK008)."""
    ports = list(verdict.with_port_info(data.end_ports))
    rows = (PortInfo.m_key_protect_bits, PortInfo.m_key_lease_period)
    usual = [_majority(Counter(field_of(port, row) for port in ports)) for row in rows]
    for port in ports:
        odd = [
            f"{row.name.removeprefix('M_Key')} is {field_of(port, row)}, {most} on most ports"
            for row, most in zip(rows, usual, strict=True)
            if field_of(port, row) != most
        ]
        if odd:
            message = "; ".join(odd)
            if data.store is not None and port.guid in data.store.changing:
                message += "; an unfinished M_Key run includes this port"
            verdict.fail(port, message, port_info(data, port, *rows))
        else:
            verdict.passed += 1


def _majority(values: Counter[int]) -> int:
    """Return the most frequent value, of equally frequent ones the highest; 0 if there is none."""
    return max(values.items(), key=lambda item: (item[1], item[0]))[0] if values else 0

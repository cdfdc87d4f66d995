"""Sorting the answers of the ports: the key that each port showed, and the ports whose key is not known."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ibkeys.discovery.frugal_sweep import FrugalSweep
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.repair.candidates import Candidates
from ibkeys.mkeys.repair.result import KeyAnswer, PortAnswer, PortWithUnknownKey, RepairResult
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.topology.model import Trouble
from ibkeys.topology.nodes import Port
from ibkeys.topology.port_id import identity


def sort_answers(sweep: FrugalSweep, candidates: Candidates, store: KeyStore) -> RepairResult:
    """Return the result of a repair from its *sweep*, which read the ports with the keys of *candidates*. Raises
    StoreError."""
    found = sweep.topology
    ports = {port.guid: port for port in found.end_ports() if port.guid and port not in found.doubtful}
    shown = {guid: port for guid, port in ports.items() if port.m_key_state in ("set", "zero")}
    unknown = {guid: port for guid, port in ports.items() if guid not in shown}
    behind = _troubles_by_guid(sweep)
    kept = [PortWithUnknownKey(port.identity(), _why_unknown(port, sweep, candidates)) for port in unknown.values()]
    kept += _absent_ports(sweep, candidates, store, ports.keys(), behind)
    unknown_ports = set(unknown.values())
    in_order = sorted(shown.values(), key=lambda port: port.agent_path != ())
    answers = [_answer_of(port, candidates) for port in in_order]
    return RepairResult(
        answers=answers,
        own_key=answers[0].m_key if in_order and in_order[0].agent_path == () else None,
        kept=kept,
        troubles=[
            trouble
            for trouble in found.troubles
            if _known_behind(sweep, trouble) not in candidates
            and trouble.port not in unknown_ports
            and not (trouble.is_behind and trouble.port.peer is not None)  # the node was reached by another link
        ],
    )


def _answer_of(port: Port, candidates: Candidates) -> PortAnswer:
    info = port.port_info
    assert info is not None
    key = MKey(info.m_key)
    origins: dict[MKey, KeyAnswer] = {each.m_key: each.origin for each in candidates.get(port.guid, ())}
    return PortAnswer(
        port.identity(),
        port.node.guid,
        port.guid,
        "none" if key.is_zero else origins.get(key, "new"),
        key,
        info.m_key_protect_bits,
        info.m_key_lease_period,
        info.m_key_violations,
    )


def _troubles_by_guid(sweep: FrugalSweep) -> dict[int, Trouble]:
    """Return the first trouble of the sweep at the known place of a port, by the GUID of that port."""
    troubles: dict[int, Trouble] = {}
    for trouble in sweep.topology.troubles:
        guid = _known_behind(sweep, trouble)
        if guid is not None:
            troubles.setdefault(guid, trouble)
    return troubles


def _known_behind(sweep: FrugalSweep, trouble: Trouble) -> int | None:
    """Return the GUID of the port that the known links name behind the port of *trouble*; None if there is none."""
    far = sweep.ring.expected_behind(trouble.port.link_end) if trouble.is_behind else None
    return far[0] if far is not None else None


def _why_unknown(port: Port, sweep: FrugalSweep, candidates: Candidates) -> str:
    keys = len(candidates.get(port.guid, ()))
    if port.m_key_state == "hidden":
        known = f"none of its keys ({keys}) in the key store is right" if keys else "the key store has no key of it"
        return f"it hides its key (ProtectBits 1), and {known}"
    trouble = next((each for each in sweep.topology.troubles if each.port is port), None)
    return trouble.error if trouble is not None else "its PortInfo could not be read"


def _absent_ports(
    sweep: FrugalSweep, candidates: Candidates, store: KeyStore, found: Collection[int], behind: dict[int, Trouble]
) -> Iterator[PortWithUnknownKey]:
    """Yield the ports that have a key in the key store and that the sweep did not find, with the reason. *found*: the
    GUIDs of the ports that it found; *behind*: port GUID → the trouble of the sweep at the place where the known
    links have that port."""
    nodes = {row.port_guid: row.node_guid for row in store.outline() if row.node_guid is not None}
    nums = {row.port_guid: row.port for row in store.outline() if row.port is not None}
    for guid, keys in candidates.items():
        if guid in found or all(each.m_key.is_zero for each in keys):
            continue
        node = nodes.get(guid)
        name = None if node is None else sweep.node_names.get(node)
        where = identity(node, guid, name, None, nums.get(guid), sweep.ring.lids.get(guid))
        if guid in sweep.silent:
            reason = f"it answered to none of its keys ({len(keys)}), each sent once"
        elif guid in behind:
            reason = behind[guid].error
        else:
            reason = "it was not queried: no link that was found leads to it"
        yield PortWithUnknownKey(where, reason, guid not in sweep.ring.settled)

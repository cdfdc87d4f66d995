"""Policies that are drawn, on a fabric of five end ports, and the tables that OpenSM makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from ibkeys.change.wanted import Entries, TableChange
from ibkeys.keys.pkey import PKey
from ibkeys.partitions.membership import EndPort, resolve
from ibkeys.partitions.model import Policy
from ibkeys.partitions.opensm_tables import packed
from ibkeys.partitions.sweeps import Sweeps
from ibkeys.plan.model import SmOptions
from ibkeys.plan.tables.layout import place
from ibkeys.topology.port_id import PortId

SM, A, B, SWITCH, ROUTER, AWAY = 0x101, 0x102, 0x103, 0x104, 0x105, 0xDEAD
KINDS: Mapping[int, Any] = {SM: "ca", A: "ca", B: "ca", SWITCH: "switch", ROUTER: "router"}
DIGEST = "0123456789abcdef"


def ports(count: int = 5) -> list[EndPort]:
    return [EndPort(guid, KINDS[guid]) for guid in list(KINDS)[:count]]


def port_id(guid: int) -> PortId:
    kind = KINDS[guid]
    return PortId(guid - 0x100, guid, f"n{guid:x}", kind, 0 if kind == "switch" else 1, 1)


def leaf_of(guid: int) -> PortId:
    return PortId(0xF000, 0xF000, "leaf", "switch", guid & 0xFF, 99)


def tables_of(
    old: Policy | None, new: Policy, options: SmOptions, ends: Sequence[EndPort], capacity: int = 64, leaf: int = 64
) -> list[TableChange]:
    """The tables of all ports, as OpenSM has made them of the old policy and would make them of the new one."""
    before = Sweeps(
        ends,
        SM,
        {port.guid: {0: PKey(0xFFFF)} for port in ends},
        {port.guid: capacity for port in ends},
        options.allow_both_pkeys,
        options.keep_pkey_indexes,
    )
    had = {guid: placed.entries for guid, placed in before.sweep(old).items()}
    return tables_from(had, new, options, ends, capacity, leaf)


def tables_from(
    had: Mapping[int, Entries],
    new: Policy,
    options: SmOptions,
    ends: Sequence[EndPort],
    capacity: int = 64,
    leaf: int = 64,
) -> list[TableChange]:
    """The tables of all ports as they are, and as OpenSM would make them of the new policy."""
    wanted = resolve(new, ends, SM, options.allow_both_pkeys, emulate_fallback=True)
    gets = {guid: place(had[guid], wanted.by_port[guid], capacity, wanted.index0.get(guid)).entries for guid in had}
    found = []
    for guid in had:
        found.append(TableChange(port_id(guid), had[guid], gets[guid], capacity, leaf_of(guid).key))
        entries = [dict(enumerate(packed(table))) for table in (had[guid], gets[guid])]
        found.append(TableChange(leaf_of(guid), *entries, leaf, port_id(guid).key))
    return found


MEMBERS = st.sampled_from(
    ["ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF", *(f"0x{guid:x}" for guid in (*KINDS, AWAY))]
)
ITEMS = st.builds("{}={}".format, MEMBERS, st.sampled_from(["full", "full", "limited", "both"]))
HEADS = st.sampled_from(["", "", ", indx0", ", ipoib, mtu=5, sl=2", ", ipoib", ", ipoib, scope=5, Q_Key=0xb1c"])


@st.composite
def policies(draw: st.DrawFn) -> str:
    lines = []
    for base in draw(st.lists(st.sampled_from([1, 1, 2, 3, 0x7FFF]), min_size=1, max_size=5)):
        name = draw(st.sampled_from(["", "X", f"P{base}"]))
        group = draw(st.sampled_from(["", "", "mgid=ff12:401b::16,mtu=4\n", "mgid=ff15:0:0:0:1::1,sl=3\n"]))
        items = draw(st.lists(ITEMS, min_size=1, max_size=4))
        lines.append(f"{name}=0x{base:x}{draw(HEADS)} : {group}{', '.join(items)} ;")
    return "\n".join(lines)


OPTIONS = st.builds(SmOptions, allow_both_pkeys=st.booleans(), keep_pkey_indexes=st.booleans())


def named(guids: Mapping[int, frozenset[PKey]]) -> dict[str, frozenset[PKey]]:
    return {f"{guid:x}": its_keys for guid, its_keys in guids.items()}

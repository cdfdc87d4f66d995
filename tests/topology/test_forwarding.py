"""The exits of a switch to many LIDs at once are those to each LID."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ibkeys.mad.attributes import PortInfo
from ibkeys.topology.forwarding import LIDS_PER_BLOCK, NO_PORT, exit_to, exits_to
from ibkeys.topology.nodes import Node, Port
from tests.fabricsim import subnet, tool

BLOCKS = 4
PLACES = LIDS_PER_BLOCK * BLOCKS
"""Fewer LIDs than a switch may have entries for, so that all of them are tried."""


def a_switch() -> Node:
    with tool(subnet("two-switch")) as fabric:
        return next(node for node in fabric.sweep().nodes if node.is_switch)


SWITCH = a_switch()


entries = st.sampled_from([0, 1, 2, 3, 36, 200, NO_PORT])
blocks = st.dictionaries(
    st.integers(0, BLOCKS - 1), st.lists(entries, min_size=LIDS_PER_BLOCK, max_size=LIDS_PER_BLOCK).map(bytes)
)


@given(
    forwarding=st.none() | blocks,
    top=st.integers(0, PLACES + 10),
    cap=st.sampled_from([0, 49152]),
    own=st.integers(0, PLACES),
    lmc=st.integers(0, 3),
    is_read=st.booleans(),
)
def test_the_exits_to_many_lids_are_those_to_each(
    forwarding: dict[int, bytes] | None, top: int, cap: int, own: int, lmc: int, is_read: bool
) -> None:
    switch = Node(SWITCH.info, SWITCH.path, ports=dict(SWITCH.ports))
    assert SWITCH.switch_info is not None
    changed = SWITCH.switch_info.replace(linear_fdb_top=top, linear_fdb_cap=cap)
    switch.switch_info_raw = changed.raw if is_read else None
    switch.forwarding = forwarding
    info = SWITCH.ports[0].info
    assert info is not None
    switch.ports[0] = Port(switch, 0, info=PortInfo(info).replace(lid=own, lmc=lmc).raw)
    lids = [0, *range(PLACES + 20), 49151, 65535]
    for lid, found in zip(lids, exits_to(switch, lids), strict=True):
        wanted = exit_to(switch, lid)
        if isinstance(wanted, Port):
            assert found == wanted.num
        elif wanted == "no such port":
            assert found not in switch.ports
        else:
            assert found == (0 if wanted is None else NO_PORT), (lid, wanted)

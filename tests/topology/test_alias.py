"""Alias GUIDs of GUIDInfo, matched with the GUIDs of a policy."""

from __future__ import annotations

from ibkeys.topology.find import alias_of
from tests.audit.looking import look
from tests.fabricsim import subnet

ALIAS = 0x0002C9FFFE001234


def test_an_alias_is_found_with_its_index_and_a_port_guid_is_none() -> None:
    net = subnet("two-switch")
    net.port("node03 mlx4_0", 1).guids = {9: ALIAS}
    fabric = look(net).fabric
    found = alias_of(fabric, ALIAS)
    assert found is not None
    assert (found[0].node.description, found[1]) == ("node03 mlx4_0", 9)
    own = found[0].guid
    assert alias_of(fabric, own) is None
    assert alias_of(fabric, 0) is None
    assert alias_of(fabric, 0x1234) is None

"""Alias GUIDs of GUIDInfo, matched with the GUIDs of a policy."""

from __future__ import annotations

from ibkeys.topology.find import find_aliases
from tests.audit.looking import look
from tests.fabricsim import subnet

ALIAS = 0x0002C9FFFE001234


def test_an_alias_is_found_with_its_index_and_a_port_guid_is_none() -> None:
    net = subnet("two-switch")
    net.port("node03 mlx4_0", 1).guids = {9: ALIAS}
    fabric = look(net).fabric
    (host,) = [port for port in fabric.end_ports() if port.node.description == "node03 mlx4_0"]
    assert find_aliases(fabric, [ALIAS, host.guid, 0, 0x1234]) == {ALIAS: (host, 9)}
    assert find_aliases(fabric, []) == {}

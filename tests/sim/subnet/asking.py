"""Nodes of the fabric two-switch.net, and what tests ask of them."""

from __future__ import annotations

from ibkeys.mad.attributes import NodeInfo
from ibkeys.mad.const import AttributeID, Method
from ibkeys.sim.deliveries import Delivery

NODE1, NODE2 = "node01 mlx4_0", "node02 mlx4_0"


SWITCH_A, SWITCH_B = "MF0;switch-a:IS5023/U1", "S-0002c90200401040"


GET, SET = Method.GET, Method.SET


NODE_INFO = AttributeID.NODE_INFO


def node_info(deliveries: list[Delivery]) -> NodeInfo:
    assert len(deliveries) == 1
    return NodeInfo(deliveries[0].mad[64:128])

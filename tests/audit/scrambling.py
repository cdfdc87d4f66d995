"""Snapshots whose P_Key tables were mixed up."""

from __future__ import annotations

import random

from ibkeys.sim.subnet import Subnet
from tests.audit.looking import (
    apply_clean_policy,
    end_ports,
    enforce,
)
from tests.fabricsim import subnet


def scrambled(seed: int) -> tuple[Subnet, list[str]]:
    """A fabric and a policy that have little to do with each other."""
    chance = random.Random(seed)
    net = subnet("dual-home")
    apply_clean_policy(net, "db01 mlx5_0")
    bases = [0x10, 0x11, 0x12]
    ports = [port for port in end_ports(net) if not port.node.is_switch]
    for port in ports:
        keys = [base | chance.choice([0, 0x8000]) for base in bases if chance.random() < 0.5]
        port.p_keys = [chance.choice([0x7FFF, 0x7FFF, 0xFFFF]), *keys]
    if seed % 2:
        enforce(net)
    lines = []
    for base in bases:
        members = [f"0x{port.guid:x}={chance.choice(['full', 'limited'])}" for port in ports if chance.random() < 0.4]
        lines += [f"P{base:x}=0x{base:x} : {', '.join(members)} ;"] if members else []
    return net, lines

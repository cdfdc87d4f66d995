"""Fabrics for `ibkeys export`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ibkeys.fabric.snapshot import Snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.mad.const import AttributeID
from ibkeys.sim.subnet import Subnet
from tests.audit.looking import KEY, enforce
from tests.fabricsim import subnet


def a_bit_of_everything() -> Subnet:
    """A fabric with a silent node, one that hides its key, one that is closed, tables that are not answered, and
    counters."""
    net = subnet("two-switch")
    enforce(net, outbound=False)
    net.silence("node06 mlx4_0")
    hidden, counting = net.port("node02 mlx4_0", 1), net.port("node03 mlx4_0", 1)
    hidden.m_key, hidden.protect_bits, hidden.lease_period = KEY, 1, 90
    counting.m_key_violations, counting.p_key_violations, counting.q_key_violations = 4, 65535, 1
    counting.p_keys = [0xFFFF, 0x8001, 0x0002]
    net.faults.lose_next("request", node=net.node("node04 mlx4_0"), attribute=AttributeID.P_KEY_TABLE, count=1000)
    net.faults.lose_next("request", node=net.node("node05 mlx4_0"), attribute=AttributeID.PORT_INFO, count=1000)
    return net


def saved(snapshot: Snapshot, path: Path, **about: Any) -> Path:
    snapshot.about = dataclasses.replace(snapshot.about, **about)
    save_snapshot(path, snapshot)
    return path

"""A simulated subnet as a snapshot on disk."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.sim.subnet import Subnet
from tests.fabricsim import tool

SECRET = Fingerprints(bytes(range(32)))


def save(net: Subnet, file: Path, minute: int = 0) -> Path:
    with tool(net, timeout=0.01, retries=0) as fabric:
        taken = take_snapshot(fabric, SECRET)
    taken.about = dataclasses.replace(taken.about, finished=f"2026-11-20T09:{minute:02d}:00Z")
    save_snapshot(file, taken)
    return file

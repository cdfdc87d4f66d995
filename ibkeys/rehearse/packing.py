"""Packing the input of a rehearsal into a bundle, on the host of the site's OpenSM."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from ibkeys.rehearse.bundle import FILES, Bundle
from ibkeys.rehearse.placed_opensm import CONF, MadeUpKeys, place_opensm
from ibkeys.rehearse.private import run_privately
from ibkeys.rehearse.rehearsal import RehearsalRequest, needed_paths
from ibkeys.rehearse.twin import Twin
from ibkeys.sim.subnet import Subnet


def pack(request: RehearsalRequest, snapshot: bytes) -> tuple[Bundle, list[str]]:
    """Return the bundle for the rehearsals of *request* elsewhere, and notes. *snapshot*: the bytes of its snapshot,
    without M_Keys. Raises the errors of `ibkeys.rehearse.rehearsal.rehearse`."""
    found = run_privately(lambda folder: _files_of(request, folder), needed_paths(request))
    contents = {name: base64.b64decode(text) for name, text in found["files"].items()}
    words = tuple(str(each) for each in request.opensm.command.given)
    options = contents.pop(CONF)
    return Bundle(str(request.opensm.program), words, options, contents, snapshot), found["notes"]


def _files_of(request: RehearsalRequest, folder: Path) -> dict[str, Any]:
    """Return the files that a rehearsal puts into its private *folder*, by their names, and notes on them."""
    subnet, keys = Subnet(request.fabric), MadeUpKeys(request.number_of, request.can_compare_keys)
    with Twin(subnet, subnet.nodes[0], folder) as twin:
        placed = place_opensm(twin, request.opensm, folder, request.host, request.port_guid, keys)
    there = [name for name in (CONF, *FILES) if (folder / name).exists()]
    files = {name: base64.b64encode((folder / name).read_bytes()).decode() for name in there}
    return {"files": files, "notes": list(placed.notes)}

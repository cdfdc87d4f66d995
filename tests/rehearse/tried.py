"""A fault that a rehearsal tried, as its document has it."""

from __future__ import annotations

from typing import Any

HOME, OTHER, THIRD, SWITCH = (f"0x{number:016x}" for number in (1, 2, 3, 9))


def port(guid: str, node_type: str = "ca") -> dict[str, Any]:
    return {"node_guid": guid, "node_type": node_type, "node_desc": f"node {guid[-1]}", "port": 1}


def fault(**changes: Any) -> dict[str, Any]:
    found = {
        "kind": "silent-node",
        "set": 3,
        "node": port(OTHER),
        "exit_code": 3,
        "seconds": 2.5,
        "message": "error",
        "way_back": "ibkeys undo 1",
        "back_exit_code": 0,
        "back_seconds": 1.0,
        "back_message": None,
        "left": [],
        "worked": True,
        "most_cut": 3,
        "seconds_cut": 0.5,
        "most_open": 0,
        "seconds_open": 0.0,
        "cut": [[port(OTHER), port(THIRD)]],
    }
    return found | changes

"""Writing the plan document ``ibkeys.plan/2``: a plan as a JSON file that people review.

The contents are the types of `ibkeys.plan.model`; `ibkeys.plan.document_reader` reads the document.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ibkeys import files, jsonfile
from ibkeys.arguments import file_path, require
from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.errors import UsageError
from ibkeys.keys.pkey import PKey
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.model import Break, IndexMove, PartitionPlan, PlanProblem, PolicySource
from ibkeys.store.sqlite import guid_text
from ibkeys.topology.port_id import IDENTITY, PortKey

SCHEMA: Final = "ibkeys.plan/2"
_HEAD: Final = re.compile(rb'\s*\{\s*"schema"\s*:\s*"ibkeys\.plan/')
_HEAD_SIZE: Final = 256


def to_json(plan: PartitionPlan) -> dict[str, Any]:
    """Return the plan document as JSON values, ``schema`` first."""
    return {
        "schema": SCHEMA,
        "fabric": {
            **asdict(plan.fabric),
            "sm_guid": None if plan.fabric.sm_guid is None else guid_text(plan.fabric.sm_guid),
        },
        "policy": _policy_json(plan.policy),
        "live_policy": None if plan.live_policy is None else _policy_json(plan.live_policy),
        "method": plan.method,
        "digest": plan_digest(plan),
        "options": {
            **asdict(plan.options),
            "allow_index_moves": [_key_text(number) for number in plan.options.allow_index_moves],
        },
        "sm_options": None if plan.sm_options is None else asdict(plan.sm_options),
        "tables": [_table_json(table) for table in plan.tables],
        "enforcement": [_enforcement_json(change) for change in plan.enforcement],
        "index_moves": [_move_json(move) for move in plan.index_moves],
        "breaks": [_break_json(each) for each in plan.breaks],
        "problems": [_problem_json(problem) for problem in plan.problems],
        "partitions": {
            "born": [_key_text(number) for number in plan.partitions.born],
            "dying": [_key_text(number) for number in plan.partitions.dying],
        },
        "reach": asdict(plan.reach),
    }


def dumps(plan: PartitionPlan) -> str:
    """Return the plan document as text that ends in a newline. Each port is on a line of its own, for grep and diff."""
    return jsonfile.dumps(to_json(plan)) + "\n"


def write_plan(plan: PartitionPlan, path: str | Path) -> None:
    """Write the plan document to *path* atomically. If *path* is the user's own symbolic link, its target is replaced.

    Raises OSError; UsageError as `check_place` does, and for an argument of a wrong type.
    """
    require("plan", plan, PartitionPlan, "an ibkeys.PartitionPlan")
    place = check_place(file_path("path", path))
    mask = os.umask(0o077)
    os.umask(mask)
    try:
        files.replace_file(place, dumps(plan).encode(), 0o666 & ~mask)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def check_place(path: Path) -> Path:
    """Return the path at which a plan for *path* is written: the target if *path* is the user's own symbolic link, else
    *path*.

    Raises UsageError if the file is neither a plan nor empty, because a mistyped name must not destroy a policy or a
    device; OSError if the file cannot be read, or *path* is a symbolic link of another user or to no file.
    """
    try:
        place = files.check_output(path, follow=True)
    except files.NoRegularFile:
        raise UsageError(f"{path}: exists and is not a plan, so it is not replaced; name another file") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    if place.exists():
        head = files.read_head(place, _HEAD_SIZE)
        if head.strip() and not _HEAD.match(head):
            raise UsageError(f"{path}: exists and is not a plan, so it is not replaced; name another file")
    return place


def _key_text(key: int) -> str:
    return f"0x{key:04x}"


def _table_json(table: TableChange) -> dict[str, Any]:
    return {
        **table.port.to_json(),
        "capacity": table.capacity,
        "peer": _peer_json(table.peer),
        "before": _entries_json(table.before),
        "after": _entries_json(table.after),
    }


def _enforcement_json(change: EnforcementChange) -> dict[str, Any]:
    return {
        **change.port.to_json(),
        "peer": _peer_json(change.peer),
        "before": asdict(change.before),
        "after": asdict(change.after),
    }


def _move_json(move: IndexMove) -> dict[str, Any]:
    return {**move.port.to_json(), "pkey": _key_text(move.pkey), "from": move.source, "to": move.target}


def _break_json(each: Break) -> dict[str, Any]:
    return {
        "partition": _key_text(each.partition),
        "ports": [port.to_json() for port in each.ports],
        "pairs": [[guid_text(a), guid_text(b)] for a, b in each.pairs],
        "message": each.message,
        "kind": each.kind,
    }


def _problem_json(problem: PlanProblem) -> dict[str, Any]:
    return {
        **(problem.port.to_json() if problem.port is not None else dict.fromkeys(IDENTITY)),
        "kind": problem.kind,
        "message": problem.message,
    }


def _policy_json(policy: PolicySource) -> dict[str, str | None]:
    return {"file": policy.file, "digest": policy.digest, **_text_json(policy.text)}


def _text_json(text: bytes | None) -> dict[str, str | None]:
    """Return the bytes of a policy as the JSON members ``encoding`` and ``text``: readable text if they are UTF-8, else
    base64; None in both without *text*."""
    if text is None:
        return {"encoding": None, "text": None}
    try:
        return {"encoding": "utf-8", "text": text.decode("utf-8")}
    except UnicodeDecodeError:
        return {"encoding": "base64", "text": base64.b64encode(text).decode("ascii")}


def _peer_json(peer: PortKey | None) -> dict[str, Any] | None:
    return None if peer is None else {"node_guid": guid_text(peer[0]), "port": peer[1]}


def _entries_json(entries: Mapping[int, PKey]) -> dict[str, str]:
    return {str(index): _key_text(entries[index]) for index in sorted(entries)}

"""Rehearsing a change while faults happen: which ports lose connectivity, for how long, and whether the documented
repair works.

Each fault is tried on a new copy of the fabric. It happens at a Set of the change that writes a table or an M_Key. When
the command has ended, the fault ends too: OpenSM is started again, or the node answers again. Then the rehearsal runs
the command that `ibkeys journal` names, `ibkeys resume` or `ibkeys undo`. After `resume` the tables have to be as
planned, after `undo` as they were before.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, get_args

from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK
from ibkeys.rehearse.fault_words import IN_WORDS
from ibkeys.rehearse.opensm_run import OpensmRun
from ibkeys.rehearse.placed_opensm import PlacedOpensm
from ibkeys.rehearse.private import run_privately
from ibkeys.rehearse.rehearsal import Rehearsal, RehearsalRequest, last_line, needed_paths
from ibkeys.rehearse.tables import Tables, tables_of
from ibkeys.rehearse.timeline import TableWatch, TableWrite, cut_pairs, largest_count, moments, seconds_with, written
from ibkeys.rehearse.twin import Twin
from ibkeys.store.sqlite import guid_number

FaultKind = Literal["opensm-killed", "silent-node", "ibkeys-killed"]
"""The kind of a fault: OpenSM is killed, a node stops answering MADs, or the command is killed."""
WayBack = Literal["resume", "undo"]
RUNS: Final = 6
"""How many faults are tried by default: each kind of fault with `resume` and with `undo`."""
_KINDS: Final[Sequence[FaultKind]] = get_args(FaultKind)
_WAYS: Final[Sequence[WayBack]] = get_args(WayBack)
_WAIT: Final = ("--wait", "10")
"""The seconds after which the command gives up a dead OpenSM, instead of a minute."""
_MOST_PAIRS: Final = 10


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to try. ``at_set``: the number, from 1, of the Set at which it happens; only Sets of the timeline
    count. ``node``: the GUID of the node that falls silent, None for another kind. ``way_back``: the command that the
    user runs then."""

    kind: FaultKind
    at_set: int
    node: int | None
    way_back: WayBack


def choose_faults(document: Mapping[str, Any], runs: int, seed: int) -> list[Fault]:
    """Return *runs* faults for the change of a rehearsal, whose result is *document*. Equal seeds give equal faults.

    Kinds and commands take turns; Set and node are random. Only a host that the change writes to falls silent, but not
    the host of OpenSM. If there is no such host, no fault is of that kind. The list is empty if the timeline is.
    """
    writes = document["timeline"]
    home = document["opensm"]["port"]["node_guid"]
    hosts = [each["node_guid"] for each in writes if each["node_type"] == "ca" and each["node_guid"] != home]
    kinds = [kind for kind in _KINDS if hosts or kind != "silent-node"]
    chosen = random.Random(seed)
    faults = []
    for number in range(runs if writes else 0):
        kind, way_back = kinds[number % len(kinds)], _WAYS[number // len(kinds) % len(_WAYS)]
        at_set, host = chosen.randint(1, len(writes)), chosen.choice(hosts or [home])
        faults.append(Fault(kind, at_set, guid_number(host) if kind == "silent-node" else None, way_back))
    return faults


def try_faults(
    request: RehearsalRequest, faults: Sequence[Fault], say: Callable[[str], None] = lambda text: None
) -> list[dict[str, Any]]:
    """Make the change of *request* under each of *faults*, and return the results, as in the document of `rehearse`.
    *say*: called with a line about each fault. Raises the errors of `ibkeys.rehearse.rehearsal.rehearse`."""
    found = []
    for number, fault in enumerate(faults, 1):
        say(f"fault {number} of {len(faults)}: {IN_WORDS[fault.kind]} at Set {fault.at_set}, then {fault.way_back}")
        made = run_privately(_FaultRun.work(request, fault), needed_paths(request))
        found.append(made["fault"])
    return found


class _FaultRun(Rehearsal):
    """A rehearsal in which one fault happens."""

    def __init__(self, request: RehearsalRequest, folder: Path, fault: Fault) -> None:
        super().__init__(request, folder, lambda text: None)
        self._fault = fault

    @classmethod
    def work(cls, request: RehearsalRequest, fault: Fault) -> Callable[[Path], dict[str, Any]]:
        """Return the function that makes this rehearsal in a private folder."""
        return lambda folder: cls(request, folder, fault).make()

    def _change(self, twin: Twin, opensm: OpensmRun, recorded: Tables, started: Tables) -> dict[str, Any]:
        fault = self._fault
        before = self._as_running(opensm, recorded)
        change = self._choose_change(twin)
        watch = twin.tables = TableWatch(self._subnet)
        begun, last = time.monotonic(), self._last_operation()
        twin.planned_fault = fault.at_set, self._happening(twin, opensm)
        done = twin.run(["ibkeys", *change.words, *_WAIT, *self._request.only_apply, *self._common()])
        is_reached, twin.planned_fault = twin.planned_fault is None, None
        opensm = self._end_fault(opensm, is_reached)
        operation = self._last_operation()
        command = self._way_back(twin, operation, change.undo) if operation not in (last, None) else None
        back = twin.run([*command, *self._common()]) if command is not None else None
        opensm.wait_until_it_rests()
        ended = time.monotonic() - begun
        twin.tables = None
        now = tables_of(self._subnet)
        promised = change.promise(before, now, operation if operation != last else None).tables
        left = self._to_json(before if command is not None and command[1] == "undo" else promised, now)
        return {
            "fault": {
                "kind": fault.kind,
                "set": fault.at_set if is_reached else None,
                "node": self._node_to_json(fault.node) if fault.node is not None else None,
                "exit_code": done.code,
                "seconds": round(done.seconds, 1),
                "message": last_line(done.errors) if done.code else None,
                "way_back": " ".join(command) if command is not None else None,
                "back_exit_code": back.code if back is not None else None,
                "back_seconds": round(back.seconds, 1) if back is not None else None,
                "back_message": last_line(back.errors) if back is not None and back.code else None,
                "left": left,
                "worked": not left and (back is None or not back.code),
                **self._losses(before, watch.writes, begun, ended, promised),
            }
        }

    def _take_over(self, master: PlacedOpensm, recorded: Tables) -> dict[str, Any]:
        return {}  # The rehearsal without faults has shown this already.

    def _happening(self, twin: Twin, opensm: OpensmRun) -> Callable[[], None]:
        """Return the function that lets the fault happen, in the thread of the server."""
        if self._fault.node is not None:
            node = self._fault.node
            return lambda: self._subnet.silence(node)
        return opensm.kill if self._fault.kind == "opensm-killed" else twin.kill_command

    def _end_fault(self, opensm: OpensmRun, is_reached: bool) -> OpensmRun:
        """Let the node answer again, so that OpenSM finds it in a sweep, or start OpenSM again. Return the OpenSM that
        runs, once it rests."""
        if self._fault.node is not None:
            self._subnet.silence(self._fault.node, on=False)
            opensm.sweep()
            return opensm
        if self._fault.kind == "opensm-killed" and is_reached:
            return opensm.once_more()
        opensm.wait_until_it_rests()
        return opensm

    def _node_to_json(self, guid: int) -> dict[str, Any]:
        return next(port for key, port in self._ports.items() if key[0] == guid).to_json()

    def _way_back(self, twin: Twin, operation: int | None, undo: Sequence[str]) -> list[str] | None:
        """Return the next command of the user, as the journal names it; None if nothing has to be done. *undo*: what
        the undo of a finished operation needs besides."""
        listed = json.loads(twin.run(["ibkeys", "journal", str(operation), "-f", "json", *self._stores()]).output)
        [found] = listed["operations"]
        if self._fault.way_back == "undo":
            words = found["roll_back_with"] or " ".join(["ibkeys undo", str(operation), *undo])
        else:
            words = found["finish_with"]
        return str(words).split() if words else None

    def _losses(
        self, before: Tables, writes: Sequence[TableWrite], begun: float, ended: float, promised: Tables
    ) -> dict[str, Any]:
        """Return how many pairs lost connectivity meanwhile, how many had connectivity that they must not have, and for
        how long."""
        course = moments(self._subnet, before, writes, begun, DEFAULT_INBOUND_CHECK, promised)
        worst = max(range(len(course)), key=lambda each: course[each].cut, default=-1)
        then = written(before, writes[: worst + 1])
        pairs = islice(cut_pairs(self._subnet, before, then, promised, DEFAULT_INBOUND_CHECK), _MOST_PAIRS)
        return {
            "most_cut": largest_count(course, "cut"),
            "seconds_cut": round(seconds_with(course, "cut", ended), 1),
            "most_open": largest_count(course, "open"),
            "seconds_open": round(seconds_with(course, "open", ended), 1),
            "cut": [[self._ports[key].to_json() for key in pair] for pair in pairs],
        }

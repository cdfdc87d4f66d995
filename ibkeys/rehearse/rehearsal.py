"""A rehearsal: the site's OpenSM makes a change on a private copy of the fabric.

The copy is served as the snapshot has it. OpenSM is started on it: it changes the values that a restart on the fabric
would change. If the snapshot was taken while a subnet manager was master, P_Keys and enforcement are then put back
without a Set, because a running OpenSM does not repair them: so the change meets the same drift as on the fabric. Then
ibkeys makes the change through that OpenSM, as it would on the fabric, and undoes it. After each, all tables are
compared with the promised ones. At the end each standby whose OpenSM is known takes over a fresh copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ibkeys.apply.opensm.interlocks import STANDBY_DIFFERS
from ibkeys.errors import AddressError, UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.document_reader import read_plan
from ibkeys.plan.model import PartitionPlan
from ibkeys.printable import named
from ibkeys.rehearse.causes import Cause, causes_of
from ibkeys.rehearse.commands import RehearsedChange, change_of_command, change_of_plan
from ibkeys.rehearse.copied_journal import copy_journal
from ibkeys.rehearse.opensm_run import OpensmRun
from ibkeys.rehearse.placed_opensm import KEYS, MadeUpKeys, PlacedOpensm, place_opensm
from ibkeys.rehearse.private import run_privately
from ibkeys.rehearse.remembered_indexes import (
    indexes_remembered_by,
    new_partitions,
    policy_with_memory,
    with_memory,
    with_tables,
)
from ibkeys.rehearse.site_opensm import SiteOpensm
from ibkeys.rehearse.standbys import RehearsedStandby, simulate_standbys, take_over
from ibkeys.rehearse.surprises import notes_on_full_tables, notes_on_remembered_indexes
from ibkeys.rehearse.tables import Tables, ValueDifference, differences, identities, put_back, tables_of
from ibkeys.rehearse.timeline import Moment, TableWatch, TableWrite, largest_count, moments
from ibkeys.rehearse.twin import Twin
from ibkeys.sim.netfile.model import NetFile
from ibkeys.sim.nodes import SimNode
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal
from ibkeys.store.journal.records import KEY_COMMANDS
from ibkeys.store.paths import JOURNAL_NAME, KEYSTORE_NAME
from ibkeys.topology.port_id import PortKey

_WRONG_USAGE, _REFUSED = 2, 4
"""The exit status of ibkeys for wrong usage, and if an interlock refuses a change: see ibkeys(1)."""
_POLICY, _PLAN, _STORES = "new.conf", "plan.json", "stores"
"""Files in the private folder: the new policy, the plan, and the folder of journal and key store."""


@dataclass(frozen=True, slots=True)
class RehearsalRequest:
    """The change to rehearse, and the copy of the fabric for it.

    ``fabric``: the fabric as records of the simulator. ``opensm``: the site's OpenSM. ``host``: the node on which it
    runs, as the user typed it; None: the port of its option guid, else ``port_guid``, the port of the master, or of the
    host that took the snapshot. ``had_master``: whether a subnet manager was master. ``number_of``: returns the number
    that stands for an M_Key in ``fabric``, None if no port has it, or if keys cannot be compared, which
    ``can_compare_keys`` says. ``change``: the bytes of a plan, or with ``is_policy`` of a policy, which is planned on
    the copy; ``command``: the words of an ibkeys command, which is run there; without either the rehearsal ends after
    the start of OpenSM. ``journal``: the journal of the fabric, which is only read, and ``operation`` the operation in
    it that the command undoes. ``standbys``: the other SMs. ``believed``: the P_Key tables as the master's SA has them,
    of the ports for which that is known. ``arguments``: further arguments of the change and of its undo;
    ``only_apply``: further arguments of the change alone.
    """

    fabric: NetFile
    opensm: SiteOpensm
    host: str | None
    port_guid: int
    had_master: bool
    number_of: Callable[[MKey], int | None]
    can_compare_keys: bool
    change: bytes | None = None
    is_policy: bool = False
    command: Sequence[str] = ()
    operation: int | None = None
    journal: Path | None = None
    standbys: Sequence[RehearsedStandby] = ()
    believed: Mapping[PortKey, tuple[int, ...]] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    only_apply: Sequence[str] = ()


def rehearse(request: RehearsalRequest, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Make a rehearsal, and return the content of the document rehearse. *say*: called with each step.

    Nothing of it is left on this host. Raises Refused as `run_privately`; UsageError for options of OpenSM, a change or
    a host that cannot be rehearsed; FileFormatError and StoreError for a plan, a journal or key files that cannot be
    read; IbkeysError if OpenSM does not run on the copy.
    """
    return dict(run_privately(lambda folder: Rehearsal(request, folder, say).make(), needed_paths(request)))


def needed_paths(request: RehearsalRequest) -> list[Path]:
    """Return the paths on this host that a rehearsal reads."""
    opensm = request.opensm
    return [opensm.program, opensm.folder, *filter(None, [opensm.config, request.journal]), opensm.cache]


class _Course(NamedTuple):
    """The course of one step. ``writes``: the writes of tables; ``started``: when it began, on the clock of
    `time.monotonic`; ``operation``: the number of its operation in the journal, None if it began none."""

    writes: list[TableWrite]
    started: float
    operation: int | None


class Rehearsal:
    """One rehearsal, in the private process. *folder*: the private folder."""

    def __init__(self, request: RehearsalRequest, folder: Path, say: Callable[[str], None]) -> None:
        self._request, self._folder, self._say = request, folder, say
        self._subnet = Subnet(request.fabric)
        self._ports = identities(self._subnet)
        self._notes: list[str] = []
        self._made_up_keys = MadeUpKeys(request.number_of, request.can_compare_keys)
        self._played: list[SimNode] = []
        self._journal = folder / _STORES / JOURNAL_NAME

    def make(self) -> dict[str, Any]:
        """Make the rehearsal, and return the content of its document, as `rehearse` does."""
        request = self._request
        with Twin(self._subnet, self._subnet.nodes[0], self._folder) as twin:
            placed = place_opensm(
                twin, request.opensm, self._folder, request.host, request.port_guid, self._made_up_keys
            )
            twin.host = placed.home.node
            self._notes += placed.notes
            self._place_journal(placed)
            recorded = tables_of(self._subnet)
            self._play_standbys(twin.host)
            self._say(f"OpenSM starts on {twin.host.description} of the copy")
            opensm = placed.start(twin)
            started = tables_of(self._subnet)
            document = {
                "opensm": {
                    "program": str(request.opensm.program),
                    "source": request.opensm.source,
                    "options_file": str(request.opensm.config) if request.opensm.config else None,
                    "port": self._ports[placed.home.node.guid, placed.home.number].to_json(),
                },
                "at_start": self._to_json(
                    recorded, started, causes_of(recorded, started, placed.options, placed.policy_copy.exists())
                ),
            }
            if request.had_master and (request.change is not None or request.command):
                opensm = self._let_it_remember(twin, opensm, placed, recorded)
            document |= self._change(twin, opensm, recorded, started)
        document |= self._take_over(placed, recorded)
        if not (request.change is not None or request.command) and document["at_takeover"]:
            document["verdict"] = "differs"
        return document

    def _play_standbys(self, master: SimNode) -> None:
        request = self._request
        if self._is_of_keys:
            if request.standbys:
                self._notes.append("standbys are left out: a change of M_Keys needs each of them stopped or reached")
            return
        try:
            self._played = list(simulate_standbys(self._subnet, request.standbys, master))
        except AddressError as error:
            raise UsageError(f"a standby is not found: {error}") from None
        if self._played:
            names = named([node.description for node in self._played])
            self._notes.append(
                f"a stand-in answers for the SM of {names}: ibkeys does not write the policy of a standby in a "
                "rehearsal; on the fabric name its host, as `ibkeys apply --sm-host HOST`"
            )

    def _take_over(self, master: PlacedOpensm, recorded: Tables) -> dict[str, Any]:
        """Rehearse a takeover by each standby whose OpenSM is known, and return their part of the document."""
        rows: list[dict[str, Any]] = []
        for number, standby in enumerate(each for each in self._request.standbys if each.opensm is not None):
            self._say(f"the standby of {standby.host} takes over a fresh copy")
            folder = self._folder / f"standby-{number}"
            taken = take_over(self._request.fabric, standby, folder, master, recorded, self._made_up_keys)
            name = taken.host.description
            rows += [{**each, "standby": name} for each in self._to_json(recorded, taken.tables, taken.causes)]
            self._notes += [f"the standby of {name}: {note}" for note in taken.notes]
            if not taken.same_policy:
                self._notes.append(f"the standby of {name} has another policy file than the master")
        return {"at_takeover": rows}

    def _let_it_remember(self, twin: Twin, opensm: OpensmRun, placed: PlacedOpensm, recorded: Tables) -> OpensmRun:
        """Return an OpenSM that remembers the same indexes as the site's OpenSM: *opensm* itself if there are none, or
        if it has no policy file; else a new one, before which *opensm* is stopped."""
        source = self._request.journal
        memory = indexes_remembered_by(source, self._request.opensm.since, recorded) if source is not None else {}
        believed = with_tables(recorded, self._request.believed)
        if not placed.policy_copy.exists() or not (memory or believed != recorded):
            return opensm
        self._notes += notes_on_remembered_indexes(self._subnet, memory)
        self._say("OpenSM learns the tables and indexes that the running one has in memory")
        guids = {(node.guid, port.number): port.guid for node in self._subnet.nodes for port in node.end_ports}
        in_force = placed.policy_copy.read_bytes()
        opensm.stop()
        put_back(self._subnet, with_memory(believed, memory))
        placed.policy_copy.write_bytes(policy_with_memory(in_force, memory, guids))
        opensm = placed.start(twin)
        placed.policy_copy.write_bytes(in_force)
        opensm.sweep()
        return opensm

    def _place_journal(self, placed: PlacedOpensm) -> None:
        """Create the folder of the stores, with a copy of the journal. A change of M_Keys begins with an empty one: the
        keys of earlier ones are not there. Raises StoreError, UsageError as `copy_journal`, and UsageError for an undo
        without a journal."""
        self._journal.parent.mkdir(mode=0o700)
        source, operation = self._request.journal, self._request.operation
        if source is not None and source.exists() and not self._is_of_keys:
            copy_journal(source, self._journal, operation, placed.policy, placed.policy_copy)
        elif operation is not None:
            raise UsageError(
                f"no journal here has operation {operation}: rehearse its undo on the host that made it, or name its "
                "journal, `ibkeys rehearse --journal FILE`"
            )

    @property
    def _is_of_keys(self) -> bool:
        return self._request.command[:1] != () and self._request.command[0] in KEY_COMMANDS

    def _change(self, twin: Twin, opensm: OpensmRun, recorded: Tables, started: Tables) -> dict[str, Any]:
        """Make the change, undo it unless it is refused or begins no operation, and return their part of the document.
        Without a change, return that of the start. Raises UsageError if the command line is wrong on the copy."""
        request = self._request
        if request.change is None and not request.command:
            changes = differences(recorded, started)
            self._notes += notes_on_full_tables(self._subnet)
            return self._result("differs" if changes else "identical", opensm)
        before = self._as_running(opensm, recorded)
        change = self._choose_change(twin)
        self._say(f"ibkeys {change.words[0]} makes the change through it")
        apply, made = self._run_step(twin, opensm, [*change.words, *request.only_apply])
        if apply["exit_code"] == _WRONG_USAGE:
            raise UsageError(f"`ibkeys {change.words[0]}` fails on the copy: {apply['message']}")
        if apply["exit_code"] == _REFUSED:
            return self._result("refused", opensm, **_about(change, change.plan), apply=apply)
        changed = tables_of(self._subnet)
        promised, plan = change.promise(before, changed, made.operation)
        self._notes += notes_on_full_tables(self._subnet)
        wrong = self._to_json(promised, changed)
        course = moments(self._subnet, before, made.writes, made.started, DEFAULT_INBOUND_CHECK)
        apply |= {"most_cut": largest_count(course, "cut"), "most_open": largest_count(course, "open")}
        interrupted = not (plan and plan.breaks) and (apply["most_cut"] or apply["most_open"])
        is_right = not (wrong or apply["exit_code"] or interrupted)
        unknown = new_partitions(before, promised) if request.had_master else []
        result = {
            **_about(change, plan),
            "unknown_indexes": [
                self._ports[key].to_json() for key in unknown if self._ports[key].node_type != "switch"
            ],
            "apply": apply,
            "differences": wrong,
            "timeline": [self._moment_to_json(each) for each in course],
        }
        if made.operation is None:
            return self._result("identical" if is_right else "differs", opensm, **result)
        self._say("ibkeys undoes it")
        undo, undone = self._run_step(twin, opensm, ["undo", str(made.operation), *change.undo])
        back = moments(self._subnet, changed, undone.writes, undone.started, DEFAULT_INBOUND_CHECK)
        undo |= {"most_cut": largest_count(back, "cut"), "most_open": largest_count(back, "open")}
        left = self._to_json(before, tables_of(self._subnet))
        is_right = is_right and not (left or undo["exit_code"])
        return self._result("identical" if is_right else "differs", opensm, **result, undo=undo, left_by_undo=left)

    def _as_running(self, opensm: OpensmRun, recorded: Tables) -> Tables:
        """Put the drift back behind OpenSM's back, if a subnet manager was master, and return the tables."""
        if self._request.had_master and recorded != tables_of(self._subnet):
            put_back(self._subnet, recorded)
            opensm.sweep()
        return tables_of(self._subnet)

    def _choose_change(self, twin: Twin) -> RehearsedChange:
        request = self._request
        if request.change is not None:
            return change_of_plan(self._plan(twin, request.change), self._path(_PLAN))
        return change_of_command(
            request.command, self._journal, lambda words: twin.run(["ibkeys", *words, *self._stores()]).output
        )

    def _plan(self, twin: Twin, change: bytes) -> PartitionPlan:
        """Return the plan of the change, and write its file. Raises UsageError if the policy cannot be planned,
        FileFormatError for bytes that are no plan."""
        if not self._request.is_policy:
            (self._folder / _PLAN).write_bytes(change)
            return read_plan(self._folder / _PLAN)
        (self._folder / _POLICY).write_bytes(change)
        done = twin.run(["ibkeys", "plan", self._path(_POLICY), "--out", self._path(_PLAN), *self._stores()])
        if not (self._folder / _PLAN).exists():
            raise UsageError(f"`ibkeys plan` of the policy fails on the copy: {last_line(done.errors)}")
        return read_plan(self._folder / _PLAN)

    def _run_step(self, twin: Twin, opensm: OpensmRun, words: Sequence[str]) -> tuple[dict[str, Any], _Course]:
        """Run an ibkeys command on the copy, and wait until no MAD is sent. Return the step as the document has it, and
        its course."""
        watch = twin.tables = TableWatch(self._subnet)
        last = self._last_operation()
        started, sets, sweeps = time.monotonic(), twin.sets, opensm.sweeps()
        done = twin.run(["ibkeys", *words, *self._common()])
        opensm.wait_until_it_rests()
        twin.tables = None
        step = {
            "exit_code": done.code,
            "seconds": round(done.seconds, 1),
            "message": last_line(done.errors) if done.code else None,
            "steps": 0,
            "sets": twin.sets - sets,
            "sweeps": opensm.sweeps() - sweeps,
            "most_cut": 0,
            "most_open": 0,
        }
        operation = self._last_operation()
        operation = operation if operation != last else None
        if operation is not None:
            with Journal.read(self._journal) as journal:
                step["steps"] = len(journal.steps(operation))
        return step, _Course(watch.writes, started, operation)

    def _last_operation(self) -> int | None:
        """Return the number of the last operation in the journal of the rehearsal; None if it has none."""
        with Journal.read(self._journal) as journal:
            return max((each.id for each in journal.list_operations()), default=None)

    def _moment_to_json(self, moment: Moment) -> dict[str, Any]:
        port = self._ports[moment.key].to_json()
        return {**port, "seconds": moment.seconds, "pairs_cut": moment.cut, "pairs_open": moment.open}

    def _common(self) -> list[str]:
        standbys = ["--override", STANDBY_DIFFERS] if self._played else []
        return ["--yes", "-f", "json", *self._stores(), *standbys, *self._request.arguments]

    def _stores(self) -> list[str]:
        """Return the options for the keys, the journal and the key store of the rehearsal."""
        has_keys = any((self._folder / KEYS).iterdir())
        keys = ["--security-keys", self._path(KEYS)] if has_keys else []
        return [*keys, "--journal", str(self._journal), "--keystore", str(self._journal.with_name(KEYSTORE_NAME))]

    def _result(self, verdict: str, opensm: OpensmRun, **parts: Any) -> dict[str, Any]:
        nothing: dict[str, Any] = {
            "command": None,
            "plan": None,
            "pairs_gained": None,
            "pairs_lost": None,
            "apply": None,
            "unknown_indexes": [],
            "differences": [],
            "undo": None,
            "left_by_undo": [],
            "timeline": [],
            "seed": None,
            "faults": None,
        }
        return {
            "verdict": verdict,
            **nothing,
            **parts,
            "opensm_errors": [{"error": name, "count": count} for name, count in opensm.errors().most_common()],
            "notes": self._notes,
        }

    def _to_json(
        self, before: Tables, after: Tables, causes: Mapping[ValueDifference, Cause] | None = None
    ) -> list[dict[str, Any]]:
        return [
            {
                **self._ports[each.key].to_json(),
                "kind": each.kind,
                "index": each.index,
                "before": each.before,
                "after": each.after,
                **({"cause": causes[each]} if causes is not None else {}),
            }
            for each in differences(before, after)
        ]

    def _path(self, name: str) -> str:
        return str(self._folder / name)


def last_line(text: str) -> str | None:
    """Return the last line of *text* that is not blank; None if there is none."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else None


def _about(change: RehearsedChange, plan: PartitionPlan | None) -> dict[str, Any]:
    """Return the command, and the facts of *plan* if it is known, for the document."""
    of_plan: dict[str, Any] = {}
    if plan is not None:
        of_plan = {"plan": plan_digest(plan), "pairs_gained": plan.reach.gained, "pairs_lost": plan.reach.lost}
    return {"command": change.words[0], **of_plan}

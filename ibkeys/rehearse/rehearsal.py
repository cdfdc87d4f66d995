"""A rehearsal: what the site's OpenSM does with a change, made on a private copy of the fabric.

The copy is served as the snapshot has it. OpenSM is started on it. What it changes then, a restart or a takeover would
change on the fabric. If the snapshot was taken while a subnet manager was master, these values are then put back behind
OpenSM's back, because a running OpenSM does not repair them: so the change meets the same drift as on the fabric. Then
ibkeys makes the change through that OpenSM, as it would on the fabric, and undoes it. After each, all tables are
compared with what was promised.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from ibkeys.errors import AddressError, UsageError
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.keys.mkey import MKey
from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK
from ibkeys.managers.opensm.options_file import OptionsFile, read_options
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.document_reader import read_plan
from ibkeys.plan.model import PartitionPlan
from ibkeys.rehearse.causes import Cause, causes_of
from ibkeys.rehearse.commands import RehearsedChange, change_of_command, change_of_plan
from ibkeys.rehearse.earlier import copy_journal
from ibkeys.rehearse.key_files import place_key_files
from ibkeys.rehearse.memory import Memory, new_partitions, policy_with_memory, remembered, with_memory
from ibkeys.rehearse.opensm_options import POLICY, RehearsalOptions, rehearsal_options
from ibkeys.rehearse.opensm_run import OpensmRun
from ibkeys.rehearse.private import run_privately
from ibkeys.rehearse.site_opensm import SiteOpensm
from ibkeys.rehearse.tables import Tables, ValueDifference, differences, identities, put_back, tables_of
from ibkeys.rehearse.timeline import Moment, TableWatch, TableWrite, moments, most
from ibkeys.rehearse.twin import Twin
from ibkeys.sim.netfile.model import NetFile
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal
from ibkeys.store.paths import JOURNAL_NAME, KEYSTORE_NAME

_WRONG_USAGE, _REFUSED = 2, 4
"""The exit status of ibkeys for wrong usage, and if an interlock refuses a change: see ibkeys(1)."""
_CONF, _GIVEN, _WRITTEN = "opensm.conf", "given.conf", "written.conf"
_POLICY, _PLAN, _KEYS, _STORES = "new.conf", "plan.json", "keys", "stores"
"""Files in the private folder: the options of OpenSM there, the site's, all of the site's, the new policy, the plan,
the M_Keys, and the folder of journal and key store."""
_QUIET: Final = 1.0
"""Seconds without a MAD after which OpenSM has nothing left to do, if every port answers."""
_MARGIN: Final = 1.25
"""How much longer than OpenSM waits for answers the silence has to be."""


@dataclass(frozen=True, slots=True)
class RehearsalRequest:
    """What to rehearse, and on which copy.

    ``fabric``: the fabric as records of the simulator. ``opensm``: the site's OpenSM. ``host``: the node on which it
    runs, as the user typed it; None: the port of its option guid, else ``port_guid``, the port of the master, or of the
    host that took the snapshot. ``had_master``: whether a subnet manager was master. ``number_of``: returns the number
    that stands for an M_Key in ``fabric``, None if no port has it, or if keys cannot be compared, which
    ``can_compare_keys`` says. ``change``: the bytes of a plan, or with
    ``is_policy`` of a policy, which is planned on the copy; ``command``: the words of an ibkeys command, which is run
    there; without either the rehearsal ends after the start of OpenSM. ``journal``: the journal of the fabric, which is
    only read, and ``operation`` the operation in it that the command undoes. ``arguments``: further arguments of the
    change and of its undo; ``only_apply``: of the first alone.
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
    arguments: Sequence[str] = ()
    only_apply: Sequence[str] = ()


def rehearse(request: RehearsalRequest, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Make a rehearsal, and return it as the document rehearse has it. *say*: called with each step.

    Nothing of it is left on this host. Raises Refused if the kernel allows no private namespaces; UsageError for
    options of OpenSM that cannot be rehearsed; IbkeysError if OpenSM does not run on the copy.
    """
    opensm = request.opensm
    needed = [opensm.program, opensm.folder, *filter(None, [opensm.config, request.journal]), opensm.cache]
    return dict(run_privately(lambda folder: _Rehearsal(request, folder, say).make(), needed))


class _Course(NamedTuple):
    """What happened in one step: the ``writes`` of tables, when it ``started`` on the clock of `time.monotonic`, and
    its ``operation`` in the journal, if it began one."""

    writes: list[TableWrite]
    started: float
    operation: int | None


class _Rehearsal:
    """One rehearsal, in the private process. *folder*: the private folder."""

    def __init__(self, request: RehearsalRequest, folder: Path, say: Callable[[str], None]) -> None:
        self._request, self._folder, self._say = request, folder, say
        self._subnet = Subnet(request.fabric)
        self._ports = identities(self._subnet)
        self._notes: list[str] = []
        self._made_up = Fingerprints.generate()
        self._assumed: dict[MKey, int] = {}
        self._memory: Memory = {}
        self._journal = folder / _STORES / JOURNAL_NAME

    def make(self) -> dict[str, Any]:
        with Twin(self._subnet, self._subnet.nodes[0], self._folder) as twin:
            written = self._all_options(twin)
            home = self._home(written)
            twin.host = home.node
            self._assume_m_key(read_options(written).value("m_key"))
            options = rehearsal_options(written, self._folder, home.guid, self._made_up_key)
            self._place_files(options)
            self._place_journal(options)
            recorded = tables_of(self._subnet)
            self._say(f"OpenSM starts on {home.node.description} of the copy")
            quiet = _longest_silence(read_options(written))
            opensm = self._start(twin, quiet)
            started = tables_of(self._subnet)
            document = {
                "opensm": {
                    "program": str(self._request.opensm.program),
                    "source": self._request.opensm.source,
                    "options_file": str(self._request.opensm.config) if self._request.opensm.config else None,
                    "port": self._ports[home.node.guid, home.number].to_json(),
                },
                "at_start": self._to_json(recorded, started, self._causes(recorded, started, written)),
            }
            if self._request.had_master and (self._request.change is not None or self._request.command):
                opensm = self._let_it_remember(twin, opensm, recorded, quiet)
            return document | self._change(twin, opensm, recorded, started)

    def _start(self, twin: Twin, quiet: float) -> OpensmRun:
        words = [str(self._request.opensm.program), "-F", self._path(_CONF)]
        opensm = OpensmRun(twin, words, self._folder, quiet)
        opensm.wait_until_it_rests()
        return opensm

    def _let_it_remember(self, twin: Twin, opensm: OpensmRun, recorded: Tables, quiet: float) -> OpensmRun:
        """Return the OpenSM with the memory of the site's OpenSM: another one, if that has a memory."""
        policy, source = self._folder / POLICY, self._request.journal
        if source is not None:
            self._memory = remembered(source, self._request.opensm.since, recorded)
        memory = self._memory
        if not memory or not policy.exists():
            return opensm
        self._say("OpenSM learns the indexes that the running one remembers")
        guids = {(node.guid, port.number): port.guid for node in self._subnet.nodes for port in node.end_ports}
        in_force = policy.read_bytes()
        opensm.stop()
        put_back(self._subnet, with_memory(recorded, memory))
        policy.write_bytes(policy_with_memory(in_force, memory, guids))
        opensm = self._start(twin, quiet)
        policy.write_bytes(in_force)
        opensm.sweep()
        return opensm

    def _all_options(self, twin: Twin) -> bytes:
        """Return all options of the site's OpenSM, as its own program writes them."""
        opensm = self._request.opensm
        words = list(opensm.words)
        if opensm.config is not None:
            (self._folder / _GIVEN).write_bytes(opensm.read(str(opensm.config)) or b"")
            words += ["-F", self._path(_GIVEN)]
        done = twin.run([str(opensm.program), *words, "-c", self._path(_WRITTEN)])
        try:
            return (self._folder / _WRITTEN).read_bytes()
        except FileNotFoundError:
            raise UsageError(
                f"{opensm.program} does not write its options with -c (exit status {done.code}): is it an OpenSM?"
            ) from None

    def _home(self, written: bytes) -> SimPort:
        """Return the port on which OpenSM runs. Raises UsageError if the fabric does not have it."""
        request, guid = self._request, read_options(written).value("guid")
        key = request.host or guid or request.port_guid
        assert isinstance(key, str | int)
        try:
            node = self._subnet.node(key)
        except AddressError as error:
            raise UsageError(
                f"OpenSM runs on no port of this fabric ({error}): name its host, `ibkeys rehearse --host NODE`"
            ) from None
        same = (port for port in node.end_ports if port.guid in (guid, request.port_guid))
        return next(same, self._subnet.attach_port(node))

    def _made_up_key(self, key: MKey) -> MKey:
        number = self._request.number_of(key)
        if number is None:
            number = self._assumed.get(key, self._made_up.of(key))
        return MKey(number)

    def _assume_m_key(self, m_key: object) -> None:
        """Assume that *m_key*, OpenSM's option, is the key of the ports, if that cannot be known and all have one."""
        assert isinstance(m_key, MKey)
        keys = {port.m_key for node in self._subnet.nodes for port in node.end_ports} - {0}
        if m_key.is_zero or not keys or self._request.can_compare_keys:
            return
        if len(keys) == 1:
            self._assumed[m_key] = keys.pop()
            self._notes.append(
                "it is assumed that m_key of OpenSM's options is the M_Key of the ports: only a host with the secret "
                "of the snapshot's fingerprints can compare them"
            )
        else:
            self._notes.append(
                f"the ports have {len(keys)} different M_Keys, and whether m_key of OpenSM's options is one of them is "
                "known only on a host with the secret of the snapshot's fingerprints: it counts as another one here"
            )

    def _place_files(self, options: RehearsalOptions) -> None:
        """Write the files of OpenSM into the private folder. Raises UsageError if one cannot be copied."""
        (self._folder / _CONF).write_bytes(options.text)
        for name, path in options.copies.items():
            data = self._request.opensm.read(path)
            if data is not None:
                (self._folder / name).write_bytes(data)
            elif name == POLICY:
                self._notes.append(
                    f"OpenSM finds no policy at {self._request.opensm.path(path)}, so every port is a full member of "
                    "the default partition"
                )
        self._notes += place_key_files(
            self._subnet, self._request.opensm, self._folder, self._folder / _KEYS, self._made_up_key
        )

    def _place_journal(self, options: RehearsalOptions) -> None:
        """Create the folder of the stores, and put the operation there that is to be undone. Raises StoreError,
        UsageError as `copy_journal`."""
        self._journal.parent.mkdir(mode=0o700)
        operation, source = self._request.operation, self._request.journal
        if operation is not None and source is not None:
            policy = self._request.opensm.path(options.copies[POLICY])
            copy_journal(source, self._journal, operation, policy, self._folder / POLICY)

    def _change(self, twin: Twin, opensm: OpensmRun, recorded: Tables, started: Tables) -> dict[str, Any]:
        """Make the change and undo it, and return what the document says about both."""
        request = self._request
        if request.change is None and not request.command:
            changes = differences(recorded, started)
            return self._result("differs" if changes else "identical", opensm)
        if request.had_master and recorded != tables_of(self._subnet):
            put_back(self._subnet, recorded)
            opensm.sweep()
        before = tables_of(self._subnet)
        change = self._choose_change(twin)
        self._say(f"ibkeys {change.words[0]} makes the change through it")
        apply, made = self._run_step(twin, opensm, [*change.words, *request.only_apply])
        if apply["exit_code"] == _WRONG_USAGE:
            raise UsageError(f"`ibkeys {change.words[0]}` fails on the copy: {apply['message']}")
        if apply["exit_code"] == _REFUSED:
            return self._result("refused", opensm, **_about(change, change.plan), apply=apply)
        changed = tables_of(self._subnet)
        promised, plan = change.promise(before, changed, made.operation)
        wrong = self._to_json(promised, changed)
        course = moments(self._subnet, before, made.writes, made.started, DEFAULT_INBOUND_CHECK)
        apply |= {"most_cut": most(course, "cut"), "most_open": most(course, "open")}
        interrupted = not (plan and plan.breaks) and (apply["most_cut"] or apply["most_open"])
        is_right = not (wrong or apply["exit_code"] or interrupted)
        unknown = new_partitions(before, promised, self._memory) if request.had_master else []
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
        undo |= {"most_cut": most(back, "cut"), "most_open": most(back, "open")}
        left = self._to_json(before, tables_of(self._subnet))
        is_right = is_right and not (left or undo["exit_code"])
        return self._result("identical" if is_right else "differs", opensm, **result, undo=undo, left_by_undo=left)

    def _choose_change(self, twin: Twin) -> RehearsedChange:
        request = self._request
        if request.change is not None:
            return change_of_plan(self._plan(twin, request.change), self._path(_PLAN))
        return change_of_command(
            request.command, self._journal, lambda words: twin.run(["ibkeys", *words, *self._stores()]).output
        )

    def _plan(self, twin: Twin, change: bytes) -> PartitionPlan:
        """Return the plan of the change, and write its file. Raises UsageError if the policy cannot be planned."""
        if not self._request.is_policy:
            (self._folder / _PLAN).write_bytes(change)
            return read_plan(self._folder / _PLAN)
        (self._folder / _POLICY).write_bytes(change)
        done = twin.run(["ibkeys", "plan", self._path(_POLICY), "--out", self._path(_PLAN), *self._stores()])
        if not (self._folder / _PLAN).exists():
            raise UsageError(f"`ibkeys plan` of the policy fails on the copy: {_last_line(done.errors)}")
        return read_plan(self._folder / _PLAN)

    def _run_step(self, twin: Twin, opensm: OpensmRun, words: Sequence[str]) -> tuple[dict[str, Any], _Course]:
        """Run an ibkeys command on the copy, and wait until OpenSM rests. Return the step as the document has it, and
        what happened."""
        watch = twin.tables = TableWatch(self._subnet)
        last = self._last_operation()
        started, sets, sweeps = time.monotonic(), twin.sets, opensm.sweeps()
        done = twin.run(["ibkeys", *words, *self._common()])
        opensm.wait_until_it_rests()
        twin.tables = None
        step = {
            "exit_code": done.code,
            "seconds": round(done.seconds, 1),
            "message": _last_line(done.errors) if done.code else None,
            "sets": twin.sets - sets,
            "sweeps": opensm.sweeps() - sweeps,
            "most_cut": 0,
            "most_open": 0,
        }
        operation = self._last_operation()
        return step, _Course(watch.writes, started, operation if operation != last else None)

    def _last_operation(self) -> int | None:
        """Return the number of the last operation in the journal of the rehearsal; None if it has none."""
        with Journal.read(self._journal) as journal:
            return max((each.id for each in journal.list_operations()), default=None)

    def _moment_to_json(self, moment: Moment) -> dict[str, Any]:
        port = self._ports[moment.key].to_json()
        return {**port, "seconds": moment.seconds, "pairs_cut": moment.cut, "pairs_open": moment.open}

    def _common(self) -> list[str]:
        return ["--yes", "-f", "json", *self._stores(), *self._request.arguments]

    def _stores(self) -> list[str]:
        """Return the options for the keys, the journal and the key store of the rehearsal."""
        has_keys = any((self._folder / _KEYS).iterdir())
        keys = ["--security-keys", self._path(_KEYS)] if has_keys else []
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

    def _causes(self, recorded: Tables, started: Tables, written: bytes) -> dict[ValueDifference, Cause]:
        return causes_of(recorded, started, read_options(written), (self._folder / POLICY).exists())

    def _path(self, name: str) -> str:
        return str(self._folder / name)


def _longest_silence(options: OptionsFile) -> float:
    """Return the seconds after which an OpenSM that sends nothing waits for no answer any more."""
    timeout, retries = options.value("transaction_timeout"), options.value("transaction_retries")
    assert isinstance(timeout, int)
    assert isinstance(retries, int)
    return max(_QUIET, timeout * (retries + 1) * _MARGIN / 1000)


def _last_line(text: str) -> str | None:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else None


def _about(change: RehearsedChange, plan: PartitionPlan | None) -> dict[str, Any]:
    """Return what the document says of a change that follows *plan*."""
    of_plan: dict[str, Any] = {}
    if plan is not None:
        of_plan = {"plan": plan_digest(plan), "pairs_gained": plan.reach.gained, "pairs_lost": plan.reach.lost}
    return {"command": change.words[0], **of_plan}

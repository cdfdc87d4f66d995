"""A run through OpenSM from start to end: store its keys, carry out its steps, report the outcome for each port."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ibkeys.change.clock import REAL_TIME, Clock
from ibkeys.change.runner import Runner
from ibkeys.change.through_sm import OpensmManagers
from ibkeys.change.writer import ChangeWriter
from ibkeys.fabric.handle import PortHandle
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.managers.site import KEPT_HOSTS, ReachedHost
from ibkeys.mkeys.opensm.key_proof import PortReadings
from ibkeys.mkeys.opensm.key_steps import KeySteps
from ibkeys.mkeys.opensm.record import RunRecord
from ibkeys.mkeys.planning_options import ViaOpensm
from ibkeys.mkeys.rollout.planned_run import RunStart
from ibkeys.mkeys.rollout.port_job import PortJob, keep_keys
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.mkeys.rollout.rollout import Rollout
from ibkeys.store.journal import RunningOperation
from ibkeys.store.journal.runs import Runs
from ibkeys.store.keystore.keystore import KeyStore


@dataclass(slots=True)
class OpensmMethod:
    """Changing the ports through OpenSM: a `RunMethod`."""

    reached: Sequence[ReachedHost]
    managers: OpensmManagers
    record: RunRecord
    through: ViaOpensm
    clock: Clock = REAL_TIME
    sends_sets = False

    @property
    def acts(self) -> bool:
        """Whether files are written, or OpenSM is signalled."""
        return not self.record.undoes_nothing

    def in_words(self) -> list[str]:
        """Return, in words, each OpenSM of the change, the master first, with its options file."""
        master, *standbys = reversed(self.managers.all)
        return [
            f"the master, {master.name}: {master.file.name}",
            *(f"a standby, {each.name}: {each.file.name}" for each in standbys),
        ]

    def steps_in_words(self) -> list[str]:
        """Return, in words, the steps that are not made yet, without a key."""
        return [self.record.words(number) for number in range(self.record.at, len(self.record.steps))]

    def begin(self, store: KeyStore) -> Mapping[str, Any]:
        """Return the record of the run for the journal."""
        return self.record.to_json(store)

    def carry_out(self, start: RunStart) -> None:
        """Make the steps that are not made yet; if all are made, handle the ports that were absent. Every key is in the
        key store before it is in any file. Raises the error that stopped the run; the run can be resumed. See
        `RunMethod`."""
        in_progress = _RunInProgress(self, start)
        awaited = self._begin_to_wait(start.operation)
        in_progress.keep_keys()
        if awaited is not None:
            self.through.listener.began(awaited, len(start.operation.journal.find(awaited).starts))
        in_progress.make()

    def _begin_to_wait(self, operation: RunningOperation) -> int | None:
        """Note in the journal that *operation* has to be confirmed, and return its number; None if it needs no
        confirmation."""
        if not self.through.confirm:
            return None
        number = operation.put_on_disk()
        operation.journal.await_confirmation(number, json.dumps({KEPT_HOSTS: self.record.hosts}))
        return number

    def key_steps(
        self,
        writer: ChangeWriter,
        operation: RunningOperation,
        ports: Mapping[int, PortHandle],
        note: Callable[[RunRecord], None],
        proven: Callable[[PortReadings, KeySetting], None] = lambda seen, setting: None,
        check: Callable[[], None] = lambda: None,
    ) -> KeySteps:
        """Return the steps of the run for these *ports* by this method. *note*, *proven*, *check*: as in `KeySteps`."""
        runner = Runner(operation, self.clock, self.through.wait)
        return KeySteps(
            self.record, writer, runner, self.managers, self.reached, ports, self.through, note, proven, check
        )


@dataclass(slots=True)
class _RunInProgress:
    """A run whose steps are being made: its method, its start, the jobs by port GUID, and the GUIDs of the ports that
    were proven."""

    _method: OpensmMethod
    _start: RunStart
    _jobs: dict[int, PortJob] = field(init=False)
    _proven: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._jobs = {job.port.port_guid: job for job in [*self._start.run.already_set, *self._start.run.jobs]}
        self._start.run.account.operation = self._start.number

    @property
    def _store(self) -> KeyStore:
        return self._start.writer.keystore

    @property
    def _runs(self) -> Runs:
        return Runs(self._start.operation.journal)

    def keep_keys(self) -> None:
        """Put the former and the new key of every port into the key store, then their names into the journal."""
        with self._store.in_one_transaction():
            via = self._method.record.to_json(self._store)
            found = [keep_keys(self._store, job) for job in self._jobs.values()]
        with self._start.operation.journal.in_one_transaction():
            self._runs.note_via(self._start.number, via)
            self._runs.note_keys(self._start.number, [each for each in found if each is not None])
            for job in self._jobs.values():
                self._runs.mark(self._start.number, job.sequence, "sent")

    def make(self) -> None:
        """Make the steps, and report the result of each port."""
        if not self._method.acts:
            self._report_ports(PortReadings())
            return
        ports = {guid: job.target.handle for guid, job in self._jobs.items()}
        key_steps = self._method.key_steps(
            self._start.writer, self._start.operation, ports, self._note, self._note_proven, self._start.stop.check
        )
        if self._method.record.at < len(self._method.record.steps):
            key_steps.make()
            self._report_ports(key_steps.last)
        elif self._jobs:
            self._report_late_ports(key_steps.make_late())

    def _note(self, record: RunRecord) -> None:
        with self._store.in_one_transaction():
            via = record.to_json(self._store)
        self._runs.note_via(self._start.number, via)

    def _note_proven(self, seen: PortReadings, setting: KeySetting) -> None:
        """Note in the key store the ports that showed the key that the run gives them."""
        with self._store.in_one_transaction():
            for guid, info in seen.infos.items():
                job = self._jobs[guid]
                has_it = job.wanted.key == setting.key == MKey(info.m_key)
                if has_it and guid not in self._proven and job.ref is not None:
                    self._store.promote(job.ref)
                    self._proven.add(guid)
                    job.proven_key = "wanted"

    # --- how it ended ------------------------------------------------------------------------------------------------

    def _report_ports(self, seen: PortReadings) -> None:
        """Report the result for each port after the last step, give up the pending keys that a rollback has replaced,
        and count the M_Key violations that have been added since the run was planned."""
        violations = 0
        with self._store.in_one_transaction():
            for guid, job in self._jobs.items():
                replaced = job.returns_from if guid not in {*seen.silent, *seen.wrong} else None
                if replaced is not None and self._store.get(replaced).state == "pending":
                    self._store.abandon(replaced, "the run was rolled back")
        with self._start.operation.journal.in_one_transaction():
            for guid, job in self._jobs.items():
                reason = str(seen.silent.get(guid) or seen.wrong.get(guid, ""))
                self._report_port(job, reason)
                if guid in seen.infos:
                    violations += max(0, seen.infos[guid].m_key_violations - job.shown.m_key_violations)
        self._start.run.account.violations = violations

    def _report_port(self, job: PortJob, reason: str) -> None:
        account, goes_back = self._start.run.account, self._start.run.goes_back
        if reason:
            self._runs.mark(self._start.number, job.sequence, "sent", reason)
            result = PortResult(job.port.identity(), "failed", reason)
            account.unresolved += 1
        else:
            self._runs.mark(self._start.number, job.sequence, "undone" if goes_back else "done")
            result = PortResult(job.port.identity(), "done")
        account.add(result)
        self._start.report(result)

    def _report_late_ports(self, seen: PortReadings) -> None:
        """Report the ports that were absent. A port that OpenSM cannot reach gets its key by a Set of ibkeys.

        OpenSM queries a port at a new place with the key in its options, and a port with another key refuses that. The
        Set gives the port the key in OpenSM's options, so OpenSM has nothing to change there afterwards.
        """
        unreachable = [job for guid, job in self._jobs.items() if guid in seen.wrong]
        for job in unreachable:
            del self._jobs[job.port.port_guid]
        self._report_ports(seen)
        if unreachable:
            Rollout(self._start).carry_out("M_Keys of ports that OpenSM does not reach", [unreachable])

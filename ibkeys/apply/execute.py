"""Making the steps of a plan on the fabric: read, journal, Set, verify, many ports at once.

A batch of blocks goes through four rounds: each block is read (and NodeInfo once for each port, so that a cable that
moved meanwhile is noticed), the before-images go into the journal with one sync, each Set is sent once, each block is
read back. Silence after a Set means nothing: only what is read back counts.

SMPs: for each block that differs a Set and two Gets, and one NodeInfo for each port and phase. For PortInfo the same.
A block that both gains and loses P_Keys differs twice, once in each phase. What is older than a second when its Set is
due is read once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ibkeys.apply.jobs import BlockJob, EnforcementJob, Job
from ibkeys.apply.survey import Target, read_again
from ibkeys.change.consent import Objection
from ibkeys.change.writer import Writer, image_of
from ibkeys.client.smp import Task
from ibkeys.errors import IbkeysError, MadStatusError, NoReply, NotStored, SendRefused, Unreachable
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mad.const import Method
from ibkeys.plan.order import EnforcementStep, Phase, Step, write
from ibkeys.topology.model import Port
from ibkeys.topology.port_id import PortKey

BATCH: Final = 256
"""Most Sets between two syncs of the journal."""
FRESH: Final = 1.0
"""Seconds that a read may be old when the Set that is built on it leaves."""

Progress = Callable[[str, int, int], None]
"""Called with (phase, steps done, steps in all)."""


class Executor:
    """Makes phases on the fabric, one after the other. ``failed``: ports that could not be written, and why.

    *empties*: index → 0x8000 by port, where an empty entry was not 0. *check*: called between batches; it raises to
    stop. Used inside `Writer.apply`.
    """

    def __init__(
        self,
        writer: Writer,
        targets: Mapping[PortKey, Target],
        empties: Mapping[PortKey, Mapping[int, int]] | None = None,
        check: Callable[[], None] = lambda: None,
        progress: Progress | None = None,
    ) -> None:
        self.writer = writer
        self.targets = targets
        self.failed: dict[PortKey, IbkeysError] = {}
        self.touched: dict[PortKey, Target] = {}
        self._empties = empties or {}
        self._check = check
        self._progress = progress
        self._client = writer.fabric.client
        self._tables = {key: target.table for key, target in targets.items()}
        self._bits: dict[PortKey, dict[str, int]] = {}

    def run(self, phases: Iterable[Phase]) -> Phase | None:
        """Make the phases; return the one that failed at some port, after which none was begun. None: all are made."""
        for phase in phases:
            done = 0
            for batch in self._batches(phase):
                self._check()
                self._leave_out_changed(batch)
                self._make([job for step in batch if step.port.key not in self.failed for job in self._jobs(step)])
                done += len(batch)
                if self._progress:
                    self._progress(phase.name, done, len(phase.steps))
                if self.failed and phase.name == "swap":
                    return phase
            if self.failed:
                return phase
        return None

    def _leave_out_changed(self, batch: Iterable[Step]) -> None:
        """Look at the links of a batch's ports again where that is a second ago: keys go over them."""
        targets = {self.targets[step.port.key].port: step.port.key for step in batch}
        for port, why in self.writer.changed_links(targets, FRESH).items():
            error = Unreachable(f"{port}: the way to it changed since it was read ({why}); nothing was sent to it")
            self.failed.setdefault(targets[port], error)

    def _batches(self, phase: Phase) -> Iterator[list[Step]]:
        """Divide a phase: the SM's port and the own port with their leaf ports come last, swaps go one by one."""
        most = 1 if phase.name == "swap" else BATCH
        for rank in range(3):
            batch: list[Step] = []
            size = 0
            for step in phase.steps:
                if rank_of(self.writer, self.targets[step.port.key]) != rank:
                    continue
                blocks = 1 if isinstance(step, EnforcementStep) else len(step.blocks)
                if batch and size + blocks > most:
                    yield batch
                    batch, size = [], 0
                batch.append(step)
                size += blocks
            if batch:
                yield batch

    def _jobs(self, step: Step) -> list[Job]:
        target = self.targets[step.port.key]
        self.touched[step.port.key] = target
        if isinstance(step, EnforcementStep):
            return [Job(target, EnforcementJob(target, step, self.writer.consent.covers("stale")))]
        known = self._tables[step.port.key]
        empties = self._empties.get(step.port.key, {})
        return [Job(target, BlockJob(target, block, known, step.writes, empties)) for block in step.blocks]

    def prove(self) -> dict[PortKey, IbkeysError]:
        """Read every port that was touched afresh; return those that are not as they were left, and why.

        A port that failed before is not asked again.
        """
        targets = {key: target for key, target in self.touched.items() if key not in self.failed}
        wrong = read_again(self.writer, targets.values())
        for key, target in targets.items():
            if key not in wrong:
                problem = self._difference(target, self._tables[key], self._bits.get(key, {}))
                if problem:
                    wrong[key] = NotStored(f"{target.port}: read back in the end, {problem}")
        return wrong

    @staticmethod
    def _difference(target: Target, wanted: Mapping[int, PKey], bits: Mapping[str, int]) -> str:
        table, info = target.table, target.port.port_info
        parts = [
            f"index {index} is {table.get(index, 'empty')} instead of {wanted.get(index, 'empty')}"
            for index in sorted({*table, *wanted})
            if table.get(index) != wanted.get(index)
        ]
        parts += [
            f"{PortInfo.rows[name].name} is {getattr(info, name)} instead of {value}"
            for name, value in bits.items()
            if getattr(info, name) != value
        ]
        return "; ".join(parts[:4])

    # --- one batch -----------------------------------------------------------------------------------------------

    def _make(self, jobs: list[Job]) -> None:
        by_port: dict[int, list[Job]] = {}
        for job in jobs:
            by_port.setdefault(id(job.target.port), []).append(job)
        self._client.run([self._read(group) for group in by_port.values()])
        todo = [job for job in jobs if job.needs_set]
        entries = self.writer.operation.record_all(
            image_of(
                job.target.port,
                job.kind.name,
                job.kind.modifier,
                job.kind.kept(job.before),
                job.kind.kept(job.after),
            )
            for job in todo
        )
        for job, entry in zip(todo, entries, strict=True):
            job.entry = entry
        waiting = todo
        while waiting:
            self._client.run([self._set(job) for job in waiting])
            sent = [job for job in waiting if not job.unsent]
            self._client.run([self._verify(job) for job in sent])
            answering = {id(job.target.port.node) for job in sent if not isinstance(job.error, NoReply)}
            waiting = [job for job in waiting if job.unsent]
            for job in waiting:
                if id(job.target.port.node) not in answering:
                    job.unsent, job.error = False, job.problem
            waiting = [job for job in waiting if job.unsent]
        self._settle(jobs)

    def _settle(self, jobs: Sequence[Job]) -> None:
        operation = self.writer.operation
        entries = [(job.entry, job.error is None) for job in jobs if job.entry is not None]
        done = [entry for entry, is_proven in entries if is_proven]
        if done:
            operation.settle(done, "done")
        if len(done) < len(entries):
            operation.settle([entry for entry, is_proven in entries if not is_proven], "failed")
        for job in jobs:
            key = (job.target.port.node.guid, job.target.port.num)
            if job.error is not None:
                self.failed.setdefault(key, job.error)
            elif isinstance(job.kind, BlockJob):
                write(self._tables[key], job.kind.writes)
            elif isinstance(job.kind, EnforcementJob):
                self._bits.setdefault(key, {}).update(job.kind.changes)

    def _read(self, jobs: Sequence[Job]) -> Task:
        target = jobs[0].target
        try:
            yield from self._check_arrival(target)
            for job in jobs:
                job.before = yield self._get(job)
                job.read_at = self._now()
                job.after = job.kind.build(job.before)
        except IbkeysError as error:
            for job in jobs:
                job.error = error

    def _check_arrival(self, target: Target) -> Task:
        port, node = target.port, target.port.node
        arrival = NodeInfo((yield self._client.get_along(target.path, NodeInfo, 0, node, port.end_port.m_key)))
        if arrival.node_guid != node.guid or (not node.is_switch and arrival.local_port_num != port.num):
            raise Unreachable(
                f"{port}: {target.handle.route} now leads to port {arrival.local_port_num} of node "
                f"0x{arrival.node_guid:016x}; cabling changed meanwhile"
            )

    def _get(self, job: Job) -> Any:
        port = job.target.port
        return self._client.get_along(
            job.target.path, job.kind.attribute, job.kind.modifier, port.node, port.end_port.m_key
        )

    def _set(self, job: Job) -> Task:
        job.unsent = False
        try:
            if self._now() - job.read_at > FRESH:
                now: bytes = yield self._get(job)
                job.read_at = self._now()
                if job.kind.moved_on(job.before, now):
                    message = f"{job.target.port}: {job.kind.name} changed since it was read"
                    raise Objection("stale", f"{message}; somebody else writes this port").refusal()
        except IbkeysError as error:
            job.error = error
            return
        try:
            yield self._client.request(
                Method.SET,
                job.kind.attribute,
                job.kind.modifier,
                job.target.handle.route,
                node=job.target.port.node,
                m_key=job.target.m_key,
                data=job.after,
                retries=0,
            )
        except NoReply as error:
            job.problem, job.unsent = error, not error.attempts
        except (MadStatusError, SendRefused) as error:
            job.problem = error  # an agent may apply a Set and still complain: what is read back decides

    def _verify(self, job: Job) -> Task:
        if job.error is not None:
            return
        try:
            stored: bytes = yield self._get(job)
        except IbkeysError as error:
            job.error = error
            return
        wrong = job.kind.wrong(job.after, stored)
        if wrong:
            what = f"{job.target.port}: Set({job.kind.name}, modifier 0x{job.kind.modifier:x})"
            if isinstance(job.problem, NoReply):
                job.error = NotStored(f"{what} was lost on its way: {wrong}")
            else:
                job.error = job.problem or NotStored(f"{what} was accepted but not stored: {wrong}")

    def _now(self) -> float:
        return self.writer.fabric.umad.now()


def rank_of(writer: Writer, target: Target) -> int:
    """Return 2 for the own port and its leaf port, 1 for those of the SM, 0 for every other: the order of writing."""
    port = target.port
    return max(_rank(writer, each) for each in (port, port.peer) if each is port or (each and each.is_end_port))


def _rank(writer: Writer, port: Port) -> int:
    return 2 if port.port_guid == writer.fabric.local().port_guid else int(writer.holds_sm(port))

"""Carrying out a run: the engine sets new M_Keys on many ports at once. A port waits only for the ports before it that
are another number of hops away.

A run adds three things to the engine: the result of each port is noted in the journal, ports that fall silent are read
again at the end, and too many failures stop the run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from ibkeys.change.course import Course
from ibkeys.change.engine import Engine
from ibkeys.change.pending_set import PendingSet
from ibkeys.change.runner import Runner
from ibkeys.change.sets_step import SetsStep
from ibkeys.errors import StoreError
from ibkeys.mkeys.key_edit import KeyEdit
from ibkeys.mkeys.key_keeper import KeyKeeper
from ibkeys.mkeys.rollout.planned_run import RunStart
from ibkeys.mkeys.rollout.port_job import PortJob, keep_keys
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.port_text import PortText
from ibkeys.store.journal.runs import PortKeys, RunPortState, Runs
from ibkeys.store.keystore.keystore import KeyStore

_RESUME = "both are in the key store, and `ibkeys resume` queries it again"


class SetsOfIbkeys:
    """The method of a run in which ibkeys sends the Sets, port by port: a `RunMethod`."""

    sends_sets = True
    acts = False

    def in_words(self) -> list[str]:
        """Return an empty list: the run uses no OpenSM."""
        return []

    def steps_in_words(self) -> list[str]:
        """Return an empty list: the run has one step only."""
        return []

    def begin(self, store: KeyStore) -> None:
        """Return None: the ports of the run, which are in the journal, are enough to resume it."""

    def carry_out(self, start: RunStart) -> None:
        """Set the keys of all ports; see `RunMethod`."""
        run = start.run
        Rollout(start).carry_out("former M_Keys" if run.goes_back else "M_Keys", run.stages, run.already_set)


class Rollout(KeyKeeper):
    """Carries out the jobs of one run, inside `ChangeWriter.apply`. After an interrupt no further port is begun."""

    def __init__(self, start: RunStart) -> None:
        writer, operation, options = start.writer, start.operation, start.run.options
        super().__init__(writer.keystore, writer.fabric.ring)
        self._writer = writer
        self._operation = operation
        self._journal = operation.journal
        self._run = start.number
        # Names of keys and states of ports, for `add_entries`, which is called when the keys are in the key store:
        self._keys: list[PortKeys] = []
        self._states: list[tuple[int, RunPortState, str]] = []
        self._most_failures = options.max_failures
        self._report = start.report
        self._interrupts = start.stop
        self._failures = 0
        # Reading the near end of each link shows whether the link changed, and costs less than a NodeInfo of the port.
        self._engine = Engine(
            writer, operation, self, max_begun=options.at_once, checks_arrival=False, asks_silent_again=True
        )
        self.account = start.run.account
        self.account.operation = start.number

    def carry_out(self, name: str, stages: Sequence[Sequence[PortJob]], already_set: Sequence[PortJob] = ()) -> None:
        """Change the ports stage by stage, as one step of the operation. *name*: the step's name in the journal;
        *already_set*: ports that already have their wanted setting, for which only the stores are updated.

        In a stage, only ports at the same number of hops are changed together, because no SMP may be sent to a switch
        while the switch gets its key. Raises StoreError, KeyboardInterrupt, and the errors of *report*, after the ports
        that were being changed are proven.
        """
        self._note_already_set(already_set)
        steps = [SetsStep(name, self._engine, self._sets(stages))] if any(stages) else []
        Runner(self._operation).run(Course(steps), lambda step: step)

    def _sets(self, stages: Iterable[Sequence[PortJob]]) -> Iterator[list[PendingSet]]:
        for jobs in chain.from_iterable(map(_by_hops, stages)):
            if self._engine.is_stopped:
                return
            for job in jobs:
                job.max_sends = self._writer.fabric.client.timing.retries + 1
                job.takes_over, job.advice = self._writer.consent.covers("stale"), _RESUME
            yield [PendingSet(job) for job in jobs]

    def _note_already_set(self, already_set: Sequence[PortJob]) -> None:
        for job in already_set:
            job.proven_key = "wanted"
        sets = [PendingSet(job) for job in already_set]
        if sets:
            self.write_records(sets, ())
            with self._journal.in_one_transaction():
                self.add_entries()
        for each in sets:
            self.note_outcome(each, None)

    # --- calls of the engine -----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has asked to stop."""
        try:
            self._interrupts.check()
        except KeyboardInterrupt as interrupt:
            self._stop(f"interrupted {interrupt}")
            raise

    def write_records(self, ended: Sequence[PendingSet], ready: Sequence[PendingSet]) -> None:
        """Store keys as `KeyKeeper.write_records` does, and collect the names and states that `add_entries` writes to
        the journal."""
        self._keys, self._states = [], []
        super().write_records(ended, ready)

    def add_entries(self) -> None:
        """Write the collected names of keys and states of ports to the journal."""
        runs = Runs(self._journal)
        runs.note_keys(self._run, self._keys)
        for sequence, state, reason in self._states:
            runs.mark(self._run, sequence, state, reason)

    def keep_keys(self, edit: KeyEdit) -> None:
        """Store the keys of a port before its Set is sent, and collect the state ``sent`` for the journal."""
        assert isinstance(edit, PortJob)
        self._store_keys(edit)
        self._states.append((edit.sequence, "sent", ""))

    def _store_keys(self, job: PortJob) -> None:
        found = keep_keys(self._store, job)
        self._keys += [found] if found is not None else []

    def note(self, pending: PendingSet, edit: KeyEdit) -> None:
        """Note the result of a port in the key store, and collect its state for the journal."""
        assert isinstance(edit, PortJob)
        if edit.proven_key == "wanted" and edit.ref is None and not edit.goes_back:
            self._store_keys(edit)  # the port had its wanted setting already, so no Set stored the key
        elif edit.proven_key == "wanted" and edit.ref is None:
            removed = self._store.pending_of(edit.port.port_guid)  # a cut-off rollback may have sent this key 0
            edit.ref = removed.ref if removed is not None and removed.m_key == edit.wanted.key else None
        super().note(pending, edit)
        replaced = edit.returns_from
        if edit.proven_key == "wanted" and replaced is not None and self._store.get(replaced).state == "pending":
            self._store.abandon(replaced, "the run was rolled back")
        self._states.append((edit.sequence, _state_of(pending, edit), _reason_of(pending)))

    def note_failure(self, pending: PendingSet) -> None:
        """Count a failed port, and stop the run when ``max_failures`` ports have failed."""
        self._failures += 1
        if self._failures == self._most_failures:
            many = f"{self._failures} ports have" if self._failures > 1 else "1 port has"
            self._stop(f"{many} failed, which is the most that may")
            self._engine.stop()

    def note_outcome(self, pending: PendingSet, journal_error: StoreError | None) -> None:
        """Count and report the result of a port. *journal_error*: the error that kept the result off the disk."""
        super().note_outcome(pending, journal_error)
        job, reason = pending.edit, _reason_of(pending)
        assert isinstance(job, PortJob)
        is_done = pending.error is None
        if journal_error is not None:
            self._stop(str(journal_error))
            if is_done:
                is_done = False
                reason = (
                    f"it has its new M_Key, which a Get proved, but the key store could not record that: "
                    f"{journal_error}; `ibkeys resume` "
                    "records it"
                )
        account = self.account
        account.replies_lost += job.replies_lost
        account.sets_lost += job.sets_lost
        account.violations += job.violations
        account.unresolved += pending.is_silent
        result = PortResult(job.port.identity(), "done" if is_done else "failed", reason or None)
        account.add(result)
        try:
            self._report(result)
        except Exception:
            self._stop("the results could not be reported")
            raise

    def _stop(self, why: str) -> None:
        self.account.stopped = self.account.stopped or why


def _by_hops(stage: Iterable[PortJob]) -> Collection[Sequence[PortJob]]:
    """Return the jobs grouped by distance from the local port, in the order of *stage*.

    Before a Set, the links on the route are read from its switches. The Get to a switch carries the key that the switch
    has when the Get is made, and if lost it is sent again a second later. If the switch had a new key by then, it would
    count a violation and not answer. All switches on the route are nearer than the port, so they are in another group.
    """
    distances: dict[int, list[PortJob]] = {}
    for job in stage:
        distances.setdefault(len(job.port.agent_path), []).append(job)
    return distances.values()


def _state_of(pending: PendingSet, job: PortJob) -> RunPortState:
    if pending.error is None:
        return "undone" if job.goes_back else "done"
    if pending.is_silent:
        return "sent"
    # A port to which nothing was sent waits until the run is resumed. In a rollback such a port still has the setting
    # of the run, so it counts as failed, not as a port that the run never set.
    return "failed" if pending.entries or job.goes_back else "waiting"


def _reason_of(pending: PendingSet) -> str:
    if pending.error is None:
        return ""
    if pending.sent:
        return str(pending.error)
    what = "no Set was sent to it now: " if pending.entries else "nothing was sent to it: "
    return PortText.joined(what, str(pending.error))

"""The engine: the order in which Sets are begun, written to disk, sent, proven and asked about again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from ibkeys.change.engine.port_steps import MAX_READ_AGE, PortSteps, was_not_asked
from ibkeys.change.images import image_of
from ibkeys.change.pending_set import PendingSet, SetProof
from ibkeys.change.writer import ChangeWriter
from ibkeys.client.smp import Task
from ibkeys.errors import IbkeysError, MadStatusError, NoReply, StoreError
from ibkeys.store.journal import Image, JournalEntry, RunningOperation

MAX_BEGUN: Final = 256
"""Default limit of Sets that are begun and not ended."""
WORTH_A_SYNC: Final = 64
"""When this many Sets wait for a sync, the engine syncs without waiting for further ones."""


class EngineHooks:
    """Functions that the engine calls, so that a command can add its own work; by default they do nothing."""

    def check(self) -> None:
        """Raise an error to stop the engine: no further Set is begun, and the Sets that were sent are still proven.
        Called often."""

    def write_records(self, ended: Sequence[PendingSet], ready: Sequence[PendingSet]) -> None:
        """Write the command's own records to disk: those that must be there before the Sets of *ready* are sent, and
        the outcomes of *ended*. Raises StoreError."""

    def add_entries(self) -> None:
        """Write further entries to the journal in the transaction of the engine's own entries. Raises StoreError."""

    def note_failure(self, pending: PendingSet) -> None:
        """Note the first failure of a Set: its port did not answer or could not be changed. The Set may still be tried
        again."""

    def note_outcome(self, pending: PendingSet, journal_error: StoreError | None) -> None:
        """Note the outcome of a Set. *journal_error*: the error that kept the outcome off the disk, None if it is
        there."""


class Engine:
    """Makes the changes of one operation of the journal.

    *max_begun*: limit of Sets that are begun and not ended. *checks_arrival*: NodeInfo is read before the first Set of
    each port, so that a cable that moved in the meantime is noticed. *asks_silent_again*: a port that does not answer a
    read, or falls silent after its Set, is asked again when all others are finished: packets may no longer be lost
    then. ``is_stopped``: no further Set is begun.
    """

    def __init__(
        self,
        writer: ChangeWriter,
        operation: RunningOperation,
        hooks: EngineHooks | None = None,
        *,
        max_begun: int = MAX_BEGUN,
        checks_arrival: bool = True,
        asks_silent_again: bool = False,
    ) -> None:
        self._writer = writer
        self._client = writer.fabric.client
        self._steps = PortSteps(writer, checks_arrival)
        self._operation = operation
        self._hooks = hooks or EngineHooks()
        self._max_begun = max_begun
        self._asks_silent_again = asks_silent_again
        # Ports that are not begun, each with all its Sets (a group).
        self._queue: deque[list[PendingSet]] = deque()
        # The number of Sets that are begun and whose end is not on disk yet. Two kinds of these wait for the next sync:
        # Sets that are not sent yet, and Sets that are proven or have failed.
        self._begun_count = 0
        self._ready: list[PendingSet] = []
        self._ended: list[PendingSet] = []
        # Only if *asks_silent_again*: Sets whose port did not answer the first read, and Sets after which the port was
        # silent. These ports are asked again at the end.
        self._unread: list[list[PendingSet]] = []
        self._silent: list[PendingSet] = []
        # Held back until the next run of the client, because the node had not answered an earlier SMP: ports to be
        # read, Sets to be sent, and Sets to be proven.
        self._unasked: list[tuple[list[PendingSet], IbkeysError]] = []
        self._unsent: list[PendingSet] = []
        self._unproven: list[PendingSet] = []
        # The ids of nodes that have answered a proof since the SMPs that were held back were last sent.
        self._answering: set[int] = set()
        # The first error that stopped the engine. It is raised when every Set that was sent is proven.
        self._problem: BaseException | None = None
        self.is_stopped = False

    def make(self, sets: Iterable[PendingSet]) -> None:
        """Make *sets* and prove them. The outcome of each is in its ``error`` and in the journal.

        Raises StoreError and the errors of the hooks, after every Set that was sent is proven; and TransportError.
        """
        by_port: dict[int, list[PendingSet]] = {}
        for each in sets:
            by_port.setdefault(id(each.target.port), []).append(each)
        self._queue.extend(by_port.values())
        # One look at the links that many ports share, instead of one for each port that begins at the same time.
        self._writer.changed_links(
            [group[0].target.port for group in islice(self._queue, self._max_begun)], MAX_READ_AGE
        )
        self._run(())
        while self._silent or self._unread:
            self._ask_again()
        if self._problem is not None:
            raise self._problem

    def stop(self, error: BaseException | None = None) -> None:
        """Begin no further Set; the Sets that were sent are still proven. *error* is raised at the end."""
        self.is_stopped = True
        self._problem = self._problem or error

    def _run(self, tasks: Iterable[Task]) -> None:
        """Run *tasks* and the queue to their end, then the SMPs that were held back."""
        self._client.run(tasks, self._between)
        while self._is_unfinished:
            self._client.run(self._send_again(), self._between)

    @property
    def _is_unfinished(self) -> bool:
        waits = self._ended or self._ready or self._unasked or self._unsent or self._unproven
        return bool(waits or (self._queue and not self.is_stopped))

    def _send_again(self) -> list[Task]:
        """Return tasks for the SMPs that were held back: all proofs, and the reads and Sets of nodes that have answered
        since. The other reads and Sets end with their error."""
        answering, self._answering = self._answering, set()
        unproven, self._unproven = self._unproven, []
        unasked, self._unasked = self._unasked, []
        unsent, self._unsent = self._unsent, []
        tasks = [self._prove_again(each) for each in unproven]
        for group, error in unasked:
            if id(group[0].target.port.node) in answering and not self.is_stopped:
                tasks.append(self._read(group))
            else:
                self._not_read(group, error)
        for each in unsent:
            if id(each.target.port.node) in answering and not self.is_stopped:
                tasks.append(self._change(each))
            else:
                self._end_set(each, each.set_error)
        return tasks

    def _ask_again(self) -> None:
        """Read the ports that did not answer once more: those without a first read, and those silent after their
        Set."""
        unread, self._unread = self._unread, []
        for group in unread:
            if self.is_stopped:
                self._begun_count += len(group)
                self._ended += group
            else:
                self._queue.append(group)
        silent, self._silent = self._silent, []
        for first in range(0, max(1, len(silent)), self._max_begun):
            some = silent[first : first + self._max_begun]
            self._begun_count += len(some)
            self._run([self._prove_again(each) for each in some])

    # --- between replies and the next SMPs ---------------------------------------------------------------------------

    def _between(self) -> None:
        """Sync, and begin as many Sets as there is room for. The client calls this when every reply that has arrived is
        with its task."""
        try:
            self._hooks.check()
        except (KeyboardInterrupt, IbkeysError) as error:
            self.stop(error)
        self._commit()
        while self._queue and self._begun_count < self._max_begun and not self.is_stopped:
            group = self._queue.popleft()
            self._begun_count += len(group)
            self._client.start(self._read(group))

    def _commit(self) -> None:
        """Write the ended Sets and those that are about to be sent to disk, with one sync; then send the latter."""
        waiting = len(self._ended) + len(self._ready)
        if waiting < min(WORTH_A_SYNC, self._client.moving) and not self.is_stopped:
            return  # other tasks are still running, and a later sync can cover their Sets too
        ended, self._ended = self._ended, []
        ready, self._ready = self._ready, []
        self._begun_count -= len(ended)
        if self.is_stopped:
            self._begun_count -= len(ready)
            ended += [
                each for each in ready if each.sent
            ]  # the agent refused it, and its fallback form is no longer sent
            ready = []
        if not ended and not ready:
            return
        journal_error = None
        try:
            self._hooks.write_records(ended, ready)
            self._record(ended, ready)
        except StoreError as error:
            journal_error = error
            self.stop(error)
            self._begun_count -= len(ready)
            ended += [each for each in ready if each.sent]
            ready = []
        for each in ended:
            try:
                self._hooks.note_outcome(each, journal_error)
            except Exception as error:  # the listener may be gone, but Sets that were sent must still be verified
                self.stop(error)
        for each in ready:
            self._client.start(self._change(each))

    def _record(self, ended: Sequence[PendingSet], ready: Sequence[PendingSet]) -> None:
        done: list[JournalEntry] = []
        failed: list[JournalEntry] = []
        for each in ended:
            failed += each.entries[:-1]
            (failed if each.error is not None else done).extend(each.entries[-1:])
        images = [_image(each) for each in ready]
        recorded = self._operation.record_all(images, done, failed, self._hooks.add_entries)
        for each, entry in zip(ready, recorded, strict=True):
            each.entries.append(entry)

    # --- the steps of one port ---------------------------------------------------------------------------------------

    def _read(self, group: list[PendingSet]) -> Task:
        """Task: read a port, and put its Sets among those that are ready, or ended if they change nothing."""
        for each in group:
            each.error = None
        try:
            yield from self._steps.read(group)
        except IbkeysError as error:
            if was_not_asked(error, group[0]):
                self._unasked.append((group, error))
            else:
                self._not_read(group, error)
            return
        for each in group:
            (self._ready if each.before != each.after else self._ended).append(each)

    def _not_read(self, group: list[PendingSet], error: IbkeysError) -> None:
        looks_again = self._asks_silent_again and isinstance(error, NoReply) and not group[0].has_failed
        for each in group:
            self._note_failure(each)
            each.error = error
        if looks_again:
            self._unread.append(group)
            self._begun_count -= len(group)
        else:
            self._ended += group

    def _change(self, pending: PendingSet) -> Task:
        """Task: send a Set and prove it, if the attribute is still as it was read."""
        pending.error = None
        try:
            yield from self._steps.refresh(pending)
        except IbkeysError as error:
            if was_not_asked(error, pending):
                pending.set_error = error
                self._unsent.append(pending)
            else:
                self._end_set(pending, error)
            return
        proof: SetProof | None = yield from self._steps.set_and_prove(pending)
        if proof is None:
            self._unsent.append(pending)
        else:
            self._judge(pending, proof)

    def _judge(self, pending: PendingSet, proof: SetProof) -> None:
        """Decide by the proof whether a Set has ended, is asked about again, or is sent in its other form."""
        pending.is_silent, pending.error = proof.is_silent, proof.error
        if not proof.is_silent:
            self._answering.add(id(pending.target.port.node))
        elif was_not_asked(proof.error, pending) and not pending.was_asked_again:
            pending.was_asked_again = True  # the node did not answer another Get: the port is asked after this run
            self._unproven.append(pending)
            return
        elif self._asks_silent_again and not pending.was_asked_again:
            pending.was_asked_again = True
            self._silent.append(pending)
            self._begun_count -= 1
            self._note_failure(pending)
            return
        if isinstance(pending.set_error, MadStatusError) and proof.error is not None and proof.changed_nothing:
            image = pending.edit.fallback(pending.after)
            if image is not None:
                pending.after = image
                self._ready.append(pending)
                return
        self._end_set(pending, proof.error)

    def _prove_again(self, pending: PendingSet) -> Task:
        """Task: read a port again that did not answer after its Set, and judge the Set, or send it again if it provably
        never arrived."""
        try:
            yield from self._steps.check_links(pending.target)
        except IbkeysError as error:
            error.step = "it did not answer after its Set, and then"
            self._end_set(pending, error)
            return
        proof = yield from pending.edit.prove(self._client, pending)
        if not proof.never_arrived or self.is_stopped:
            self._judge(pending, proof)
        else:
            yield from self._change(pending)

    def _end_set(self, ended: PendingSet, error: IbkeysError | None = None) -> None:
        ended.error = error
        self._ended.append(ended)
        if error is not None:
            self._note_failure(ended)

    def _note_failure(self, pending: PendingSet) -> None:
        if not pending.has_failed:
            pending.has_failed = True
            self._hooks.note_failure(pending)


def _image(pending: PendingSet) -> Image:
    edit = pending.edit
    before, after = edit.without_secrets(pending.before), edit.without_secrets(pending.after)
    return image_of(pending.target.port, edit.name, edit.modifier, before, after, edit.key_name)

"""The engine that makes all changes: read, journal, Set, verify, on many ports at once. One port is a batch of one.

Each port passes these steps in its own task, and no port waits for another:

1. each attribute is read right before its Set, which is made of what was read;
2. what is overwritten goes into the journal, and a new M_Key before that into the key store; both are on disk;
3. the Set is sent once;
4. the edit proves it by what it reads back. A missing reply to a Set proves nothing: only what is read back counts.

One sync covers all ports that reached step 2 or the end of step 4 since the last one; other ports continue in the
meantime.
If a sync fails, no further Set is begun, and Sets already sent are still verified.

A Set is sent again only if it provably never arrived and the edit allows it, or if the agent refused it, applied
nothing, and the edit has a fallback form. A Set that was not sent because its node missed a Get is sent when the node
answers again.

SMPs: for each Set two Gets; a look at the links on the way where M_Keys go over them; one NodeInfo for each port, where
the arrival is checked; of an external port whose PortInfo is set also that of port 0, which shows the M_Key. What is
older than a second when its Set is handed to the scheduler is read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

from ibkeys.change.consent import Objection
from ibkeys.change.images import image_of
from ibkeys.change.pending_set import PendingSet, Proof
from ibkeys.change.target import Target
from ibkeys.change.writer import Writer
from ibkeys.client.request import Request
from ibkeys.client.smp import Task
from ibkeys.errors import IbkeysError, MadStatusError, NoReply, SendRefused, StoreError, Unreachable
from ibkeys.mad.attributes import Attribute, NodeInfo, PortInfo
from ibkeys.mad.const import Method
from ibkeys.store.journal import Entry, Image, Operation
from ibkeys.topology.nodes import Port

IN_CHANGE: Final = 256
"""Most Sets that are in change at once, unless the command says otherwise."""
WORTH_A_SYNC: Final = 64
"""So many Sets that wait for a sync do not wait for others that are about to."""
FRESH: Final = 1.0
"""Seconds that a read may be old when the Set that is built on it is handed to the scheduler."""

Item = TypeVar("Item")


class EngineHooks:
    """What a command adds to the engine; nothing by default."""

    def check(self) -> None:
        """Called often; raises to stop: no further Set is begun, and what was sent is still proven."""

    def keep(self, ended: Sequence[PendingSet], ready: Sequence[PendingSet]) -> None:
        """Write the records to disk that must be there before *ready* are sent, and after *ended*. Raises
        StoreError."""

    def failed(self, each: PendingSet) -> None:
        """Called once when a port did not answer or could not be changed; it may still be tried again."""

    def ended(self, each: PendingSet, not_noted: StoreError | None) -> None:
        """Called with the outcome for a Set; *not_noted*: why the outcome is not on disk, None if it is."""


class Engine:
    """Makes the changes of one operation of the journal.

    *in_change*: most Sets that are begun and not ended. *checks_arrival*: NodeInfo is read before the first Set of each
    port, so that a cable that moved in the meantime is noticed. *looks_twice*: a port that does not answer a read, or
    falls silent after its Set, is asked again when all others are finished: what was lost for them may be over.
    """

    def __init__(
        self,
        writer: Writer,
        operation: Operation,
        hooks: EngineHooks | None = None,
        *,
        in_change: int = IN_CHANGE,
        checks_arrival: bool = True,
        looks_twice: bool = False,
    ) -> None:
        self._writer = writer
        self._client = writer.fabric.client
        self._operation = operation
        self._hooks = hooks or EngineHooks()
        self._most = in_change
        self._checks_arrival = checks_arrival
        self._looks_twice = looks_twice
        self._queue: deque[list[PendingSet]] = deque()
        self._in_change = 0
        self._ready: list[PendingSet] = []
        self._ended: list[PendingSet] = []
        self._unread: list[list[PendingSet]] = []
        self._silent: list[PendingSet] = []
        self._unasked: list[tuple[list[PendingSet], NoReply]] = []
        self._unsent: list[PendingSet] = []
        self._unproven: list[PendingSet] = []
        self._answering: set[int] = set()
        self._problem: BaseException | None = None
        self.is_stopped = False

    def make(self, sets: Iterable[PendingSet]) -> None:
        """Make *sets* and prove them. What became of each is in its ``error`` and in the journal.

        Raises StoreError and what the hooks raised, after all that was sent was proven; and TransportError.
        """
        by_port: dict[int, list[PendingSet]] = {}
        for each in sets:
            by_port.setdefault(id(each.target.port), []).append(each)
        self._queue.extend(by_port.values())
        # One look at the links that many ports share, instead of one for each port that begins at the same time.
        self._writer.changed_links([group[0].target.port for group in islice(self._queue, self._most)], FRESH)
        self._run(())
        while self._silent or self._unread:
            self._ask_again()
        if self._problem is not None:
            raise self._problem

    def make_one(self, single: PendingSet) -> None:
        """Make one Set, and prove it. Raises what went wrong: Refused, NotStored, NoReply, MadStatusError, SendRefused,
        Unreachable, MKeyNeeded, StoreError."""
        self.make([single])
        if single.error is not None:
            raise single.error

    def stop(self, error: BaseException | None = None) -> None:
        """Begin no further Set; what was sent is still proven. *error* is raised at the end."""
        self.is_stopped = True
        self._problem = self._problem or error

    def _run(self, tasks: Iterable[Task]) -> None:
        self._client.run(tasks, self._between)
        while self._is_unfinished:
            self._client.run(self._send_again(), self._between)

    @property
    def _is_unfinished(self) -> bool:
        waits = self._ended or self._ready or self._unasked or self._unsent or self._unproven
        return bool(waits or (self._queue and not self.is_stopped))

    def _send_again(self) -> list[Task]:
        """Return the tasks of Sets that were never sent and whose node has answered since."""
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
                self._end(each, each.answer)
        return tasks

    def _ask_again(self) -> None:
        """Ask those again who did not answer; each of them once."""
        unread, self._unread = self._unread, []
        for group in unread:
            if self.is_stopped:
                self._in_change += len(group)
                self._ended += group
            else:
                self._queue.append(group)
        silent, self._silent = self._silent, []
        for first in range(0, max(1, len(silent)), self._most):
            some = silent[first : first + self._most]
            self._in_change += len(some)
            self._run([self._prove_again(each) for each in some])

    # --- what is done between the arrival of replies and the next SMPs -----------------------------------------------

    def _between(self) -> None:
        try:
            self._hooks.check()
        except (KeyboardInterrupt, IbkeysError) as error:
            self.stop(error)
        self._commit()
        while self._queue and self._in_change < self._most and not self.is_stopped:
            group = self._queue.popleft()
            self._in_change += len(group)
            self._client.start(self._read(group))

    def _commit(self) -> None:
        """Put on disk what has ended and what is about to be set, with one sync; then let the Sets go."""
        waiting = len(self._ended) + len(self._ready)
        if waiting < min(WORTH_A_SYNC, self._client.moving) and not self.is_stopped:
            return  # more are about to come than wait
        ended, self._ended = self._ended, []
        ready, self._ready = self._ready, []
        self._in_change -= len(ended)
        if self.is_stopped:
            self._in_change -= len(ready)
            ended += [each for each in ready if each.sent]  # refused, and not sent in its other form any more
            ready = []
        if not ended and not ready:
            return
        not_noted = None
        try:
            self._hooks.keep(ended, ready)
            self._record(ended, ready)
        except StoreError as error:
            not_noted = error
            self.stop(error)
            self._in_change -= len(ready)
            ended += [each for each in ready if each.sent]
            ready = []
        for each in ended:
            try:
                self._hooks.ended(each, not_noted)
            except Exception as error:  # the listener may be gone, but Sets that were sent must still be verified
                self.stop(error)
        for each in ready:
            self._client.start(self._change(each))

    def _record(self, ended: Sequence[PendingSet], ready: Sequence[PendingSet]) -> None:
        done: list[Entry] = []
        failed: list[Entry] = []
        for each in ended:
            failed += each.entries[:-1]
            (failed if each.error is not None else done).extend(each.entries[-1:])
        recorded = self._operation.record_all([_image(each) for each in ready], done, failed)
        for each, entry in zip(ready, recorded, strict=True):
            each.entries.append(entry)

    # --- the steps of one port ---------------------------------------------------------------------------------------

    def _read(self, group: list[PendingSet]) -> Task:
        """Task: read the attributes of one port that are to be set, and build what is sent."""
        target = group[0].target
        for each in group:
            each.error = None
        try:
            yield from self._look(target)
            if self._checks_arrival:
                arrival = yield self._request(group[0], NodeInfo, 0)
                target.handle.judge_arrival(NodeInfo(arrival))
            if target.port.is_external and any(each.edit.attribute is PortInfo for each in group):
                target.port.end_port.info = yield self._request(group[0], PortInfo, 0)  # the M_Key is there
            for each in group:
                each.before = yield self._get(each)
                each.read_at = self._now()
                each.after = each.edit.build(each.before)
        except IbkeysError as error:
            if isinstance(error, NoReply) and _was_not_asked(error, group[0]):
                self._unasked.append((group, error))
            else:
                self._not_read(group, error)
            return
        for each in group:
            (self._ready if each.before != each.after else self._ended).append(each)

    def _not_read(self, group: list[PendingSet], error: IbkeysError) -> None:
        looks_again = self._looks_twice and isinstance(error, NoReply) and not group[0].has_failed
        for each in group:
            self._note_failure(each)
            each.error = error
        if looks_again:
            self._unread.append(group)
            self._in_change -= len(group)
        else:
            self._ended += group

    def _look(self, target: Target) -> Task:
        """Task: look at the links to a port again where that is a second ago: M_Keys go over them.

        Raises Unreachable if one changed, NoReply if it could not be examined.
        """
        writer = self._writer
        why = (yield from writer.fabric.look_at_way(target.port)) if writer.looks_at_links else ""
        if why:
            text = f"{target.port}: the route to it changed since it was read ({why}); nothing was sent to it"
            raise Unreachable(text) if writer.fabric.has_changed(target.port) else NoReply(text)

    def _change(self, each: PendingSet) -> Task:
        """Task: set and prove; set again only where a read proved that the Set never arrived."""
        edit = each.edit
        each.error = None
        try:
            yield from self._refresh(each)
        except IbkeysError as error:
            if _was_not_asked(error, each):
                each.answer = error
                self._unsent.append(each)
            else:
                self._end(each, error)
            return
        proof = Proof()
        for _ in range(edit.at_most):
            each.answer = yield from self._set(each)
            if isinstance(each.answer, NoReply) and not each.answer.attempts:
                self._unsent.append(each)
                return
            each.sent += 1
            proof = yield from edit.prove(self._client, each)
            if not proof.never_arrived:
                break
            each.read_at = self._now()
        self._judge(each, proof)

    def _refresh(self, each: PendingSet) -> Task:
        """Task: read again what was read too long ago. Raises Refused (``stale``), and what `_look` raises."""
        if self._now() - each.read_at <= FRESH:
            return
        yield from self._look(each.target)
        now: bytes = yield self._get(each)
        each.read_at = self._now()
        if each.edit.changed_meanwhile(each.before, now):
            message = f"{each.target.port}: {each.edit.name} changed since it was read"
            raise Objection("stale", f"{message}; somebody else is writing this port").refusal()

    def _set(self, each: PendingSet) -> Task:
        """Task: send the Set once; return the error that came in answer to it, or None.

        An agent may apply a Set and still complain: what is read back decides.
        """
        edit, target = each.edit, each.target
        try:
            yield self._client.request(
                Method.SET,
                edit.attribute,
                edit.modifier,
                target.handle.route,
                node=_asked(each),
                m_key=target.m_key,
                data=each.after,
                retries=0,
            )
        except (NoReply, MadStatusError, SendRefused) as error:
            return error
        return None

    def _judge(self, each: PendingSet, proof: Proof) -> None:
        each.is_silent, each.error = proof.is_silent, proof.error
        if not proof.is_silent:
            self._answering.add(id(each.target.port.node))
        elif _was_not_asked(proof.error, each) and not each.was_asked_again:
            each.was_asked_again = True  # its node did not answer another Get: it is asked when that run is over
            self._unproven.append(each)
            return
        elif self._looks_twice and not each.was_asked_again:
            each.was_asked_again = True
            self._silent.append(each)
            self._in_change -= 1
            self._note_failure(each)
            return
        if isinstance(each.answer, MadStatusError) and proof.error is not None and proof.changed_nothing:
            image = each.edit.fallback(each.after)
            if image is not None:
                each.after = image
                self._ready.append(each)
                return
        self._end(each, proof.error)

    def _prove_again(self, each: PendingSet) -> Task:
        """Task: ask a port again that fell silent after its Set."""
        try:
            yield from self._look(each.target)
        except IbkeysError as error:
            self._end(each, type(error)(f"it did not answer after its Set, and then: {error}"))
            return
        proof = yield from each.edit.prove(self._client, each)
        if not proof.never_arrived or self.is_stopped:
            self._judge(each, proof)
        else:
            yield from self._change(each)

    def _end(self, each: PendingSet, error: IbkeysError | None = None) -> None:
        each.error = error
        self._ended.append(each)
        if error is not None:
            self._note_failure(each)

    def _note_failure(self, each: PendingSet) -> None:
        if not each.has_failed:
            each.has_failed = True
            self._hooks.failed(each)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _get(self, each: PendingSet) -> Request:
        return self._request(each, each.edit.attribute, each.edit.modifier)

    def _request(self, each: PendingSet, attribute: type[Attribute], modifier: int) -> Request:
        target = each.target
        route = target.handle.route
        return self._client.request(Method.GET, attribute, modifier, route, node=_asked(each), m_key=target.m_key)

    def _now(self) -> float:
        return self._writer.fabric.umad.now()


def _was_not_asked(error: IbkeysError | None, each: PendingSet) -> bool:
    """Whether an SMP was not sent because its node did not answer another one before."""
    return isinstance(error, NoReply) and not error.attempts and not each.edit.is_alone


def _asked(each: PendingSet) -> object:
    """Return the name under which the scheduler knows who is asked: one that stands alone has a name of its own."""
    return object() if each.edit.is_alone else each.target.port.node


def _image(each: PendingSet) -> Image:
    edit = each.edit
    before, after = edit.kept(each.before), edit.kept(each.after)
    return image_of(each.target.port, edit.name, edit.modifier, before, after, edit.key_ref)


def in_order(items: Iterable[tuple[Item, int]]) -> Iterator[list[Item]]:
    """Divide *items*, each with its rank (`rank_of`), into one list for each rank, lower ranks first."""
    by_rank: dict[int, list[Item]] = {}
    for item, rank in items:
        by_rank.setdefault(rank, []).append(item)
    for rank in sorted(by_rank):
        yield by_rank[rank]


def rank_of(writer: Writer, port: Port) -> int:
    """Return 2 for the local port and its leaf port, 1 for those of the SM, 0 for every other: the order of writing, so
    that the tool can still back out while they work as before.
    """
    return max(_rank(writer, each) for each in (port, port.peer) if each is port or (each and each.is_end_port))


def _rank(writer: Writer, port: Port) -> int:
    return 2 if port.port_guid == writer.fabric.own_guid else int(writer.holds_sm(port))

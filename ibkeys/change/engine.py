"""The engine that makes changes: read, journal, Set, prove, on many ports at once. One port is a batch of one.

A batch goes through four rounds: each attribute is read (and NodeInfo once for each port, so that a cable that moved
meanwhile is noticed), what is overwritten goes into the journal with one sync, each Set is sent once, each attribute is
read back. Silence after a Set means nothing: only what is read back counts. A Set is sent again only where it provably
never left, or where the agent refused it and took nothing, and the edit has another form of it.

SMPs: for each Set two Gets, and one NodeInfo for each port of a batch; of an external port whose PortInfo is set also
that of port 0, which shows the M_Key. What is older than a second when its Set is due
is read once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from ibkeys.change.consent import Objection
from ibkeys.change.edits import Edit
from ibkeys.change.target import Target
from ibkeys.change.writer import Writer, image_of
from ibkeys.client.scheduler import Request
from ibkeys.client.smp import Task
from ibkeys.errors import IbkeysError, MadStatusError, NoReply, NotStored, SendRefused, Unreachable
from ibkeys.mad.attributes import Attribute, NodeInfo, PortInfo
from ibkeys.mad.const import Method
from ibkeys.store.journal import Entry
from ibkeys.topology.model import Port

BATCH: Final = 256
"""Most Sets between two syncs of the journal."""
FRESH: Final = 1.0
"""Seconds that a read may be old when the Set that is built on it leaves."""

Item = TypeVar("Item")


class PendingSet:
    """One edit of one port on its way.

    ``before``: the attribute as it was read; ``after``: what is sent. ``error``: why it is not made, None when it is
    proven. ``answer``: the error that came in answer to the Set. ``unsent``: the Set never left, because its node was
    silent before.
    """

    __slots__ = ("after", "answer", "before", "edit", "entry", "error", "read_at", "target", "unsent")

    def __init__(self, target: Target, edit: Edit) -> None:
        self.target = target
        self.edit = edit
        self.before = b""
        self.after = b""
        self.read_at = 0.0
        self.entry: Entry | None = None
        self.answer: IbkeysError | None = None
        self.error: IbkeysError | None = None
        self.unsent = False

    @property
    def needs_set(self) -> bool:
        """Whether what was read differs from what is wanted."""
        return self.error is None and self.before != self.after

    def __str__(self) -> str:
        return f"{self.target.port}: Set({self.edit.name}, modifier 0x{self.edit.modifier:x})"


class Engine:
    """Makes the changes of one command; used while the writer's operation of the journal is open."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._client = writer.fabric.client

    def make(self, batch: Sequence[PendingSet]) -> None:
        """Make a batch, and prove it. What became of each Set is in its ``error`` and in the journal.

        Raises StoreError before anything was sent, or after all that was sent was proven.
        """
        self._leave_out_changed(batch)
        by_port: dict[int, list[PendingSet]] = {}
        for each in batch:
            if each.error is None:
                by_port.setdefault(id(each.target.port), []).append(each)
        self._client.run([self._read(group) for group in by_port.values()])
        due = [each for each in batch if each.needs_set]
        self._record(due)
        self._send(due)
        refused = [each for each in due if isinstance(each.answer, MadStatusError) and each.error is not None]
        again = [(each, image) for each in refused if (image := each.edit.instead(each.after)) is not None]
        if again:
            self._settle([each for each, _ in again])
            for each, image in again:
                each.after, each.answer, each.error = image, None, None
            self._record([each for each, _ in again])
            self._send([each for each, _ in again])
        self._settle(batch)

    def make_one(self, single: PendingSet) -> None:
        """Make one Set, and prove it. Raises what went wrong: Refused, NotStored, NoReply, MadStatusError, SendRefused,
        Unreachable, StoreError."""
        self.make([single])
        if single.error is not None:
            raise single.error

    def _leave_out_changed(self, batch: Iterable[PendingSet]) -> None:
        """Look at the links of a batch's ports again where that is a second ago: keys go over them."""
        ports = dict.fromkeys(each.target.port for each in batch)
        changed = self._writer.changed_links(ports, FRESH)
        for each in batch:
            if why := changed.get(each.target.port):
                each.error = Unreachable(
                    f"{each.target.port}: the way to it changed since it was read ({why}); nothing was sent to it"
                )

    # --- reading ---------------------------------------------------------------------------------------------------

    def _read(self, group: Sequence[PendingSet]) -> Task:
        """Task: read the attributes of one port that are to be set, and build what is sent."""
        target = group[0].target
        try:
            yield from self._check_arrival(target)
            if target.port.is_external and any(each.edit.attribute is PortInfo for each in group):
                target.port.end_port.info = yield self._request(target, PortInfo, 0)  # the M_Key is there
            for each in group:
                each.before = yield self._get(each)
                each.read_at = self._now()
                each.after = each.edit.build(each.before)
        except IbkeysError as error:
            for each in group:
                each.error = error

    def _check_arrival(self, target: Target) -> Task:
        target.handle.judge_arrival(NodeInfo((yield self._request(target, NodeInfo, 0))))

    def _get(self, each: PendingSet) -> Request:
        return self._request(each.target, each.edit.attribute, each.edit.modifier)

    def _request(self, target: Target, attribute: type[Attribute], modifier: int) -> Request:
        handle, node = target.handle, target.port.node
        return self._client.request(Method.GET, attribute, modifier, handle.route, node=node, m_key=handle.m_key)

    # --- the journal -----------------------------------------------------------------------------------------------

    def _record(self, due: Sequence[PendingSet]) -> None:
        """Put what the Sets overwrite into the journal, with one sync; it is on disk when this returns."""
        images = [
            image_of(
                each.target.port,
                each.edit.name,
                each.edit.modifier,
                each.edit.kept(each.before),
                each.edit.kept(each.after),
            )
            for each in due
        ]
        if images:
            for each, entry in zip(due, self._writer.record_all(images), strict=True):
                each.entry = entry

    def _settle(self, batch: Iterable[PendingSet]) -> None:
        """Note in the journal what became of the Sets."""
        operation = self._writer.operation
        ended = [(each.entry, each.error is None) for each in batch if each.entry is not None]
        done = [entry for entry, is_proven in ended if is_proven]
        failed = [entry for entry, is_proven in ended if not is_proven]
        if done:
            operation.settle(done, "done")
        if failed:
            operation.settle(failed, "failed")

    # --- setting and proving ---------------------------------------------------------------------------------------

    def _send(self, due: Sequence[PendingSet]) -> None:
        """Send each Set once and prove it. Those that never left are sent when their node has answered another."""
        waiting = list(due)
        while waiting:
            self._client.run([self._set(each) for each in waiting])
            sent = [each for each in waiting if not each.unsent]
            self._client.run([self._prove(each) for each in sent])
            answering = {id(each.target.port.node) for each in sent if not isinstance(each.error, NoReply)}
            waiting = [each for each in waiting if each.unsent]
            for each in waiting:
                if id(each.target.port.node) not in answering:
                    each.unsent, each.error = False, each.answer
            waiting = [each for each in waiting if each.unsent]

    def _set(self, each: PendingSet) -> Task:
        each.unsent = False
        target, edit = each.target, each.edit
        try:
            if self._now() - each.read_at > FRESH:
                now: bytes = yield self._get(each)
                each.read_at = self._now()
                if edit.moved_on(each.before, now):
                    message = f"{target.port}: {edit.name} changed since it was read"
                    raise Objection("stale", f"{message}; somebody else writes this port").refusal()
        except IbkeysError as error:
            each.error = error
            return
        try:
            yield self._client.request(
                Method.SET,
                edit.attribute,
                edit.modifier,
                target.handle.route,
                node=target.port.node,
                m_key=target.m_key,
                data=each.after,
                retries=0,
            )
        except NoReply as error:
            each.answer, each.unsent = error, not error.attempts
        except (MadStatusError, SendRefused) as error:
            each.answer = error  # an agent may apply a Set and still complain: what is read back decides

    def _prove(self, each: PendingSet) -> Task:
        if each.error is not None:
            return
        try:
            stored: bytes = yield self._get(each)
        except IbkeysError as error:
            each.error = error
            return
        wrong = each.edit.wrong(each.before, each.after, stored)
        if wrong:
            if isinstance(each.answer, NoReply):
                each.error = NotStored(f"{each} was lost on its way: {wrong} ({each.answer})")
            else:
                each.error = each.answer or NotStored(f"{each} was accepted but not stored: {wrong}")

    def _now(self) -> float:
        return self._writer.fabric.umad.now()


def batches(items: Iterable[tuple[Item, int, int]], most: int = BATCH) -> Iterator[list[Item]]:
    """Divide *items*, each with its rank and the number of its Sets, into batches of at most *most* Sets: lower ranks
    first (`rank_of`), and never two ranks in one batch. An item with more Sets than that is a batch of its own."""
    waiting = list(items)
    for rank in sorted({rank for _, rank, _ in waiting}):
        batch: list[Item] = []
        size = 0
        for item, its_rank, sets in waiting:
            if its_rank != rank:
                continue
            if batch and size + sets > most:
                yield batch
                batch, size = [], 0
            batch.append(item)
            size += sets
        if batch:
            yield batch


def rank_of(writer: Writer, port: Port) -> int:
    """Return 2 for the own port and its leaf port, 1 for those of the SM, 0 for every other: the order of writing, so
    that the tool can still back out while they work as before."""
    return max(_rank(writer, each) for each in (port, port.peer) if each is port or (each and each.is_end_port))


def _rank(writer: Writer, port: Port) -> int:
    return 2 if port.port_guid == writer.fabric.local().port_guid else int(writer.holds_sm(port))

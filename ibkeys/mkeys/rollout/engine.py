"""Carrying out a run: many ports get their new M_Keys, each on its own way, none waiting for another.

Each port goes these steps, as a task of its own:

1. PortInfo is read again, and must be what was shown;
2. its new key and the one it has go into the key store, and what is overwritten into the journal; both are on disk;
3. one Set is sent, with the old key in its header;
4. its effect is proven by a Get with the new key. On silence the new key, then the old one is asked for, and only where
   the old one answers the Set is sent again;
5. the key store notes the new key as the current one.

Steps 2 and 5 are synced for all ports at once that have come to them since the last sync; ports in other steps go on
meanwhile. When a sync fails no further Set is begun, and what was sent is still proven.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ibkeys.change.edits import what_changed, wrong_fields
from ibkeys.change.engine import FRESH
from ibkeys.change.interrupts import Interrupts
from ibkeys.change.portinfo import set_image, with_valid_lids
from ibkeys.change.writer import Writer
from ibkeys.client.smp import Task
from ibkeys.errors import IbkeysError, MadStatusError, NoReply, SendRefused, StoreError
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import Method
from ibkeys.mkeys.key_setting import Answer, KeySetting, shown_key, who_answers
from ibkeys.mkeys.rollout.port_job import Job, journal_image, keep_key
from ibkeys.mkeys.rollout.result import Account, PortResult, Report
from ibkeys.store.journal import Entry
from ibkeys.store.keys.runs import PortState, RunOptions, Runs


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How a job ended: for the user, for the run's table, and which key the port was proven to have."""

    job: Job
    result: Literal["done", "failed"]
    state: PortState
    reason: str
    has: Literal["wanted", "old"] | None


class Rollout:
    """Carries out the jobs of one run; use it inside `Writer.apply`. What it does is counted in *account*.

    *interrupts* is asked between two syncs whether to stop: then no further port is begun.
    """

    def __init__(
        self,
        writer: Writer,
        run: int,
        options: RunOptions,
        report: Report,
        account: Account,
        interrupts: Interrupts,
    ) -> None:
        self._writer = writer
        self._client = writer.fabric.client
        self._store = writer.keystore
        self._runs = Runs(self._store)
        self._run = run
        self._options = options
        self._report = report
        self._interrupts = interrupts
        self._queue: deque[Job] = deque()
        self._in_change = 0
        self._ready: list[Job] = []
        self._ended: list[_Outcome] = []
        self._unread: list[tuple[Job, NoReply]] = []
        self._silent: list[Job] = []
        self._failures = 0
        self._error: BaseException | None = None
        self.account = account
        account.run = run

    def carry_out(self, stages: Iterable[Sequence[Job]], settled: Sequence[Job] = ()) -> None:
        """Change the ports of each stage, the next stage only when all of one are done with.

        *settled*: ports that were found to have what they shall have; only the store is told. Raises StoreError,
        KeyboardInterrupt, and what the listener (``report``) raised, after the ports in change were proven.
        """
        self._ended += [self._proven(job, "") for job in settled]
        self._in_change += len(self._ended)
        for stage in stages:
            if self.account.stopped:
                break
            self._queue.extend(stage)
            self._client.run((), self._between)
            self._look_again()
        self._commit()
        if self._error is not None:
            raise self._error

    def _look_again(self) -> None:
        """Ask those once more who fell silent: what was lost for the others may be over."""
        silent, self._silent = self._silent, []
        unread, self._unread = self._unread, []
        for job, error in unread:
            if self.account.stopped:
                self._in_change += 1
                self._end_unsent(job, f"nothing was sent to it: {error}")
            else:
                self._queue.append(job)
        self._client.run(map(self._ask_again, silent), self._between)

    # --- what is done between the arrival of replies and the next SMPs -----------------------------------------------

    def _between(self) -> None:
        try:
            self._interrupts.check()
        except KeyboardInterrupt as interrupt:
            self._stop(f"interrupted {interrupt}", interrupt)
        self._commit()
        while self._queue and self._in_change < self._options.at_once and not self.account.stopped:
            self._in_change += 1
            self._client.start(self._read(self._queue.popleft()))

    def _commit(self) -> None:
        """Put on disk what has ended and what is about to be set, with one sync of each store; then let the Sets go."""
        ended, self._ended = self._ended, []
        ready, self._ready = self._ready, []
        self._in_change -= len(ended)
        if self.account.stopped:
            self._in_change -= len(ready)
            ready = []
        if not ended and not ready:
            return
        try:
            with self._store.together():
                for outcome in ended:
                    self._note(outcome)
                for job in ready:
                    self._keep(job)
            self._journal(ended, ready)
        except StoreError as error:
            self._stop(f"{error}", error)
            self._in_change -= len(ready)
            ended = [_not_noted(outcome, error) for outcome in ended]
            ready = []
        for outcome in ended:
            if outcome.has == "wanted":
                outcome.job.port.m_key = outcome.job.wanted.key
                self._writer.fabric.ring.learn(outcome.job.port.port_guid, outcome.job.wanted.key)
            self._tell(PortResult(outcome.job.port.identity(), outcome.result, outcome.reason or None))
        for job in ready:
            self._client.start(self._change(job))

    def _keep(self, job: Job) -> None:
        keep_key(self._store, self._runs, self._run, job)
        self._runs.mark(self._run, job.sequence, "sent")

    def _note(self, outcome: _Outcome) -> None:
        job, store = outcome.job, self._store
        if outcome.has == "wanted":
            if job.ref is None and not job.goes_back:  # it was found to have this key already
                keep_key(store, self._runs, self._run, job)
            if job.ref is not None:
                store.promote(job.ref)
            if job.returns_from is not None and store.get(job.returns_from).state == "pending":
                store.abandon(job.returns_from, "the run went back")
        elif outcome.has == "old" and job.ref is not None and store.get(job.ref).state == "pending":
            store.abandon(job.ref, "its Set did not take effect")
        self._runs.mark(self._run, job.sequence, outcome.state, outcome.reason)

    def _journal(self, ended: Sequence[_Outcome], ready: Sequence[Job]) -> None:
        done: list[Entry] = []
        failed: list[Entry] = []
        for outcome in ended:
            entries = outcome.job.entries
            failed += entries[:-1]
            (done if outcome.result == "done" else failed).extend(entries[-1:])
        if not (ready or done or failed):
            return
        recorded = self._writer.record_all([journal_image(job) for job in ready], done, failed)
        for job, entry in zip(ready, recorded, strict=True):
            job.entries.append(entry)

    # --- the steps of one port ---------------------------------------------------------------------------------------

    def _read(self, job: Job) -> Task:
        """Task: read PortInfo right before the Set, and make the Set of it."""
        problem = yield from self._link_changed(job)
        if problem and not self._writer.fabric.has_changed(job.port):
            problem = NoReply(problem)  # the look was lost on its way
        elif not problem:
            problem = yield from self._read_again(job, job.shown)
        if isinstance(problem, NoReply) and not job.read_twice:
            job.read_twice = True
            self._unread.append((job, problem))
            self._in_change -= 1
            self._count_failure(job)
            return
        if problem:
            self._end_unsent(job, f"nothing was sent to it: {problem}")
            return
        key = shown_key(job.now)
        if key is None:
            key = job.old.key  # the sweep, which found no other way to it, asked with this one
            if not (key.is_zero and self._writer.fabric.ring.for_all == NO_MKEY):
                self._end_unsent(job, "nothing was sent to it: it hides its M_Key, which is another now")
                return
        job.old = KeySetting(key, job.now.m_key_protect_bits, job.now.m_key_lease_period)
        job.image = set_image(job.now, job.wanted.key, **job.wanted.fields())
        self._ready.append(job)

    def _link_changed(self, job: Job) -> Task:
        """Task: look at the links to a port again where that is a second ago: keys go over them. Return what changed,
        in words, "" for nothing."""
        why = yield from self._writer.fabric.look_at_way(job.port)
        return f"the way to it changed since it was read ({why}); nothing more was sent to it" if why else ""

    def _read_again(self, job: Job, before: PortInfo) -> Task:
        """Task: get PortInfo; return why there must be no Set: an error or words, "" when nothing speaks against it."""
        client, port = self._client, job.port
        request = client.request(
            Method.GET, PortInfo, port.num, job.route, node=("read", port.port_guid), m_key=job.old.key
        )
        try:
            job.now = PortInfo((yield request))
        except (NoReply, MadStatusError, SendRefused) as error:
            return error
        job.read_at = client.port.now()
        changed = what_changed(before, job.now)
        if changed and not self._writer.consent.covers("stale"):
            return f"PortInfo changed since it was shown ({changed}): interlock stale"
        return ""

    def _change(self, job: Job) -> Task:
        """Task: set once and prove it; set again only where the old key answered, so that the Set never arrived."""
        client = self._client
        if client.port.now() - job.read_at > FRESH:
            problem = (yield from self._link_changed(job)) or (yield from self._read_again(job, job.now))
            if problem:
                self._end(job, "failed", "failed", f"no Set was sent to it now: {problem}", has="old")
                return
        for _ in range(client.timing.retries + 1):
            error = yield from self._set(job)
            answer = yield from self._who_answers(job, replied=error is None)
            if self._is_settled(job, error, answer):
                return
        self._end(job, "failed", "failed", "Set(PortInfo) was lost on its way each time; its old M_Key stays", "old")

    def _set(self, job: Job) -> Task:
        """Task: send the Set, once. Returns the error that came of it, or None."""
        request = self._client.request(
            Method.SET,
            PortInfo,
            job.port.num,
            job.route,
            node=("set", object()),
            m_key=job.old.key,
            data=job.image.raw,
            retries=0,
        )
        try:
            yield request
        except (NoReply, MadStatusError, SendRefused) as error:
            return error
        return None

    def _who_answers(self, job: Job, replied: bool) -> Task:
        old, new = job.old.key, job.wanted.key
        return (yield from who_answers(self._client, job.route, job.port.num, old, new, replied, job.asked))

    def _is_settled(self, job: Job, error: IbkeysError | None, answer: Answer | None) -> bool:
        """Judge what a port answered after a Set. False: the Set never arrived, and may be sent again."""
        if answer is None:
            self._look_again_later(job)
            return True
        self.account.violations += answer.violations(job.asked)
        job.asked.clear()
        wrong = wrong_fields(answer.info, job.wanted.fields())
        if answer.key == job.wanted.key and not wrong:
            self.account.replies_lost += isinstance(error, NoReply)
            self._end_proven(job)
        elif answer.key not in (job.wanted.key, job.old.key):
            self._end(job, "failed", "failed", "it has an M_Key that is neither its old nor its new one")
        elif answer.key == job.wanted.key and not job.keeps_key:
            self._end(job, "failed", "failed", f"it has its new M_Key, but {wrong}", has="wanted")
        elif isinstance(error, NoReply):
            self.account.sets_lost += 1
            # What is sent again was made of another Get than this one: it says the same, but for what a Set leaves
            # alone.
            changed = what_changed(job.now, answer.info)
            if not changed:
                job.now, job.read_at = answer.info, self._client.port.now()
                return False
            self._end(job, "failed", "failed", f"the Set was lost, then PortInfo changed ({changed})", has="old")
        elif isinstance(error, MadStatusError) and with_valid_lids(job.image) != job.image:
            # An agent that no SM has configured refuses a Set with its own LID 0: ibportstate sends a stand-in too.
            job.image = with_valid_lids(job.image)
            self._ready.append(job)
        elif error is not None:
            self._end(job, "failed", "failed", f"{error}; its old M_Key stays", has="old")
        else:
            missing = "; ".join(filter(None, ("" if job.keeps_key else "M_Key is the old one", wrong)))
            self._end(job, "failed", "failed", f"Set(PortInfo) was accepted but not stored: {missing}", has="old")
        return True

    def _look_again_later(self, job: Job) -> None:
        if not job.asked_twice:
            job.asked_twice = True
            self._silent.append(job)
            self._in_change -= 1
            self._count_failure(job)
            return
        self.account.unresolved += 1
        self._end(
            job,
            "failed",
            "sent",
            "after the Set it answers neither to its new nor to its old M_Key: both are in the key store, and --resume "
            "asks again",
        )

    def _ask_again(self, job: Job) -> Task:
        """Task: ask a port once more that fell silent after its Set."""
        self._in_change += 1
        if why := (yield from self._link_changed(job)):
            self.account.unresolved += 1
            self._end(job, "failed", "sent", f"it was silent after its Set, then {why}; both keys are in the key store")
            return
        answer = yield from self._who_answers(job, replied=False)
        lost = NoReply("Set(PortInfo): no reply")
        if self._is_settled(job, lost, answer):
            return
        if self.account.stopped:
            self._end(job, "failed", "failed", "Set(PortInfo) was lost on its way; its old M_Key stays", has="old")
            return
        yield from self._change(job)

    # --- how it ends -------------------------------------------------------------------------------------------------

    def _proven(self, job: Job, reason: str) -> _Outcome:
        return _Outcome(job, "done", "undone" if job.goes_back else "done", reason, "wanted")

    def _end_proven(self, job: Job) -> None:
        self._ended.append(self._proven(job, ""))

    def _end(
        self,
        job: Job,
        result: Literal["done", "failed"],
        state: PortState,
        reason: str,
        has: Literal["wanted", "old"] | None = None,
    ) -> None:
        self._ended.append(_Outcome(job, result, state, reason, has))
        self._count_failure(job)

    def _end_unsent(self, job: Job, reason: str) -> None:
        """A port to which nothing was sent waits for another run. On the way back it has what the run gave it: it has
        not gone back, and must not pass for one that the run never came to."""
        self._end(job, "failed", "failed" if job.goes_back else "waiting", reason)

    def _count_failure(self, job: Job) -> None:
        if job.counted:
            return
        job.counted = True
        self._failures += 1
        if self._failures == self._options.max_failures:
            many = f"{self._failures} ports have" if self._failures > 1 else "1 port has"
            self._stop(f"{many} failed (--max-failures)")

    def _stop(self, why: str, error: BaseException | None = None) -> None:
        self.account.stopped = self.account.stopped or why
        self._error = self._error or error

    def _tell(self, result: PortResult) -> None:
        self.account.add(result)
        try:
            self._report(result)
        except Exception as error:  # whoever listens may be gone; the ports in change are still to be proven
            self._stop("the results could not be reported", error)


def _not_noted(outcome: _Outcome, error: StoreError) -> _Outcome:
    """What is to be said of a port whose outcome could not be stored."""
    if outcome.result == "failed":
        return outcome
    text = f"it has its new M_Key, which a Get proved, but that could not be noted: {error}; --resume notes it"
    return _Outcome(outcome.job, "failed", outcome.state, text, outcome.has)

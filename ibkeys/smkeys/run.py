"""One change of the keys: all new files are written first, then all replace the old ones within seconds.

A standby with another sm_key than the master takes over after its polling time, so everything slow or fallible is done
before the first rename. If something fails later, the files with the new keys get the former ones back within that
time. No OpenSM is stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from ibkeys.change.clock import REAL_TIME, Clock
from ibkeys.change.course import Course, Ended
from ibkeys.change.interrupts import ExplainedInterrupt
from ibkeys.change.runner import WAIT, Runner, Step, Verdict
from ibkeys.change.staged_files import FormerStagedFiles, StagedFiles
from ibkeys.change.through_sm import OpensmManagers
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError, Incomplete, StoreError
from ibkeys.keys.smkey import SMKey
from ibkeys.managers.files.journaled import remove_left_overs
from ibkeys.managers.files.listeners import close
from ibkeys.managers.opensm.edit import NewValue
from ibkeys.managers.site import Running
from ibkeys.printable import named
from ibkeys.smkeys.begun import KEPT_KEYS, closes, finishes
from ibkeys.smkeys.key_holders import SmKeyKind, keys_in
from ibkeys.smkeys.overtaken import keep_found, keys_of_others
from ibkeys.smkeys.proof import SeenKeys, SmKeyProof
from ibkeys.store.cut_off import close_cut_off
from ibkeys.store.journal import RunningOperation
from ibkeys.store.keystore.sm_keys import SmKeys

NEW: Final = "new SM keys"
FORMER: Final = "former SM keys"


@dataclass(slots=True)
class SmKeySettings:
    """The settings of a change. ``wait``: seconds without progress after which OpenSM is given up. ``check``: called
    often, raises to stop. ``say``: called with progress texts."""

    wait: float = WAIT
    clock: Clock = REAL_TIME
    check: Callable[[], None] = lambda: None
    say: Callable[[str], None] = lambda text: None


@dataclass(slots=True)
class SmKeyRun:
    """One run of a change of sm_key and sa_key. ``keys``: the keys of the key store, without those of other subnets;
    ``new``: the keys that all files get; ``former``: SA_Keys that must be refused afterwards; ``goes_on``: it resumes
    an interrupted change, so some files may have the new keys already. ``notes``: notes for the user at the end.
    """

    writer: ChangeWriter
    keys: SmKeys
    managers: OpensmManagers
    new: Mapping[SmKeyKind, SMKey]
    former: Sequence[SMKey]
    goes_on: bool
    operation: RunningOperation
    settings: SmKeySettings
    notes: list[str] = field(default_factory=list)
    _refs: list[int] = field(default_factory=list)
    _runner: Runner = field(init=False)
    _files: StagedFiles = field(init=False)
    _proof: SmKeyProof = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self._runner = Runner(self.operation, settings.clock, settings.wait)
        opensms = [each.running for each in self.managers.all]
        self._files = StagedFiles(
            self.writer,
            None,  # there may be several masters while they have different keys
            opensms[-1],
            opensms,
            self.managers.files,
            self._verify_options,
            settings.check,
            prepare=self._prepare,
            say=settings.say,
            window=min(self.managers.takeover_seconds, default=None),
            clock=settings.clock,
        )
        self._proof = SmKeyProof(self.writer, self.managers.sms, self.new, self._runner, settings.check)

    def make(self) -> None:
        """Make the change and prove it. Raises Incomplete if it was not completed; the original error if that came
        before the first file; ExplainedInterrupt.
        """
        self.settings.check()
        self._store_keys()
        try:
            course = Course([NEW], () if self.goes_on else [FORMER])  # going back would mix keys that are in force
            forth, *back = self._runner.follow(course, self._step)
        except KeyboardInterrupt as error:
            raise ExplainedInterrupt(f"{error}; {self._what_stands()}", self._again) from None
        if forth.error is not None:
            self._end_in_vain(forth.error, back)
        self._end_well()

    # --- before the first rename --------------------------------------------------------------------------------------

    def _store_keys(self) -> None:
        """Store the new keys in the key store, synced, then the operation in the journal, with their names and those of
        the current ones: both are on disk before any file gets them."""
        keys = self.keys
        with self.writer.keystore.in_one_transaction():
            for file in self.managers.files if not self.goes_on else ():
                keep_found(keys, file)
            known = {(row.kind, row.sm_key): row.ref for row in keys.rows() if row.state == "pending"}
            self._refs = [known.get((kind, key)) or keys.put_pending(kind, key) for kind, key in self.new.items()]
        names = keys.names()
        kept = [names[row.ref] for row in keys.outline() if row.ref in self._refs or row.state == "current"]
        self.operation.kept = {**(self.operation.kept or {}), KEPT_KEYS: kept}
        self.operation.journal.keep_options(self.operation.put_on_disk(), json.dumps(self.operation.kept))

    def _prepare(self) -> None:
        for file in self.managers.files:
            for each in file.opensms:
                self._close_log(each, file.user)
        self.notes += remove_left_overs(self.operation.journal, self.managers.files, self.writer.keystore)

    def _verify_options(self) -> None:
        for each in self.managers.all:
            each.running.verify_options()

    @property
    def _longest(self) -> float:
        """Seconds after which the last standby takes over from a master with another sm_key, 0 with one SM."""
        return max(self.managers.takeover_seconds, default=0.0)

    def _close_log(self, opensm: Running, user: int) -> None:
        log = opensm.instance.files["log"]
        if log.place is not None and log.fact is not None and close(opensm.machine, log.place, user):
            self.notes.append(
                f"{opensm.instance.name}: only its owner may read {log.path} from now on; if logrotate re-creates "
                "it, set the mode there (create 0600)"
            )

    # --- the change ---------------------------------------------------------------------------------------------------

    def _step(self, name: str) -> Step[Any, SeenKeys] | None:
        """Return how a step is made. Every OpenSM is signalled, even where the file had the keys already: it may not
        have been signalled."""
        if name == NEW:
            values: dict[str, NewValue] = {str(kind): key for kind, key in self.new.items()}
            files = self.managers.files
            contents = [(file, after) for file in files if (after := file.with_options(values)) != file.data]
            return Step(name, self._files, contents, self._proof, judge=self._judge)
        if not self._files.placed:
            return None
        self.settings.say("restoring the former keys")
        former = FormerStagedFiles(self._files, self._look_back)
        return Step(name, former, None, former, judge=lambda found: Verdict(not found.wrong))

    def _judge(self, found: SeenKeys) -> Verdict:
        """Raise Incomplete unless the new keys are in force, and the SMs know each other."""
        proof = self._proof
        if found.wrong:
            raise Incomplete(f"{found.wrong}; OpenSM was signalled twice")
        for key in self.former:
            self.settings.say("querying the SA with a former key, which it must ignore")
            if proof.is_trusted(key):
                raise Incomplete("the SA still answers to a former sa_key")
        if self._longest:
            self.settings.say(f"watching for at least {self._longest:g} s whether there is one master")
        if wrong := proof.until_steady(self._longest):
            raise Incomplete(wrong)
        return Verdict(is_proven=True)

    def _look_back(self) -> SeenKeys:
        """Check once whether the SMs accept each other again."""
        try:
            return SeenKeys(self._proof.until_steady(self._longest))
        except IbkeysError as error:
            return SeenKeys(str(error))

    # --- how it ended -------------------------------------------------------------------------------------------------

    def _end_well(self) -> None:
        journal, operation = self.operation.journal, self.operation.put_on_disk()
        with journal.in_one_transaction():
            for entry in journal.files(operation):  # also those of earlier starts
                if entry.status != "failed":
                    entry.done()
        # Before the keys: pending ones of an operation that is done are finished by the next change. An operation is
        # known as open by its pending keys: after them nothing would say that all is proven.
        journal.set_state(operation, "done")
        self.operation.keeps_state = True
        # Of those that were cut off the keys went with a lost key store, or are replaced now.
        files = {file.key for file in self.managers.files}
        close_cut_off(journal, (self.operation.command,), "undone", but=operation, files=files)
        with self.writer.keystore.in_one_transaction():
            for ref in self._refs:
                self.keys.promote(ref)

    def _end_in_vain(self, error: IbkeysError, back: Sequence[Ended[str]]) -> NoReturn:
        """Raise the error, with the state now. *back*: the result of the rollback, if there was one."""
        if not back:
            raise Incomplete(f"{error}").going_on(f"{self._what_stands()}: {self._way_on()}") from error
        if back[0].error is not None:
            left = f"the former keys could not be restored everywhere: {back[0].error}"
            raise Incomplete(f"{error}").going_on(f"{left}: {self._way_on()}") from error
        self._forget_keys()
        if not isinstance(back[0].found, SeenKeys):
            raise error  # no file had new keys
        raise Incomplete(f"{error}").going_on("every file has its former keys again", back[0].found.wrong) from error

    def _way_on(self) -> str:
        """Return, in words, the command that goes on. If another program or administrator has set other keys, this
        change can be neither resumed nor undone, and the command ends its record."""
        try:
            rows = self.keys.rows()
        except StoreError:  # the user must see the first error
            return self._again
        theirs = [file.name for file, _ in keys_of_others(self.managers.files, rows, self._refs)]
        if not theirs:
            return self._again
        close = closes(self.operation.put_on_disk())
        return f"another user or program has set keys in {named(theirs)}: `{close}` keeps what is there"

    @property
    def _again(self) -> str:
        """The command that finishes the change, in words."""
        return f"`{finishes(self.operation.put_on_disk())}` finishes it"

    def _forget_keys(self) -> None:
        """Give the new keys up, because no file has them, and note in the journal that the operation is undone."""
        with self.writer.keystore.in_one_transaction():
            for ref in self._refs:
                self.keys.abandon(ref, "its change was rolled back")
        self.operation.journal.set_state(self.operation.put_on_disk(), "undone")
        self.operation.keeps_state = True

    def _what_stands(self) -> str:
        files = {file.name: keys_in(file.data) == dict(self.new) for file in self.managers.files}
        has, rest = ([name for name, has_new in files.items() if has_new == wanted] for wanted in (True, False))
        if not has:
            return "no file has the new keys yet"
        return f"the new keys are in {named(has)}" + (f", and not in {named(rest)}" if rest else "")

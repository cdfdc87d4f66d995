"""One change of sm_key and sa_key: all new files are written first, then all replace the old ones within seconds.

A standby with another sm_key than the master takes over after its polling time. So every action that is slow or may
fail is done before the first rename. If an action fails later, the files with the new keys get the former keys back
within that time; a run that resumes an interrupted change leaves them as they are. No OpenSM is stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from ibkeys.change.clock import REAL_TIME, Clock
from ibkeys.change.course import Course, EndedStep
from ibkeys.change.interrupts import ExplainedInterrupt
from ibkeys.change.next_commands import close_command
from ibkeys.change.runner import WAIT, Runner, Step, Verdict
from ibkeys.change.staged_files import FormerStagedFiles, PlacedFile, StagedFiles
from ibkeys.change.through_sm import OpensmManagers
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError, Incomplete, StoreError
from ibkeys.keys.smkey import SMKey
from ibkeys.managers.files.journaled import remove_left_overs
from ibkeys.managers.files.listeners import remove_others_rights
from ibkeys.managers.opensm.edit import NewValue, with_options
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.managers.site import RunningOpensm
from ibkeys.printable import named
from ibkeys.smkeys.key_holders import DEFAULT, KINDS, SmKeyKind, keys_in
from ibkeys.smkeys.overtaken import files_with_foreign_keys, store_found_keys
from ibkeys.smkeys.proof import KeyCheck, SmKeyProof
from ibkeys.smkeys.recorded_changes import KEPT_DEFAULTS, KEPT_KEYS, finish_command
from ibkeys.store.cut_off_operations import close_cut_off
from ibkeys.store.journal import RunningOperation
from ibkeys.store.keystore.sm_keys import SmKeys

NEW: Final = "new SM keys"
FORMER: Final = "former SM keys"


@dataclass(slots=True)
class SmKeySettings:
    """The settings of a change. ``wait``: seconds without progress after which the change stops waiting for OpenSM.
    ``check``: called often, raises to stop. ``say``: called with progress texts."""

    wait: float = WAIT
    clock: Clock = REAL_TIME
    check: Callable[[], None] = lambda: None
    say: Callable[[str], None] = lambda text: None


@dataclass(slots=True)
class SmKeyRun:
    """One run of a change of sm_key and sa_key. ``keys``: the keys of the key store, without those of other subnets;
    ``new``: the keys that all options files get; ``former``: SA_Keys that the SA must refuse afterwards; ``goes_on``:
    whether the run resumes an interrupted change, so that some files may have the new keys already; ``notes``: notes
    for the user at the end.
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
    _former: FormerStagedFiles[KeyCheck] | None = field(init=False, default=None)
    _proof: SmKeyProof = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self._runner = Runner(self.operation, settings.clock, settings.wait)
        opensms = [each.running for each in self.managers.all]
        self._files = StagedFiles(
            self.writer,
            None,  # no check for one master: while the SMs have different keys, several may be master
            opensms[-1],
            opensms,
            self.managers.files,
            self._verify_options,
            settings.check,
            prepare=self._prepare,
            say=settings.say,
            takeover_seconds=min(self.managers.takeover_seconds, default=None),
            clock=settings.clock,
        )
        self._proof = SmKeyProof(self.writer, self.managers.sms, self.new, self._runner, settings.check)

    def make(self) -> None:
        """Make the change and prove it.

        Raises Incomplete if the change was not completed; the original error if it came before the first file was
        replaced, and no interrupted change is resumed; ExplainedInterrupt if the user interrupted it; StoreError.
        """
        self.settings.check()
        self._store_keys()
        try:
            # A resumed run does not go back: some OpenSMs may use the new keys already.
            course = Course([NEW], lambda failed: () if self.goes_on else [FORMER])
            forth, *back = self._runner.follow(course, self._step)
        except KeyboardInterrupt as error:
            raise ExplainedInterrupt(f"{error}; {self._describe_files()}", self._how_to_finish) from None
        if forth.error is not None:
            self._raise_failure(forth.error, back)
        self._complete()

    # --- before the first rename --------------------------------------------------------------------------------------

    def _store_keys(self) -> None:
        """Put the keys that the files have, except for a resumed change, and the new keys into the key store, then the
        operation into the journal, with the names of the new and of the current keys. Both are synced to disk before
        any file gets the new keys."""
        keys = self.keys
        with self.writer.keystore.in_one_transaction():
            for file in self.managers.files if not self.goes_on else ():
                store_found_keys(keys, file)
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
    def _longest_polling(self) -> float:
        """Seconds after which the last standby takes over from a master with another sm_key, 0 with one SM."""
        return max(self.managers.takeover_seconds, default=0.0)

    def _close_log(self, opensm: RunningOpensm, user: int) -> None:
        log = opensm.instance.files["log"]
        if log.place is not None and log.fact is not None and remove_others_rights(opensm.machine, log.place, user):
            self.notes.append(
                f"{opensm.instance.name}: only its owner may read {log.path} from now on; if logrotate re-creates "
                "it, set the mode there (create 0600)"
            )

    # --- the change ---------------------------------------------------------------------------------------------------

    def _step(self, name: str) -> Step[Any, KeyCheck] | None:
        """Return the step of this *name*; None for the rollback if no file was replaced. Every OpenSM is signalled,
        even if its file had the new keys already, because an interrupted run may not have signalled it."""
        if name == NEW:
            values: dict[str, NewValue] = {str(kind): key for kind, key in self.new.items()}
            files = self.managers.files
            contents = [(file, after) for file in files if (after := file.with_options(values)) != file.data]
            return Step(name, self._files, contents, self._proof, judge=self._judge)
        if not self._files.placed:
            return None
        self.settings.say("restoring the former keys")
        former = self._former = FormerStagedFiles(self._files, self._check_former)
        restored = [(each, _restored(each)) for each in reversed(self._files.placed)]
        return Step(name, former, restored, former, judge=lambda found: Verdict(not found.wrong))

    def _judge(self, found: KeyCheck) -> Verdict:
        """Return the verdict that the step is proven. Raises Incomplete unless the new keys are in force, the SA
        refuses the former ones, and one SM stays master."""
        proof = self._proof
        if found.wrong:
            raise Incomplete(f"{found.wrong}; OpenSM was signalled twice")
        for key in self.former:
            self.settings.say("querying the SA with a former key, which it must ignore")
            if proof.is_trusted(key):
                raise Incomplete("the SA still answers to a former sa_key")
        if self._longest_polling:
            self.settings.say(f"watching for at least {self._longest_polling:g} s whether there is one master")
        if wrong := proof.watch_until_steady(self._longest_polling):
            raise Incomplete(wrong)
        return Verdict(is_proven=True)

    def _check_former(self) -> KeyCheck:
        """Check whether one SM is the only master again after the former keys were restored."""
        try:
            return KeyCheck(self._proof.watch_until_steady(self._longest_polling))
        except IbkeysError as error:
            return KeyCheck(str(error))

    # --- how it ended -------------------------------------------------------------------------------------------------

    def _complete(self) -> None:
        """Note in the journal that the change is done, then in the key store that its keys are current."""
        journal, operation = self.operation.journal, self.operation.put_on_disk()
        with journal.in_one_transaction():
            for entry in journal.files(operation):  # also the entries of earlier starts
                if entry.status != "failed":
                    entry.done()
        # The journal comes first. If ibkeys is killed between the two, the next change promotes the pending keys of an
        # operation that is done. In the other order, an open operation without pending keys would be left, and nothing
        # would show that all of it was proven.
        journal.set_state(operation, "done")
        self.operation.keeps_state = True
        # Interrupted changes of the same files end too: their keys were lost with a key store, or are replaced now.
        files = {file.key for file in self.managers.files}
        close_cut_off(journal, (self.operation.command,), "undone", but=operation, files=files)
        with self.writer.keystore.in_one_transaction():
            for ref in self._refs:
                self.keys.promote(ref)

    def _raise_failure(self, error: IbkeysError, rollback: Sequence[EndedStep[str]]) -> NoReturn:
        """Raise the error that stopped the change, with the keys that the files have now, and the next command.
        *rollback*: the result of the rollback, empty if there was none."""
        if not rollback:
            raise Incomplete(f"{error}").going_on(f"{self._describe_files()}: {self._advise()}") from error
        if rollback[0].error is not None:
            state = "every file has its former keys again, but not every OpenSM could be signalled"
            if self._former is None or len(self._former.restored) < len(self._files.placed):
                state = "the former keys could not be restored everywhere"
            state += f": {rollback[0].error}"
            raise Incomplete(f"{error}").going_on(f"{state}: {self._advise()}") from error
        self._forget_keys()
        if not isinstance(rollback[0].last_look, KeyCheck):
            raise error  # no file had new keys
        state = "every file has its former keys again"
        if with_new_lines := [each.file.name for each in self._files.placed if _restored(each) != each.former]:
            state += f"; {named(with_new_lines)} got lines with OpenSM's default keys, because there were none before"
        raise Incomplete(f"{error}").going_on(state, rollback[0].last_look.wrong) from error

    def _advise(self) -> str:
        """Return, in words, the next command: it finishes the change. If another program or administrator has set other
        keys, this change can be neither resumed nor undone, and the command ends its record."""
        try:
            rows = self.keys.rows()
        except StoreError:  # the user must see the first error
            return self._how_to_finish
        defaults = (self.operation.kept or {}).get(KEPT_DEFAULTS, ())
        found = files_with_foreign_keys(self.managers.files, rows, self._refs, defaults)
        foreign = [file.name for file, _ in found]
        if not foreign:
            return self._how_to_finish
        close = close_command(self.operation.put_on_disk())
        return f"another user or program has set keys in {named(foreign)}: `{close}` keeps what is there"

    @property
    def _how_to_finish(self) -> str:
        """The command that finishes the change, in words."""
        return f"`{finish_command(self.operation.put_on_disk())}` finishes it"

    def _forget_keys(self) -> None:
        """Give the new keys up, because no file has them, and note in the journal that the operation is undone."""
        with self.writer.keystore.in_one_transaction():
            for ref in self._refs:
                self.keys.abandon(ref, "its change was rolled back")
        self.operation.journal.set_state(self.operation.put_on_disk(), "undone")
        self.operation.keeps_state = True

    def _describe_files(self) -> str:
        """Return, in words, which options files have the new keys."""
        is_new = {file.name: keys_in(file.data) == dict(self.new) for file in self.managers.files}
        new, former = ([name for name, is_one in is_new.items() if is_one == wanted] for wanted in (True, False))
        if not new:
            return "no file has the new keys yet"
        return f"the new keys are in {named(new)}" + (f", and not in {named(former)}" if former else "")


def _restored(placed: PlacedFile) -> bytes:
    """Return the contents of a file after the rollback: its former bytes, and a line with OpenSM's default for each key
    that had no line. OpenSM keeps the new key in force otherwise, because a SIGHUP changes only options that have a
    line. Source: opensm osm_subnet.c; a running OpenSM, observed."""
    lines = read_options(placed.former).values
    return with_options(placed.former, {kind: DEFAULT for kind in KINDS if kind not in lines})

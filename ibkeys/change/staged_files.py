"""Files of OpenSMs on all machines that are replaced together: all new ones are written first, beside the old ones.

Then each is put in place within a short time. If a later step fails, those that are in place are restored
(`FormerStagedFiles`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from ibkeys.change.clock import REAL_TIME, Clock
from ibkeys.change.opensm_files import NewFiles, OpensmFiles
from ibkeys.change.runner import AnyObservation, Proof, StepKind
from ibkeys.errors import FileChanged, FileError, IbkeysError, Incomplete
from ibkeys.host.replacing.staging import StagedFile
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.store.journal import FileEntry, RunningOperation


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file that has its new bytes. ``former``, ``after``: its bytes before and after."""

    file: OpensmFile
    former: bytes
    after: bytes | None
    entry: FileEntry


@dataclass(slots=True)
class StagedFiles(OpensmFiles):
    """Files of OpenSMs that are replaced together. ``say``: called with a progress text; ``takeover_seconds``: seconds
    after which a standby takes over from a master with another file, None without standbys; ``placed``: the files that
    have their new bytes. Until every OpenSM has read its file there may be several masters."""

    say: Callable[[str], None] = lambda text: None
    takeover_seconds: float | None = None
    clock: Clock = REAL_TIME
    placed: list[PlacedFile] = field(default_factory=list)

    def check(self) -> None:
        """Raise if the user asked to stop."""
        self.check_stop()

    def write(self, contents: NewFiles, operation: RunningOperation) -> list[FileEntry]:
        """Replace the files. Raises Incomplete if that takes too long, FileError, FileChanged, HostNotReached,
        StoreError, and the errors of `check` and `verify`."""
        self.prepare()
        with ExitStack() as stack:
            ready = [self._stage(stack, file, new, operation) for file, new in contents]
            self.check()
            self.verify()
            self._put(contents, ready)
        self.verify_options = lambda: None  # the options files are the new ones now, which `_put` has compared
        self.say("waiting until every OpenSM has read its file")
        return [each.entry for each in self.placed]

    def _stage(self, stack: ExitStack, file: OpensmFile, new: bytes | None, operation: RunningOperation) -> StagedFile:
        """Write a new file, complete and on disk, beside the old one, and return it; it exists until *stack* is
        closed."""
        assert new is not None  # no file is removed by this step
        self.say(f"writing beside {file.name}")
        kept = self.journal_contents_of(file)
        return stack.enter_context(file.machine.stage(operation, file.seen, new, conversions=kept, rights=file.rights))

    def _put(self, contents: NewFiles, ready: Sequence[StagedFile]) -> None:
        began = self.clock.now()
        for (file, after), staged in zip(contents, ready, strict=True):
            self._refuse_late(began)
            self.placed.append(PlacedFile(file, file.data, after, staged.entry))
            try:
                staged.put()
            except FileError as error:
                if not error.is_replaced:
                    self.placed.pop()
                raise
            file.read_again(after)
            for problem in file.find_blind_opensms(after):
                raise FileError(problem)
        self._refuse_late(began)

    def _refuse_late(self, began: float) -> None:
        """Raise Incomplete if half of ``takeover_seconds`` has passed since *began*, a time of the clock: the rollback
        needs the other half."""
        taken = self.clock.now() - began
        if self.takeover_seconds is not None and taken > self.takeover_seconds / 2:
            raise Incomplete(
                f"replacing the files took {taken:.1f} s, and a standby takes over after {self.takeover_seconds:g} s"
            )


Restoration = Sequence[tuple[PlacedFile, bytes]]
"""The files that are restored, and the bytes that each of them gets."""


@dataclass(slots=True)
class FormerStagedFiles(StepKind[Restoration], Proof[AnyObservation]):
    """The rollback of ``staged`` files: those in place are restored, and their OpenSMs are signalled. An error with one
    file does not stop the others. Neither the user nor a changed subnet manager stops it, because there is no better
    state to restore. ``look``: reads once, to prove the rollback, as in `Proof`; ``restored``: the files that were
    restored."""

    may_signal_again = False

    staged: StagedFiles
    look: Callable[[], AnyObservation]
    restored: list[OpensmFile] = field(default_factory=list)
    _problems: list[str] = field(default_factory=list)

    def write(self, contents: Restoration, operation: RunningOperation) -> list[FileEntry]:
        """Restore each file, and record that in its entry. A file that has its former bytes was never replaced, and
        stays."""
        for each, restored in contents:
            try:
                file = each.file
                file.seen = file.machine.look(file.path)
                if file.seen.data == each.former:
                    each.entry.failed()
                elif file.seen.data == each.after:
                    file.restore(operation, restored, each.entry, self.staged.journal_contents_of(file))
                else:
                    raise FileChanged(
                        f"{file.name}: another user or program changed it in the meantime; it is left unchanged"
                    )
                self.restored.append(file)
            except IbkeysError as error:
                self._problems.append(str(error))
        return []

    def signal_sm(self) -> None:
        """Signal the OpenSMs of the files that were restored. Raises Incomplete with the errors of files and
        signals."""
        for file in self.restored:
            try:
                for opensm in file.opensms:
                    opensm.machine.signal(opensm.instance.process)
            except IbkeysError as error:
                self._problems.append(str(error))
        if self._problems:
            raise Incomplete("; ".join(self._problems))

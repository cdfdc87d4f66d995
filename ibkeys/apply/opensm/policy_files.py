"""The policy files that a change replaces, step by step: those of the standbys first, the master's last. Each file
starts from its present bytes and gets the texts of the steps. In the rollback it gets the same texts in reverse order,
and at the end its own former bytes. A file with any other bytes is not overwritten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ibkeys.apply.carrier import Failed
from ibkeys.apply.opensm.guards import Guards
from ibkeys.change.opensm_files import NewFiles, OpensmFiles
from ibkeys.change.runner import StepKind
from ibkeys.errors import FileChanged, IbkeysError
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, difference
from ibkeys.managers.files.opensm_file import FileKey, OpensmFile
from ibkeys.managers.site import RunningOpensm
from ibkeys.store.journal import FileEntry, FileImage, RunningOperation

StepContents = tuple[bytes | None, ...]
"""The contents of a file before a change, and after each step of it; None: no file."""


@dataclass(slots=True)
class PolicyFiles(OpensmFiles):
    """The policy files of one change, while its policies are given to the master. ``guards``: the guards on other
    hosts."""

    guards: Guards = field(default_factory=Guards)

    def write(self, contents: NewFiles, operation: RunningOperation) -> list[FileEntry]:
        """Tell the guards the new contents, then write them as `OpensmFiles.write` does."""
        self.guards.announce({file.key: new for file, new in contents})
        return OpensmFiles.write(self, contents, operation)


@dataclass(frozen=True, slots=True)
class FormerFiles(StepKind[NewFiles]):
    """Restores the former policy files if the new ones are not confirmed in time or OpenSM does not accept them.
    ``master``: the OpenSM that is signalled; None if only standbys' files are restored: no OpenSM reads these before it
    becomes master.

    If one file cannot be restored, the others still are; the reason is added to ``failed``. Neither the user nor a
    changed subnet manager stops a restoration that has begun: there is no better state to restore, the files were
    compared before, and the signal goes to the process that was examined.
    """

    may_signal_again = True

    master: RunningOpensm | None
    failed: list[Failed]

    def write(self, contents: NewFiles, operation: RunningOperation) -> list[FileEntry]:
        """Restore the files that can be restored, and return the journal entries of those whose bytes changed. Raises
        the error of the last file, which is the master's."""
        entries: list[FileEntry | None] = []
        for file, former in contents:
            try:
                entries.append(file.put(operation, former))
            except IbkeysError as error:
                if file is contents[-1][0]:
                    raise
                self.failed.append((None, str(error)))
        return [entry for entry in entries if entry is not None]

    def signal_sm(self) -> None:
        """Signal the master to read its policy. Raises HostRefused, HostNotReached."""
        if self.master is not None:
            self.master.machine.signal(self.master.instance.process)


def digest_of(data: bytes | None) -> str:
    """Return the SHA-256 of the contents of a file; "" for no file."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def without_shared_files(files: Sequence[OpensmFile]) -> list[OpensmFile]:
    """Return *files*, the master's last, without files that are the master's own file on another host: both hosts mount
    the folder from one server. Inode number, time and bytes are the same then."""
    *standbys, master = files
    return [*(file for file in standbys if not _is_same(file, master)), master]


def _is_same(file: OpensmFile, master: OpensmFile) -> bool:
    one, other = file.seen.found, master.seen.found
    if one is None or other is None or file.machine.name == master.machine.name:
        return False
    return (one.inode, one.modified_ns, one.data) == (other.inode, other.modified_ns, other.data)


def step_contents_in(images: Iterable[FileImage]) -> dict[FileKey, StepContents]:
    """Return the contents of each file in an operation of the journal, before it and after each step."""
    step_contents: dict[FileKey, StepContents] = {}
    for image in images:
        step_contents[image.key] = (*step_contents.get(image.key, (image.before,)), image.after)
    return step_contents


def current_step(file: OpensmFile, contents: StepContents) -> int:
    """Return the number of the step whose contents a file has now; 0 for the contents from before the change.
    *contents*: its contents before the change, and after each step. If several steps have the same bytes, return the
    last of these. Raises FileChanged, with the difference, if the file has other bytes."""
    for number in range(len(contents) - 1, -1, -1):
        if contents[number] == file.seen.data:
            return number
    raise FileChanged(
        f"{file.name}: has been {'removed' if file.seen.data is None else 'changed'} since that operation wrote it, so "
        "it is left as it is; `ibkeys plan` makes a new plan that starts from the present state",
        difference(contents[-1], file.seen.data, WITHOUT_KEYS),
    )


def rollback_contents(
    files: Sequence[OpensmFile], step_contents: Mapping[FileKey, StepContents], at_once: bool
) -> list[dict[FileKey, bytes | None]]:
    """Return the contents of each file after each step of the rollback; no step if all files have their former
    contents. *at_once*: there is one step at most. Raises FileChanged."""
    levels = {file.key: current_step(file, step_contents[file.key]) for file in files}
    highest = max(levels.values(), default=0)
    numbers = [0] if at_once and highest else range(highest - 1, -1, -1)
    return [{key: step_contents[key][min(level, number)] for key, level in levels.items()} for number in numbers]

"""Files of OpenSMs that are replaced one after the other while they run; then OpenSM is signalled.

Before each signal, and before the first write of a step, the master must be the same process and still the one master.
The files must not have been changed by another program or administrator: each file is compared when it is replaced, and
all are compared before the signal. The master is never stopped. Source: opensm osm_state_mgr.c; a running OpenSM,
observed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ibkeys.change.writer import ChangeWriter
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, FileConversions
from ibkeys.managers.files.opensm_file import NotSeenByOpensm, OpensmFile
from ibkeys.managers.opensm.references import key_references
from ibkeys.managers.site import RunningOpensm, verify_master
from ibkeys.managers.subnet_managers import Manager
from ibkeys.store.journal import FileEntry, RunningOperation

NewFiles = Sequence[tuple[OpensmFile, bytes | None]]
"""The files in the order in which they are replaced, each with its new bytes; None removes the file."""


@dataclass(slots=True)
class OpensmFiles:
    """The OpenSMs of one change. ``manager``: the SM that has to stay the one master, None if there may be several;
    ``master``: its OpenSM; ``to_signal``: the OpenSMs that are signalled, the master last; ``files``: the files that
    they read, the master's last; ``verify_options``: raises if an options file is not as ibkeys left it;
    ``check_stop``: raises if the user asked to stop; ``advice``: advice to the user if the master has died;
    ``prepare``: called before the first file is written.
    """

    may_signal_again: ClassVar[bool] = True

    writer: ChangeWriter
    manager: Manager | None
    master: RunningOpensm
    to_signal: list[RunningOpensm]
    files: list[OpensmFile]
    verify_options: Callable[[], None]
    check_stop: Callable[[], None]
    advice: str = ""
    prepare: Callable[[], None] = lambda: None

    def check(self) -> None:
        """Raise if the user asked to stop, or if the master's process has ended and so cannot make progress."""
        self.check_stop()
        self.verify_process()

    def verify_process(self) -> None:
        """Check that the master's process is still there. Raises Refused (``stale``), HostNotReached."""
        self.master.verify_process(self.advice)

    def verify(self) -> None:
        """Check that each OpenSM is the same process, that the master is still the one master, and that the options
        files are as ibkeys left them.

        Raises Refused (``stale``), FileChanged, HostNotReached.
        """
        for each in self.to_signal:
            if each is not self.master:
                each.verify_process()
        self.verify_process()
        self.verify_options()
        if self.manager is not None:
            verify_master(self.writer.fabric, self.manager, self.writer.master_sm_lids)

    def write(self, contents: NewFiles, operation: RunningOperation) -> list[FileEntry]:
        """Replace the files; return the journal entries of those whose bytes changed.

        If an OpenSM does not see its new file, all of them are restored; after any other error the files that were
        written stay, with pending entries. Raises as `OpensmFile.put`.
        """
        self.prepare()
        written: list[tuple[OpensmFile, bytes | None, FileEntry]] = []
        for file, new in contents:
            former = file.seen.data
            try:
                entry = file.put(operation, new, self.journal_contents_of(file))
            except NotSeenByOpensm:
                for each, before, noted in reversed(written):
                    each.restore(operation, before, noted, self.journal_contents_of(each))
                raise
            if entry is not None:
                written.append((file, former, entry))
        return [entry for _, _, entry in written]

    def journal_contents_of(self, file: OpensmFile) -> FileConversions:
        """Return how the journal keeps the contents of a file: with references to the key store in place of keys."""
        return key_references(self.writer.keystore) if file.holds_keys else WITHOUT_KEYS

    def signal_sm(self) -> None:
        """Send SIGHUP to the processes that were examined, the master last, after a check that their files are as
        ibkeys left them. Raises as `verify`, and HostRefused."""
        self.verify()
        self.verify_files("OpenSM was not signalled to read it")
        for opensm in self.to_signal:
            opensm.machine.signal(opensm.instance.process)

    def verify_files(self, otherwise: str) -> None:
        """Raise FileChanged if another program or administrator has changed a file. *otherwise*: in words, the step
        that was not done because of it."""
        for file in self.files:
            file.verify(otherwise)

"""Files of OpenSMs that are replaced one after the other while they run; then OpenSM is signalled.

Before each signal, and before the first write of a step, the master must be the same process and still the one master,
and nobody else may have written the files: each is compared when it is replaced, and all before the signal. The master
is never stopped. Source: opensm osm_state_mgr.c; a running OpenSM, observed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ibkeys.change.writer import ChangeWriter
from ibkeys.host.replacing.contents import WITHOUT_KEYS, FileContents
from ibkeys.managers.files.opensm_file import NotSeenByOpensm, OpensmFile
from ibkeys.managers.opensm.references import key_references
from ibkeys.managers.site import Running, verify_master
from ibkeys.managers.subnet_managers import Manager
from ibkeys.store.journal import FileEntry, RunningOperation

NewFiles = Sequence[tuple[OpensmFile, bytes | None]]
"""Files in the order in which they are replaced, and what each gets; None: no file."""


@dataclass(slots=True)
class OpensmFiles:
    """The OpenSMs of one change. ``manager``: the SM that has to stay the one master, None where there may be several;
    ``master``: its OpenSM; ``told``: those that are signalled, the master last; ``files``: what they read, that of the
    master last; ``verify_options``: raises if the options files are not as they were left; ``asked_to_stop``: raises
    when the user did; ``advice``: what to do where the master has died; ``prepare``: called when all is as it was left,
    before the first file is written.
    """

    tells_again: ClassVar[bool] = True

    writer: ChangeWriter
    manager: Manager | None
    master: Running
    told: list[Running]
    files: list[OpensmFile]
    verify_options: Callable[[], None]
    asked_to_stop: Callable[[], None]
    advice: str = ""
    prepare: Callable[[], None] = lambda: None

    def check(self) -> None:
        """Raise when the user asked to stop, or when no OpenSM is left that could make progress."""
        self.asked_to_stop()
        self.verify_process()

    def verify_process(self) -> None:
        """Ask whether the master's process is still there. Raises Refused (``stale``), HostNotReached."""
        self.master.verify_process(self.advice)

    def verify(self) -> None:
        """Look again whether each is the same process, and the master still the one master, with its options file as
        it was left.

        Raises Refused (``stale``), FileChanged, HostNotReached.
        """
        for each in self.told:
            if each is not self.master:
                each.verify_process()
        self.verify_process()
        self.verify_options()
        if self.manager is not None:
            verify_master(self.writer.fabric, self.manager, self.writer.master_sm_lids)

    def write(self, contents: NewFiles, operation: RunningOperation) -> list[FileEntry]:
        """Replace the files; return the entries of those that held something else.

        Where an OpenSM does not see its new file, all of them are restored; after any other error those that were
        written stay, with pending entries. Raises as `OpensmFile.put`.
        """
        self.prepare()
        written: list[tuple[OpensmFile, bytes | None, FileEntry]] = []
        for file, new in contents:
            former = file.seen.data
            try:
                entry = file.put(operation, new, self.kept_of(file))
            except NotSeenByOpensm:
                for each, before, noted in reversed(written):
                    each.restore(operation, before, noted, self.kept_of(each))
                raise
            if entry is not None:
                written.append((file, former, entry))
        return [entry for _, _, entry in written]

    def kept_of(self, file: OpensmFile) -> FileContents:
        """Return what the journal keeps of a file: references to the key store in place of keys."""
        return key_references(self.writer.keystore) if file.holds_keys else WITHOUT_KEYS

    def tell(self) -> None:
        """Send SIGHUP to the very processes that were examined, the master last, while their files are as they were
        left. Raises as `verify`, and HostRefused."""
        self.verify()
        self.verify_files("OpenSM was not signalled to read it")
        for opensm in self.told:
            opensm.machine.signal(opensm.instance.process)

    def verify_files(self, otherwise: str) -> None:
        """Raise FileChanged if somebody else changed a file. *otherwise*: words for what was not done then."""
        for file in self.files:
            file.verify(otherwise)

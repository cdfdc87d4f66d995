"""Changing part_enforce: write the options files, send SIGHUP, and wait until the leaf ports enforce as wanted.

Source: opensm osm_pkey_mgr.c (pkey_mgr_enforce_partition), osm_subnet.c; a running OpenSM, observed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ibkeys.apply.survey import read_again
from ibkeys.change.clock import REAL_TIME, Clock
from ibkeys.change.course import Course
from ibkeys.change.interrupts import Interrupts
from ibkeys.change.opensm_files import OpensmFiles
from ibkeys.change.plan import Plan
from ibkeys.change.runner import ObservedPorts, OnStep, Proof, Runner, Step, Verdict
from ibkeys.change.target import PortTarget
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import NotStored
from ibkeys.harden.step import COMMAND
from ibkeys.managers.files.journaled import remove_left_overs
from ibkeys.managers.files.opensm_file import FileKey, OpensmFile
from ibkeys.managers.site import FoundSms
from ibkeys.partitions.opensm_tables import packed
from ibkeys.printable import counted, named
from ibkeys.store.journal import Journal, RunningOperation
from ibkeys.store.origin import Origin
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.port_id import PortId

ABORT: Final = "harden --abort"
"""The command in the journal for an undo by an earlier version of ibkeys."""
COMMANDS: Final = (COMMAND, ABORT)
"""The commands in the journal that begin a change of part_enforce: a hardening, and its undo by an earlier version."""
ENFORCE: Final = "part_enforce"
HARDENED: Final = "both"
"""The value that a hardening sets."""


@dataclass(slots=True)
class EnforcingPort:
    """A leaf port and its end port, which are read repeatedly. ``wanted``: the enforcement of the leaf port after the
    change."""

    leaf: PortTarget
    end: PortTarget
    wanted: Enforcement

    def difference(self) -> str:
        """Return how the leaf port differs from ``wanted``, or its table from that of the end port, in words; "" if
        there is no difference."""
        if self.leaf.enforcement != self.wanted:
            return f"enforcement is {self.leaf.enforcement} instead of {self.wanted}"
        enforces = self.wanted.inbound or self.wanted.outbound
        if enforces and {*self.leaf.table.values()} != {*packed(self.end.table)}:
            return "its P_Key table differs from that of the port behind it"
        return ""


@dataclass(frozen=True, slots=True)
class LeafPortsProof(Proof[ObservedPorts[PortId]]):
    """The proof that the leaf ports enforce as wanted. ``progress``: called with the number of leaf ports that enforce
    as wanted, and the number of all. A leaf port that does not answer is neither wrong nor known to enforce."""

    writer: ChangeWriter
    leaves: Sequence[EnforcingPort]
    progress: OnStep

    def look(self) -> ObservedPorts[PortId]:
        """Read all leaf ports and their end ports once, and compare them."""
        failed = read_again(self.writer, [target for leaf in self.leaves for target in (leaf.leaf, leaf.end)])
        seen = ObservedPorts[PortId]()
        for leaf in self.leaves:
            port = leaf.leaf.id
            if port.key in failed:
                seen.silent[port] = failed[port.key]
            elif difference := leaf.difference():
                seen.wrong[port] = difference
        self.progress("leaf ports enforce", len(self.leaves) - len(seen.wrong) - len(seen.silent), len(self.leaves))
        return seen


@dataclass(slots=True, kw_only=True)
class EnforcementPlan(Plan):
    """A change of part_enforce.

    ``files``: the options files of all OpenSMs, that of the master last; ``new``: the contents of each file after the
    change; ``leaves``: the leaf ports; ``words``: the changes, in words; ``wait``: seconds without progress after which
    OpenSM is signalled again; after as many more seconds the change stops waiting; ``say``: called with a text for each
    prepared file that could not be removed; ``silent``: the leaf ports that did not answer at the end, with the error.

    ``cut_off``: the number of the unfinished operation that this change continues, None for a new one; ``undoes``: the
    number of the operation that this change undoes; ``reverts``: the command of an unfinished change in the other
    direction, which ends with this one, or ""; ``ends``: the numbers of all operations that end with this one;
    ``kept``: the options of a new operation in the journal: the other hosts, and the ports that identify its subnet.
    """

    found_sms: FoundSms
    wait: float
    progress: OnStep
    say: Callable[[str], None]
    files: list[OpensmFile] = field(default_factory=list)
    new: dict[FileKey, bytes] = field(default_factory=dict)
    leaves: list[EnforcingPort] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    clock: Clock = REAL_TIME
    cut_off: int | None = None
    undoes: int | None = None
    reverts: str = ""
    ends: Sequence[int] = ()
    kept: Mapping[str, Any] = field(default_factory=dict)

    @property
    def changing(self) -> list[OpensmFile]:
        """The files to write."""
        return [file for file in self.files if self.new[file.key] != file.data]

    @property
    def pending(self) -> bool:
        """Whether a file has to be written, a leaf port differs, or an earlier change has not ended."""
        is_open = self.cut_off is not None or self.reverts != ""
        return is_open or bool(self.changing) or any(leaf.difference() for leaf in self.leaves)

    def begin(self, journal: Journal, origin: Origin) -> RunningOperation:
        """Return the operation of the change: an undo if ``undoes`` is set, else the interrupted operation, reopened,
        or a new one. Raises StoreError."""
        if self.undoes is not None:
            return journal.undo_of(self.undoes, origin)
        if self.cut_off is not None:
            return journal.reopen(self.cut_off, origin)
        return journal.operation(COMMAND, origin, self.kept, True)

    def perform(self, writer: ChangeWriter, operation: RunningOperation) -> None:
        """Replace the files, signal every OpenSM, and wait until the leaf ports enforce as wanted.

        Raises NotStored if leaf ports do not, although OpenSM was signalled again; Refused (``stale``) if the master or
        its file has changed; FileChanged, FileError, HostNotReached, StoreError.
        """
        with Interrupts() as interrupts:
            interrupts.check()
            kind = self._opensms(writer, operation, interrupts.check)
            contents = [(file, self.new[file.key]) for file in self.files]
            proof = LeafPortsProof(writer, self.leaves, self.progress)
            runner = Runner(operation, self.clock, self.wait)
            runner.run(Course([ENFORCE]), lambda name: Step(name, kind, contents, proof, judge=self.judge))
        for other in self.ends:
            if other != operation.id:
                operation.journal.set_state(other, "undone")
        operation.outcome = "done"

    def judge(self, found: ObservedPorts[PortId]) -> Verdict:
        """Return the verdict on the last look at the leaf ports, and note the silent ones."""
        self.silent = [f"{port}: {error}" for port, error in found.silent.items()]
        wrong = [f"{port}: {difference}" for port, difference in found.wrong.items()]
        if not wrong:
            return Verdict(is_proven=True)
        error = NotStored(
            f"{counted(len(wrong), 'leaf port')} did not follow part_enforce: OpenSM was signalled twice, and "
            f"{self.wait:g} s after each signal without any progress were waited for: {named(wrong)}; check its log"
        )
        return Verdict(is_proven=False, error=error)

    def _opensms(
        self, writer: ChangeWriter, operation: RunningOperation, check_stop: Callable[[], None]
    ) -> OpensmFiles:
        def clean_up() -> None:
            for text in remove_left_overs(operation.journal, self.files, writer.keystore):
                self.say(text)

        opensms = [opensm for file in self.files for opensm in file.opensms]
        verify = partial(self.files[-1].verify, "nothing more was done")
        return OpensmFiles(
            writer,
            self.found_sms.manager,
            self.found_sms.master,
            opensms,
            self.files,
            verify,
            check_stop,
            prepare=clean_up,
        )

"""Making the phases of a plan on the fabric: in which batches, what became of each port, and the proof at the end.

SMPs: what the engine sends for each Set (`ibkeys.change.engine`). A block that both gains and loses P_Keys is set
twice, once in each phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ibkeys.apply.survey import read_again
from ibkeys.change.edits import PKeyBlockEdit, PortInfoEdit
from ibkeys.change.engine import BATCH, Engine, PendingSet, batches, rank_of
from ibkeys.change.target import Target
from ibkeys.change.writer import Writer
from ibkeys.errors import IbkeysError, NotStored
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.plan.order import EnforcementStep, Phase, Step, write
from ibkeys.topology.port_id import PortKey

OnStep = Callable[[str, int, int], None]
"""Called with (phase, steps done, steps in all)."""


class Executor:
    """Makes phases on the fabric, one after the other. ``failed``: ports that could not be written, and why.

    *empties*: index → 0x8000 by port, where an empty entry was not 0. *check*: called between batches; it raises to
    stop. Used inside `Writer.apply`.
    """

    def __init__(
        self,
        writer: Writer,
        targets: Mapping[PortKey, Target],
        empties: Mapping[PortKey, Mapping[int, int]] | None = None,
        check: Callable[[], None] = lambda: None,
        progress: OnStep | None = None,
    ) -> None:
        self.writer = writer
        self.targets = targets
        self.failed: dict[PortKey, IbkeysError] = {}
        self.touched: dict[PortKey, Target] = {}
        self._empties = empties or {}
        self._check = check
        self._progress = progress
        self._engine = Engine(writer)
        self._tables = {key: target.table for key, target in targets.items()}
        self._bits: dict[PortKey, dict[str, int]] = {}

    def run(self, phases: Iterable[Phase]) -> Phase | None:
        """Make the phases; return the one that failed at some port, after which none was begun. None: all are made."""
        for phase in phases:
            done = 0
            for batch in self._batches(phase):
                self._check()
                sets = [each for step in batch if step.port.key not in self.failed for each in self._sets(step)]
                self._engine.make(sets)
                self._take(sets)
                done += len(batch)
                if self._progress:
                    self._progress(phase.name, done, len(phase.steps))
                if self.failed and phase.name == "swap":
                    return phase
            if self.failed:
                return phase
        return None

    def _batches(self, phase: Phase) -> Iterator[list[Step]]:
        """Divide a phase: the SM's port and the own port with their leaf ports come last, swaps go one by one."""
        sized = ((step, rank_of(self.writer, self.targets[step.port.key].port), sets_of(step)) for step in phase.steps)
        return batches(sized, 1 if phase.name == "swap" else BATCH)

    def _sets(self, step: Step) -> list[PendingSet]:
        target = self.targets[step.port.key]
        self.touched[step.port.key] = target
        if isinstance(step, EnforcementStep):
            bits = {"partition_enforcement_inbound": step.inbound, "partition_enforcement_outbound": step.outbound}
            changes = {name: int(value) for name, value in bits.items() if value is not None}
            takes_over = self.writer.consent.covers("stale")
            info = target.port.port_info
            shown = info.replace(**self._bits.get(step.port.key, {})) if info is not None else None
            return [PendingSet(target, PortInfoEdit(target, changes, shown, takes_over))]
        known = self._tables[step.port.key]
        empties = self._empties.get(step.port.key)
        return [PendingSet(target, PKeyBlockEdit(target, block, known, step.writes, empties)) for block in step.blocks]

    def _take(self, sets: Iterable[PendingSet]) -> None:
        """Keep what became of a batch: what each table and the bits of each port should be now, or why they are not."""
        for each in sets:
            key = each.target.id.key
            if each.error is not None:
                self.failed.setdefault(key, each.error)
            elif isinstance(each.edit, PKeyBlockEdit):
                write(self._tables[key], each.edit.writes)
            elif isinstance(each.edit, PortInfoEdit):
                self._bits.setdefault(key, {}).update(each.edit.changes)

    def prove(self) -> dict[PortKey, IbkeysError]:
        """Read every port that was touched afresh; return those that are not as they were left, and why.

        A port that failed before is not asked again.
        """
        targets = {key: target for key, target in self.touched.items() if key not in self.failed}
        wrong = read_again(self.writer, targets.values())
        for key, target in targets.items():
            if key not in wrong:
                problem = self._difference(target, self._tables[key], self._bits.get(key, {}))
                if problem:
                    wrong[key] = NotStored(f"{target.port}: read back in the end, {problem}")
        return wrong

    @staticmethod
    def _difference(target: Target, wanted: Mapping[int, PKey], bits: Mapping[str, int]) -> str:
        table, info = target.table, target.port.port_info
        parts = [
            f"index {index} is {table.get(index, 'empty')} instead of {wanted.get(index, 'empty')}"
            for index in sorted({*table, *wanted})
            if table.get(index) != wanted.get(index)
        ]
        parts += [
            f"{PortInfo.rows[name].name} is {getattr(info, name)} instead of {value}"
            for name, value in bits.items()
            if getattr(info, name) != value
        ]
        return "; ".join(parts[:4])


def sets_of(step: Step) -> int:
    """Return the number of Sets of a step."""
    return 1 if isinstance(step, EnforcementStep) else len(step.blocks)

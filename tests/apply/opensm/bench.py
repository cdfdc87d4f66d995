"""A place to apply and undo policies through a made-up OpenSM, with stores on disk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ibkeys.apply.apply import Permissions, plan_apply, plan_resume
from ibkeys.apply.apply_plan import ApplyHooks, ApplyPlan, FinishedApply
from ibkeys.apply.by_sm.course import CarrierSettings
from ibkeys.apply.closing import RecordEnding
from ibkeys.apply.confirm import confirm_or_go_back
from ibkeys.apply.undo import plan_undo
from ibkeys.change.consent import INTERLOCKS
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import HostRefused
from ibkeys.store.journal import Journal, OperationRecord
from tests.apply.opensm.madeup import MadeUpOpensm, valid
from tests.fabricsim import tool, writer

OLD = """Default=0x7fff, ipoib : ALL=limited, SELF=full ;
Red=0x10 : 0x2c903000a1021=full, 0x2c903000a1031=full ;
Blue=0x20 : 0x2c903000a1041=full, 0x2c903000a1051 ;
"""


GREEN = OLD.replace("Red=0x10", "Green=0x11")


MORE = OLD + "More=0x30 : ALL_CAS=full ;\n"


THEIRS = GREEN.encode() + b"Theirs=0x66 : ALL_CAS=full ;\n"
"""What somebody else made of GREEN."""


ALL = Permissions(removals=True)


def unconfirmed(run: FinishedApply) -> None:
    """Let the time for the confirmation of *run* pass, for `ApplyHooks.on_end`."""
    confirm_or_go_back(run, 0.0, lambda: 0.0, lambda _: False, lambda _: None)


class Bench:
    """One place to apply and undo, with stores on disk."""

    def __init__(self, opensm: MadeUpOpensm, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.opensm, self.monkeypatch = opensm, monkeypatch
        self.journal = folder / "journal.db"
        self.stores = {"keystore": folder / "keys.db", "journal": self.journal}
        self.settings = CarrierSettings(wait=5)
        self.done: ApplyPlan

    def run(self, plan: Callable[[ChangeWriter, Any], ApplyPlan], *overrides: str) -> ApplyPlan:
        with tool(self.opensm.net, "node03 mlx4_0", **self.stores) as fabric, writer(fabric, *overrides) as changing:
            fabric.is_simulated = False
            carrier = self.opensm.carrier(self.monkeypatch, changing, self.settings)
            self.done = plan(changing, carrier)
            changing.apply(self.done)
        return self.done

    def apply(self, text: str, *overrides: str, hooks: ApplyHooks | None = None) -> ApplyPlan:
        with tool(self.opensm.net, "node03 mlx4_0") as fabric:
            plan = self.opensm.plan(fabric, text)
        return self.run(lambda changing, carrier: plan_apply(changing, plan, ALL, hooks, carrier), *overrides)

    def resume(self) -> ApplyPlan:
        return self.run(lambda changing, carrier: plan_resume(changing, ALL, carrier=carrier))

    def undo(self, operation: int | None = None) -> ApplyPlan:
        return self.run(lambda changing, carrier: plan_undo(changing, operation, carrier=carrier))

    def undo_by_child(self, operation: int) -> None:
        """As the process does it that outlives an apply which nobody confirms: it overrides every interlock."""
        self.run(
            lambda changing, carrier: plan_undo(changing, operation, carrier=carrier, breaks=True, unconfirmed=True),
            *INTERLOCKS,
        )

    def why_it_may_end(self) -> str | None:
        """As `ibkeys resume --overtaken` begins."""
        with self._ending() as ending:
            return ending.why_it_may_end()

    def assert_overtaken(self, words: str = "another user or program has changed what it set") -> None:
        """The record may end."""
        assert re.search(words, self.why_it_may_end() or "")

    def close(self) -> str:
        """As `ibkeys resume --overtaken` ends the record."""
        with self._ending() as ending:
            assert ending.why_it_may_end() is not None
            return ending.close()

    @contextmanager
    def _ending(self) -> Iterator[RecordEnding]:
        with tool(self.opensm.net, "node03 mlx4_0", **self.stores) as fabric, writer(fabric) as changing:
            fabric.is_simulated = False
            yield RecordEnding(changing, carrier=self.opensm.carrier(self.monkeypatch, changing, self.settings))

    def cut_off(self, word: str, number: int, run: Callable[[], object]) -> None:
        """Let the host refuse what *word* says, for the time with this *number* in *run*."""
        times = count(1)

        def refuse(each: str) -> None:
            if each == word and next(times) == number:
                raise HostRefused("gone", "")

        self.opensm.host.before_each = refuse
        with pytest.raises(HostRefused):
            run()
        self.opensm.host.before_each = lambda word: None

    def cut_off_at_the_signal(self, text: str, error: str) -> None:
        """Apply *text* where OpenSM's host refuses the signal with *error*; afterwards it takes signals again."""
        self._without_signals(lambda: self.apply(text), error)

    def cut_off_undo(self, operation: int) -> None:
        """Undo an operation where OpenSM's host refuses the signal."""
        with pytest.raises(HostRefused):
            self._without_signals(lambda: self.undo(operation), "no")

    def _without_signals(self, run: Callable[[], object], error: str) -> None:
        def refuse(word: str) -> None:
            if word == "signal":
                raise HostRefused(error, "")

        self.opensm.host.before_each = refuse
        try:
            run()
        finally:
            self.opensm.host.before_each = lambda word: None

    def records(self) -> list[OperationRecord]:
        with Journal.read(self.journal) as journal:
            return journal.list_operations()

    def states(self) -> dict[int, str]:
        return {each.id: each.state for each in self.records()}

    def tables(self) -> dict[str, dict[int, int]]:
        return {f"{port}": dict(valid(port)) for node in self.opensm.net.nodes for port in node.all_ports}

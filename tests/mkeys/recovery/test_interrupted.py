"""Ctrl-C while leases run, and what the progress bar is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.mad.const import Method
from ibkeys.mkeys.recovery.recover import Recovery, plan_recovery
from ibkeys.mkeys.recovery.result import RecoverySummary, Status
from ibkeys.store.journal import Journal
from ibkeys.store.paths import StorePaths
from tests.fabricsim import subnet, tool, writer
from tests.mkeys.recovery.lost import (
    Run,
    end_ports,
    keys_of,
    lock,
    tree,
)
from tests.spy import LOST, spy


class Interrupted(Run):
    """Ended by Ctrl-C while it waits, after so many words to the progress bar."""

    after = 10

    def perform(self, recovery: Recovery) -> RecoverySummary:
        def progress(status: Status) -> None:
            self.statuses.append(status)
            if len(self.statuses) == self.after:
                raise KeyboardInterrupt

        return recovery.run(self.results.append, progress)


def test_ctrl_c_keeps_what_was_found_and_the_next_run_goes_on(tmp_path: Path) -> None:
    net, _ = tree()
    stores = StorePaths(tmp_path / "keys.db", tmp_path / "journal.db")
    Interrupted.after = 30
    first = Interrupted(net, {}, stores=stores)
    assert first.summary.interrupted
    assert 0 < first.summary.done < len(end_ports(net))
    assert all("runs on" in each.reason for each in first.of("failed"))
    assert first.current.items() <= keys_of(net).items()
    with tool(net, keystore=stores.keystore, journal=stores.journal) as fabric, writer(fabric) as w:
        plan_recovery(w).run(lambda result: None)
        assert w.keystore.current() == keys_of(net)


class Killed(BaseException):
    """The process ended here."""


class KilledRun(Run):
    """Ended by a signal that nothing can catch, while it waits."""

    def perform(self, recovery: Recovery) -> RecoverySummary:
        def die(status: Status) -> None:
            raise Killed

        with pytest.raises(Killed):
            recovery.run(self.results.append, die)
        return recovery.summary


@pytest.mark.parametrize("how", ["recovered", "by others"])
def test_one_that_was_cut_off_is_ended_by_the_next(tmp_path: Path, how: str) -> None:
    net = subnet("two-switch")
    lock(net, level=1)
    stores = StorePaths(tmp_path / "keys.db", tmp_path / "journal.db")

    def states() -> set[str]:
        with Journal.read(stores.journal) as journal:
            return {each.state for each in journal.list_operations()}

    # Without TrapRepress it has to write back the P_Keys that are there, and the journal has that.
    no_trap_repress = {
        "before": lambda fabric: spy(fabric, refuse=lambda out: LOST if out.mad[3] == Method.TRAP_REPRESS else 0)
    }
    KilledRun(net, stores=stores, **no_trap_repress)
    assert states() == {"open"}
    if how == "recovered":
        Run(net, stores=stores, **no_trap_repress)
    else:
        for port in end_ports(net):
            port.m_key = port.protect_bits = 0
        with tool(net, keystore=stores.keystore, journal=stores.journal) as fabric, writer(fabric) as w:
            recovery = plan_recovery(w)
            assert recovery.outlook().is_empty
            recovery.close_cut_off()
    assert states() == {"done"}


def test_progress_tells_how_many_are_back_and_when_the_next_should_open() -> None:
    net, known = tree(level=1)
    Interrupted.after = -1
    run = Interrupted(net, known)
    assert run.statuses[0].waiting == len(end_ports(net))
    assert [status.next_opening for status in run.statuses[:3]] == pytest.approx([14, 13, 12], abs=1.2)
    assert run.current == keys_of(net)

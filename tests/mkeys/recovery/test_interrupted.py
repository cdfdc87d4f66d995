"""Ctrl-C while leases run, and what the progress bar is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.mkeys.recovery.recover import Recovery, plan_recovery
from ibkeys.mkeys.recovery.result import RecoverySummary, Status
from ibkeys.store.paths import StorePaths
from tests.fabricsim import tool, writer
from tests.mkeys.recovery.lost import (
    Run,
    end_ports,
    keys_of,
    tree,
)


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


def test_progress_tells_how_many_are_back_and_when_the_next_should_open() -> None:
    net, known = tree(level=1)
    Interrupted.after = -1
    run = Interrupted(net, known)
    assert run.statuses[0].waiting == len(end_ports(net))
    assert [status.next_opening for status in run.statuses[:3]] == pytest.approx([14, 13, 12], abs=1.2)
    assert run.current == keys_of(net)

"""A policy that somebody else writes meanwhile is neither overwritten nor brought into force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibkeys.apply.apply_plan import ApplyHooks, FinishedApply
from ibkeys.errors import Incomplete, Refused, UsageError
from tests.apply.opensm.bench import GREEN, MORE, OLD, Bench


@pytest.mark.parametrize("moment", range(8))
def test_an_edit_of_somebody_else_stops_it_and_stays(bench: Bench, moment: int) -> None:
    """At whichever look, replacement or signal it happens."""
    theirs = (OLD + "# mine\n").encode()
    words: list[str] = []

    def edit(word: str) -> None:
        words.append(word)
        if len(words) == moment + 1:
            bench.opensm.host.file.data, bench.opensm.host.file.inode = theirs, 99

    bench.opensm.host.before_each = edit
    if moment == 0:  # that is before the change is planned
        bench.apply(GREEN)
        return
    with pytest.raises(Refused) as refused:
        bench.apply(GREEN)
    assert refused.value.interlock == "stale"
    assert bench.opensm.host.file.data == theirs
    if moment == 1:  # none of ours was in place yet
        bench.undo(1)
    else:
        with pytest.raises((Refused, UsageError)):
            bench.undo(1)
    assert bench.opensm.host.file.data == theirs


@pytest.mark.parametrize("is_linked_elsewhere", [False, True])
def test_what_somebody_wrote_after_us_is_not_brought_into_force_by_going_back(
    bench: Bench, is_linked_elsewhere: bool
) -> None:
    theirs = OLD.encode() + b"Theirs=0x66 : ALL_CAS=full ;\n"
    failed: list[tuple[Any, str]] = []

    def ended(run: FinishedApply) -> None:
        bench.opensm.host.file.data = theirs
        if is_linked_elsewhere:
            bench.opensm.host.leads_to = Path("/etc/opensm/other.conf")
        bench.opensm.host.log.clear()
        failed.extend(run.plan.carrier.go_back(run.operation))

    bench.apply(GREEN, hooks=ApplyHooks(ended=ended))
    [(port, text)] = failed
    assert port is None
    assert ("now leads to /etc/opensm/other.conf" if is_linked_elsewhere else "\n+Theirs=0x66") in text
    assert "signal" not in bench.opensm.host.log
    assert bench.opensm.host.file.data == theirs


def test_a_resumed_run_does_not_write_over_what_somebody_else_wrote_meanwhile(bench: Bench) -> None:
    bench.opensm.is_deaf = True
    with pytest.raises(Incomplete):
        bench.apply(MORE)
    bench.opensm.is_deaf = False
    bench.opensm.host.file.data = OLD.encode() + b"# theirs\n"
    with pytest.raises(Refused, match="neither its former content nor what the operation wrote") as refused:
        bench.resume()
    assert refused.value.interlock == "stale"
    assert bench.opensm.host.file.data.endswith(b"# theirs\n")

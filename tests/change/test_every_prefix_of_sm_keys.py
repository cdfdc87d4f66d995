"""Wherever a change of sm_key and sa_key stops: each OpenSM works with the former keys or the new ones, and the change
goes on, or back where no file has its keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.errors import Refused
from ibkeys.keys.smkey import SMKey
from ibkeys.smkeys.key_holders import KINDS
from ibkeys.smkeys.recorded_changes import Changes
from ibkeys.store.journal import Journal
from tests.sample import SOAK
from tests.smkeys.madeup import Killed, MadeUpSite
from tests.smkeys.outcomes import assert_back, assert_done, take_back


@given(st.integers(0, 45), st.sets(st.integers(0, 2)), st.sampled_from(("resume", "undo")))
@settings(max_examples=400 if SOAK else 10, deadline=None)
def test_sm_keys(moment: int, start_again: set[int], way_on: str) -> None:
    """An OpenSM that is started again reads its options file, as it would when it is signalled."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        three = MadeUpSite(Path(folder))
        three.before_each = dying_at(moment)
        with suppress(Killed):
            three.run(patch)
        three.before_each = lambda step: None
        for number in start_again:
            three.hosts[number].read()
        stored = three.stored() if (Path(folder) / "keys.db").exists() else []
        former: Mapping[str, SMKey] = dict.fromkeys(KINDS, SMKey(1))
        new = {row.kind: row.sm_key for row in stored} or former
        for host in three.hosts:
            assert host.node.sm is not None
            works_with = {"sm_key": SMKey(host.node.sm.sm_key), "sa_key": SMKey(host.sa_key)}
            assert host.keys in (former, new)
            assert works_with in (former, new)
        if any(row.state == "pending" for row in stored):
            finish_sm_keys(three, patch, way_on == "undo")


@given(st.tuples(st.integers(0, 45), st.integers(0, 45)), st.booleans(), st.sampled_from(("resume", "undo")))
@settings(max_examples=400 if SOAK else 10, deadline=None)
def test_sm_keys_of_two_subnets(moments: tuple[int, int], swapped: bool, way_on: str) -> None:
    """With one journal and one key store each goes on, or back, with its own keys."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        stores = Path(folder)
        sites = [MadeUpSite(stores / "one", stores), MadeUpSite(stores / "other", stores, 0x100000)]
        for site, moment in zip(sites, moments, strict=True):
            site.before_each = dying_at(moment)
            with suppress(Killed):
                site.run(patch, is_new=True)
            site.before_each = lambda step: None
        for site in reversed(sites) if swapped else sites:
            ports = [f"{host.node.ports[1].guid:#018x}" for host in site.hosts]
            with site.journal() as journal:
                begun = Changes.on_subnet(journal, ports).unfinished
            if begun is not None and way_on == "undo":
                with suppress(Refused):
                    take_back(site, patch, begun.id)
                    continue
            site.run(patch, goes_on=None if begun is None else begun.id)
        assert not any(row.state == "pending" for row in sites[0].stored())
        current = [(row.kind, row.sm_key) for row in sites[0].stored() if row.state == "current"]
        for site in sites:
            [has, *others] = [host.keys for host in site.hosts]
            assert others == [has, has]
            assert (site.masters, site.left_over()) == (1, [])
            if {*has.values()} != {SMKey(1)}:  # it was not taken back
                assert {*has.items()} <= {*current}
        assert len(current) == len({*current})


def dying_at(moment: int) -> Callable[[str], None]:
    """Return what ends a process at its step with this number."""
    passed = count()

    def die(step: str) -> None:
        if next(passed) == moment:
            raise Killed

    return die


def finish_sm_keys(three: MadeUpSite, patch: pytest.MonkeyPatch, goes_back: bool) -> None:
    """Take the change back where that is not refused, or finish it."""
    if goes_back:
        with Journal.read(three.folder / "journal.db") as journal:
            begun = Changes.on_subnet(journal).unfinished
        with suppress(Refused):
            take_back(three, patch, begun.id if begun is not None else None)
            assert_back(three)
            return
    three.run(patch)
    assert_done(three)

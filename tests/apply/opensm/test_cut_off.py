"""The OpenSM carrier where a run ended early, and where a policy would end the enforcement of leaf ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.apply.apply_plan import ApplyHooks
from ibkeys.errors import UsageError
from ibkeys.host.replacing.replace import LeftOvers, RecordedImages
from tests.apply.opensm.bench import GREEN, MORE, OLD, Bench
from tests.apply.opensm.madeup import MadeUpOpensm
from tests.fabricsim import set_p_key_capacity

FULL = OLD + "".join(f"P{number}={number:#x} : 0x2c903000a1021=full ;\n" for number in range(0x100, 0x11E))
"""32 P_Keys for node02: with the default one and Red."""


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    return Bench(MadeUpOpensm(OLD), monkeypatch, tmp_path)


def test_what_ended_before_it_wrote_a_file_is_undone_by_a_word_in_the_journal(bench: Bench) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    before = bench.tables()
    with pytest.raises(KeyboardInterrupt):
        bench.apply(GREEN, hooks=ApplyHooks(check=stop))
    assert bench.states() == {1: "open"}
    bench.undo()
    assert bench.states() == {1: "undone", 2: "done"}
    assert (bench.opensm.host.file.data, bench.tables()) == (OLD.encode(), before)
    assert "signal" not in bench.opensm.host.log


def test_what_nobody_knows_beside_a_policy_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[Path]] = []

    def clean_up(recorded: RecordedImages, conversions: object) -> LeftOvers:
        asked.append([*recorded])
        return LeftOvers((), (Path("/etc/opensm/.partitions.conf.ibkeys-1"),))

    monkeypatch.setattr(bench.opensm.host, "clean_up", clean_up)
    bench.apply(MORE)
    assert asked == [[]]
    assert any(".partitions.conf.ibkeys-1" in note for note in bench.done.late_notes)
    bench.undo()
    assert asked[1:] == [[Path("/etc/opensm/partitions.conf")]]


def with_small_leaf_tables(bench: Bench, enforce: int) -> None:
    for node in bench.opensm.net.nodes:
        if node.is_switch:
            set_p_key_capacity(node, enforcement_cap=32)
    leaf = bench.opensm.net.port("node02 mlx4_0", 1).peer
    assert leaf is not None
    leaf.inbound_enforcement = leaf.outbound_enforcement = enforce


def test_a_policy_that_ends_enforcement_is_refused(bench: Bench) -> None:
    with_small_leaf_tables(bench, 1)
    with pytest.raises(UsageError, match=r"port 2 to the last entry, .* enforce partitions, but it enforces now"):
        bench.apply(FULL)
    assert bench.states() == {}
    assert bench.opensm.host.file.data == OLD.encode()


def test_where_enforcement_had_ended_before_that_is_said(bench: Bench) -> None:
    with_small_leaf_tables(bench, 0)
    bench.apply(FULL)
    assert any("enforce partitions, and it does not enforce now" in note for note in bench.done.notes)
    assert bench.states() == {1: "done"}


def test_p_keys_that_opensm_leaves_in_a_further_block_of_a_leaf_port_are_named(bench: Bench) -> None:
    for node in bench.opensm.net.nodes:
        if node.is_switch:
            set_p_key_capacity(node, enforcement_cap=64)
    bench.apply(FULL + "Last=0x200 : 0x2c903000a1021=full ;\n")
    assert not any("no longer" in note for note in bench.done.notes)
    bench.apply(OLD)
    [note] = [note for note in bench.done.notes if "no longer needs" in note]
    leaf = bench.opensm.net.port("node02 mlx4_0", 1).peer
    assert leaf is not None
    [key] = filter(None, leaf.p_keys[32:])
    assert f"port 2 that the end port no longer has (0x{key:04x})" in note

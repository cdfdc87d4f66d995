"""The indexes that OpenSM remembers, by the journal."""

from __future__ import annotations

from pathlib import Path

from ibkeys.change.images import P_KEY_BLOCK
from ibkeys.partitions.reader import parse_policy
from ibkeys.rehearse.remembered_indexes import (
    indexes_remembered_by,
    new_partitions,
    policy_with_memory,
    with_memory,
    with_tables,
)
from ibkeys.rehearse.tables import tables_of
from ibkeys.store.journal import Image, Journal
from tests.fabricsim import subnet

NODE = "node02 mlx4_0"


def block(*entries: int) -> bytes:
    return P_KEY_BLOCK.pack(*entries, *[0] * (32 - len(entries)))


def journal_with(path: Path, *tables: tuple[bytes, bytes]) -> None:
    port = subnet("two-switch").port(NODE, 1)
    with Journal(path) as journal:
        for before, after in tables:
            with journal.operation("apply") as operation:
                operation.record_all(
                    [Image(port.node.guid, port.guid, NODE, "ca", 1, 2, "P_KeyTable", 0, before, after)]
                )


def test_a_p_key_that_was_taken_away_keeps_its_last_free_index(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal_with(
        path,
        (block(0xFFFF, 0x8010, 0x8011), block(0xFFFF, 0, 0x8011)),
        (block(0xFFFF, 0, 0x8011, 0x0012), block(0xFFFF, 0x8013, 0, 0)),
    )
    net = subnet("two-switch")
    port = net.port(NODE, 1)
    key = port.node.guid, 1
    port.p_keys = [0xFFFF, 0x8013, *[0] * 62]
    tables = tables_of(net)
    memory = indexes_remembered_by(path, "", tables)
    assert memory == {key: {2: 0x8011, 3: 0x0012}}  # index 1 of 0x8010 is taken by 0x8013
    assert indexes_remembered_by(path, "9999", tables) == {}
    assert with_memory(tables, memory)[key].p_keys[:5] == (0xFFFF, 0x8013, 0x8011, 0x0012, 0)
    policy = parse_policy(policy_with_memory(b"Default=0x7fff : ALL=full ;", memory, {key: port.guid}), "p")
    assert policy.accepted
    assert {each.base for each in policy.partitions} == {0x7FFF, 0x11, 0x12}


def test_a_port_that_has_the_p_key_again_and_one_that_is_gone_remember_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal_with(path, (block(0xFFFF, 0x8010), block(0xFFFF)))
    net = subnet("two-switch")
    net.port(NODE, 1).p_keys = [0xFFFF, 0, 0x0010, *[0] * 61]
    assert indexes_remembered_by(path, "", tables_of(net)) == {}
    assert indexes_remembered_by(path, "", {}) == {}


def test_a_port_that_gets_a_partition_that_it_does_not_have_is_uncertain() -> None:
    net = subnet("two-switch")
    port = net.port(NODE, 1)
    key = port.node.guid, 1
    before = tables_of(net)
    port.p_keys = [*before[key].p_keys[:1], 0x8010, *[0] * 62]
    after = tables_of(net)
    assert new_partitions(before, after) == [key]
    assert new_partitions(after, before) == []


def test_what_the_sa_says_takes_the_place_of_the_tables_that_it_knows() -> None:
    net = subnet("two-switch")
    port = net.port(NODE, 1)
    key = port.node.guid, 1
    before = tables_of(net)
    after = with_tables(before, {key: (0xFFFF, 0x8010), (7, 7): (0xFFFF,)})
    assert after[key].p_keys == (0xFFFF, 0x8010, *[0] * 62)
    assert {each for each in after if after[each] != before[each]} == {key}
    assert with_tables(before, {key: (0xFFFF,) * 65}) == before

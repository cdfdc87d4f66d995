"""What an operation overwrote, read from the journal: what it was, what it may be now, and that a large one fits."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

from ibkeys.apply.former_values import FormerValues, former_in
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.store.journal import Image, Journal
from ibkeys.topology.enforcement import Enforcement

HOST = 0x100


def block(*values: int) -> bytes:
    return struct.pack(">32H", *values, *[0] * (32 - len(values)))


def image(number: int, before: bytes, after: bytes, modifier: int = 0) -> Image:
    guid = HOST + 2 * number
    return Image(guid, guid + 1, f"host{number}", "ca", 1, number + 1, "P_KeyTable", modifier, before, after)


def former_after(*images: Image) -> FormerValues:
    with Journal(None) as journal:
        with journal.operation("apply") as operation:
            for entry in operation.record_all(images):
                entry.done()
        return former_in(journal, journal.find(1))


def test_each_entry_was_what_the_first_set_read_and_may_be_what_a_set_that_changed_it_left() -> None:
    former = former_after(
        image(1, block(0xFFFF), block(0xFFFF, 0x8001)),
        image(1, block(0x8000, 5), block(6), modifier=1 | 3 << 16),
        image(1, block(0xFFFF, 0x8002), block(0xFFFF, 0)),
    )
    host = (HOST + 2, 1)
    assert former.ports == [host]
    had = former.tables[host].values_before
    assert (len(had), had[0], had[1], had[32], had[33]) == (64, 0xFFFF, 0, 0x8000, 5)
    assert former.tables[host].overwritten_values == {1: 0, 32: 0x8000, 33: 5}
    assert former.tables[host].written_values == {1: {0, 0x8001}, 32: {6}, 33: {0}}
    assert former.added_p_keys == {(host, PKey(key)) for key in (0x8001, 6)}


def test_an_undo_says_what_else_may_be_there_but_not_what_was() -> None:
    with Journal(None) as journal:
        with journal.operation("apply") as operation:
            operation.record_all([image(1, block(0xFFFF), block(0xFFFF, 7))])
        with journal.undo_of(1) as undo:
            undo.record_all([image(1, block(0xFFFF, 7), block(0xFFFF, 0x8000)), image(2, block(1), block(2))])
        assert undo.id is not None
        journal.set_state(undo.id, "done")
        former = former_in(journal, journal.find(1))
    one, other = (HOST + 2, 1), (HOST + 4, 1)
    assert former.ports == [one]
    assert former.tables[one].values_before[1] == 0
    assert former.tables[one].written_values == {1: {0, 7}}
    assert former.tables[other].written_values == {0: {2}}
    assert former.tables[other].overwritten_values == {}


def test_what_an_interrupted_undo_put_elsewhere_is_restored_too() -> None:
    with Journal(None) as journal:
        with journal.operation("apply") as operation:
            operation.record_all([image(1, block(0xFFFF, 5), block(0xFFFF, 7))])
        with journal.undo_of(1) as undo:
            undo.record_all([image(1, block(0xFFFF, 7, 0x8000), block(0xFFFF, 7, 5))])
        former = former_in(journal, journal.find(1))
    assert former.tables[HOST + 2, 1].overwritten_values == {1: 5, 2: 0x8000}


def test_an_enforcement_bit_was_what_the_set_that_changed_it_read() -> None:
    """Somebody else switched outbound on while the operation was open, between its two Sets."""

    def bits(number: int) -> bytes:
        return PortInfo.new(partition_enforcement_inbound=number >> 1, partition_enforcement_outbound=number & 1).raw

    def change(before: int, after: int) -> Image:
        return replace(image(1, bits(before), bits(after)), attribute="PortInfo")

    former = former_after(change(0, 2), change(3, 2), change(2, 0))
    assert former.bits == {(HOST + 2, 1): Enforcement(inbound=False, outbound=True)}


def test_what_a_large_operation_overwrote_takes_little_memory() -> None:
    """An apply to 40,000 hosts writes 80,000 tables."""
    ports = 2000

    def images() -> Iterator[Image]:
        for number in range(ports):
            yield image(number, block(0xFFFF), block(0xFFFF, 0x8000 + number))

    with Journal(None) as journal:
        with journal.operation("apply") as operation:
            operation.record_all(images())
        tracemalloc.start()
        try:
            former = former_in(journal, journal.find(1))
            taken = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
    assert len(former.ports) == ports
    assert taken / ports < 1500

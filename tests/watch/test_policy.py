"""Names and lines of partitions, and a policy file that changes meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ibkeys.cli.watch.event_lines import EventLines
from ibkeys.partitions.reader import read_policy
from ibkeys.watch.event import Event, EventEnd
from ibkeys.watch.policy import PartitionNames

EVENT = Event("2026-11-22T09:30:00Z", "report", "bad-p_key", 257, EventEnd(lid=3), p_key=0x8012)


def test_partitions_are_named_by_either_membership(tmp_path: Path) -> None:
    path = tmp_path / "partitions.conf"
    path.write_text("Default=0x7fff : ALL=full ;\n\nBlue=0x12 : ALL_CAS=full ;\n")
    partitions = PartitionNames(read_policy(path))
    named = partitions.named(EVENT)
    assert (named.partition_name, named.policy_line) == ("Blue", 3)
    assert partitions.read_again() == ""
    path.write_text("Default=0x7fff : ALL=full ;\nRed=0x12 : ALL_CAS=full ;\nBlue=0x13 : ALL=full ;\n")
    assert partitions.read_again() == ""
    assert (partitions.named(EVENT).partition_name, partitions.named(EVENT).policy_line) == ("Red", 2)


def test_a_policy_that_cannot_be_used_leaves_the_former_one(tmp_path: Path) -> None:
    path = tmp_path / "partitions.conf"
    path.write_text("Blue=0x12 : ALL=full ;\n")
    partitions = PartitionNames(read_policy(path))
    path.write_text("Blue=0x12 : what is this ;;\n")
    problem = partitions.read_again()
    assert "named as before" in problem
    assert partitions.read_again() == problem
    assert partitions.named(EVENT).partition_name == "Blue"
    path.unlink()
    assert "cannot" in partitions.read_again()
    path.write_text("Green=0x12 : ALL=full ;\n")
    assert partitions.read_again() == ""
    assert partitions.named(EVENT).partition_name == "Green"


def test_a_p_key_that_is_in_no_partition_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "partitions.conf"
    path.write_text("Red=0x13 : ALL=full ;\n")
    named = PartitionNames(read_policy(path)).named(EVENT)
    assert (named.partition_name, named.not_in_policy) == (None, True)


def test_a_partition_without_a_line_is_named_without_one() -> None:
    """As UFM's are, which are in no file."""
    words = EventLines(with_guids=False).lines_of(replace(EVENT, partition_name="Blue", policy_line=None))
    assert "[Blue]" in words[-1]
    assert "None" not in words[-1]

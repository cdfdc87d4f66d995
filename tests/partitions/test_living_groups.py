"""What two policies say differently of multicast groups, which OpenSM keeps as they are."""

from __future__ import annotations

import pytest

from ibkeys.partitions.living_groups import LivingGroups
from ibkeys.partitions.reader import parse_policy

X = "X=5, ipoib"
BROADCAST = "ff12:401b:8005::ffff:ffff"


def between(before: str, after: str) -> LivingGroups:
    return LivingGroups.between(parse_policy(before.encode()), parse_policy(after.encode()))


@pytest.mark.parametrize(
    ("before", "after", "flags"),
    [
        (f"{X} : 1 ;", f"{X} : 1, 2 ;", ()),
        (f"{X} : 1 ;", f"{X}, mtu=4, rate=3, sl=0, Q_Key=0xb1b : 1 ;", ()),  # OpenSM's defaults
        (f"{X} : 1 ;", f"{X}, mtu=5, sl=1 : 1 ;", ("mtu, sl of X",)),
        (f"{X}, rate=7, Q_Key=0x22 : 1 ;", f"{X} : 1 ;", ("rate, Q_Key of X",)),
        ("X=5 : 1 ;", f"{X}, mtu=5 : 1 ;", ()),  # the group is new
        ("X=5, mtu=4 : 1 ;", "X=5, mtu=5 : 1 ;", ()),  # there is no group
        (f"{X} : 1 ;", f"{X}, scope=5 : 1 ;", ()),  # OpenSM ignores it for the broadcast group
        (f"{X} : 1 ;\nY=6, ipoib : 1 ;", f"{X}, mtu=5 : 1 ;\nY=6, ipoib, sl=2 : 1 ;", ("mtu of X", "sl of Y")),
        ("X=5 :\n mgid=ff12::7,sl=1\n 1 ;", "X=5 :\n mgid=ff12::7,sl=2\n 1 ;", ("sl of X",)),
    ],
)
def test_flags_of_a_group_that_both_make(before: str, after: str, flags: tuple[str, ...]) -> None:
    found = between(before, after)
    assert (found.flags, found.gone) == (flags, ())
    assert [note.partition(":")[0] for note in found.notes()] == ([", ".join(flags)] if flags else [])


def test_a_group_that_only_the_first_one_makes_may_stay() -> None:
    found = between(f"{X}, mtu=5 :\n mgid=ff12::7,sl=1\n 1 ;\nY=6 : 1 ;", "Y=6 : 1 ;")
    assert found.flags == ()
    [note] = found.notes()
    assert note == (
        f"OpenSM may keep the group {BROADCAST}, ff12::7 until its last member has left, or until OpenSM starts again"
    )


def test_new_groups_and_their_partitions_are_known_too() -> None:
    found = between("X=5 : 1 ;\nY=6, ipoib : 1 ;", f"{X} :\n mgid=ff12::7,sl=1\n 1 ;\nY=6, ipoib, mtu=5 : 1 ;")
    assert (len(found.new), found.partitions, found.differ) == (2, {5, 6}, True)
    assert found.in_words() == "mtu of Y; 2 groups new"
    assert not between(f"{X} : 1 ;", f"{X} : 1, 2 ;").differ


def test_after_an_undo_a_group_may_still_have_its_values() -> None:
    [note] = between(f"{X}, mtu=5 : 1 ;", f"{X} : 1 ;").notes(is_undo=True)
    assert "one that was made since the change keeps the changed values" in note
    assert "ibkeys compare --ipoib" in note


def test_without_a_file_nothing_is_known() -> None:
    policy = parse_policy(f"{X} : 1 ;".encode())
    assert LivingGroups.between(None, policy) == LivingGroups.between(policy, None) == LivingGroups()

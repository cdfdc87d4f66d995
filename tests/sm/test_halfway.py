"""What a refusal says of what was done, where it comes in the middle of a change."""

from __future__ import annotations

import pytest

from ibkeys.errors import FileFormatError, IbkeysError, Refused
from ibkeys.sm.halfway import halfway

DONE = "2 of 5 steps are made: --resume goes on"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Refused("a stranger is there; nothing was changed", "opensm-keys"), f"a stranger is there; {DONE}"),
        (Refused("the master runs no more", "stale"), "the master runs no more"),
        (FileFormatError("no record; nothing was changed", "guid2mkey"), f"guid2mkey: no record; {DONE}"),
    ],
)
def test_it_does_not_say_that_nothing_was_changed(error: IbkeysError, text: str) -> None:
    with pytest.raises(type(error)) as caught, halfway(DONE):
        raise error
    assert caught.value is error
    assert str(error) == text

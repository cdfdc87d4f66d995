"""Waiting for somebody to say that all is well after a change.

As network devices do it: the change is made, a time runs, and only a confirmation keeps it. Of confirmation and going
back exactly one happens: both move the stage of the change, and the store that has it lets one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, Protocol

POLL: Final = 0.5
"""Seconds between two looks at whether it was confirmed elsewhere."""
Decision = Literal["confirmed", "going-back"]


class Confirmable(Protocol):
    """A change whose stage lasts in a store, so that other processes can confirm it."""

    @property
    def stage(self) -> str | None:
        """How far it is: ``unconfirmed`` while it waits. Raises StoreError."""
        ...

    def move(self, new: Decision) -> bool:
        """Let it wait no more; False where it did not wait any more. Of several processes one succeeds. Raises
        StoreError."""
        ...


def await_confirmation(
    awaited: Confirmable, seconds: float, now: Callable[[], float], wait: Callable[[float], bool]
) -> Literal["", "here", "elsewhere"]:
    """Wait until *awaited* is confirmed, and return where that was done; "" when *seconds* are over, and nobody can
    confirm it any more.

    *now* returns seconds of a clock that only goes forward; *wait* lets the given seconds pass and returns whether the
    user confirmed meanwhile. An interrupt (KeyboardInterrupt from *wait*) is a no. Raises StoreError.
    """
    deadline = now() + seconds
    while True:
        stage = awaited.stage
        if stage != "unconfirmed":
            return "elsewhere" if stage == "confirmed" else ""
        left = deadline - now()
        try:
            if left > 0 and not wait(min(left, POLL)):
                continue
        except KeyboardInterrupt:
            left = 0
        if left > 0:
            if awaited.move("confirmed"):
                return "here"
        elif awaited.move("going-back"):
            return ""

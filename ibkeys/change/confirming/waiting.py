"""Waiting for the confirmation of a change.

As on network devices, the change is made first and is rolled back unless it is confirmed in time. Confirmation and
rollback exclude each other: both must move the stage of the change, and the store lets only one of them do so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, Protocol

POLL: Final = 0.5
"""Seconds between two looks at whether it was confirmed elsewhere."""
Decision = Literal["confirmed", "going-back"]


class Confirmable(Protocol):
    """A change whose stage is stored on disk, so that other processes can confirm it."""

    @property
    def stage(self) -> str | None:
        """How far it is: ``unconfirmed`` while it waits. Raises StoreError."""
        ...

    def move(self, new: Decision) -> bool:
        """End the waiting; False when it had already ended. Only one process succeeds. Raises StoreError."""
        ...


def await_confirmation(
    awaited: Confirmable, seconds: float, now: Callable[[], float], wait: Callable[[float], bool]
) -> Literal["", "here", "elsewhere"]:
    """Wait until *awaited* is confirmed, and return where that was done; "" when *seconds* are over, and nobody can
    confirm it any more.

    *now* returns seconds of a clock that only goes forward; *wait* lets the given seconds pass and returns whether the
    user confirmed in the meantime. An interrupt (KeyboardInterrupt from *wait*) is a no. Raises StoreError.
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

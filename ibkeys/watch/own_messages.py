"""Messages of the watch about itself: one when a condition starts, and one when it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

MessageSubject = Literal["subscription", "membership", "lost", "strangers", "log", "change", "sweep", "policy"]

LIMITED: Final = (
    "this port is not a full member of the default partition (0x7fff): the SA reports nothing about ports that share "
    "no P_Key with this one, such as other limited members, so their traps are not received; watch from the SM's host, "
    "or another full member"
)
_OVER: Final[dict[MessageSubject, str]] = {
    "subscription": "the SA has the subscriptions again",
    "membership": "this port is a full member of the default partition now",
    "log": "OpenSM's log can be read again",
    "change": "no other command changes keys any more: names and counters are read again",
    "sweep": "the last sweep read everything",
    "policy": "the policy is read again",
}


class ConditionMessages:
    """Calls *say* with each new condition of a subject. A subject that is only counted has no message for its end."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: dict[MessageSubject, str] = {}

    def of(self, about: MessageSubject, text: str, same: object = None) -> None:
        """Report *text* if it is new, or that the condition has ended if it is "".

        *same*: the value by which two texts are the same, by default the text.
        """
        key = str(same) if same is not None and text else text
        if key != self._said.get(about, ""):
            self._said[about] = key
            self._say(text or _OVER[about])

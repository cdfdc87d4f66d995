"""Folding repeated events: the first is reported at once, repeats as a count from time to time, in bounded memory.

If a port is queried with a wrong key a thousand times a second, or with many different keys, that is one event to
report.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from ibkeys.watch.event import Event, EventEnd

MOST_FOLDED: Final = 4096
"""Kinds of events that are kept apart at a time; further ones are folded together by their kind of trap or counter."""
MOST_OF_A_PAIR: Final = 16
"""Keys, or attributes, that are kept apart between the same two ends at a time."""
FORGOTTEN_AFTER: Final = 3600.0
"""Seconds without a repeat after which the next event is reported as new."""
OTHER_KEYS: Final = "several more between the same ports, with other keys or values, reported as one"
OTHERS: Final = "more events of this kind than can be counted separately"

_Key = tuple[object, ...]


@dataclass(slots=True)
class _Folded:
    event: Event
    pair: _Key
    last: float
    told: float
    untold: int = 0


class Folder:
    """Reports new events at once, and repeats within `FORGOTTEN_AFTER` as a count every *again* seconds.

    Times are seconds of a monotonic clock. ``folded``: the number of repeats that were only counted.
    """

    def __init__(self, again: float) -> None:
        self._again = again
        self._folded: OrderedDict[_Key, _Folded] = OrderedDict()
        self._of_pair: dict[_Key, int] = {}
        self.folded = 0

    def __len__(self) -> int:
        return len(self._folded)

    def take(self, event: Event, now: float) -> Event | None:
        """Return the event to report now, None if *event* was only counted.

        A new event is returned as it is. If too many are kept apart already, an event without its key or without its
        ends is returned in its place, once for all that are folded into it.
        """
        key = _what(event)
        folded = self._folded.get(key)
        if folded is None:
            event, key = self._place_for(event, key, now)
            folded = self._folded.get(key)
        if folded is not None:
            self._repeat(key, folded, event, now)
            return None
        pair = _pair(event)
        self._folded[key] = _Folded(replace(event, since=event.since or event.time), pair, now, now)
        self._of_pair[pair] = self._of_pair.get(pair, 0) + 1
        return event

    def _repeat(self, key: _Key, folded: _Folded, event: Event, now: float) -> None:
        first = folded.event
        folded.event = replace(event, since=first.since, count=first.count + event.count)
        folded.last = now
        folded.untold += event.count
        self.folded += 1
        self._folded.move_to_end(key)

    def _place_for(self, event: Event, key: _Key, now: float) -> tuple[Event, _Key]:
        """Return the event and key under which a new *event* is folded if too many are kept apart already."""
        if self._of_pair.get(_pair(event), 0) >= MOST_OF_A_PAIR:
            event = replace(
                event, p_key=None, q_key=None, partition_name=None, policy_line=None, attribute=None, modifier=None,
                detail=OTHER_KEYS,
            )  # fmt: skip
            key = _what(event)
        if key not in self._folded and len(self._folded) >= MOST_FOLDED and not self._made_room(now):
            no_end = EventEnd()
            event = Event(event.time, event.source, event.kind, event.trap, no_end, detail=OTHERS, count=event.count)
            key = _what(event)
        return event, key

    def _made_room(self, now: float) -> bool:
        """Drop the event with the longest time without a repeat, unless it is too new or has an unreported count.

        Return whether it was dropped.
        """
        key, oldest = next(iter(self._folded.items()))
        if oldest.untold or now - oldest.last < self._again:
            return False
        self._forget(key)
        return True

    def _forget(self, key: _Key) -> None:
        pair = self._folded.pop(key).pair
        self._of_pair[pair] -= 1
        if not self._of_pair[pair]:
            del self._of_pair[pair]

    def due(self, now: float, all_of_it: bool = False) -> list[Event]:
        """Return the repeated events that are due, each with its whole count; with *all_of_it* all unreported ones.

        Events that did not repeat for long are dropped.
        """
        events = []
        for key, folded in list(self._folded.items()):
            if folded.untold and (all_of_it or now - folded.told >= self._again):
                folded.untold, folded.told = 0, now
                events.append(folded.event)
            elif not folded.untold and now - folded.last >= FORGOTTEN_AFTER:
                self._forget(key)
        return events


def _what(event: Event) -> _Key:
    """Return the key of an event: two events with equal keys are the same event. The detail of a counter belongs to one
    reading only, so the key lacks it.
    """
    detail = event.detail if event.source != "counters" else ""
    return (*_pair(event), event.p_key, event.q_key, event.method, event.attribute, event.modifier, detail)


def _pair(event: Event) -> _Key:
    """Return the part of the key that names the kind, the origin and the ends."""
    return event.kind, event.source, _who(event.at), _who(event.sender), _who(event.receiver)


def _who(end: EventEnd | None) -> _Key:
    """Return the identity of an end, without its current name and LID."""
    if end is None:
        return ()
    return (end.node_guid, end.port) if end.is_known else (end.port_guid, end.lid, end.port)

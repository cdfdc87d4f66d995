"""The outlook of a recovery: the ports that it would work on, and its maximum cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
from ibkeys.mkeys.recovery.search import Search
from ibkeys.mkeys.recovery.switch_probes import MOST_PROBE_ROUNDS, PROBED_PORTS
from ibkeys.mkeys.recovery.timing import MOST_GETS, most_gets, seconds_to_wait


@dataclass(frozen=True, slots=True)
class Outlook:
    """The ports that a recovery would work on, and its maximum cost.

    ``shown``: the number of keys that can be read and are not known. ``hidden``: the number of ports at level 1 that
    hide their key; ``never_open``: how many of these have lease 0 and so never give it up. ``silent``: the number of
    known ports that do not answer. ``leases``: the known leases, in seconds. ``has_links``: whether the links behind
    silent switches are known. ``tries``: the most keys that are tried on one port. ``violations``: the most M_Key
    violations at all these ports, by the leases that are known now; ``blind_probes``: the most SMPs through closed
    switches to unknown ports. ``seconds``: the time after which a silent port is given up.
    """

    shown: int
    hidden: int
    never_open: int
    silent: int
    leases: tuple[int, ...]
    has_links: bool
    tries: int
    violations: int
    blind_probes: int
    seconds: float

    @property
    def is_empty(self) -> bool:
        """Whether no key is missing."""
        return not (self.shown or self.hidden or self.silent)

    @property
    def violations_of_one(self) -> int:
        """The most M_Key violations at one silent port, whatever leases become known later."""
        return self.tries + 2 + MOST_GETS

    def to_json(self) -> dict[str, Any]:
        """Return the outlook as JSON values."""
        return {_JSON_NAMES.get(name, name): getattr(self, name) for name in self.__slots__}


_JSON_NAMES: Final = {"never_open": "never"}
"""Field → its name in the document, where that differs."""


def outlook_of(search: Search, options: RecoveryOptions, shown: int, spares: int) -> Outlook:
    """Return the outlook of *search* after its survey. *shown*: number of keys that can be read and are not known;
    *spares*: most further keys that are known for one port."""
    waiting = search.waiting
    silent, hiding = len(waiting.silent), len(waiting.hiding)
    leases = tuple(sorted(waiting.leases))
    seconds = seconds_to_wait(leases, options.wait)
    tries = min(options.tries, spares) + min(options.tries, len(options.try_keys))
    each = tries + 2 + most_gets(leases, seconds, silent) if silent else 0
    return Outlook(
        shown=shown,
        hidden=hiding,
        never_open=sum(not port.lease for port in waiting.hiding.values()),
        silent=silent,
        leases=leases,
        has_links=bool(waiting.links),
        tries=tries,
        violations=each * silent + 3 * hiding,
        blind_probes=search.possible_switches * PROBED_PORTS * MOST_PROBE_ROUNDS,
        seconds=seconds,
    )

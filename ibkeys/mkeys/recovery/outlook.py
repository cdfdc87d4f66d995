"""The outlook of a recovery: the ports that it would work on, and its maximum cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
from ibkeys.mkeys.recovery.search import Search
from ibkeys.mkeys.recovery.switch_probes import MOST_PROBE_ROUNDS, PROBED_PORTS
from ibkeys.mkeys.recovery.timing import most_questions, patience


@dataclass(frozen=True, slots=True)
class Outlook:
    """The ports that a recovery would work on, and its maximum cost.

    ``shown``: keys that can be read and are not known; ``hidden``: ports at level 1 that hide theirs, ``never`` of them
    with lease 0; ``silent``: ports that do not answer, if known. ``leases``: seconds, if known. ``has_links``: the
    links behind silent switches are known. ``tries``: most keys tried on one port. ``violations``: most M_Key
    violations at the ports counted here; ``blind_probes``: most SMPs through closed switches to unknown ports.
    ``seconds``: until a silent port is given up.
    """

    shown: int
    hidden: int
    never: int
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

    def to_json(self) -> dict[str, Any]:
        """Return the outlook as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


def outlook_of(search: Search, options: RecoveryOptions, shown: int, spares: int) -> Outlook:
    """Return the outlook of *search* after its survey. *shown*: number of keys that can be read and are not known;
    *spares*: most further keys that are known for one port."""
    waiting = search.waiting
    silent, hiding = len(waiting.silent), len(waiting.hiding)
    leases = tuple(sorted(waiting.leases))
    seconds = patience(leases, options.wait)
    tries = min(options.tries, len(options.try_keys) + spares)
    each = tries + 2 + most_questions(leases, seconds, silent) if silent else 0
    return Outlook(
        shown=shown,
        hidden=hiding,
        never=sum(not port.lease for port in waiting.hiding.values()),
        silent=silent,
        leases=leases,
        has_links=bool(waiting.links),
        tries=tries,
        violations=each * silent + 3 * hiding,
        blind_probes=search.possible_switches * PROBED_PORTS * MOST_PROBE_ROUNDS,
        seconds=seconds,
    )

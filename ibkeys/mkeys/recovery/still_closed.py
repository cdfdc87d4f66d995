"""The results for ports that stayed closed: the presumed reason, and the ports that are reached only through them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ibkeys.client.address import DirectedAddress
from ibkeys.mkeys.recovery.locked_ports import HidingPort, SilentPort
from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
from ibkeys.mkeys.recovery.result import RecoveryResult
from ibkeys.mkeys.recovery.routes import hidden_behind, links_of
from ibkeys.mkeys.recovery.waiting import WaitingPorts
from ibkeys.printable import named
from ibkeys.topology.nodes import LinkEnd
from ibkeys.topology.port_id import identity

_NAMED: Final = 8

_OTHER_MEANS: Final = (
    "remaining ways: the key from another source (OpenSM's key files, a list of keys to try), a power cycle (without "
    "IsMKeyNVRAM the key is 0 afterwards), or the vendor's tool on the node itself"
)


class StillClosed:
    """The ports that did not open, at the end of a recovery. ``interrupted``: whether the user ended the recovery."""

    def __init__(self, waiting: WaitingPorts, options: RecoveryOptions, interrupted: bool) -> None:
        self.options = options
        self.interrupted = interrupted
        self._waiting = waiting

    def results(self) -> Iterator[RecoveryResult]:
        """Yield the result of each port that did not open, the silent ports first."""
        waiting = self._waiting
        locked = [*waiting.given_up, *waiting.silent.values(), *waiting.hiding.values()]
        closed = [each for each in locked if isinstance(each, SilentPort) and not self._has_opened(each)]
        links, ids = self._links_with(closed)
        for silent in closed:
            behind = hidden_behind(links, waiting.start, [ids[silent.path]])
            yield RecoveryResult(self._identity(silent), "failed", self._why_silent(silent, behind))
        for hiding in locked:
            if isinstance(hiding, HidingPort):
                yield RecoveryResult(hiding.port.identity(), "failed", self._why_hiding(hiding))

    def _has_opened(self, silent: SilentPort) -> bool:
        return (silent.guid in self._waiting.reached) or (silent.near is not None and silent.near.peer is not None)

    def _why_silent(self, silent: SilentPort, behind: set[int]) -> str:
        waiting = self._waiting
        route = DirectedAddress(silent.path)
        where = f"{route}{f', behind {silent.near}' if silent.near is not None else ''}"
        if self.interrupted and silent.path in waiting.silent:
            why = "still silent when the run was interrupted; a lease that was started runs on"
        else:
            known = f"the longest known here is {max(waiting.leases)} s" if waiting.leases else "none is known here"
            why = (
                f"silent for {waiting.now - silent.started:.0f} s since its lease should have begun ({known}): its "
                "lease is 0 or longer than was waited for, or its agent is dead, which looks the same"
            )
        return f"{where}: {why}; {self._describe_behind(behind)}{_OTHER_MEANS}"

    def _describe_behind(self, behind: set[int]) -> str:
        if not behind:
            return ""
        silent = behind - self._waiting.reached
        names = named([self._name(guid) for guid in sorted(behind)], _NAMED)
        how = f"{len(silent)} of them silent" if silent else "all of them recovered"
        return f"{len(behind)} ports are reached only through it, {how}: {names}; "

    def _why_hiding(self, hiding: HidingPort) -> str:
        if not hiding.lease:
            return f"level 1 with lease 0: it hides its key, if it has one, and never opens by itself; {_OTHER_MEANS}"
        if self.interrupted and hiding.port in self._waiting.hiding:
            return f"at level 1, lease {hiding.lease} s, still waiting when the run was interrupted; its lease runs on"
        return (
            f"at level 1, lease {hiding.lease} s: it did not open; something (an SM, another tool) sends it SMPs with "
            f"its right key, or its agent starts no lease; {_OTHER_MEANS}"
        )

    def _name(self, guid: int) -> str:
        port = next((port for port in self._waiting.found.end_ports() if guid in (port.guid, port.node.guid)), None)
        name = port.node.description if port is not None else self.options.names.get(guid)
        return f"{name!r} 0x{guid:016x}" if name else f"0x{guid:016x}"

    def _identity(self, silent: SilentPort) -> dict[str, Any]:
        guid = silent.guid
        ports = {num for near, num in self._waiting.links if near == guid} if guid is not None else set()
        is_switch = len(ports) > 1
        name = self.options.names.get(guid) if guid is not None else None
        if is_switch:
            return identity(guid, guid, name, "switch", 0, None)
        return identity(None, guid, name, None, min(ports, default=None), None)

    def _links_with(self, closed: Sequence[SilentPort]) -> tuple[dict[LinkEnd, LinkEnd], dict[tuple[int, ...], int]]:
        """Return all known links with those to *closed* ports, and a mapping from the route of each closed port to the
        number by which the links name it: its GUID, or a negative number in place of an unknown GUID."""
        links: dict[LinkEnd, LinkEnd] = {**self._waiting.links, **links_of(self._waiting.found)}
        ids = {silent.path: -number if silent.guid is None else silent.guid for number, silent in enumerate(closed, 1)}
        for silent in closed:
            if silent.guid is None and silent.near is not None:
                far = (ids[silent.path], -1)  # the number of the port at the far end is not known
                links[silent.near.link_end], links[far] = far, silent.near.link_end
        for end, link in self._waiting.probed_links.items():
            if link.path in ids:
                links[end], links[ids[link.path], link.num] = (ids[link.path], link.num), end
        return links, ids

"""Reading M_Key, level and lease from the ports until they are what OpenSM was told to set.

Only the ports prove it: OpenSM's own files say what it assumes. A port at level 1 shows its key only to a requester
that sends it, so it is asked with the expected key. A wrong key counts no violation at level 1, and at levels 2 and 3
the key never changes. Source: IBA 14.2.4; opensm osm_lid_mgr.c, osm_link_mgr.c.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from ibkeys.change.clock import Clock, look_until
from ibkeys.change.writer import Writer
from ibkeys.client.smp import Task
from ibkeys.errors import IbkeysError, Unreachable
from ibkeys.fabric.handle import PortHandle
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import Method

LINK_AGE = 1.0
"""Seconds for which a check of the links is valid; after that they are checked again before a key is sent."""


@dataclass(slots=True)
class SeenPorts:
    """One look at ports, by port GUID. ``wrong``: those that are not as expected, and how; ``silent``: those that did
    not answer, or to which no key was sent because a link changed, and why; ``infos``: PortInfo of those that
    answered."""

    wrong: dict[int, str] = field(default_factory=dict)
    silent: dict[int, IbkeysError] = field(default_factory=dict)
    infos: dict[int, PortInfo] = field(default_factory=dict)


@dataclass(slots=True)
class KeyWatch:
    """Reads end ports until they show what they should. ``ports``: by port GUID; ``check``: called often, raises to
    stop; ``report``: called with how many are as expected, and how many there are."""

    writer: Writer
    ports: Mapping[int, PortHandle]
    clock: Clock
    check: Callable[[], None]
    report: Callable[[int, int], None] = lambda done, whole: None

    def until(self, wanted: KeySetting, key: MKey, patience: float) -> SeenPorts:
        """Read ports with *key* until all show *wanted*, or no further one did for *patience* seconds; return how they
        were seen last. Ports that do not answer are not waited for longer than the others."""
        left, infos = list(self.ports), dict[int, PortInfo]()

        def look() -> SeenPorts:
            nonlocal left
            seen = self.look(wanted, key, left)
            infos.update(seen.infos)
            for guid in seen.silent:
                infos.pop(guid, None)  # what it showed before is out of date
            left = [*seen.wrong, *seen.silent]
            self.report(len(self.ports) - len(left), len(self.ports))
            seen.infos = infos
            return seen

        return look_until(look, lambda seen: len(left) if seen.wrong else 0, self.clock, patience, self.check)

    def look(self, wanted: KeySetting, key: MKey, guids: Collection[int]) -> SeenPorts:
        """Get PortInfo of these ports once, with *key*, and compare it. SMPs: one for each port."""
        seen = SeenPorts()
        asked = [guid for guid in guids if guid in self.ports]
        changed: Mapping[int, str] = {}
        if not key.is_zero:
            ports = [self.ports[guid].port for guid in asked]
            changed = {port.port_guid: why for port, why in self.writer.changed_links(ports, LINK_AGE).items()}
        for guid, why in changed.items():
            seen.silent[guid] = Unreachable(f"{self.ports[guid]}: {why}; no M_Key was sent there")
        self.writer.fabric.client.run([self._ask(guid, key, seen) for guid in asked if guid not in changed])
        for guid, info in seen.infos.items():
            if difference := _difference(info, wanted):
                seen.wrong[guid] = difference
        return seen

    def _ask(self, guid: int, key: MKey, seen: SeenPorts) -> Task:
        handle = self.ports[guid]
        request = self.writer.fabric.client.request(
            Method.GET, PortInfo, handle.port.num, handle.route, node=guid, m_key=key
        )
        try:
            seen.infos[guid] = PortInfo((yield request))
        except IbkeysError as error:
            seen.silent[guid] = error


def key_to_ask_with(wanted: KeySetting, before: KeySetting) -> MKey:
    """Return the key to ask with while ports go from *before* to *wanted*: a key goes nowhere that it need not.

    Where the key stays it is asked with at every level: a port that missed an earlier step may be at level 2 or 3 yet.
    """
    if wanted.key == before.key:
        return wanted.key
    if not (before.protect or wanted.protect):
        return NO_MKEY
    return before.key if wanted.key.is_zero else wanted.key


def _difference(info: PortInfo, wanted: KeySetting) -> str:
    """Return how a port differs from *wanted*, no key in it; "" if it does not."""
    texts = []
    if MKey(info.m_key) != wanted.key:
        none = "not shown" if info.m_key_protect_bits else "0"
        texts.append(f"M_Key is {'another one' if info.m_key else none}")
    if info.m_key_protect_bits != wanted.protect:
        texts.append(f"the level is {info.m_key_protect_bits} instead of {wanted.protect}")
    if info.m_key_lease_period != wanted.lease:
        texts.append(f"the lease is {info.m_key_lease_period} s instead of {wanted.lease} s")
    return ", ".join(texts)

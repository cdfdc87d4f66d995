"""Reading M_Key, level and lease from the ports until they have the values in OpenSM's files.

Only the ports prove a step: OpenSM's files show what OpenSM assumes. A port at level 1 shows its key only to a
requester that sends this key, so the port is read with the expected key. A wrong key counts no violation at level 1,
and a run never changes the key at levels 2 and 3. Source: IBA 14.2.4; opensm osm_lid_mgr.c, osm_link_mgr.c.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from ibkeys.change.runner import ObservedPorts
from ibkeys.change.writer import ChangeWriter
from ibkeys.client.smp import Task
from ibkeys.errors import IbkeysError, Unreachable
from ibkeys.fabric.handle import PortHandle
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import Method

LINK_AGE = 1.0
"""Seconds for which a check of the links is valid. After that they are checked again before a key is sent."""


@dataclass(slots=True)
class PortReadings(ObservedPorts[int]):
    """The result of reading ports, by port GUID. ``infos``: PortInfo of the ports that answered; ``silent`` also has
    the ports to which no key was sent because a link on their route changed."""

    infos: dict[int, PortInfo] = field(default_factory=dict)

    @property
    def remaining_count(self) -> int:
        """The number of ports that are waited for. Silent ports are waited for only as long as other ports do not have
        the wanted setting."""
        return len(self.wrong) + len(self.silent) if self.wrong else 0


@dataclass(slots=True)
class KeyProof:
    """The proof that end ports have the ``wanted`` setting. ``ports``: the ports, by port GUID; ``key``: the M_Key of
    the Gets; ``report``: called with the number of ports that have the setting, and the number of all ports;
    ``too_early``: returns, of the ports with these GUIDs, those that must not be read yet, by GUID, with the reason;
    they count as ``wrong``."""

    writer: ChangeWriter
    ports: Mapping[int, PortHandle]
    wanted: KeySetting
    key: MKey
    report: Callable[[int, int], None] = lambda done, whole: None
    too_early: Callable[[Collection[int]], Mapping[int, str]] = lambda guids: {}
    _remaining: list[int] = field(default_factory=list)
    _infos: dict[int, PortInfo] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._remaining = list(self.ports)

    def begin_again(self, found: PortReadings) -> None:
        """Let the next `look` read all ports again. *found* is not used."""
        self._remaining, self._infos = list(self.ports), {}

    def look(self) -> PortReadings:
        """Read the ports that did not have the wanted setting yet, and return the last result of all ports."""
        early = self.too_early(self._remaining)
        seen = self._read_ports([guid for guid in self._remaining if guid not in early])
        seen.wrong |= early
        self._infos.update(seen.infos)
        for guid in seen.silent:
            self._infos.pop(guid, None)  # an earlier answer of this port is out of date
        self._remaining = [*seen.wrong, *seen.silent]
        self.report(len(self.ports) - len(self._remaining), len(self.ports))
        seen.infos = self._infos
        return seen

    def _read_ports(self, guids: Collection[int]) -> PortReadings:
        """Get PortInfo of these ports once, and compare it with the wanted setting. SMPs: one for each port, and those
        that check the links on the routes."""
        seen = PortReadings()
        changed: Mapping[int, str] = {}
        if not self.key.is_zero:
            ports = [self.ports[guid].port for guid in guids]
            changed = {port.port_guid: why for port, why in self.writer.changed_links(ports, LINK_AGE).items()}
        for guid, why in changed.items():
            seen.silent[guid] = Unreachable(f"{self.ports[guid]}: {why}; no M_Key was sent there")
        self.writer.fabric.client.run([self._ask(guid, seen) for guid in guids if guid not in changed])
        for guid, info in seen.infos.items():
            if difference := _difference(info, self.wanted):
                seen.wrong[guid] = difference
        return seen

    def _ask(self, guid: int, seen: PortReadings) -> Task:
        handle = self.ports[guid]
        request = self.writer.fabric.client.request(
            Method.GET, PortInfo, handle.port.num, handle.route, node=guid, m_key=self.key
        )
        try:
            seen.infos[guid] = PortInfo((yield request))
        except IbkeysError as error:
            seen.silent[guid] = error


def key_for_gets(wanted: KeySetting, before: KeySetting) -> MKey:
    """Return the M_Key for the Gets while ports change from *before* to *wanted*. If both settings are at level 0 and
    the key changes, no key is needed, and key 0 is returned. A key that stays is sent at every level, because a port
    that missed an earlier step may still be at level 2 or 3.
    """
    if wanted.key == before.key:
        return wanted.key
    if not (before.protect or wanted.protect):
        return NO_MKEY
    return before.key if wanted.key.is_zero else wanted.key


def _difference(info: PortInfo, wanted: KeySetting) -> str:
    """Return, in words and without a key, how a port differs from *wanted*; "" if it does not."""
    texts = []
    if MKey(info.m_key) != wanted.key:
        none = "not shown" if info.m_key_protect_bits else "0"
        texts.append(f"M_Key is {'another one' if info.m_key else none}")
    if info.m_key_protect_bits != wanted.protect:
        texts.append(f"the level is {info.m_key_protect_bits} instead of {wanted.protect}")
    if info.m_key_lease_period != wanted.lease:
        texts.append(f"the lease is {info.m_key_lease_period} s instead of {wanted.lease} s")
    return ", ".join(texts)

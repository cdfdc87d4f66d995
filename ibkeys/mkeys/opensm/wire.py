"""Reading M_Key, level and lease from the ports until they have the values in OpenSM's files.

Only the ports prove it: OpenSM's own files have its assumptions. A port at level 1 shows its key only to a requester
that sends it, so it is read with the expected key. A wrong key counts no violation at level 1, and at levels 2 and 3
the key never changes. Source: IBA 14.2.4; opensm osm_lid_mgr.c, osm_link_mgr.c.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from ibkeys.change.runner import PortsLook
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
class SeenPorts(PortsLook[int]):
    """The result of one look at ports, by port GUID. ``silent``: also the ports to which no key was sent because a link
    changed; ``infos``: PortInfo of the ports that answered."""

    infos: dict[int, PortInfo] = field(default_factory=dict)

    @property
    def left(self) -> int:
        """The number of ports that are waited for. Ports that do not answer are waited for only as long as others are
        wrong."""
        return len(self.wrong) + len(self.silent) if self.wrong else 0


@dataclass(slots=True)
class KeyProof:
    """Reads end ports with *key* until they show the *wanted* setting. ``ports``: by port GUID; ``report``: called with
    the number of ports that do, and the number of all; ``too_early``: returns those of some ports that must not be read
    yet, each with the reason. They are in ``wrong``."""

    writer: ChangeWriter
    ports: Mapping[int, PortHandle]
    wanted: KeySetting
    key: MKey
    report: Callable[[int, int], None] = lambda done, whole: None
    too_early: Callable[[Collection[int]], Mapping[int, str]] = lambda guids: {}
    _left: list[int] = field(default_factory=list)
    _infos: dict[int, PortInfo] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._left = list(self.ports)

    def begin_again(self, found: SeenPorts) -> None:
        """Read all of them again."""
        self._left, self._infos = list(self.ports), {}

    def look(self) -> SeenPorts:
        """Read the ports that were not as wanted yet; return the last result of all ports."""
        early = self.too_early(self._left)
        seen = self._look_at([guid for guid in self._left if guid not in early])
        seen.wrong |= early
        self._infos.update(seen.infos)
        for guid in seen.silent:
            self._infos.pop(guid, None)  # what it showed before is out of date
        self._left = [*seen.wrong, *seen.silent]
        self.report(len(self.ports) - len(self._left), len(self.ports))
        seen.infos = self._infos
        return seen

    def _look_at(self, guids: Collection[int]) -> SeenPorts:
        """Get PortInfo of these ports once, and compare it. SMPs: one for each port."""
        seen = SeenPorts()
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

    def _ask(self, guid: int, seen: SeenPorts) -> Task:
        handle = self.ports[guid]
        request = self.writer.fabric.client.request(
            Method.GET, PortInfo, handle.port.num, handle.route, node=guid, m_key=self.key
        )
        try:
            seen.infos[guid] = PortInfo((yield request))
        except IbkeysError as error:
            seen.silent[guid] = error


def key_to_ask_with(wanted: KeySetting, before: KeySetting) -> MKey:
    """Return the M_Key for Gets while ports change from *before* to *wanted*. No key is sent where none is needed. A
    key that stays is sent at every level: a port that missed an earlier step may still be at level 2 or 3.
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

"""The choice of the M_Key for each port.

A key is a secret that an SMP carries in clear, so it is sent only to the port it belongs to. The ring chooses from the
data that it was given: one key for every port (``-y``: the user's own choice), or keys by port GUID with the known
links and LIDs. Any node can claim any GUID, so a GUID alone is not enough to get a key. A key belongs to a GUID at its
known place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.topology.nodes import LinkEnd, Port

if TYPE_CHECKING:
    from ibkeys.keys.classkey import ClassKey
    from ibkeys.mad.classes.gmp import ClassName
    from ibkeys.topology.model import Topology

OPEN_LEVELS = frozenset({0, 1})
"""M_KeyProtectBits at which a Get without the key is answered, counts nothing and starts no lease (IBA 14.2.4)."""


@dataclass(slots=True)
class KeyRing:
    """Known M_Keys.

    ``for_all``: sent to every node addressed. ``by_guid``: port GUID → key; of a switch the node GUID, which is that of
    its port 0. ``levels``: port GUID → M_KeyProtectBits, where known (key files have none). ``neighbors``: one end of a
    link → the other; ``from_sa``: the ends of those links that are known from the SA only. ``link_downed``: one end of
    a link → LinkDownedCounter of that port when the link was proven, where it was recorded. ``lids``: port GUID → base
    LID, where known. ``settled``: port GUIDs that the user has declared as gone, so that no sweep waits for them.
    ``spares``: port GUID → further keys that the port may have (a Set whose answer was lost). ``confirmed``: port GUIDs
    whose key in ``by_guid`` was proven by a read, with no change of it begun since; the ``spares`` are former keys
    then. ``in_change``: port GUID → the keys that it may have while a change of its key is unfinished. ``fallback``:
    sent to a port for which there is no other (a default of the configuration file). ``trust_topology``: send the key
    of the expected port although the link could not be proven, and that of a class although no place is known.
    ``ask_unproven``: query once, without a key, ports that could not be proven or identified. ``learned``: keys that
    this run installed itself; they have precedence over all others. ``class_keys``: class → port GUID → its key in
    another management class.
    """

    for_all: MKey | None = None
    fallback: MKey = NO_MKEY
    by_guid: dict[int, MKey] = field(default_factory=dict)
    levels: dict[int, int] = field(default_factory=dict)
    neighbors: dict[LinkEnd, LinkEnd] = field(default_factory=dict)
    from_sa: frozenset[LinkEnd] = frozenset()
    link_downed: Mapping[LinkEnd, int] = field(default_factory=dict)
    lids: dict[int, int] = field(default_factory=dict)
    settled: frozenset[int] = frozenset()
    spares: dict[int, Sequence[MKey]] = field(default_factory=dict)
    confirmed: frozenset[int] = frozenset()
    in_change: dict[int, Sequence[MKey]] = field(default_factory=dict)
    trust_topology: bool = False
    ask_unproven: bool = False
    learned: dict[int, MKey] = field(default_factory=dict)
    class_keys: Mapping[ClassName, Mapping[int, ClassKey]] = field(default_factory=dict)

    @property
    def has_keys(self) -> bool:
        """Whether some port is known to have a key of its own; then every link is verified before its far end is
        queried.

        Not with one key for every port, because the user chose that.
        """
        return self.for_all is None and any(not key.is_zero for key in self.by_guid.values())

    def is_protected(self, port_guid: int) -> bool:
        """Return whether a port is known as protected: an SMP without its key may count a violation and start its
        lease.

        A port is protected if its key is not 0 and its level is 2, 3 or not known.
        """
        key = self.by_guid.get(port_guid, NO_MKEY)
        return not key.is_zero and self.levels.get(port_guid) not in OPEN_LEVELS

    def has_class_key(self, port_guid: int) -> bool:
        """Return whether a key of another management class is known for a port."""
        return any(not keys[port_guid].is_zero for keys in self.class_keys.values() if port_guid in keys)

    def protected(self) -> set[int]:
        """Return the GUIDs of all ports that are known as protected."""
        return {guid for guid in self.by_guid if self.is_protected(guid)}

    def key_of(self, port_guid: int) -> MKey:
        """Return the key of a port that is proven to be at its known place; the zero key when there is none."""
        if port_guid in self.learned:
            return self.learned[port_guid]
        if self.for_all is not None:
            return self.for_all
        return self.by_guid.get(port_guid, self.fallback)

    @property
    def for_unknown_port(self) -> MKey:
        """Return the key for a port of which nothing is known, or nothing is proven."""
        return self.fallback if self.for_all is None else self.for_all

    def expected_behind(self, near: LinkEnd) -> LinkEnd | None:
        """Return the far end of the link of *near*, by the known links. None if no link of *near* is known, or if
        another known link has the same far end.
        """
        far = self.neighbors.get(near)
        return far if far is not None and self.neighbors.get(far, near) == near else None

    def joins(self, near: LinkEnd, far: LinkEnd) -> bool:
        """Return whether a known link joins these two ends and is known from another source than the SA.

        A link from the SA alone is not enough for keys of classes, nor for moving a key that came from elsewhere.
        """
        is_expected = self.expected_behind(near) == far or self.expected_behind(far) == near
        return is_expected and not self.from_sa & {near, far}

    def is_placed(self, port_guid: int) -> bool:
        """Return whether a known link ends at that port or switch."""
        return any(guid == port_guid for guid, _ in self.neighbors)

    def place_of(self, port_guid: int) -> LinkEnd | None:
        """Return the port that faces a port of a CA or router, by the known links.

        None for a switch, which has many links, and if no link is known.
        """
        nears = {near for (guid, _), near in self.neighbors.items() if guid == port_guid}
        return nears.pop() if len(nears) == 1 else None

    def for_found(self, port: Port, found: Topology | None) -> MKey:
        """Return the key for a port of a sweep: the key that it answered to, or a key that this run installed there
        since.

        *found*: the result of the sweep; a port whose GUID was not trusted keeps the key that it answered to.
        """
        own = port.end_port
        is_doubtful = found is not None and own in found.doubtful
        return own.m_key if is_doubtful else self.learned.get(own.guid, own.m_key)

    def others_for(self, port_guid: int, tried: MKey) -> Sequence[MKey]:
        """Return the further keys that a port may have, if *tried* is one of the ring's own keys for it."""
        known = (self.by_guid.get(port_guid, NO_MKEY), *self.spares.get(port_guid, ()))
        return () if tried.is_zero or tried not in known else [key for key in known if key != tried]

    def attempts(self, port_guid: int, key: MKey, retries: int) -> list[MKey]:
        """Return the keys with which to query a port that may have *key* or another key, one for each attempt.

        A port at level 2 or 3 does not answer a wrong key. It counts a violation for each such attempt, and its lease
        starts. So a key that the port may not have is sent once. While a change of the key is unfinished, only the keys
        that the port may have then are sent, unless ``ask_unproven`` is set. A confirmed key has ``retries + 1``
        attempts, because silence then most likely is a lost packet. At a lower level every key has that many attempts.
        """
        others = self.others_for(port_guid, key)
        times = 1 if self.is_protected(port_guid) else retries + 1
        if port_guid in self.confirmed and key == self.by_guid.get(port_guid):
            return [key] * (retries + 1) + [*others] * times
        if self.withheld(port_guid, key):
            return [key, *(other for other in others if other in self.in_change[port_guid])]
        return [key, *others] * (times if others else retries + 1)

    def withheld(self, port_guid: int, tried: MKey) -> int:
        """Return how many keys that a port may have are left out by `attempts`."""
        if port_guid not in self.in_change or self.ask_unproven or not self.is_protected(port_guid):
            return 0
        return sum(other not in self.in_change[port_guid] for other in self.others_for(port_guid, tried))

    def answered(self, port_guid: int, key: MKey) -> None:
        """Record that a port answered to *key*, so that it is tried first while a change of the port's key is
        unfinished."""
        if port_guid in self.in_change and (others := self.others_for(port_guid, key)):
            self.by_guid[port_guid], self.spares[port_guid] = key, others

    def learn(self, port_guid: int, key: MKey) -> None:
        """Record that *key* was just installed at a port, at a level that is not examined, and use it from now on."""
        self.learned[port_guid] = self.by_guid[port_guid] = key
        self.levels.pop(port_guid, None)

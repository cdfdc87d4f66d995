"""The choice of the M_Key for each port.

A key is a secret that an SMP carries in clear, so the key of a port is sent only to that port. The ring has either one
key for every port, which the user chose (``-y``), or keys by port GUID together with the known links and LIDs. Any node
can claim any GUID, so a port gets the key of its GUID only at the known place of that GUID; with ``trust_topology``,
whatever port is at that place gets it.
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
    """Known M_Keys, and the data that decide where each may be sent.

    Keys: ``for_all``: the key for every node, None if keys of single ports are used. ``by_guid``: port GUID → key; of a
    switch its NodeGUID, which is assumed to be the GUID of its port 0. ``levels``: port GUID → M_KeyProtectBits, as far
    as known (key files have none). ``fallback``: the key for ports without a known key (a default of the configuration
    file). ``learned``: port GUID → the key that this run installed, which takes precedence over all others.
    ``class_keys``: class → port GUID → the key of that management class.

    Keys in doubt: ``spares``: port GUID → further keys that the port may have, because the answer to a Set was lost.
    ``confirmed``: port GUIDs whose key in ``by_guid`` was proven by a read, with no change of it begun since; their
    ``spares`` are former keys. ``in_change``: port GUID → the keys that the port may have while a change of its key is
    unfinished.

    Places: ``neighbors``: one end of a link → the other end; ``from_sa``: the ends of links that are known from the SA
    only. ``link_downed``: one end of a link → LinkDownedCounter of that port when the link was proven, as far as
    recorded. ``lids``: port GUID → base LID, as far as known. ``settled``: GUIDs of ports that the user has declared as
    gone, so that no sweep looks for them.

    Choices of the user: ``trust_topology``: send the key of the expected port although the link could not be proven,
    and the key of a class although no place is known. ``ask_unproven``: query once, without a key, the ports that could
    not be proven or identified.
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
        """Whether a port is known to have a key other than 0 of its own. Then every link is proven before its far end
        is queried.

        False if the user chose one key for every port.
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
        """Return the key of a port that is proven to be at its known place; ``fallback`` if no key is known for it."""
        if port_guid in self.learned:
            return self.learned[port_guid]
        if self.for_all is not None:
            return self.for_all
        return self.by_guid.get(port_guid, self.fallback)

    @property
    def for_unknown_port(self) -> MKey:
        """The key for a port that is not known, or not proven to be at its known place."""
        return self.fallback if self.for_all is None else self.for_all

    def expected_behind(self, near: LinkEnd) -> LinkEnd | None:
        """Return the far end of the link of *near* by the known links.

        Returns None if no link of *near* is known, or if the known links have another neighbour for that far end.
        """
        far = self.neighbors.get(near)
        return far if far is not None and self.neighbors.get(far, near) == near else None

    def joins(self, near: LinkEnd, far: LinkEnd) -> bool:
        """Return whether a link between these two ends is known from another source than the SA.

        A link that is known from the SA only is not enough for sending the keys of classes.
        """
        is_expected = self.expected_behind(near) == far or self.expected_behind(far) == near
        return is_expected and not self.from_sa & {near, far}

    def is_placed(self, port_guid: int) -> bool:
        """Return whether a known link ends at the port or switch with this GUID."""
        return any(guid == port_guid for guid, _ in self.neighbors)

    def place_of(self, port_guid: int) -> LinkEnd | None:
        """Return the neighbour of a port of a CA or router by the known links.

        Returns None for a switch with several links, and if no link is known.
        """
        nears = {near for (guid, _), near in self.neighbors.items() if guid == port_guid}
        return nears.pop() if len(nears) == 1 else None

    def for_found(self, port: Port, topology: Topology | None) -> MKey:
        """Return the key for a port of a sweep: the key that this run has installed at it, else the key that it
        answered to.

        *topology*: the result of the sweep. For a port whose GUID is not trusted there, it is always the key that the
        port answered to.
        """
        own = port.end_port
        is_doubtful = topology is not None and own in topology.doubtful
        return own.m_key if is_doubtful else self.learned.get(own.guid, own.m_key)

    def others_for(self, port_guid: int, tried: MKey) -> Sequence[MKey]:
        """Return the keys other than *tried* that a port may have; () if *tried* is not one of the ring's keys for it,
        or is 0."""
        known = (self.by_guid.get(port_guid, NO_MKEY), *self.spares.get(port_guid, ()))
        return () if tried.is_zero or tried not in known else [key for key in known if key != tried]

    def attempts(self, port_guid: int, key: MKey, retries: int) -> list[MKey]:
        """Return the keys for the attempts to query a port that may have *key* or another key, one key for each
        attempt.

        A port at level 2 or 3 does not answer a wrong key, counts a violation for it, and its lease starts. So a key
        that the port may not have is sent once. While a change of the key is unfinished, only the keys in ``in_change``
        are sent, unless ``ask_unproven`` is set. A confirmed key, and the only key of a port, have ``retries + 1``
        attempts, because silence then probably is a lost packet. If the port is not protected, every key has
        ``retries + 1`` attempts.
        """
        others = self.others_for(port_guid, key)
        times = 1 if self.is_protected(port_guid) else retries + 1
        if port_guid in self.confirmed and key == self.by_guid.get(port_guid):
            return [key] * (retries + 1) + [*others] * times
        if self.withheld(port_guid, key):
            return [key, *(other for other in others if other in self.in_change[port_guid])]
        return [key, *others] * (times if others else retries + 1)

    def withheld(self, port_guid: int, tried: MKey) -> int:
        """Return how many of the keys that a port may have `attempts` leaves out, for *tried* as its *key*."""
        if port_guid not in self.in_change or self.ask_unproven or not self.is_protected(port_guid):
            return 0
        return sum(other not in self.in_change[port_guid] for other in self.others_for(port_guid, tried))

    def answered(self, port_guid: int, key: MKey) -> None:
        """Record that a port answered to *key*. While a change of the port's key is unfinished, *key* is then tried
        first."""
        if port_guid in self.in_change and (others := self.others_for(port_guid, key)):
            self.by_guid[port_guid], self.spares[port_guid] = key, others

    def learn(self, port_guid: int, key: MKey) -> None:
        """Record that *key* was just installed at a port, and use it from now on. The level is then not known."""
        self.learned[port_guid] = self.by_guid[port_guid] = key
        self.levels.pop(port_guid, None)

"""Which M_Key goes to which port.

A key is a secret that an SMP carries in clear, so it goes only to the port it belongs to. The ring answers from what it
was given: one key for every port (``-y``: the user's own choice), or keys by port GUID with the known links and LIDs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ibkeys.keys.mkey import NO_MKEY, MKey

PortId = tuple[int, int]
"""(node or port GUID, port number), as the ``neighbors`` file writes one end of a link."""


@dataclass(slots=True)
class KeyRing:
    """M_Keys at hand.

    ``for_all``: sent to every node addressed. ``by_guid``: port GUID → key; of a switch the node GUID, which is that of
    its port 0. ``neighbors``: one end of a link → the other. ``lids``: port GUID → base LID, where known.
    ``spares``: port GUID → further keys that the port may have (a Set whose answer was lost).
    ``fallback``: sent to a port for which there is no other (a default of the configuration file).
    ``trust_topology``: send the key of the expected port although the link could not be proven.
    ``learned``: keys that this run installed itself; they come before all others.
    """

    for_all: MKey | None = None
    fallback: MKey = NO_MKEY
    by_guid: dict[int, MKey] = field(default_factory=dict)
    neighbors: dict[PortId, PortId] = field(default_factory=dict)
    lids: dict[int, int] = field(default_factory=dict)
    spares: dict[int, Sequence[MKey]] = field(default_factory=dict)
    trust_topology: bool = False
    learned: dict[int, MKey] = field(default_factory=dict)

    def key_of(self, port_guid: int, near: PortId | None = None) -> MKey:
        """Return the key of a port whose GUID was read from the port itself; the zero key when there is none.

        *near* is the end of the link through which it was reached. When the known links place this port elsewhere, what
        answered is not where the key belongs: it gets none, unless the topology is trusted.
        """
        if port_guid in self.learned:
            return self.learned[port_guid]
        if self.for_all is not None:
            return self.for_all
        if port_guid not in self.by_guid:
            return self.fallback
        key = self.by_guid[port_guid]
        if key.is_zero or near is None or self.trust_topology:
            return key
        expected = self.neighbors.get(near)
        return key if expected is None or expected[0] == port_guid else NO_MKEY

    @property
    def for_strangers(self) -> MKey:
        """The key for a port of which nothing is known yet."""
        return self.fallback if self.for_all is None else self.for_all

    def expected_behind(self, near: PortId) -> tuple[int, MKey] | None:
        """Return (port GUID, key) of the port that the known links place at the far end of *near*, if it has a key."""
        far = self.neighbors.get(near)
        key = self.by_guid.get(far[0]) if far else None
        return (far[0], key) if far and key and not key.is_zero else None

    def others_for(self, port_guid: int, tried: MKey) -> Sequence[MKey]:
        """Return the further keys that a port may have, when *tried* was one of the ring's own for it."""
        if tried.is_zero or tried != self.by_guid.get(port_guid):
            return ()
        return [key for key in self.spares.get(port_guid, ()) if key != tried]

    def learn(self, port_guid: int, key: MKey) -> None:
        """From now on use *key* for a port: it was just installed there."""
        self.learned[port_guid] = key

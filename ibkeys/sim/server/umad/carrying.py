"""Carrying a MAD of a program through the fabric, and the data about its arrival that a `Delivery` does not have."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from ibkeys.keys.pkey import PARTITION_MASK, match_in_table
from ibkeys.mad import offsets as at
from ibkeys.mad.const import DIRECTED_ROUTE, MAD_SIZE, PERMISSIVE_LID, SMP_CLASSES
from ibkeys.sim import packets, routing
from ibkeys.sim.deliveries import DeliveryOutcome, Drop
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.notices import Packet
from ibkeys.sim.server.outbox import MadTap, PassedMad
from ibkeys.sim.server.umad import wire
from ibkeys.sim.server.umad.agents import is_response, queue_pair
from ibkeys.sim.server.umad.directed_routes import as_carried
from ibkeys.sim.server.umad.open_ports import ProgramPort
from ibkeys.sim.subnet import Subnet

_DEFAULT_INDEX: Final = 0


class Arrival(NamedTuple):
    """Data about the arrival of a MAD that a `Delivery` does not have. ``path_bits``: None for those in ``dlid``;
    ``grh``: as in `wire.Address`."""

    dlid: int
    path_bits: int | None = None
    sl: int = 0
    grh: bytes | None = None
    p_key_index: int = _DEFAULT_INDEX


arrival_at: Final = lru_cache(maxsize=1024)(Arrival)
"""`Arrival` with a cache, because most arrivals are equal to earlier ones."""


@lru_cache(maxsize=1024)
def _address(qpn: int, slid: int, arrival: Arrival, path_bits: int) -> wire.Address:
    return wire.Address(qpn, slid, arrival.sl, path_bits, arrival.grh, arrival.p_key_index)


def sender(mad: bytes, slid: int, arrival: Arrival, port: SimPort) -> wire.Address:
    """Return the address of the sender of *mad*, which arrived at *port*, as the umad header has it."""
    path_bits = arrival.path_bits
    if path_bits is None:
        path_bits = arrival.dlid & (1 << port.lmc) - 1 if arrival.dlid != PERMISSIVE_LID else 0
    return _address(queue_pair(mad[at.MGMT_CLASS]), slid, arrival, path_bits)


class Carrying:
    """Carries MADs over *subnet*. *watch*: called with each. ``arrival``: the arrival of the MAD that is being carried
    now, None at all other times."""

    def __init__(self, subnet: Subnet, watch: MadTap | None) -> None:
        self.arrival: Arrival | None = None
        self._subnet = subnet
        self._watch = watch

    def carry(self, opened: ProgramPort, mad: bytes, address: wire.Address) -> tuple[DeliveryOutcome, Arrival]:
        """Send *mad* from an open port to *address*; return the outcome, and the arrival of the answers in it."""
        if len(mad) < MAD_SIZE:
            mad = mad.ljust(MAD_SIZE, b"\0")
        if self._watch is None:
            return self._carry(opened.port, mad, address)
        slid = PERMISSIVE_LID if mad[at.MGMT_CLASS] == DIRECTED_ROUTE else opened.port.lid
        self._watch(PassedMad(opened, True, mad, slid, address.lid, address.qpn))
        outcome, back = self._carry(opened.port, mad, address)
        if isinstance(outcome, Drop) and not is_response(mad):
            note = f"no answer: {outcome.value}"
            self._watch(PassedMad(opened, False, mad, slid, address.lid, address.qpn, note))
        return outcome, back

    def _carry(self, port: SimPort, mad: bytes, address: wire.Address) -> tuple[DeliveryOutcome, Arrival]:
        before, dlid = self.arrival, address.lid
        try:
            if mad[at.MGMT_CLASS] in SMP_CLASSES:
                self.arrival = arrival_at(dlid)
                return self._subnet.carrier.send(as_carried(mad), port, dlid), arrival_at(dlid, address.path_bits)
            return self._carry_gmp(port, mad, address)
        finally:
            self.arrival = before

    def _carry_gmp(self, port: SimPort, mad: bytes, address: wire.Address) -> tuple[DeliveryOutcome, Arrival]:
        """Carry a GMP as `carry` does. Switches and the receiver check its P_Key, and the P_Key of the answer, which is
        the receiver's."""
        back = Arrival(address.lid, address.path_bits, address.sl)
        p_key = port.p_key_at(address.p_key_index)
        if not p_key & PARTITION_MASK:
            return Drop.NO_P_KEY, back
        end = routing.hops(port, address.lid)[1]
        if end is None:
            return Drop.NO_ROUTE, back
        index = self._passes(port, end, p_key, address.sl, address.lid)
        if index is None:
            return Drop.P_KEY, back
        grh = None if address.grh is None else wire.grh_from(address.grh, port.gid)
        self.arrival = Arrival(address.lid, None, address.sl, grh, index)
        outcome = self._subnet.send(mad, port, address.lid)
        if isinstance(outcome, Drop) or not outcome:
            return outcome, back
        index = self._passes(end, port, end.p_key_at(index), address.sl, port.lid)
        if index is None:
            return Drop.P_KEY, back
        grh = None if address.grh is None else wire.grh_from(address.grh, end.gid)
        return outcome, back._replace(p_key_index=index, grh=grh)

    def _passes(self, source: SimPort, end: SimPort, p_key: int, sl: int, dlid: int) -> int | None:
        """Send a packet with *p_key* from *source* to *end*, which has *dlid*; return the index of the entry by which
        *end* accepts it, None if it is dropped."""
        if source is end:
            return match_in_table(p_key, end.p_keys)
        subnet, packet = self._subnet, Packet(source, end, p_key, sl=sl, destination_lid=dlid)
        # The ports do not count the packet in PortXmitPkts, PortRcvPkts and the like, as they count
        # no MAD; a drop is counted.
        return packets.carry(packet, subnet.inbound_check, subnet.traps, is_counted=False).entry

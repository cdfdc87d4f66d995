"""A port that may be written: the route to its agent, and its M_Key."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ibkeys.arguments import given
from ibkeys.errors import MKeyNeeded
from ibkeys.fabric.handle import PortHandle
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.nodes import Port
from ibkeys.topology.port_id import PortId, PortKey


@dataclass(slots=True)
class PortTarget:
    """A port that may be written, as it was read. ``m_key``: the M_Key in the header of a Set."""

    handle: PortHandle
    m_key: MKey = NO_MKEY

    @classmethod
    def of(cls, handle: PortHandle) -> PortTarget:
        """Return the port of *handle* as a target, with its M_Key; PortInfo of its end port must have been read.

        Raises MKeyNeeded as `key_for_set`.
        """
        return cls(handle, key_for_set(handle))

    @property
    def port(self) -> Port:
        """The port as it was read."""
        return self.handle.port

    @property
    def id(self) -> PortId:
        """The port as JSON documents identify it."""
        return self.port.id

    @property
    def peer(self) -> PortKey | None:
        """The port at the other end of the link, None if there is none."""
        peer = self.port.peer
        return None if peer is None else (peer.node.guid, peer.num)

    @property
    def values(self) -> tuple[int, ...]:
        """The P_Key table as read, empty and invalid entries included."""
        raw = self.port.p_key_raw or b""
        return struct.unpack(f">{len(raw) // 2}H", raw)

    @property
    def table(self) -> dict[int, PKey]:
        """The valid entries of the P_Key table as read."""
        return {index: PKey(value) for index, value in enumerate(self.values) if value & PARTITION_MASK}

    @property
    def enforcement(self) -> Enforcement:
        """The enforcement bits as read."""
        info = self.port.port_info
        assert info is not None
        return Enforcement.of(info)


def key_for_set(handle: PortHandle) -> MKey:
    """Return the port's M_Key as PortInfo of its end port shows it. A Set carries it in its header, and Set(PortInfo)
    writes it back.

    The M_Key that a port shows is its M_Key, also when it is zero; OpenSM assumes this too. The exception is level 1,
    where a port shows zero to every requester that does not send its key: there only ``-y 0`` asserts that it has none.

    Raises MKeyNeeded when the key is hidden: a Set with a wrong key would be dropped and count a violation.
    """
    info = handle.port.end_port.port_info
    assert info is not None
    shown, ring = MKey(info.m_key), handle.fabric.ring
    if not shown.is_zero or info.m_key_protect_bits != 1:
        return shown
    if ring.for_all == NO_MKEY:
        return NO_MKEY
    why = "none is known for it" if handle.m_key.is_zero else "it is not the one that was sent"
    raise MKeyNeeded(
        f"{handle}: the port is at protection level 1 and hides its M_Key, and {why}: give the key with "
        + given("-y, --keystore or --security-keys")
    ).explained(
        "A Set without the key would be dropped and counted as a violation, so none was sent.",
        f"{given('-y 0')} says that the port has no key.",
    )

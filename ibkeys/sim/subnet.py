"""A subnet in memory: nodes, cables, a clock and faults, what may be done to them, and what lasts of it.

`Subnet.send` takes 256 bytes in at a port (`ibkeys.sim.mad_carrier`) and returns what comes back out and when. It does
no I/O and reads no clock but its own, so everything repeats exactly under a seed. Not thread-safe.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from ibkeys.errors import AddressError, EncodeError, UsageError
from ibkeys.keys.guid import is_spelled_as_guid, parse_guid
from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK, InboundCheck
from ibkeys.mad.const import PERMISSIVE_LID, CapabilityMask, SMState
from ibkeys.near import did_you_mean, did_you_mean_one_of, near_nodes
from ibkeys.printable import named
from ibkeys.sim import notices, packets, routing, state
from ibkeys.sim.agents.sa import SubnetAdministration
from ibkeys.sim.faults import Faults
from ibkeys.sim.history import Event, History
from ibkeys.sim.mad_carrier import MadCarrier
from ibkeys.sim.managers import Managers
from ibkeys.sim.netfile.build import Links, PortGuids, build
from ibkeys.sim.netfile.model import NetFile
from ibkeys.sim.netfile.reader import parse_net_file, parse_net_text
from ibkeys.sim.nodes import CAPABILITY_MASK, SM_LID, Node, Port, SubnetManager
from ibkeys.sim.notices import Packet
from ibkeys.sim.physical import links, power
from ibkeys.sim.receivers import Delivery, Receiver, Receivers
from ibkeys.sim.traps import Traps

_IS_SM: Final = int(CapabilityMask.IS_SM)
_IS_CAPABILITY_MASK_NOTICE_SUPPORTED: Final = int(CapabilityMask.IS_CAPABILITY_MASK_NOTICE_SUPPORTED)
_IS_OTHER_LOCAL_CHANGES_NOTICE_SUPPORTED: Final = int(CapabilityMask.IS_OTHER_LOCAL_CHANGES_NOTICE_SUPPORTED)


class Subnet:
    """A simulated subnet. Make one with `from_file` or `from_text`.

    ``nodes`` in the order of the file; ``history`` its clock, what happened and what changed; ``faults`` what goes
    wrong; ``receivers`` the programs at its ports; ``traps`` what its agents tell the SM; ``managers`` who runs a
    subnet manager; ``unplugged`` where pulled cables had led to; ``inbound_check`` what its switches check of
    memberships where they enforce inbound.
    """

    def __init__(self, file: NetFile, port_guids: PortGuids = "file", seed: int = 0, links: Links = "active") -> None:
        if port_guids not in ("file", "ibsim"):
            raise UsageError(f"port GUIDs {port_guids!r}: file and ibsim are known")
        if links not in ("active", "initialize"):
            raise UsageError(f"links {links!r}: active and initialize are known")
        self.faults = Faults(seed)
        self.history = History()
        self.receivers = Receivers()
        self.traps = Traps(self.faults, self.receivers)
        self.unplugged: dict[Port, Port] = {}
        self.inbound_check: InboundCheck = DEFAULT_INBOUND_CHECK
        self.nodes: list[Node] = build(self.history, file, port_guids, links)
        self.managers = Managers(self.nodes)
        self._carrier = MadCarrier(self.faults, self.history, self.receivers, self.traps, self.managers)
        self._first_lids: list[tuple[Port, int, int]] = [
            (port, port.lid, 1 << port.lmc) for node in self.nodes for port in node.end_ports if port.lid
        ]
        self._by_id = {node.node_id: node for node in self.nodes}
        for node in self.nodes:
            node.first_lids = self._first_lids
        self.history.touched_ports.clear()
        identity = repr([(node.node_id, node.guid, node.num_ports) for node in self.nodes]) + repr(file.links)
        self.fingerprint = hashlib.sha256(f"{port_guids} {links} {identity}".encode("utf-8", "replace")).hexdigest()

    @classmethod
    def from_file(
        cls, path: str | Path, port_guids: PortGuids = "file", seed: int = 0, links: Links = "active"
    ) -> Self:
        """Build a subnet from a net file (ibsim's or ibnetdiscover's). Raises FileFormatError.

        *port_guids*: those that the file prints, or "ibsim" for node GUID + port number. *links*: "active" as a subnet
        manager left it (LIDs, routes, Active), "initialize" as after power-up.
        """
        return cls(parse_net_file(path), port_guids, seed, links)

    @classmethod
    def from_text(cls, text: str, port_guids: PortGuids = "file", seed: int = 0, links: Links = "active") -> Self:
        """As `from_file`, from the text of a net file."""
        return cls(parse_net_text(text), port_guids, seed, links)

    # Looking at it

    def node(self, key: Node | str | int) -> Node:
        """Return a node by node id, NodeDescription, or GUID (of the node or of a port; a number or ``0x...``).

        Raises AddressError when there is none, or several with that description.
        """
        if isinstance(key, Node):
            return key
        if isinstance(key, str):
            if key in self._by_id:
                return self._by_id[key]
            named = [node for node in self.nodes if node.description == key]
            if len(named) == 1:
                return named[0]
            if named:
                ids = ", ".join(node.node_id for node in named[:8])
                raise AddressError(f"{len(named)} nodes have the description {key!r}: {ids}")
            key = self._guid(key)
        for node in self.nodes:
            if key == node.guid or any(key == port.guid for port in node.end_ports):
                return node
        raise AddressError(f"no node has the GUID 0x{key:016x}")

    def _guid(self, key: str) -> int:
        """Return *key*, which is no id or description, as a GUID. Raises AddressError, with names that are near."""
        if not re.fullmatch("[0-9a-fA-F]{1,16}", key) and not is_spelled_as_guid(key):
            known = [node.description for node in self.nodes]
            near = did_you_mean_one_of(near_nodes(key, known)) or did_you_mean(key, self._by_id)
            near = near or f"; there are {named(known)}"
            raise AddressError(f"no node has the id or description {key!r}{near}")
        try:
            return parse_guid(key if ":" in key else f"0x{key.lower().removeprefix('0x')}")
        except EncodeError as error:
            raise AddressError(str(error)) from None

    def port(self, node: Node | str | int, number: int) -> Port:
        """Return a port: its physical state, to look at and to set without SMPs. Raises AddressError."""
        found = self.node(node)
        if not (0 if found.is_switch else 1) <= number <= found.num_ports:
            raise AddressError(f"{found.description} has no port {number}")
        return found.ports[number]

    def first_lids(self) -> list[tuple[Port, int, int]]:
        """Return (end port, base LID, number of LIDs) as of the start, for the routes of that time."""
        return self._first_lids

    def first_top_lid(self) -> int:
        """Return the length that a forwarding table needs for the LIDs of the start."""
        return routing.first_top_lid(self._first_lids)

    # What has happened

    @property
    def events(self) -> list[Event]:
        """What happened: the last events only, oldest first."""
        return self.history.events

    @property
    def now(self) -> float:
        """The subnet's clock in seconds."""
        return self.history.now

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises UsageError for less than none."""
        self.history.advance(seconds)

    def follow_clock(self, clock: Callable[[], float] | None) -> None:
        """Let `now` follow *clock* (seconds) where that is ahead of the virtual time; None ends it."""
        self.history.follow_clock(clock)

    # Changing it without SMPs

    def set_sm(
        self, node: Node | str | int, state: int | None = 3, priority: int = 0, port: int | None = None, sm_key: int = 0
    ) -> None:
        """Let a node run a subnet manager: it answers SMInfo and shows IsSM. *state* None ends it.

        A master's LID becomes MasterSMLID of all end ports, and an SA answers there (`sa_of`). *port* is the first with
        a link unless given.
        """
        found = self.node(node)
        if found.sm is not None:
            self.set_is_sm(found.sm.port, False)
            self.managers.place(found, None)
        found.touch()
        if state is None:
            return
        if not 0 <= state <= 3 or not 0 <= priority <= 15:
            raise UsageError(f"SM state {state} is not in 0..3 or priority {priority} not in 0..15")
        home = self.port(found, port) if port is not None else self.attach_port(found)
        if not home.is_end_port:
            raise UsageError(f"{home} is no end port: no SM runs there")
        self.managers.place(found, SubnetManager(home, state, priority, sm_key))
        self.set_is_sm(home, True)
        if state == SMState.MASTER:
            for other in self.nodes:
                for end in other.end_ports:
                    end.info[SM_LID] = home.lid.to_bytes(2)
                    end.touch()

    def sa_of(self, node: Node | str | int) -> SubnetAdministration:
        """Return the SA of a node that `set_sm` made a master: its keys and groups are there to set."""
        return self.managers.sa_of(self.node(node))

    def set_is_sm(self, port: Port, on: bool) -> None:
        """Set or clear IsSM of an end port, as a program does that opens its issm device; trap 144 says so."""
        self.set_capability(port, _IS_SM, on)

    def set_capability(self, port: Port, bits: int, on: bool) -> None:
        """Set or clear bits of the CapabilityMask of an end port, as software on it does; trap 144 says so."""
        mask = port.capability_mask & ~bits | (bits if on else 0)
        if mask != port.capability_mask:
            port.info[CAPABILITY_MASK] = mask.to_bytes(4)
            port.touch()
            if mask & _IS_CAPABILITY_MASK_NOTICE_SUPPORTED:
                self.traps.send(port, notices.capability_change(port))

    def set_description(self, node: Node | str | int, text: str) -> None:
        """Change NodeDescription, as software on the node does; trap 144 with its flag says so. Raises UsageError."""
        found, raw = self.node(node), text.encode("utf-8", "replace")
        if len(raw) > 64:
            raise UsageError(f"a NodeDescription of {len(raw)} bytes; 64 is the most")
        found.description_bytes = raw
        found.ports[0].record("description")
        found.touch()
        for port in found.end_ports:
            if port.capability_mask & (_IS_CAPABILITY_MASK_NOTICE_SUPPORTED | _IS_OTHER_LOCAL_CHANGES_NOTICE_SUPPORTED):
                self.traps.send(port, notices.description_change(port))

    def reset(self, node: Node | str | int) -> None:
        """Switch a node off and on: what is volatile returns to its state of power-up (`ibkeys.sim.physical.power`)."""
        found = self.node(node)
        if found.sm is not None:
            self.set_sm(found, None)
        power.reset(found, self.traps)

    def packet(self, packet: Packet, expected_q_key: int | None = None) -> str:
        """Let a data packet go its way and return in words what became of it (see `ibkeys.sim.packets`)."""
        return packets.carry(packet, self.inbound_check, self.traps, expected_q_key)

    def attach_port(self, node: Node | str | int) -> Port:
        """Return the port that a program on *node* uses unless told: port 0 of a switch, else the first with a link."""
        found = self.node(node)
        if found.is_switch:
            return found.ports[0]
        return next((port for port in found.end_ports if port.is_up), found.ports[1])

    def silence(self, node: Node | str | int, on: bool = True, *, forwards: bool = True) -> None:
        """Let a node answer nothing; with *forwards* False nothing passes through it either."""
        found = self.node(node)
        found.silent = (1 if forwards else routing.FORWARDS_NOTHING) if on else 0
        found.touch()
        self.history.changes += 1

    def unplug(self, node: Node | str | int, number: int) -> Port | None:
        """Pull the cable out of a port: both ends fall to Down. Returns the port at the other end."""
        port = self._external(node, number)
        peer = links.disconnect(port, self.traps)
        if peer is not None:
            self.unplugged[port], self.unplugged[peer] = peer, port
        return peer

    def plug(self, node: Node | str | int, number: int, peer: Node | str | int, peer_number: int) -> None:
        """Put a cable between two free ports; the link comes up to Initialize. Raises UsageError."""
        port, far_end = self._external(node, number), self._external(peer, peer_number)
        for end in (port, far_end):
            if end.peer is not None or port is far_end:
                raise UsageError(f"{end} has a cable already")
        links.connect(port, far_end, self.traps)

    def _external(self, node: Node | str | int, number: int) -> Port:
        port = self.port(node, number)
        if port.number == 0:
            raise UsageError(f"{port} is inside the switch: no cable goes there")
        return port

    # MADs

    def attach(self, port: Port, receiver: Receiver) -> Callable[[], None]:
        """Let *receiver* have what arrives at *port* and no SMA answers: traps, SMInfo for its SM, responses, GMPs,
        and each TrapRepress that passed the M_Key check, also those for the SMA.

        Returns the function that ends this.
        """
        return self.receivers.attach(port, receiver)

    def process(self, mad: bytes, node: Node | str | int, port: int, dlid: int = PERMISSIVE_LID) -> list[Delivery]:
        """Send *mad* from a port and return what comes back to it: nothing, one reply, or with faults more.

        *dlid* is the LID it is addressed to, 0xFFFF for a directed route. Total: any bytes are answered or dropped.
        What is forwarded to a program attached elsewhere goes to its receiver and is not in the list.
        """
        return self.send(mad, self.port(node, port), dlid)

    def send(self, mad: bytes, origin: Port, dlid: int = PERMISSIVE_LID) -> list[Delivery]:
        """As `process`, from a `Port`."""
        return self._carrier.send(mad, origin, dlid)

    @property
    def last_drop(self) -> str:
        """Why the last MAD got no answer."""
        return self._carrier.last_drop

    @last_drop.setter
    def last_drop(self, why: str) -> None:
        self._carrier.last_drop = why

    @property
    def sa_data_limit(self) -> int | None:
        """The longest answer of an SA in bytes; longer ones are refused for want of resources."""
        return self._carrier.sa_data_limit

    @sa_data_limit.setter
    def sa_data_limit(self, limit: int | None) -> None:
        self._carrier.sa_data_limit = limit

    # What happens by itself

    def next_timer(self) -> float | None:
        """Return the time (of `now`) at which `run_timers` has something to do, None when nothing waits."""
        timers = self.traps.repeats.next_time(), self.next_sa_timer()
        return min((timer for timer in timers if timer is not None), default=None)

    def run_timers(self) -> None:
        """Do what is due: repeat traps and segments. Whoever serves the subnet in real time calls it; nobody has to."""
        self.traps.repeat_due(self.now)
        self.run_sa_timers()

    def next_sa_timer(self) -> float | None:
        """Return the time at which an SA sends a segment or a Report again."""
        return self._carrier.next_sa_timer()

    def run_sa_timers(self) -> None:
        """Let every SA send again what its asker did not acknowledge in time."""
        self._carrier.run_sa_timers()

    # State that lasts

    def dump_state(self) -> dict[str, Any]:
        """Return what differs from a fresh subnet of the same file, as a JSON document. It holds M_Keys."""
        return state.dump(self.nodes, self.history, self.fingerprint)

    def load_state(self, document: dict[str, Any]) -> None:
        """Bring a fresh subnet of the same file to the state of a `dump_state`. Raises StoreError."""
        state.load(document, self.nodes, self.history, self.managers, self.fingerprint)

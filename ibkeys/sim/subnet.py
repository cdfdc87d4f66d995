"""A simulated subnet in memory. It can be changed without SMPs, by the names of its nodes.

`Subnet.send` takes 256 bytes at a port (`ibkeys.sim.mad_carrier`) and returns the replies with their times. It does no
I/O and reads no clock but its own, so every run with the same seed is the same. Not thread-safe.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from ibkeys.errors import AddressError, EncodeError, UsageError
from ibkeys.keys.guid import is_spelled_as_guid, parse_guid
from ibkeys.keys.pkey import DEFAULT_FULL, DEFAULT_INBOUND_CHECK, InboundCheck
from ibkeys.mad.const import PERMISSIVE_LID, SMState
from ibkeys.printable import named
from ibkeys.sim import packets, routing
from ibkeys.sim.agents.sa import SubnetAdministration
from ibkeys.sim.deliveries import Delivery, DeliveryOutcome, Drop
from ibkeys.sim.faults import Faults
from ibkeys.sim.history import SimEvent, SimHistory, earliest
from ibkeys.sim.mad_carrier import MadCarrier
from ibkeys.sim.netfile.build import InitialState, PortGuids, build
from ibkeys.sim.netfile.model import NetFile
from ibkeys.sim.netfile.reader import parse_net_file, parse_net_text
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.notices import Packet
from ibkeys.sim.physical import power
from ibkeys.sim.physical.first_routes import FirstRoutes
from ibkeys.sim.physical.links import Cables
from ibkeys.sim.receivers import Receiver, Receivers
from ibkeys.sim.running_managers import Managers
from ibkeys.sim.software import Software
from ibkeys.sim.traps import Traps
from ibkeys.similar_names import did_you_mean, did_you_mean_one_of, near_nodes, split_description

_NAMED: Final = 8
"""A message names at most so many nodes."""


class Subnet:
    """A simulated subnet. Make one with `from_file` or `from_text`.

    ``nodes``: its nodes in the order of the file. ``history``: its clock, events and changes. ``faults``: the injected
    faults. ``receivers``: the receivers at its ports. ``traps``: the traps of its agents. ``managers``: the subnet
    managers. ``software``: makes the changes that programs make on their own nodes. ``cables``: plugs and pulls cables.
    ``carrier``: carries MADs. ``inbound_check``: how its switches compare memberships in inbound enforcement.
    ``first_routes``: the forwarding tables of the start. ``fingerprint``: equal for subnets with the same nodes, links
    and recorded values in the file, and the same *port_guids* and *link_state*. ``assumed``: the values that the file
    does not have, and those in their place. Raises UsageError for an unknown *port_guids* or *link_state*.
    """

    def __init__(
        self, file: NetFile, port_guids: PortGuids = "file", seed: int = 0, link_state: InitialState | None = None
    ) -> None:
        if port_guids not in ("file", "ibsim"):
            raise UsageError(f"port GUIDs {port_guids!r}: they must be 'file' or 'ibsim'")
        if link_state not in (None, "active", "initialize"):
            raise UsageError(f"state of links {link_state!r}: it must be 'active' or 'initialize'")
        self.faults = Faults(seed)
        self.history = SimHistory()
        self.receivers = Receivers()
        self.traps = Traps(self.faults, self.receivers)
        self.cables = Cables(self.traps)
        self.inbound_check: InboundCheck = DEFAULT_INBOUND_CHECK
        self.nodes: list[SimNode] = build(self.history, file, port_guids, link_state)
        self.managers = Managers(self.nodes)
        self.software = Software(self.nodes, self.managers, self.traps)
        self.carrier = MadCarrier(self.faults, self.history, self.receivers, self.traps, self.managers)
        self._by_id = {node.node_id: node for node in self.nodes}
        first_lids = [(port, port.lid, 1 << port.lmc) for node in self.nodes for port in node.end_ports if port.lid]
        self.first_routes = FirstRoutes(self.nodes, first_lids)
        for node in self.nodes:
            node.first_routes = self.first_routes
        self.history.touched_ports.clear()
        self.history.forget_fresh()
        self.assumed = file.assumed
        self.fingerprint = _fingerprint(file, port_guids, link_state)

    @property
    def warnings(self) -> list[str]:
        """A warning if the subnet was made from a snapshot in which some ports lack values; else none."""
        lacking = [str(each) for each in self.assumed if each.count is not None]
        return [f"simulated, and not as it was recorded: {'; '.join(lacking)}"] if lacking else []

    @classmethod
    def from_file(
        cls, path: str | Path, port_guids: PortGuids = "file", seed: int = 0, link_state: InitialState | None = None
    ) -> Self:
        """Build a subnet from a net file (of ibsim or ibnetdiscover). Raises FileFormatError; UsageError for an unknown
        *port_guids* or *link_state*.

        *port_guids*: "file" for the port GUIDs in the file, "ibsim" for node GUID + port number. *seed*: for random
        faults. *link_state*: "active" as a subnet manager left it, with LIDs, routes and Active links; "initialize" as
        after power-up; None: "active", or as recorded in the file.
        """
        return cls(parse_net_file(path), port_guids, seed, link_state)

    @classmethod
    def from_text(
        cls, text: str, port_guids: PortGuids = "file", seed: int = 0, link_state: InitialState | None = None
    ) -> Self:
        """Build a subnet from the text of a net file, as `from_file` does, with the same errors. The text may not
        include files."""
        return cls(parse_net_text(text), port_guids, seed, link_state)

    def node(self, key: SimNode | str | int) -> SimNode:
        """Return the node with a node id, a NodeDescription, the name of its host or a GUID (of the node or of an end
        port; a number or text).

        Raises AddressError if no node has it, or several nodes have that NodeDescription or are of that host.
        """
        if isinstance(key, SimNode):
            return key
        if isinstance(key, str):
            if key in self._by_id:
                return self._by_id[key]
            described = [node for node in self.nodes if node.description == key]
            found = described or [node for node in self.nodes if split_description(node.description)[0] == key]
            if len(found) == 1:
                return found[0]
            if found:
                raise AddressError(f"{key!r} is the name of {len(found)} nodes{_question(found)}")
            key = self._guid(key)
        for node in self.nodes:
            if key == node.guid or any(key == port.guid for port in node.end_ports):
                return node
        raise AddressError(f"no node has the GUID 0x{key:016x}")

    def _guid(self, key: str) -> int:
        """Return the text *key* as a GUID. Raises AddressError, which for a text that is no GUID shows similar
        names."""
        if not re.fullmatch("[0-9a-fA-F]{1,16}", key) and not is_spelled_as_guid(key):
            known = [node.description for node in self.nodes]
            near = did_you_mean_one_of(near_nodes(key, known)) or did_you_mean(key, self._by_id)
            near = near or f"; there are {named(known)}"
            raise AddressError(f"no node has the id or description {key!r}{near}")
        try:
            return parse_guid(key if ":" in key else f"0x{key.lower().removeprefix('0x')}")
        except EncodeError as error:
            raise AddressError(str(error)) from None

    def port(self, node: SimNode | str | int, number: int) -> SimPort:
        """Return port *number* of a node. Its state can be read and set without SMPs. Raises AddressError."""
        found = self.node(node)
        if not (0 if found.is_switch else 1) <= number <= found.num_ports:
            raise AddressError(f"{found.description} has no port {number}")
        return found.ports[number]

    def attach_port(self, node: SimNode | str | int) -> SimPort:
        """Return the default port of a program on *node*: port 0 of a switch, else the first port with a link, else the
        first port. Raises AddressError."""
        found = self.node(node)
        if found.is_switch:
            return found.ports[0]
        return next((port for port in found.end_ports if port.is_up), found.ports[1])

    @property
    def events(self) -> list[SimEvent]:
        """The last events, the oldest first (`SimHistory.events`)."""
        return self.history.events

    @property
    def now(self) -> float:
        """The subnet's clock in seconds."""
        return self.history.now

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass on the subnet's clock. Raises UsageError for a negative number."""
        self.history.advance(seconds)

    # --- changes without SMPs ----------------------------------------------------------------------------------------

    def set_sm(
        self,
        node: SimNode | str | int,
        state: int | None = int(SMState.MASTER),
        priority: int = 0,
        port: int | None = None,
        sm_key: int = 0,
    ) -> None:
        """Start a subnet manager on a node: it answers SMInfo, and IsSM is set. It replaces an earlier one.

        *state*: a value of `SMState`; None only ends the earlier one. *port*: the end port; None: as `attach_port`. The
        LID of a master becomes MasterSMLID of all end ports, and an SA answers there (`sa_of`). Raises AddressError for
        an unknown node or port; UsageError for a *state* or *priority* out of range, and for a port that is no end
        port. The earlier one has ended even then, unless the node is unknown.
        """
        found = self.node(node)
        self.software.end_sm(found)
        if state is not None:
            home = self.attach_port(found) if port is None else self.port(found, port)
            self.software.start_sm(home, state, priority, sm_key)

    def sa_of(self, node: SimNode | str | int) -> SubnetAdministration:
        """Return the SA of a node on which `set_sm` started a master; its keys and groups can be set. Raises
        AddressError; UsageError if no master runs there."""
        return self.managers.sa_of(self.node(node))

    def set_description(self, node: SimNode | str | int, text: str) -> None:
        """Change the NodeDescription as `Software.set_description` does, which sends trap 144. Raises AddressError;
        UsageError if *text* is too long."""
        self.software.set_description(self.node(node), text)

    def reset(self, node: SimNode | str | int, p_key: int = DEFAULT_FULL) -> None:
        """Switch a node off and on: most values that are not in NV-RAM are as after power-up, and a subnet manager on
        the node ends (`ibkeys.sim.physical.power`).

        *p_key*: the only entry of its P_Key tables then, unless they are in NV-RAM. Raises AddressError.
        """
        found = self.node(node)
        self.software.end_sm(found)
        power.reset(found, self.traps, p_key)

    def packet(self, packet: Packet, expected_q_key: int | None = None) -> str:
        """Send a data packet along its route and return the outcome in words. *expected_q_key*: as for
        `ibkeys.sim.packets.carry`."""
        outcome = packets.carry(packet, self.inbound_check, self.traps, expected_q_key)
        if outcome.entry is not None:
            packet.destination.record("packet", p_key=packet.p_key, source=str(packet.source))
        return outcome.text

    def silence(self, node: SimNode | str | int, on: bool = True, *, forwards: bool = True) -> None:
        """Let a node answer no MAD, or with *on* False answer again. *forwards*: whether a silent node forwards MADs.
        Raises AddressError."""
        found = self.node(node)
        found.silent = (1 if forwards else routing.FORWARDS_NOTHING) if on else 0
        found.touch()
        self.history.changes += 1

    def unplug(self, node: SimNode | str | int, number: int) -> SimPort | None:
        """Pull the cable out of a port: both ends fall to Down. Returns the port at the other end, None without a
        cable. Raises AddressError; UsageError for port 0 of a switch."""
        return self.cables.unplug(self.port(node, number))

    def plug(self, node: SimNode | str | int, number: int, peer: SimNode | str | int, peer_number: int) -> None:
        """Put a cable between two free ports; the link comes up to Initialize. Raises AddressError; UsageError if a
        port has a cable already, or is port 0 of a switch."""
        self.cables.plug(self.port(node, number), self.port(peer, peer_number))

    def attach(self, port: SimPort, receiver: Receiver) -> Callable[[], None]:
        """Attach *receiver* at *port*. It gets the MADs that no agent answers: traps, SMInfo for an SM there,
        responses, GMPs, and every TrapRepress that passed the M_Key check, also if it is for the SMA.

        Returns a function that detaches it.
        """
        return self.receivers.attach(port, receiver)

    def process(self, mad: bytes, node: SimNode | str | int, port: int, dlid: int = PERMISSIVE_LID) -> list[Delivery]:
        """Send *mad* as `send` does, from a port of *node*; return [] for a MAD that is dropped. Raises
        AddressError."""
        outcome = self.send(mad, self.port(node, port), dlid)
        return [] if isinstance(outcome, Drop) else outcome

    def send(self, mad: bytes, origin: SimPort, dlid: int = PERMISSIVE_LID) -> DeliveryOutcome:
        """Send *mad* from the port *origin*; return the replies, of which faults may make several, or why there is
        none.

        *mad* may be any bytes. *dlid*: the LID that it is addressed to, 0xFFFF for a directed route. A MAD for a
        program is passed to the receivers at its port, and then the list is empty.
        """
        return self.carrier.send(mad, origin, dlid)

    def next_timer(self) -> float | None:
        """Return the time, on the subnet's clock, at which `run_timers` is due; None if nothing waits."""
        repeat, resend = self.traps.repeats.next_time(), self.managers.next_timer()
        return repeat if resend is None else earliest((repeat, resend))

    def run_timers(self) -> None:
        """Send the traps, segments and Reports again that are due. Only a server that runs in real time needs it."""
        self.traps.repeat_due(self.now)
        self.carrier.run_sa_timers()


def _question(nodes: Sequence[SimNode]) -> str:
    """Return the question which of *nodes* is meant: their NodeDescriptions, or node ids if these are not all
    different."""
    names = [node.description for node in nodes]
    differ = len(set(names)) == len(names)
    return did_you_mean_one_of(names if differ else [node.node_id for node in nodes], _NAMED)


def _fingerprint(file: NetFile, port_guids: PortGuids, link_state: InitialState | None) -> str:
    state = link_state or ("recorded" if file.is_recorded else "active")
    identity = repr([(node.node_id, node.guid, node.num_ports) for node in file.nodes]) + repr(file.links)
    found = hashlib.sha256(f"{port_guids} {state} {identity}".encode("utf-8", "replace"))
    for node in file.nodes if file.is_recorded else ():
        found.update(repr((node.switch_info, node.partition_cap, node.description)).encode())
        for port in node.ports.values():
            found.update(repr((port.number, port.guid, port.readings)).encode())
    return found.hexdigest()

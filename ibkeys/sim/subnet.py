"""A subnet in memory: its parts, and changes to it by the name of a node, without SMPs.

`Subnet.send` takes 256 bytes at a port (`ibkeys.sim.mad_carrier`) and returns the replies with their times. It does no
I/O and reads no clock but its own, so everything repeats exactly under a seed. Not thread-safe.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Self

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
from ibkeys.similar_names import did_you_mean, did_you_mean_one_of, near_nodes


class Subnet:
    """A simulated subnet. Make one with `from_file` or `from_text`.

    ``nodes`` in the order of the file; ``history`` its clock, events and changes; ``faults`` the injected faults;
    ``receivers`` the programs at its ports; ``traps`` the traps of its agents; ``managers`` the subnet managers;
    ``software`` the settings by programs on their nodes; ``cables`` the cables; ``carrier`` carries each MAD;
    ``inbound_check`` the reading of memberships by its switches where they enforce inbound; ``fingerprint`` equal for
    subnets of the same net file; ``assumed`` the values that the file does not have.
    """

    def __init__(
        self, file: NetFile, port_guids: PortGuids = "file", seed: int = 0, links: InitialState | None = None
    ) -> None:
        if port_guids not in ("file", "ibsim"):
            raise UsageError(f"port GUIDs {port_guids!r}: they must be 'file' or 'ibsim'")
        if links not in (None, "active", "initialize"):
            raise UsageError(f"links {links!r}: they must be 'active' or 'initialize'")
        self.faults = Faults(seed)
        self.history = SimHistory()
        self.receivers = Receivers()
        self.traps = Traps(self.faults, self.receivers)
        self.cables = Cables(self.traps)
        self.inbound_check: InboundCheck = DEFAULT_INBOUND_CHECK
        self.nodes: list[SimNode] = build(self.history, file, port_guids, links)
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
        self.fingerprint = _fingerprint(file, port_guids, links)

    @classmethod
    def from_file(
        cls, path: str | Path, port_guids: PortGuids = "file", seed: int = 0, links: InitialState | None = None
    ) -> Self:
        """Build a subnet from a net file (ibsim's or ibnetdiscover's). Raises FileFormatError.

        *port_guids*: those that the file prints, or "ibsim" for node GUID + port number. *links*: "active", the
        default, as a subnet manager left it (LIDs, routes, Active), "initialize" as after power-up.
        """
        return cls(parse_net_file(path), port_guids, seed, links)

    @classmethod
    def from_text(
        cls, text: str, port_guids: PortGuids = "file", seed: int = 0, links: InitialState | None = None
    ) -> Self:
        """Build a subnet from the text of a net file, as `from_file` does."""
        return cls(parse_net_text(text), port_guids, seed, links)

    # Looking at it

    def node(self, key: SimNode | str | int) -> SimNode:
        """Return a node by node id, NodeDescription, or GUID (of the node or of a port; a number or ``0x...``).

        Raises AddressError when there is none, or several with that description.
        """
        if isinstance(key, SimNode):
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
        """Return *key*, which is not an id or description, as a GUID. Raises AddressError, with similar names."""
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
        """Return a port, whose physical state can be read and set without SMPs. Raises AddressError."""
        found = self.node(node)
        if not (0 if found.is_switch else 1) <= number <= found.num_ports:
            raise AddressError(f"{found.description} has no port {number}")
        return found.ports[number]

    def attach_port(self, node: SimNode | str | int) -> SimPort:
        """Return the default port of a program on *node*: port 0 of a switch, else the first with a link."""
        found = self.node(node)
        if found.is_switch:
            return found.ports[0]
        return next((port for port in found.end_ports if port.is_up), found.ports[1])

    # Its past

    @property
    def events(self) -> list[SimEvent]:
        """The events: the last ones only, oldest first."""
        return self.history.events

    @property
    def now(self) -> float:
        """The subnet's clock in seconds."""
        return self.history.now

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises UsageError for less than none."""
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
        """Start a subnet manager on a node: it answers SMInfo and sets IsSM. *state* None ends it.

        A master's LID becomes MasterSMLID of all end ports, and an SA answers there (`sa_of`). *port* is the first with
        a link unless given.
        """
        found = self.node(node)
        self.software.end_sm(found)
        if state is not None:
            home = self.attach_port(found) if port is None else self.port(found, port)
            self.software.start_sm(home, state, priority, sm_key)

    def sa_of(self, node: SimNode | str | int) -> SubnetAdministration:
        """Return the SA of a node that `set_sm` made a master, whose keys and groups can be set."""
        return self.managers.sa_of(self.node(node))

    def set_description(self, node: SimNode | str | int, text: str) -> None:
        """Change NodeDescription, as software on the node does; trap 144 with its flag is sent. Raises UsageError."""
        self.software.set_description(self.node(node), text)

    def reset(self, node: SimNode | str | int, p_key: int = DEFAULT_FULL) -> None:
        """Switch a node off and on: volatile state returns to that of power-up (`ibkeys.sim.physical.power`).

        *p_key*: the one entry of its P_Key tables then, unless they are in NV-RAM.
        """
        found = self.node(node)
        self.software.end_sm(found)
        power.reset(found, self.traps, p_key)

    def packet(self, packet: Packet, expected_q_key: int | None = None) -> str:
        """Send a data packet along its route and return the outcome in words (see `ibkeys.sim.packets`)."""
        passage = packets.carry(packet, self.inbound_check, self.traps, expected_q_key)
        if passage.entry is not None:
            packet.destination.record("packet", p_key=packet.p_key, source=str(packet.source))
        return passage.text

    def silence(self, node: SimNode | str | int, on: bool = True, *, forwards: bool = True) -> None:
        """Make a node answer no MAD; with *forwards* False it forwards none either."""
        found = self.node(node)
        found.silent = (1 if forwards else routing.FORWARDS_NOTHING) if on else 0
        found.touch()
        self.history.changes += 1

    def unplug(self, node: SimNode | str | int, number: int) -> SimPort | None:
        """Pull the cable out of a port: both ends fall to Down. Returns the port at the other end."""
        return self.cables.unplug(self.port(node, number))

    def plug(self, node: SimNode | str | int, number: int, peer: SimNode | str | int, peer_number: int) -> None:
        """Put a cable between two free ports; the link comes up to Initialize. Raises UsageError."""
        self.cables.plug(self.port(node, number), self.port(peer, peer_number))

    # MADs

    def attach(self, port: SimPort, receiver: Receiver) -> Callable[[], None]:
        """Attach *receiver* at *port*, for MADs that no SMA answers: traps, SMInfo for its SM, responses, GMPs, and
        each TrapRepress that passed the M_Key check, including those for the SMA.

        Returns the function that detaches it.
        """
        return self.receivers.attach(port, receiver)

    def process(self, mad: bytes, node: SimNode | str | int, port: int, dlid: int = PERMISSIVE_LID) -> list[Delivery]:
        """Send as `send` does, from a port of *node*, and return an empty list for a MAD that is dropped."""
        outcome = self.send(mad, self.port(node, port), dlid)
        return [] if isinstance(outcome, Drop) else outcome

    def send(self, mad: bytes, origin: SimPort, dlid: int = PERMISSIVE_LID) -> DeliveryOutcome:
        """Send *mad* from *origin* and return the replies to it: one, with faults more, or the reason why there is
        none.

        *dlid* is the LID it is addressed to, 0xFFFF for a directed route. Total: any bytes are answered or dropped. A
        MAD for a program that is attached elsewhere is given to its receiver; then the list is empty.
        """
        return self.carrier.send(mad, origin, dlid)

    # Timers

    def next_timer(self) -> float | None:
        """Return the time (of `now`) at which `run_timers` has something to do, None when nothing waits."""
        return earliest((self.traps.repeats.next_time(), self.managers.next_timer()))

    def run_timers(self) -> None:
        """Repeat the traps and segments that are due. A server in real time calls it; other callers need not."""
        self.traps.repeat_due(self.now)
        self.carrier.run_sa_timers()


def _fingerprint(file: NetFile, port_guids: PortGuids, links: InitialState | None) -> str:
    state = links or ("recorded" if file.is_recorded else "active")
    identity = repr([(node.node_id, node.guid, node.num_ports) for node in file.nodes]) + repr(file.links)
    found = hashlib.sha256(f"{port_guids} {state} {identity}".encode("utf-8", "replace"))
    for node in file.nodes if file.is_recorded else ():
        found.update(repr((node.switch_info, node.partition_cap, node.description)).encode())
        for port in node.ports.values():
            found.update(repr((port.number, port.guid, port.readings)).encode())
    return found.hexdigest()

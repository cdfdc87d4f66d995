"""A subnet in memory: nodes, cables, a clock, faults, and the way of each MAD through it.

`Subnet.send` is the whole of it: 256 bytes in at a port, what comes back out and when. It does no I/O and reads no
clock but its own, so everything repeats exactly under a seed. Not thread-safe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from ibkeys.errors import AddressError, UsageError
from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK, InboundCheck
from ibkeys.mad.const import MAD_SIZE, PERMISSIVE_LID, CapabilityMask, Method, MgmtClass, SMState
from ibkeys.sim import links, notices, packets, power, routing, state
from ibkeys.sim.agents import pma, sma
from ibkeys.sim.agents.sa import SubnetAdministration
from ibkeys.sim.faults import Faults
from ibkeys.sim.history import Event, History
from ibkeys.sim.managers import Managers
from ibkeys.sim.netfile.build import Links, PortGuids, build
from ibkeys.sim.netfile.model import NetFile
from ibkeys.sim.netfile.reader import parse_net_file, parse_net_text
from ibkeys.sim.nodes import CAPABILITY_MASK, SM_LID, Node, Port, SubnetManager
from ibkeys.sim.notices import Packet
from ibkeys.sim.receivers import LATENCY, Delivery, Receiver, Receivers
from ibkeys.sim.traps import Traps

_IS_SM: Final = int(CapabilityMask.IS_SM)
_IS_CAPABILITY_MASK_NOTICE_SUPPORTED: Final = int(CapabilityMask.IS_CAPABILITY_MASK_NOTICE_SUPPORTED)
_IS_OTHER_LOCAL_CHANGES_NOTICE_SUPPORTED: Final = int(CapabilityMask.IS_OTHER_LOCAL_CHANGES_NOTICE_SUPPORTED)
_LID_ROUTED: Final = int(MgmtClass.SUBN_LID_ROUTED)
_DIRECTED: Final = int(MgmtClass.SUBN_DIRECTED_ROUTE)
_PERFORMANCE: Final = int(MgmtClass.PERF_MGMT)
_ADMINISTRATION: Final = int(MgmtClass.SUBN_ADM)
_PERMISSIVE: Final = b"\xff\xff"


class Subnet:
    """A simulated subnet. Make one with `from_file` or `from_text`.

    ``nodes`` in the order of the file; ``history`` its clock, what happened and what changed; ``faults`` what goes
    wrong; ``receivers`` the programs at its ports; ``traps`` what its agents tell the SM; ``managers`` who runs a
    subnet manager; ``last_drop`` why the last MAD got no answer; ``unplugged`` where pulled cables had led to;
    ``sa_data_limit`` the longest answer of an SA in bytes, longer ones are refused for want of resources;
    ``inbound_check`` what its switches check of memberships where they enforce inbound.
    """

    def __init__(self, file: NetFile, port_guids: PortGuids = "file", seed: int = 0, links: Links = "active") -> None:
        if port_guids not in ("file", "ibsim"):
            raise UsageError(f"port GUIDs {port_guids!r}: file and ibsim are known")
        if links not in ("active", "initialize"):
            raise UsageError(f"links {links!r}: active and initialize are known")
        self.faults = Faults(seed)
        self.history = History()
        self.last_drop = ""
        self.receivers = Receivers()
        self.traps = Traps(self.faults, self.receivers)
        self.unplugged: dict[Port, Port] = {}
        self.sa_data_limit: int | None = None
        self.inbound_check: InboundCheck = DEFAULT_INBOUND_CHECK
        self.nodes: list[Node] = build(self.history, file, port_guids, links)
        self.managers = Managers(self.nodes)
        self.traps.to_sm = self._trap_to_sa
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
            try:
                key = int(key, 16)
            except ValueError:
                raise AddressError(f"no node has the id or description {key!r}") from None
        for node in self.nodes:
            if key == node.guid or any(key == port.guid for port in node.end_ports):
                return node
        raise AddressError(f"no node has the GUID 0x{key:016x}")

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
        """Switch a node off and on: what is volatile returns to its state of power-up (see `ibkeys.sim.power`)."""
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
        self.last_drop = ""
        if len(mad) != MAD_SIZE or mad[0] != 1:
            self.last_drop = "malformed"
            return []
        mgmt_class = mad[1]
        if mgmt_class == _DIRECTED:
            return self._directed(mad, origin, dlid)
        if mgmt_class != _LID_ROUTED:
            return self._gmp(mad, origin, dlid)
        arrived = routing.by_lid(origin, dlid)
        if arrived is None:
            self.last_drop = "no route"
            return []
        node, ingress = arrived
        if mad[3] & 0x80:
            return self._hand_over(mad, node, ingress, origin.lid)
        slid = node.arrival_port(ingress).lid
        answer = self._ask(mad, node, ingress, origin.lid)
        if answer is None:
            return []
        back = routing.by_lid(node.arrival_port(ingress), origin.lid)
        if back is None or back[0] is not origin.node or (not back[0].is_switch and back[1] != origin.number):
            self.last_drop = "no route back"
            return []
        status, data = answer
        head = mad[:3] + b"\x81" + status.to_bytes(2) + mad[6:64]
        return self._reply(head + data + mad[128:], mad, node, slid)

    def _gmp(self, mad: bytes, origin: Port, dlid: int) -> list[Delivery]:
        """A MAD to QP1: the PMA and the SA of a master answer theirs, all else goes to programs there (IBA 13.5)."""
        _, end = routing.hops(origin, dlid)
        if end is None:
            self.last_drop = "no route"
            return []
        node = end.node
        sa = self.managers.sa_at(end) if mad[1] == _ADMINISTRATION else None
        if sa is not None and mad[3] == Method.REPORT_RESP and not node.silent:
            sa.subscriptions.acknowledge(mad, origin)
            return []
        if (mad[1] != _PERFORMANCE and sa is None) or mad[3] & 0x80 or mad[3] == Method.TRAP_REPRESS:
            return self._hand_over(mad, node, end.number, origin.lid)
        if node.silent:
            self.last_drop = "silent"
            return []
        if self.faults.active and self.faults.loses("request", node, mad):
            self.last_drop = "fault"
            return []
        if routing.hops(end, origin.lid)[1] is not origin:
            self.last_drop = "no route back"
            return []
        if sa is not None:
            answers = sa.take(mad, origin, self.sa_data_limit)
            if answers is None:
                self.last_drop = "sm_key"
                return []
            return [delivery for answer in answers for delivery in self._reply(answer, mad, node, end.lid)]
        status, data = pma.answer(node, mad)
        return self._reply(mad[:3] + b"\x81" + status.to_bytes(2) + mad[6:64] + data, mad, node, end.lid)

    def _directed(self, mad: bytes, origin: Port, dlid: int) -> list[Delivery]:
        hops = mad[7]
        if hops > 63:
            self.last_drop = "malformed"
            return []
        if mad[4] & 0x80:
            return self._directed_response(mad, origin, dlid)
        if mad[6] or mad[3] & 0x80:
            self.last_drop = "malformed"
            return []
        node, ingress = origin.node, origin.number
        if mad[32:34] != _PERMISSIVE:  # a LID-routed part comes first and ends at a switch
            arrived = routing.by_lid(origin, dlid)
            if arrived is None or (hops and not arrived[0].is_switch):
                self.last_drop = "no route"
                return []
            node, ingress = arrived
        walked = routing.directed(node, ingress, mad[128:192], hops)
        if walked is None:
            self.last_drop = "no route"
            return []
        node, ingress, back = walked
        if mad[34:36] != _PERMISSIVE:  # a LID-routed part follows
            turning = node.arrival_port(ingress)
            arrived = routing.by_lid(turning, mad[34] << 8 | mad[35])
            if arrived is None:
                self.last_drop = "no route"
                return []
            node, ingress = arrived
        request = mad[:192] + back + mad[193 + hops :]
        answer = self._ask(request, node, ingress, PERMISSIVE_LID)
        if answer is None:
            return []
        status, data = answer
        head = mad[:3] + b"\x81" + (status | 0x8000).to_bytes(2) + b"\0" + mad[7:64]
        reply = head + data + mad[128:192] + back + mad[193 + hops :]
        return self._reply(reply, mad, node, PERMISSIVE_LID)

    def _directed_response(self, mad: bytes, origin: Port, dlid: int) -> list[Delivery]:
        """A response (D = 1) goes back along ReturnPath, last entry first."""
        hops = mad[7]
        path = b"\0" + bytes(reversed(mad[193 : 193 + hops]))
        walked = routing.directed(origin.node, origin.number, path, hops)
        if walked is None or not mad[3] & 0x80:
            self.last_drop = "no route"
            return []
        return self._hand_over(mad[:6] + b"\0" + mad[7:], walked[0], walked[1], PERMISSIVE_LID)

    def _ask(self, mad: bytes, node: Node, ingress: int, slid: int) -> tuple[int, bytes] | None:
        """Return status and attribute that a node answers; None when it gives no answer or somebody else will."""
        if node.silent:
            self.last_drop = "silent"
            return None
        if self.faults.active and self.faults.loses("request", node, mad):
            self.last_drop = "fault"
            return None
        method = mad[3]
        answer = sma.answer(node, ingress, mad, self.traps)
        if isinstance(answer, str):
            self.last_drop = answer
            if answer != "m_key":
                if method == 7:  # the agent looks first, then the program whose trap it may answer (mad.c)
                    self.traps.repress(node.arrival_port(ingress), mad)
                if self.receivers:
                    self._hand_over(mad, node, ingress, slid)
            return None
        if method == 2 and (answer[0] & 0xFF) in (0, 0x1C):
            self.history.changes += 1
        return answer

    def _reply(self, reply: bytes, request: bytes, node: Node, slid: int) -> list[Delivery]:
        faults = self.faults
        if not faults.active:
            return [Delivery(LATENCY, reply, slid)]
        if faults.loses("reply", node, request):
            self.last_drop = "fault"
            return []
        return [Delivery(LATENCY + extra, mad, slid) for extra, mad in faults.spoil(reply)]

    def _hand_over(self, mad: bytes, node: Node, ingress: int, slid: int) -> list[Delivery]:
        taken = self.receivers.deliver(node.arrival_port(ingress), Delivery(LATENCY, mad, slid))
        self.last_drop = "" if taken else "nobody there"
        return []

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
        """Return the time at which an SA sends a segment again."""
        return self.managers.next_timer()

    def run_sa_timers(self) -> None:
        """Let every SA send again what its asker did not acknowledge in time."""
        for home, asker, mad in self.managers.resend():
            self._send_by_sa(home, asker, mad)

    def _send_by_sa(self, home: Port, asker: Port, mad: bytes) -> None:
        if routing.hops(home, asker.lid)[1] is asker:
            for delivery in self._reply(mad, mad, home.node, home.lid):
                self.receivers.deliver(asker, delivery)

    def _trap_to_sa(self, end: Port, mad: bytes, source: Port) -> bool:
        """Let the SA at *end* tell its subscribers of a trap; returns whether it has any, and so answered the trap.

        Without any the trap is left to a program there, which may play the SM itself.
        """
        sa = self.managers.sa_at(end)
        if sa is None or end.node.silent or not sa.subscriptions:
            return False
        for subscriber, report in sa.take_trap(mad, source):
            self._send_by_sa(end, subscriber, report)
        return True

    # State that lasts

    def dump_state(self) -> dict[str, Any]:
        """Return what differs from a fresh subnet of the same file, as a JSON document. It holds M_Keys."""
        return state.dump(self.nodes, self.history, self.fingerprint)

    def load_state(self, document: dict[str, Any]) -> None:
        """Bring a fresh subnet of the same file to the state of a `dump_state`. Raises StoreError."""
        state.load(document, self.nodes, self.history, self.managers, self.fingerprint)

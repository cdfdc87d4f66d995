"""The simulated backend: a `UmadPort` on a port of a simulated subnet, with a virtual clock.

It behaves as the kernel does. Each attempt times out by itself and is returned with status 110 and the 24-byte header.
The port sets the upper half of the TransactionIDs. An SMP that the local port refuses ends in one of three ways
(`SimulatedPort.local_refusal`). Unlike the kernel, but like libumad2sim, it delivers late and duplicate replies,
because a program must tolerate them; ``discard_late`` turns that off.
"""

from __future__ import annotations

import errno
import heapq
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from ibkeys.arguments import given
from ibkeys.closing import Closing
from ibkeys.errors import AddressError, AgentRefused, ClosedError, DeviceGone, NoDevice
from ibkeys.mad import offsets as at
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import MAD_SIZE, SMP_CLASSES, Method, MgmtClass
from ibkeys.mad.sa import ACTIVE
from ibkeys.mad.smp import HEADER_SIZE
from ibkeys.sim.deliveries import Delivery, Drop
from ibkeys.sim.faults import is_local
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.state.file import StateFile
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.port import ETIMEDOUT, Incoming, LocalCa, LocalPort, Outgoing, SendFailure
from ibkeys.umad.sim_spec import SimSpec, SubnetReader, parse_spec

CA_NAME: Final = "sim0"
MIN_MAD: Final = 36  # The kernel's ib_umad_write() refuses shorter MADs.

_MOST_VOID: Final = 256
"""The most timeouts of answered requests in the queue, unless they are less than half of it."""

LocalRefusal = Literal["timeout", "silent", "einval"]
"""How a refused SMP to the local port (hop count 0) ends: the kernel's timeout, nothing at all, or EINVAL from send."""


def open_simulated(
    spec: SimSpec | str,
    ca: str | None = None,
    port: int | None = None,
    at: str | int | None = None,
    read: SubnetReader = Subnet.from_file,
) -> SimulatedPort:
    """Open the port of a simulated subnet that *spec* describes.

    *at*: the local node (NodeDescription, node id or GUID); None: the node that SIM_HOST names, else the first node of
    the file. *port*: its port; None: as `Subnet.attach_port`. *ca*: "sim0" or None. *read*: builds the subnet from the
    file, by default from a net file. Raises UsageError, EncodeError, FileFormatError, AddressError, NoDevice,
    StoreLocked, StoreError.
    """
    if isinstance(spec, str):
        spec = parse_spec(spec)
    _check_ca(ca)
    subnet = spec.load(read)
    node = _home(subnet, at)
    number = _choose_port(subnet, node, port)  # Before the next line, which creates the state file.
    state = StateFile(spec.state, subnet) if spec.state is not None else None
    return SimulatedPort(subnet, node, number, state=state)


def port_on(
    subnet: Subnet, ca: str | None = None, port: int | None = None, at: str | int | None = None
) -> SimulatedPort:
    """Open a port of a subnet that the caller made; the arguments are those of `open_simulated`. Raises AddressError,
    NoDevice."""
    _check_ca(ca)
    return SimulatedPort(subnet, _home(subnet, at), port)


def _check_ca(ca: str | None) -> None:
    if ca not in (None, "", CA_NAME):
        raise NoDevice(f"the simulated host has no CA {ca}; its only one is {CA_NAME}", errno.ENODEV)


def _home(subnet: Subnet, at: str | int | None) -> SimNode:
    """Return the node *at*, else the node in SIM_HOST, else the first node.

    Raises AddressError, whose message names SIM_HOST if the name is from there.
    """
    if at is not None:
        return subnet.node(at)
    name = os.environ.get("SIM_HOST")
    if not name:
        return subnet.nodes[0]
    try:
        return subnet.node(name)
    except AddressError as error:
        raise AddressError(
            f"the environment variable SIM_HOST does not fit this subnet: {error} (unset it, or choose "
            f"the node with {given('--at')})"
        ) from None


def _choose_port(subnet: Subnet, node: SimNode, port: int | None) -> int:
    if port is None or (node.is_switch and port == 0):
        return subnet.attach_port(node).number
    if node.is_switch or not 1 <= port <= node.num_ports:
        have = "a program attaches to port 0 of a switch" if node.is_switch else f"it has ports 1 to {node.num_ports}"
        raise NoDevice(f"{CA_NAME} ({node.description}) has no port {port}: {have}", errno.ENODEV)
    return port


class SimulatedPort(Closing):
    """A `UmadPort` at a port of *subnet*. Several instances in a process may share a subnet and its clock.

    `recv` moves the subnet's clock: to the next MAD that arrives, or by the whole timeout if none arrives. Tests may
    set ``local_refusal``, ``discard_late`` and ``gone`` (the device was removed). ``home``: the port of the subnet.
    Not thread-safe.
    """

    def __init__(
        self, subnet: Subnet, node: SimNode | str | int, port: int | None = None, *, state: StateFile | None = None
    ) -> None:
        """Attach to *port* of *node*; None: as `Subnet.attach_port`. *state*: the file in which the subnet is saved.
        Raises AddressError, NoDevice."""
        home = subnet.node(node)
        self.subnet = subnet
        self.ca_name = CA_NAME
        self.port = _choose_port(subnet, home, port)
        self.local_refusal: LocalRefusal = "timeout"
        self.discard_late = False
        self.gone = False
        self.home: SimPort = subnet.port(home, self.port)
        self._state = state
        self._closed = False
        self._agent = (1).to_bytes(4)
        self._methods: dict[int, frozenset[int]] = dict.fromkeys(SMP_CLASSES, frozenset())
        self._queue: list[tuple[float, int, Incoming | tuple[int, int]]] = []
        self._sequence = 0
        # Requests without an answer: (class, TransactionID) -> (number of its timeout in the queue, its header).
        self._outstanding: dict[tuple[int, int], tuple[int, bytes]] = {}
        self._void = 0  # the number of timeouts in the queue whose requests were answered
        self._detach = subnet.attach(self.home, self._unsolicited)

    @property
    def state_path(self) -> Path | None:
        """The file in which the subnet is saved between runs; None if it is not saved."""
        return self._state.path if self._state is not None else None

    def attributes(self) -> LocalPort:
        """Return the host's current attributes of this port. Raises ClosedError, DeviceGone."""
        self._check_open()
        return _local_port(self.home)

    def local_ca(self) -> LocalCa:
        """Return the node of this port as a CA of this host, with all its ports."""
        return local_ca(self.home.node)

    def register(self, mgmt_class: int, class_version: int = 1, methods: Sequence[int] = ()) -> None:
        """Register an agent for a management class; *methods* are the unsolicited methods that it receives.

        Raises AgentRefused when a program at this port owns one of *methods* already; ClosedError, DeviceGone.
        """
        self._check_open()
        owned = self._methods.get(mgmt_class, frozenset())
        if not self.subnet.receivers.claim(self.home, self._unsolicited, mgmt_class, set(methods)):
            raise AgentRefused(
                f"an agent for class 0x{mgmt_class:02x} and one of these methods is already registered", errno.EPERM
            )
        self._methods[mgmt_class] = owned | frozenset(methods)

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        """Send a batch, in order, and return the MADs that were refused, all with EINVAL.

        Refused are MADs of less than 36 or more than 256 bytes, of a class without an agent, with the TransactionID of
        a request that waits for its answer, and those that the local port refuses while ``local_refusal`` is "einval".
        Raises ClosedError, DeviceGone, StoreError.
        """
        self._check_open()
        failures: list[SendFailure] = []
        for index, outgoing in enumerate(batch):
            if not self._send(outgoing):
                failures.append(SendFailure(index, errno.EINVAL))
        if self._state is not None:
            self._state.save_if_changed()
        return failures

    def _send(self, outgoing: Outgoing) -> bool:
        mad = outgoing.mad
        if not MIN_MAD <= len(mad) <= MAD_SIZE or mad[at.MGMT_CLASS] not in self._methods:
            return False
        if len(mad) < MAD_SIZE:
            mad = mad.ljust(MAD_SIZE, b"\0")
        if _is_answer(mad):
            self.subnet.send(mad, self.home, outgoing.lid)
            return True
        key = mad[at.MGMT_CLASS], int.from_bytes(mad[at.LOWER_TID])
        if key in self._outstanding:
            return False
        mad = mad[: at.AGENT.start] + self._agent + mad[at.AGENT.stop :]
        subnet = self.subnet
        now = subnet.now
        outcome = subnet.send(mad, self.home, outgoing.lid)
        if outcome is Drop.M_KEY and is_local(mad):
            if self.local_refusal == "einval":
                return False
            if self.local_refusal == "silent":
                return True
        if outgoing.timeout_ms > 0:
            self._outstanding[key] = (self.push(now + outgoing.timeout_ms / 1000, key), mad[:HEADER_SIZE])
        if not isinstance(outcome, Drop):
            for delay, reply, slid in outcome:
                self.push(now + delay, Incoming(reply, 0, slid, outgoing.qpn))
        return True

    def push(self, time: float, item: Incoming | tuple[int, int]) -> int:
        """Let `recv` return *item* at *time*, in seconds of the subnet's clock. Returns the number of the item.

        *item*: a MAD, or the class and TransactionID of a request that times out then.
        """
        self._sequence += 1
        heapq.heappush(self._queue, (time, self._sequence, item))
        return self._sequence

    def _unsolicited(self, delivery: Delivery) -> None:
        mad = delivery.mad
        mgmt_class = mad[at.MGMT_CLASS]
        is_registered = mad[at.METHOD] in self._methods.get(mgmt_class, ())
        is_mine = _is_answer(mad) and (mgmt_class, int.from_bytes(mad[at.LOWER_TID])) in self._outstanding
        if is_registered or is_mine or (_is_segment(mad) and mgmt_class in self._methods):
            qpn = 0 if mgmt_class in SMP_CLASSES else 1
            self.push(self.subnet.now + delivery.delay, Incoming(mad, 0, delivery.slid, qpn))

    def recv(self, timeout: float) -> list[Incoming]:
        """Return the MADs that arrived; without any, wait up to *timeout* seconds of the subnet's clock for the next,
        and return [] if none arrives. Raises ClosedError, DeviceGone."""
        self._check_open()
        subnet = self.subnet
        deadline = subnet.now + max(0.0, timeout)
        while True:
            arrived = self._due(subnet.now)
            if arrived:
                return arrived
            due = subnet.managers.next_timer()
            if due is not None and due <= deadline and (not self._queue or due < self._queue[0][0]):
                subnet.advance(max(0.0, due - subnet.now))
                subnet.carrier.run_sa_timers()
                continue
            if not self._queue or self._queue[0][0] > deadline:
                subnet.advance(max(0.0, deadline - subnet.now))
                return []
            subnet.advance(max(0.0, self._queue[0][0] - subnet.now))

    def _due(self, now: float) -> list[Incoming]:
        arrived: list[Incoming] = []
        queue, outstanding = self._queue, self._outstanding
        while queue and queue[0][0] <= now:
            _, sequence, item = heapq.heappop(queue)
            if isinstance(item, Incoming):
                mad = item.mad
                request = outstanding.pop((mad[at.MGMT_CLASS], int.from_bytes(mad[at.LOWER_TID])), None)
                self._void += request is not None
                if request is None and _is_answer(mad) and self.discard_late and not _is_segment(mad):
                    continue
                arrived.append(item)
            else:
                request = outstanding.get(item)
                if request is not None and request[0] == sequence:
                    del outstanding[item]
                    arrived.append(Incoming(request[1], ETIMEDOUT))
                else:
                    self._void -= 1
        if self._void > _MOST_VOID and self._void > len(queue) // 2:
            self._remove_void_timeouts()
        return arrived

    def _remove_void_timeouts(self) -> None:
        """Remove from the queue the timeouts of requests that were answered. Virtual time may never come to them: it
        stands still while every answer is there at once."""
        waiting = {number for number, _ in self._outstanding.values()}
        self._queue = [each for each in self._queue if isinstance(each[2], Incoming) or each[1] in waiting]
        heapq.heapify(self._queue)
        self._void = 0

    def now(self) -> float:
        """Return the subnet's clock in seconds."""
        return self.subnet.now

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.ca_name} port {self.port} is closed")
        if self.gone:
            raise DeviceGone(f"{self.ca_name} was removed", errno.EIO)

    def close(self) -> None:
        """Close the port and save the subnet's state. Safe to call twice. Raises StoreError."""
        if self._closed:
            return
        self._closed = True
        self._detach()
        self._queue.clear()
        self._outstanding.clear()
        if self._state is not None:
            self._state.close()

    def __repr__(self) -> str:
        return f"<SimulatedPort {self.home}>"


def _is_answer(mad: bytes) -> bool:
    """Return whether the kernel takes *mad* for an answer to a request (mad.c: ib_response_mad)."""
    return bool(mad[at.METHOD] & at.RESPONSE) or mad[at.METHOD] == Method.TRAP_REPRESS


def _is_segment(mad: bytes) -> bool:
    """Return whether *mad* is an RMPP MAD of an answer of the SA: the kernel delivers every one (mad.c, user RMPP)."""
    is_of_sa = mad[at.MGMT_CLASS] == MgmtClass.SUBN_ADM
    return is_of_sa and bool(mad[at.METHOD] & at.RESPONSE) and bool(mad[at.RMPP_FLAGS] & ACTIVE)


def local_ca(node: SimNode) -> LocalCa:
    """Return a simulated node as a CA of the host that it simulates."""
    kind = f"MT{node.device_id}" if node.vendor_id in (0x2C9, 0x15B3) else f"0x{node.device_id:04x}"
    return LocalCa(
        name=CA_NAME,
        node_type=int(node.node_type),
        fw_version="simulated",
        ca_type=kind,
        hw_version=f"{node.revision:x}",
        node_guid=node.guid,
        ports=tuple(_local_port(port) for port in node.end_ports),
    )


def _local_port(port: SimPort) -> LocalPort:
    info = PortInfo(bytes(port.info))
    return LocalPort(
        ca_name=CA_NAME,
        port=port.number,
        base_lid=port.lid,
        lmc=port.lmc,
        sm_lid=port.sm_lid,
        sm_sl=info.master_sm_sl,
        state=port.state,
        phys_state=port.physical_state,
        capability_mask=port.capability_mask,
        gid_prefix=info.gid_prefix,
        port_guid=port.guid,
        link_layer="InfiniBand",
        pkeys=tuple(port.p_keys),
    )

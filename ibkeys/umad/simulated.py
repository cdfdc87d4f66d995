"""The simulated backend: a `UmadPort` on a port of a simulated subnet, with a virtual clock.

It behaves as the kernel does: each attempt times out by itself and comes back as status 110 with the 24-byte header,
the upper half of a TransactionID belongs to it, and an own port that refuses an SMP may end it in three ways
(`SimulatedPort.local_refusal`). Unlike a kernel it hands on late and duplicate replies, as libumad2sim does, because a
program must stand them; ``discard_late`` turns that off.
"""

from __future__ import annotations

import errno
import heapq
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self, get_args

from ibkeys.errors import AddressError, AgentRefused, ClosedError, DeviceGone, NoDevice, UsageError
from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK, INBOUND_CHECKS, InboundCheck
from ibkeys.keys.smkey import SMKey
from ibkeys.mad.const import MAD_SIZE, SMP_CLASSES, Method, MgmtClass
from ibkeys.sim.netfile.build import Links, PortGuids
from ibkeys.sim.nodes import Node, Port
from ibkeys.sim.receivers import Delivery
from ibkeys.sim.statefile import StateFile
from ibkeys.sim.subnet import Subnet
from ibkeys.store.paths import StorePaths, store_paths
from ibkeys.umad.port import ETIMEDOUT, Incoming, LocalCa, LocalPort, Outgoing, SendFailure

CA_NAME: Final = "sim0"
SCHEME: Final = "sim"
DEMO: Final = Path(__file__).parent.parent / "sim" / "data" / "demo.net"
MIN_MAD: Final = 36  # the kernel's ib_umad_write() refuses less
HEADER_SIZE: Final = 24

LocalRefusal = Literal["timeout", "silent", "einval"]
"""How a refused SMP to the own port (hop count 0) ends: the kernel's timeout, nothing at all, or EINVAL from send."""

_PERCENTAGES: Final = ("drop", "duplicate", "delay")
_OPTIONS: Final = (
    *("state", "port-guids", "seed", "links", "sm", "sa-key", "sa-trust", "sa-wildcards"),
    *_PERCENTAGES,
    "inbound-check",
)


@dataclass(frozen=True, slots=True)
class SimSpec:
    """What ``--backend sim:...`` says. ``path`` "" is the packaged demo fabric; the faults are shares from 0 to 1."""

    path: str = ""
    state: Path | None = None
    port_guids: PortGuids = "file"
    seed: int = 0
    links: Links = "active"
    sm: str = ""
    sa_key: SMKey | None = None
    enhanced_trust: bool = False
    refuses_wildcards: bool = False
    drop: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    inbound_check: InboundCheck = DEFAULT_INBOUND_CHECK

    def load(self) -> Subnet:
        """Build the subnet, without its saved state. Raises FileFormatError, AddressError."""
        subnet = Subnet.from_file(self.path or DEMO, self.port_guids, self.seed, self.links)
        subnet.inbound_check = self.inbound_check
        if self.sm:
            subnet.set_sm(self.sm)
            sa = subnet.sa_of(self.sm)
            sa.enhanced_trust = self.enhanced_trust
            sa.subscriptions.refuses_wildcards = self.refuses_wildcards
            if self.sa_key is not None:
                sa.sa_key = self.sa_key.reveal()
        faults = subnet.faults
        faults.drop, faults.duplicate, faults.delay = self.drop, self.duplicate, self.delay
        return subnet


def stores_of(backend: str, keystore: str | None = None, journal: str | None = None) -> StorePaths:
    """Return the files of a run on *backend*, without opening any. *keystore* and *journal* are the user's own choice.

    Raises as `parse_spec`.
    """
    simulated = backend.startswith(f"{SCHEME}:")
    return store_paths(
        simulated=simulated,
        state=parse_spec(backend).state if simulated else None,
        keystore=Path(keystore) if keystore else None,
        journal=Path(journal) if journal else None,
    )


def parse_spec(text: str) -> SimSpec:
    """Read ``sim:FILE[,option=value]...``; the options are state=PATH, port-guids=file|ibsim, seed=N,
    links=active|initialize, sm=NODE, sa-key=KEY, sa-trust=plain|enhanced,
    sa-wildcards=accepted|refused, drop=PCT, duplicate=PCT, delay=PCT, inbound-check=partition|membership.

    ``sim:`` alone is the packaged demo fabric. File names with commas cannot be written here.
    Raises UsageError; EncodeError for an sa-key that is no number.
    """
    scheme, colon, rest = text.partition(":")
    if scheme != SCHEME or (rest and not colon):
        raise UsageError(f"{text!r} is no simulated backend; write sim: or sim:FILE")
    path, *options = rest.split(",")
    values: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if name not in _OPTIONS or not equals:
            known = ", ".join(f"{known}=" for known in _OPTIONS)
            hint = " (file names with commas cannot be used)" if not equals else ""
            raise UsageError(f"unknown option {option!r} of the simulated backend{hint}; known are {known}")
        if name in values or not value:
            raise UsageError(f"option {name}= of the simulated backend is {'given twice' if value else 'empty'}")
        values[name] = value
    port_guids, links = values.get("port-guids", "file"), values.get("links", "active")
    if port_guids not in get_args(PortGuids):
        raise UsageError(f"port-guids={port_guids}: file and ibsim are known")
    if links not in get_args(Links):
        raise UsageError(f"links={links}: active and initialize are known")
    trust = values.get("sa-trust", "plain")
    if trust not in ("plain", "enhanced"):
        raise UsageError(f"sa-trust={trust}: plain and enhanced are known")
    wildcards = values.get("sa-wildcards", "accepted")
    if wildcards not in ("accepted", "refused"):
        raise UsageError(f"sa-wildcards={wildcards}: accepted and refused are known")
    if "sm" not in values and values.keys() & {"sa-key", "sa-trust", "sa-wildcards"}:
        raise UsageError("sa-key=, sa-trust= and sa-wildcards= are for the SA of the subnet manager that sm= names")
    check = values.get("inbound-check", DEFAULT_INBOUND_CHECK)
    if check not in INBOUND_CHECKS:
        raise UsageError(f"inbound-check={check}: {' and '.join(INBOUND_CHECKS)} are known")
    shares = {name: _percentage(name, values[name]) for name in _PERCENTAGES if name in values}
    return SimSpec(
        path=path,
        state=Path(values["state"]) if "state" in values else None,
        port_guids="ibsim" if port_guids == "ibsim" else "file",
        seed=_seed(values.get("seed", "0")),
        links="initialize" if links == "initialize" else "active",
        sm=values.get("sm", ""),
        sa_key=SMKey.parse(values["sa-key"]) if "sa-key" in values else None,
        enhanced_trust=trust == "enhanced",
        refuses_wildcards=wildcards == "refused",
        inbound_check="membership" if check == "membership" else "partition",
        **shares,
    )


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise UsageError(f"seed={text[:40]} is no decimal number")
    return int(text)


def _percentage(name: str, text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise UsageError(f"{name}={text} is no percentage from 0 to 100")
    return value / 100


def open_simulated(
    spec: SimSpec | str, ca: str | None = None, port: int | None = None, at: str | int | None = None
) -> SimulatedPort:
    """Open the port of a simulated subnet that *spec* describes.

    *at* is the node to stand on (NodeDescription, node id or GUID); else SIM_HOST, else the file's first node. On a
    switch that is port 0, elsewhere *port*, else the first port with a link.
    Raises UsageError, FileFormatError, AddressError, NoDevice, StoreLocked, StoreError.
    """
    if isinstance(spec, str):
        spec = parse_spec(spec)
    _check_ca(ca)
    subnet = spec.load()
    node, number = _choose(subnet, port, at)
    state = StateFile(spec.state, subnet) if spec.state is not None else None
    return SimulatedPort(subnet, node, number, state=state)


def port_on(
    subnet: Subnet, ca: str | None = None, port: int | None = None, at: str | int | None = None
) -> SimulatedPort:
    """Open a port of a subnet that the caller made; the arguments are those of `open_simulated`."""
    _check_ca(ca)
    return SimulatedPort(subnet, *_choose(subnet, port, at))


def _check_ca(ca: str | None) -> None:
    if ca not in (None, "", CA_NAME):
        raise NoDevice(f"the simulated host has no CA {ca}; its only one is {CA_NAME}", errno.ENODEV)


def _choose(subnet: Subnet, port: int | None, at: str | int | None) -> tuple[Node, int]:
    node = _inherited(subnet) if at is None else subnet.node(at)
    return node, _choose_port(subnet, node, port)


def _inherited(subnet: Subnet) -> Node:
    """Return the node that SIM_HOST names, else the first one. Raises AddressError that says where the name is from."""
    name = os.environ.get("SIM_HOST")
    if not name:
        return subnet.nodes[0]
    try:
        return subnet.node(name)
    except AddressError as error:
        raise AddressError(
            f"the environment variable SIM_HOST does not fit this subnet: {error} (unset it, or name "
            "the node to stand on with --at)"
        ) from None


def _choose_port(subnet: Subnet, node: Node, port: int | None) -> int:
    if port is None or (node.is_switch and port == 0):
        return subnet.attach_port(node).number
    if node.is_switch or not 1 <= port <= node.num_ports:
        have = "a program attaches to port 0 of a switch" if node.is_switch else f"it has ports 1 to {node.num_ports}"
        raise NoDevice(f"{CA_NAME} ({node.description}) has no port {port}: {have}", errno.ENODEV)
    return port


class SimulatedPort:
    """A `UmadPort` at a port of *subnet*. Several may share one subnet, and its clock, in a process.

    `recv` moves the subnet's clock: to the next thing that arrives, or by the whole timeout when nothing does.
    ``local_refusal``, ``discard_late`` and ``gone`` (the device was removed) are there for tests to set.
    Not thread-safe.
    """

    def __init__(
        self, subnet: Subnet, node: Node | str | int, port: int | None = None, *, state: StateFile | None = None
    ) -> None:
        """*port* None is port 0 of a switch, else the first port with a link. Raises AddressError, NoDevice."""
        home = subnet.node(node)
        self.subnet = subnet
        self.ca_name = CA_NAME
        self.port = _choose_port(subnet, home, port)
        self.local_refusal: LocalRefusal = "timeout"
        self.discard_late = False
        self.gone = False
        self.home: Port = subnet.port(home, self.port)
        self._state = state
        self._closed = False
        self._agent = (1).to_bytes(4)
        self._methods: dict[int, frozenset[int]] = dict.fromkeys(SMP_CLASSES, frozenset())
        self._queue: list[tuple[float, int, Incoming | tuple[int, int]]] = []
        self._sequence = 0
        # (class, TransactionID) -> (place of its timeout in the queue, header to give back)
        self._outstanding: dict[tuple[int, int], tuple[int, bytes]] = {}
        self._detach = subnet.attach(self.home, self._unsolicited)

    @property
    def state_path(self) -> Path | None:
        """The file that the subnet is kept in from run to run; None where it ends with this one."""
        return self._state.path if self._state is not None else None

    def attributes(self) -> LocalPort:
        """Return what the host knows about this port now."""
        self._check_open()
        return _local_port(self.home)

    def local_ca(self) -> LocalCa:
        """Return the node this port belongs to as a CA of this host, with all its ports."""
        return local_ca(self.home.node)

    def register(self, mgmt_class: int, class_version: int = 1, methods: Sequence[int] = ()) -> None:
        """Register an agent. Raises AgentRefused when a program at this port owns one of *methods* already."""
        self._check_open()
        owned = self._methods.get(mgmt_class, frozenset())
        if not self.subnet.receivers.claim(self.home, self._unsolicited, mgmt_class, set(methods)):
            raise AgentRefused(f"an agent for class 0x{mgmt_class:02x} and one of these methods exists", errno.EPERM)
        self._methods[mgmt_class] = owned | frozenset(methods)

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        """Send a batch, in order, and return those that were refused. Raises ClosedError, DeviceGone, StoreError."""
        self._check_open()
        failures: list[SendFailure] = []
        for index, out in enumerate(batch):
            if not self._send(out):
                failures.append(SendFailure(index, errno.EINVAL))
        if self._state is not None:
            self._state.save_if_changed()
        return failures

    def _send(self, out: Outgoing) -> bool:
        mad = out.mad
        if not MIN_MAD <= len(mad) <= MAD_SIZE or mad[1] not in self._methods:
            return False
        if len(mad) < MAD_SIZE:
            mad = mad.ljust(MAD_SIZE, b"\0")
        if _is_answer(mad):
            self.subnet.send(mad, self.home, out.lid)
            return True
        key = mad[1], int.from_bytes(mad[12:16])
        if key in self._outstanding:
            return False
        mad = mad[:8] + self._agent + mad[12:]
        subnet = self.subnet
        now = subnet.now
        arrivals = subnet.send(mad, self.home, out.lid)
        if not arrivals and subnet.last_drop == "m_key" and mad[1] == MgmtClass.SUBN_DIRECTED_ROUTE and mad[7] == 0:
            if self.local_refusal == "einval":
                return False
            if self.local_refusal == "silent":
                return True
        if out.timeout_ms > 0:
            self._outstanding[key] = (self._push(now + out.timeout_ms / 1000, key), mad[:HEADER_SIZE])
        for delay, reply, slid in arrivals:
            self._push(now + delay, Incoming(reply, 0, slid, out.qpn))
        return True

    def _push(self, when: float, what: Incoming | tuple[int, int]) -> int:
        self._sequence += 1
        heapq.heappush(self._queue, (when, self._sequence, what))
        return self._sequence

    def _unsolicited(self, delivery: Delivery) -> None:
        mad = delivery.mad
        wanted = mad[3] in self._methods.get(mad[1], ())
        is_mine = _is_answer(mad) and (mad[1], int.from_bytes(mad[12:16])) in self._outstanding
        if wanted or is_mine or (_is_segment(mad) and mad[1] in self._methods):
            qpn = 0 if mad[1] in SMP_CLASSES else 1
            self._push(self.subnet.now + delivery.delay, Incoming(mad, 0, delivery.slid, qpn))

    def recv(self, timeout: float) -> list[Incoming]:
        """Return what arrived, else wait in virtual time up to *timeout* seconds. Raises ClosedError, DeviceGone."""
        self._check_open()
        subnet = self.subnet
        deadline = subnet.now + max(0.0, timeout)
        while True:
            arrived = self._due(subnet.now)
            if arrived:
                return arrived
            due = subnet.next_sa_timer()
            if due is not None and due <= deadline and (not self._queue or due < self._queue[0][0]):
                subnet.advance(max(0.0, due - subnet.now))
                subnet.run_sa_timers()
                continue
            if not self._queue or self._queue[0][0] > deadline:
                subnet.advance(max(0.0, deadline - subnet.now))
                return []
            subnet.advance(max(0.0, self._queue[0][0] - subnet.now))

    def _due(self, now: float) -> list[Incoming]:
        arrived: list[Incoming] = []
        queue, outstanding = self._queue, self._outstanding
        while queue and queue[0][0] <= now:
            _, sequence, what = heapq.heappop(queue)
            if isinstance(what, Incoming):
                mad = what.mad
                waited_for = outstanding.pop((mad[1], int.from_bytes(mad[12:16])), None)
                if waited_for is None and _is_answer(mad) and self.discard_late and not _is_segment(mad):
                    continue
                arrived.append(what)
            else:
                waiting = outstanding.get(what)
                if waiting is not None and waiting[0] == sequence:
                    del outstanding[what]
                    arrived.append(Incoming(waiting[1], ETIMEDOUT))
        return arrived

    def now(self) -> float:
        """Return the subnet's clock."""
        return self.subnet.now

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.ca_name} port {self.port} is closed")
        if self.gone:
            raise DeviceGone(f"{self.ca_name} was removed", errno.EIO)

    def close(self) -> None:
        """Give the port back and save the subnet's state. Safe to call twice. Raises StoreError."""
        if self._closed:
            return
        self._closed = True
        self._detach()
        self._queue.clear()
        self._outstanding.clear()
        if self._state is not None:
            self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SimulatedPort {self.home}>"


def _is_answer(mad: bytes) -> bool:
    """Whether the kernel takes *mad* for an answer to a request (mad.c: ib_response_mad)."""
    return bool(mad[3] & 0x80) or mad[3] == Method.TRAP_REPRESS


def _is_segment(mad: bytes) -> bool:
    """Whether this is an RMPP MAD of an answer of the SA: the kernel hands all of them up (mad.c, user RMPP)."""
    return mad[1] == MgmtClass.SUBN_ADM and bool(mad[3] & 0x80) and bool(mad[26] & 1)


def local_ca(node: Node) -> LocalCa:
    """Return a simulated node as the host on it would see it."""
    kind = f"MT{node.device_id}" if node.vendor_id in (0x2C9, 0x15B3) else f"0x{node.device_id:04x}"
    return LocalCa(
        name=CA_NAME,
        node_type=int(node.node_type),
        fw_version="simulated",
        ca_type=kind,
        hw_version=f"{node.revision:x}",
        node_guid=node.guid,
        system_image_guid=node.system_image_guid,
        ports=tuple(_local_port(port) for port in node.end_ports),
    )


#              code of LinkWidthActive -> lanes; of LinkSpeedActive and LinkSpeedExtActive -> Gb/s of one lane
_LANES: Final = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
_SPEED: Final = {1: 2.5, 2: 5.0, 4: 10.0}
_EXTENDED_SPEED: Final = {1: 14.0, 2: 25.0, 4: 50.0, 8: 100.0}


def _local_port(port: Port) -> LocalPort:
    info = port.info
    lane = 200.0 if info[56] & 0x60 else _EXTENDED_SPEED.get(info[62] >> 4) or _SPEED.get(info[35] >> 4, 2.5)
    return LocalPort(
        ca_name=CA_NAME,
        port=port.number,
        base_lid=port.lid,
        lmc=port.lmc,
        sm_lid=port.sm_lid,
        sm_sl=info[36] & 0x0F,
        state=port.state,
        phys_state=port.physical_state,
        rate=int(_LANES.get(info[31], 1) * lane),
        capability_mask=port.capability_mask,
        gid_prefix=int.from_bytes(info[8:16]),
        port_guid=port.guid,
        link_layer="InfiniBand",
        pkeys=tuple(port.p_keys),
    )

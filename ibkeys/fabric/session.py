"""An open fabric: one local port, what may be asked through it, and handles on single ports.

`OpenFabric` is what `ibkeys.open` returns. A `PortHandle` reads afresh on every access, so what a script sees is what
the port says now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from ibkeys.errors import AddressError, IbkeysError, ImpossibleValue, NoReply, SendRefused, Unreachable
from ibkeys.fabric.account import Account, account_of
from ibkeys.fabric.address import (
    LOCAL,
    Address,
    DirectedAddress,
    GuidAddress,
    LidAddress,
    NameAddress,
    parse_guid,
    parse_lid,
    parse_route,
)
from ibkeys.fabric.client import Outcome, Route, SmpClient, Task, Timing
from ibkeys.fabric.closed import about_own_key, check_own_port
from ibkeys.fabric.discovery import Progress, Wanted, discover
from ibkeys.fabric.find import candidates, find_port, find_ports, no_such_port, pick
from ibkeys.fabric.gmp import gmp_path
from ibkeys.fabric.keyring import KeyRing
from ibkeys.fabric.limits import Limits
from ibkeys.fabric.look import LinkLook
from ibkeys.fabric.model import Fabric, Node, Port
from ibkeys.fabric.performance import Reading, read_port_counters
from ibkeys.fabric.plausible import NO_ENTRIES, check_port_numbers
from ibkeys.fabric.sa import SaClient
from ibkeys.fabric.tables import p_key_modifier
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.keys.pkey import PKey
from ibkeys.keys.smkey import NO_SM_KEY, SMKey
from ibkeys.mad.attributes import Attribute, NodeDescription, NodeInfo, PKeyTable, PortInfo, SwitchInfo
from ibkeys.mad.const import P_KEYS_PER_BLOCK, Method, MgmtClass, PortPhysicalState
from ibkeys.store.paths import StorePaths
from ibkeys.umad.port import LocalPort, UmadPort


def as_address(where: Address | str | int | None) -> Address:
    """Return what a script may write as an address.

    None is the local port; an int or decimal text a LID; text with a comma, or ``0``, a directed route; ``0x`` and more
    than 4 digits a GUID; any other text a node name. Raises AddressError.
    """
    if where is None:
        return LOCAL
    if isinstance(where, int):
        return LidAddress(where)
    if not isinstance(where, str):
        return where
    if where == "0" or "," in where:
        return parse_route(where)
    if where.lower().startswith("0x"):
        return parse_lid(where) if len(where) <= 6 else parse_guid(where)
    return parse_lid(where) if where.isdigit() else NameAddress(where)


class OpenFabric:
    """A subnet as seen from one open local port. Use it as a context manager; not thread-safe.

    ``stores``: the files that changing commands use (in memory unless `ibkeys.open` says otherwise). ``warnings``: what
    the user should hear about the files that were read. ``is_simulated``: nothing real can be hit.
    ``reload_keys``: reads the key store and key files again. ``last_sweep``: what the last `discover` cost.
    """

    holds_m_keys = True
    """What is read here may hold M_Keys (a snapshot may hold fingerprints in their place)."""

    def __init__(
        self,
        umad: UmadPort,
        ring: KeyRing | None = None,
        timing: Timing | None = None,
        node_names: dict[int, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.umad = umad
        self.ring = ring or KeyRing()
        self.client = SmpClient(umad, timing, limits)
        self.node_names = node_names or {}
        self.stores = StorePaths(None, None)
        self.warnings: list[str] = []
        self.is_simulated = False
        self.reload_keys: Callable[[], None] = lambda: None
        self.last_sweep: Account | None = None
        self._known: Fabric | None = None
        self._look: LinkLook | None = None
        self._own_was_looked_at = False

    def local(self) -> LocalPort:
        """Return what the host knows about the local port. Sends nothing."""
        return self.umad.attributes()

    def discover(self, p_keys: bool = False, progress: Progress | None = None, wanted: Wanted | None = None) -> Fabric:
        """Sweep the whole subnet: nodes, links, PortInfo of every port, and every P_Key table when *p_keys* is true.

        *wanted* names all that is to be read, in the place of *p_keys*. Raises TransportError, and NoReply or
        SendRefused when the own port cannot be read. Every other failure is in ``Fabric.troubles``.
        """
        wanted = wanted or Wanted(p_keys=p_keys)
        before = dict(self.client.statistics.by_attribute)
        fabric = discover(self.client, self.ring, wanted, progress, self.node_names)
        self.last_sweep = account_of(fabric, wanted.p_keys, before, self.client.statistics.by_attribute)
        self._known = fabric
        self._look = LinkLook(self.client, self.ring, fabric)
        self._own_was_looked_at = True
        return fabric

    def sa(
        self, sm_key: SMKey | int | None = None, sm_lid: int | None = None, pkey_index: int | None = None
    ) -> SaClient:
        """Return a client for the SA. Sends nothing yet.

        *sm_key*: SM_Key to show (OpenSM's sa_key), none by default; *sm_lid*: LID of the SA, by default the local
        port's MasterSMLID; *pkey_index*: place in the local P_Key table, by default that of the default partition.
        """
        key = SMKey(sm_key) if isinstance(sm_key, int) else sm_key or NO_SM_KEY
        return SaClient(self.umad, self.client.timing, key, sm_lid, pkey_index, self.client.limits)

    def read_port_counters(self, ports: Iterable[Port], pkey_index: int | None = None) -> list[tuple[Port, Reading]]:
        """Get PortCounters of ports that a sweep found, many at a time; an error stands where one could not be read.

        Raises AgentRefused, UsageError (no P_Key at *pkey_index*), Unreachable (not in the default partition).
        """
        path = gmp_path(self.local(), pkey_index)
        self.umad.register(MgmtClass.PERF_MGMT)
        return read_port_counters(SmpClient(self.umad, self.client.timing, self.client.limits), path, ports)

    def port(
        self, where: Address | str | int | None = None, portnum: int | None = None, retries: int | None = None
    ) -> PortHandle:
        """Return a handle on one port.

        *where*: see `as_address`. *portnum*: port of the addressed node; by default 0 on a switch, else the port
        reached. A port of a CA or router other than the one reached is looked for by discovery, because only its own
        route leads to its P_Key table.

        Raises AddressError (exit 2: no such address, or several nodes match), UsageError (port number past the node's
        ports), ImpossibleValue (the node's own port numbers make no sense), NoReply, Unreachable (nothing on the fabric
        has it).
        """
        address = as_address(where)
        if isinstance(address, GuidAddress | NameAddress):
            return self._by_identity(address, portnum)
        return self._by_route(address, portnum, retries)

    def handle(self, port: Port) -> PortHandle:
        """Return a handle on a port that a sweep of this run found."""
        path = port.path if port.path is not None else port.node.path
        return PortHandle(self, port, DirectedAddress(path))

    @property
    def swept(self) -> Fabric | None:
        """What the last sweep of this session found, None before the first."""
        return self._known

    def doubt_of(self, port: Port) -> str:
        """Return why the last sweep did not believe the GUID of *port*, "" where it did."""
        return self._known.doubtful.get(port.end_port, "") if self._known is not None else ""

    def changed_links(self, ports: Iterable[Port], max_age: float = 0.0) -> dict[Port, str]:
        """Look at the links to *ports* once more, before a key goes over them; return the ports to which one changed
        since the last sweep of this run, or cannot be looked at, with the reason. A look holds for *max_age* seconds.

        A port that this sweep did not find, and every port when the topology is trusted, is not looked at.
        """
        look = self._look
        return look.at_links_to(ports, max_age) if look is not None and not self.ring.trust_topology else {}

    def has_changed(self, port: Port) -> bool:
        """Whether a link to *port* is not as the last sweep saw it, by what was looked at so far. Sends nothing."""
        return self._look is not None and self._look.has_changed(port)

    def look_at_way(self, port: Port) -> Task:
        """Task: as `changed_links` for one port, but for links that were looked at within the last second; return what
        changed, "" for nothing."""
        if self._look is None or self.ring.trust_topology:
            return ""
        return (yield from self._look.at_way(port))

    def swept_port(self, lid: int) -> PortHandle | None:
        """Return a handle on the end port with *lid* by the last sweep of this run, or None without one."""
        port = self._known.find_lid(lid) if self._known is not None else None
        return self.handle(port) if port is not None else None

    # --- finding a port ------------------------------------------------------------------------------------------

    def _by_route(self, address: LidAddress | DirectedAddress, portnum: int | None, retries: int | None) -> PortHandle:
        if self._needs_proof(address):
            return self._pick(self._find_proven(address), portnum, str(address))
        key = self._key_without_proof(address)
        if address == LOCAL:
            info, key = self._ask_own_port(key, retries)
        else:
            self._look_at_own_port()
            info, key = self._ask(address, key, retries)
        arrival = NodeInfo(info)
        node = Node(info, address.path if isinstance(address, DirectedAddress) else ())
        port = node.port(0 if node.is_switch else arrival.local_port_num)
        check_port_numbers(node, port)
        port.guid = arrival.port_guid
        port.m_key = key
        self._describe(node, address, port.m_key)
        chosen = self._choose(node, port, portnum, address)
        return (
            chosen
            if chosen is not None
            else self._pick(self._own_route(node, portnum, port, address), portnum, str(address))
        )

    def _needs_proof(self, address: LidAddress | DirectedAddress) -> bool:
        """Whether the port may hold a key of the ring that it must not be asked without, nor given without proof.

        Then it is found by a sweep, which proves each link and sends each key to its own port only.
        """
        return self.ring.has_keys and address != LOCAL

    def _find_proven(self, address: LidAddress | DirectedAddress) -> list[Port]:
        return find_ports(self._known or self.discover(), address)

    def _key_without_proof(self, address: LidAddress | DirectedAddress) -> MKey:
        if address == LOCAL:
            return self.ring.key_of(self.local().port_guid)
        return self.ring.for_strangers

    def _ask_own_port(self, key: MKey, retries: int | None) -> tuple[bytes, MKey]:
        """Get NodeInfo of the own port; without a key once, for a protected port counts each question."""
        is_keyless = key.is_zero and self.ring.for_all is None
        try:
            return self._ask(LOCAL, key, 0 if is_keyless else retries)
        except (NoReply, SendRefused) as error:
            raise about_own_key(error, self.ring, self.local().port_guid) from error

    def _look_at_own_port(self) -> None:
        """Ask the own port first, once in a session, where no key is known for it: it tells whether this subnet is
        protected. Raises MKeyNeeded where it is, NoReply or SendRefused where it does not answer."""
        ring = self.ring
        if self._own_was_looked_at or ring.for_all is not None or ring.ask_unproven:
            return
        local = self.local()
        if not ring.key_of(local.port_guid).is_zero:
            return
        try:
            own = PortInfo(self.get(PortInfo, local.port, LOCAL, retries=0))
        except (NoReply, SendRefused) as error:
            raise about_own_key(error, ring, local.port_guid) from error
        check_own_port(local, own)
        self._own_was_looked_at = True

    def _ask(self, route: Route, key: MKey, retries: int | None) -> tuple[bytes, MKey]:
        """Get NodeInfo with *key*; the own port also with the further keys that it may have."""
        others = self.ring.others_for(self.local().port_guid, key) if route == LOCAL else ()
        if not others:
            return self.get(NodeInfo, 0, route, key, retries=retries), key
        last: IbkeysError = NoReply("")
        for candidate in [key, *others] * (self.client.timing.retries + 1):  # turns, as in a sweep
            try:
                return self.get(NodeInfo, 0, route, candidate, retries=0), candidate
            except (NoReply, SendRefused) as error:
                last = error
        raise last

    def _choose(self, node: Node, port: Port, portnum: int | None, route: Route) -> PortHandle | None:
        """Return the handle for *portnum* when this route serves it; None when a sweep must find its own route."""
        num = port.num if portnum is None or (portnum == 0 and not node.is_switch) else portnum
        if num > node.num_ports or num < 0:
            raise no_such_port(port, num)
        if num == port.num:
            port.path = node.path if isinstance(route, DirectedAddress) else None
            return PortHandle(self, port, route)
        if node.is_switch:
            return PortHandle(self, node.port(num), route)
        return None

    def _own_route(self, node: Node, portnum: int | None, reached: Port, address: Address) -> list[Port]:
        fabric = self._known or self.discover()
        same = [other for other in fabric.nodes if other.guid == node.guid]
        if len(same) > 1:
            raise AddressError(f"node GUID 0x{node.guid:016x} is that of {len(same)} nodes: {candidates(same)}")
        found = [
            port for other in same for port in other.ports.values() if port.num == portnum and port.path is not None
        ]
        if not found:
            raise Unreachable(self._why_not_reached(node, portnum, reached, address))
        return found

    def _why_not_reached(self, node: Node, portnum: int | None, reached: Port, address: Address) -> str:
        what = (
            f"port {portnum} of {node.description or hex(node.guid)!r} cannot be asked through {address}: that "
            "leads to port "
            f"{reached.num}, and a {node.type_name} answers only for the port an SMP comes in by; no route to "
            f"port {portnum} was found"
        )
        try:
            info = PortInfo(self.get(PortInfo, portnum or 0, _route_of(address, reached), reached.m_key))
        except IbkeysError:
            return f"{what}; ask it by its own LID, from its own subnet"
        if info.port_physical_state != PortPhysicalState.LINK_UP:
            return f"{what}: it has no link"
        if info.lid:
            return (
                f"{what}; its LID, in another subnet or behind a silent node, is {info.lid}: ask LID {info.lid} there"
            )
        return f"{what}; it has no LID yet"

    def _by_identity(self, address: GuidAddress | NameAddress, portnum: int | None) -> PortHandle:
        fabric = self._known or self.discover()
        return self.handle(find_port(fabric, address, portnum))

    def _pick(self, ports: Sequence[Port], portnum: int | None, what: str) -> PortHandle:
        return self.handle(pick(self._known, ports, portnum, what))

    def _describe(self, node: Node, route: Route, key: MKey) -> None:
        try:
            text = NodeDescription(self.get(NodeDescription, 0, route, key)).node_description
        except IbkeysError:
            return  # a name is for the reader only: the port is known by its GUIDs, and node_desc stays unknown
        node.description = self.node_names.get(node.guid, text)

    # --- single requests -----------------------------------------------------------------------------------------

    def get(
        self, attribute: type[Attribute], modifier: int, route: Route, key: MKey = NO_MKEY, retries: int | None = None
    ) -> bytes:
        """Send one SubnGet and return the attribute's 64 bytes. Raises NoReply, MadStatusError, SendRefused.

        *retries*: attempts after the first, by default as the session has it.
        """

        def task() -> Any:
            return (yield self.client.request(Method.GET, attribute, modifier, route, m_key=key, retries=retries))

        data: bytes = self.client.call(task())
        return data

    def set(self, attribute: type[Attribute], modifier: int, route: Route, data: bytes, key: MKey = NO_MKEY) -> bytes:
        """Send one SubnSet, once: it is never repeated blindly. Returns the 64 bytes the agent answered.

        Raises NoReply, MadStatusError, SendRefused; after any of these the port may have changed all the same.
        """

        def task() -> Any:
            return (yield self.client.request(Method.SET, attribute, modifier, route, m_key=key, data=data, retries=0))

        answer: bytes = self.client.call(task())
        return answer

    def close(self) -> None:
        """Close the local port. Safe to call twice."""
        self.umad.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(slots=True)
class PortHandle:
    """One port of one node, and the route on which it is asked. Every read goes to the wire.

    ``port`` collects what was read, in the form that a sweep gives; ``route`` leads to the port's agent.
    """

    fabric: OpenFabric
    port: Port
    route: Route

    @property
    def m_key(self) -> MKey:
        """The key that is sent: that of the port, of port 0 for an external port of a switch."""
        own = self.port.end_port
        return own.m_key if self.fabric.doubt_of(own) else self.fabric.ring.learned.get(own.guid, own.m_key)

    @property
    def pkeys(self) -> tuple[PKey, ...]:
        """The P_Key table, empty entries included; as long as the port's capacity."""
        return self.read_p_keys()

    @property
    def port_info(self) -> PortInfo:
        """PortInfo of this port."""
        return self.read_port_info()

    @property
    def capacity(self) -> int:
        """Entries of the P_Key table; 0 when a switch has no tables for its external ports."""
        if self.port.is_external and self.port.node.switch_info_raw is None:
            self.read_switch_info()
        capacity = self.port.capacity
        assert capacity is not None
        return capacity

    def get(self, attribute: type[Attribute], modifier: int = 0) -> bytes:
        """Send one SubnGet to this port's agent with its key. Raises NoReply, MadStatusError, SendRefused."""
        return self.fabric.get(attribute, modifier, self.route, self.m_key)

    def set(self, attribute: type[Attribute], modifier: int, data: bytes) -> bytes:
        """Send one SubnSet to this port's agent with its key, once. Raises as `OpenFabric.set`."""
        return self.fabric.set(attribute, modifier, self.route, data, self.m_key)

    def read_port_info(self) -> PortInfo:
        """Get PortInfo; for an external port of a switch also that of port 0, which holds its LID and M_Key."""
        own = self.port.end_port
        if own is not self.port:
            own.info = self.get(PortInfo, 0)
        self.port.info = self.get(PortInfo, self.port.num)
        if own.m_key_state == "hidden":
            self._uncover(own)
        return PortInfo(self.port.info)

    def _uncover(self, own: Port) -> None:
        """A port at level 1 hides its key from a wrong one, which counts nothing there: try the others it may have."""
        for other in self.fabric.ring.others_for(own.guid, own.m_key):
            info = self.fabric.get(PortInfo, own.num, self.route, other)
            if any(info[:8]):
                own.info, own.m_key = info, other
                return

    def port_info_or_none(self) -> PortInfo | None:
        """Get PortInfo, or return None when it cannot be read."""
        try:
            return self.read_port_info()
        except IbkeysError:
            return None

    def read_switch_info(self) -> SwitchInfo | None:
        """Get SwitchInfo; None when the node is no switch."""
        node = self.port.node
        if node.is_switch:
            node.switch_info_raw = self.get(SwitchInfo)
        return node.switch_info

    def read_p_key_block(self, block: int) -> PKeyTable:
        """Get one block of 32 P_Keys."""
        return PKeyTable(self.get(PKeyTable, p_key_modifier(self.port, block)))

    def read_p_keys(self) -> tuple[PKey, ...]:
        """Get the whole P_Key table: ceil(capacity / 32) Gets. Entries past the capacity are left out.

        Raises ImpossibleValue for PartitionCap 0; an external port of a switch may have no table.
        """
        self.check_arrival()
        capacity = self.capacity
        if not capacity and self.port.is_end_port:
            raise ImpossibleValue(f"{self}: {NO_ENTRIES}")
        blocks: Sequence[Outcome] = self.fabric.client.call(self._ask_blocks(-(-capacity // P_KEYS_PER_BLOCK)))
        for outcome in blocks:
            if isinstance(outcome, IbkeysError):
                raise outcome
        self.port.p_key_raw = b"".join(blocks)[: 2 * capacity]  # type: ignore[arg-type]
        return self.port.p_keys or ()

    def _ask_blocks(self, count: int) -> Task:
        """Task: get the first *count* blocks of the P_Key table, or what stands in the place of each."""
        client, first = self.fabric.client, p_key_modifier(self.port, 0)
        node = self.port.node
        return (
            yield [
                client.request(Method.GET, PKeyTable, first + block, self.route, node=node, m_key=self.m_key)
                for block in range(count)
            ]
        )

    def check_arrival(self) -> None:
        """Make sure that the port asked is the one an SMP arrives at: a CA or router answers P_KeyTable for no other.

        Raises Unreachable when the route leads to another port, or to another node than before.
        """
        node = self.port.node
        if node.is_switch:
            return
        arrival = NodeInfo(self.get(NodeInfo))
        if arrival.node_guid != node.guid or arrival.local_port_num != self.port.num:
            raise Unreachable(
                f"{self.port}: {self.route} now leads to port {arrival.local_port_num} of node "
                f"0x{arrival.node_guid:016x}; cabling or routing changed meanwhile: run discover and try again"
            )

    def __str__(self) -> str:
        return f"{self.port} ({self.route})"


def _route_of(address: Address, reached: Port) -> Route:
    return address if isinstance(address, LidAddress | DirectedAddress) else DirectedAddress(reached.node.path)

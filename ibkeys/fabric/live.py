"""An open fabric: sweeping the subnet, and finding single ports in it.

`ibkeys.scripting.Fabric` adds changes and snapshots; it is the class of the objects that `ibkeys.open` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ibkeys.client.address import (
    LOCAL,
    AddressLike,
    DirectedAddress,
    GuidAddress,
    NameAddress,
    as_address,
)
from ibkeys.client.limits import Limits
from ibkeys.client.smp import Route, SmpClient, Task, Timing
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.own_port import check_own_port, explain_own_error
from ibkeys.errors import AddressError, IbkeysError, NoReply, SendRefused, Unreachable, UsageError
from ibkeys.fabric.handle import PortHandle
from ibkeys.fabric.open_port import OpenPort
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import NodeDescription, NodeInfo, PortInfo
from ibkeys.mad.const import MgmtClass, PortPhysicalState
from ibkeys.store.paths import StorePaths
from ibkeys.topology.find import candidates, find_port, find_ports, pick
from ibkeys.topology.impossible_values import check_port_numbers
from ibkeys.topology.nodes import Node, Port
from ibkeys.umad.port import UmadPort

if TYPE_CHECKING:  # these modules are loaded when first used, because few commands need them
    from ibkeys.classkeys.asking import PortQuestion
    from ibkeys.classkeys.reading import ClassKeyReading
    from ibkeys.client.sa import SaClient
    from ibkeys.discovery.cost import SweepCost
    from ibkeys.discovery.links.check import LinkCheck
    from ibkeys.discovery.port_counters import ConstraintErrors, CountersOrError
    from ibkeys.discovery.wanted import OnFound, Routes, Wanted
    from ibkeys.keys.smkey import SMKey
    from ibkeys.mad.classes.gmp import KeyClass
    from ibkeys.topology.model import Topology


class LiveFabric(OpenPort):
    """A subnet as seen from one open local port. Use it as a context manager; not thread-safe.

    ``routes``: the forwarding tables that a sweep reads; none by default, as a large fabric has millions of blocks.
    ``stores``: the files that changing commands use (in memory unless `ibkeys.open` was given others). ``warnings``:
    facts that the user should know about the files that were read, and about a lock that a change could not remove.
    ``is_simulated``: no real device is used. ``reload_keys``: reads the key store and key files again. ``as_options``:
    returns the options of a command that opens the same fabric, with names of files and no secret; None if no command
    can.
    """

    holds_m_keys = True
    """Values that are read here may be M_Keys (a snapshot may hold fingerprints in their place)."""

    def __init__(
        self,
        umad: UmadPort,
        ring: KeyRing | None = None,
        timing: Timing | None = None,
        node_names: dict[int, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(umad, ring, timing, limits)
        self.node_names = node_names or {}
        self.routes: Routes = "none"
        self.stores = StorePaths(None, None)
        self.warnings: list[str] = []
        self.is_simulated = False
        self.reload_keys: Callable[[], None] = lambda: None
        self.as_options: Callable[[], Sequence[str] | None] = lambda: None
        self._last_sweep: Callable[[], SweepCost] | None = None
        self._link_check: LinkCheck | None = None
        self._own_was_asked = False

    def sweep(self, p_keys: bool = False, progress: OnFound | None = None, wanted: Wanted | None = None) -> Topology:
        """Sweep the whole fabric: nodes, links, PortInfo of every port, and every P_Key table when *p_keys* is true.

        *wanted* names all attributes to read, in place of *p_keys*. Raises TransportError; NoReply or SendRefused when
        the local port cannot be read; MKeyNeeded when it shows that the subnet is protected by keys that are not known;
        UsageError for an argument of a wrong type. Every other failure is in ``Topology.troubles``.
        """
        from ibkeys.discovery.discover import discover
        from ibkeys.discovery.wanted import wanted_of

        wanted = wanted_of(p_keys, progress, wanted)
        before = dict(self.client.statistics.by_attribute)
        found = discover(self.client, self.ring, wanted, progress, self.node_names)
        if self.routes != "none":
            self._read_forwarding_tables(found)
        after = dict(self.client.statistics.by_attribute)

        def cost() -> SweepCost:
            from ibkeys.discovery.cost import cost_of

            return cost_of(found, wanted.p_keys, before, after)

        self._last_sweep = cost
        self.adopt(found)
        self._own_was_asked = True
        return found

    @property
    def last_sweep(self) -> SweepCost | None:
        """The cost of the last `sweep`, computed on demand; None before the first."""
        return self._last_sweep() if self._last_sweep is not None else None

    def read_alias_guids(self, found: Topology, named: Iterable[int]) -> None:
        """Read the alias GUIDs of *found*, the last sweep, if one of the GUIDs *named* is not the port GUID of an end
        port.

        See `ibkeys.discovery.tables.read_alias_guids`.
        """
        from ibkeys.discovery.tables import read_alias_guids

        read_alias_guids(self.client, found, named)

    def _read_forwarding_tables(self, found: Topology) -> None:
        from ibkeys.discovery.forwarding import read_forwarding_tables
        from ibkeys.topology.enforcement import checks_between_switches

        if self.routes == "all" or checks_between_switches(found.nodes):
            read_forwarding_tables(self.client, found, found.nodes)

    def read_routes(self, found: Topology, pairs: Iterable[tuple[Port, Port]]) -> None:
        """Read the blocks of forwarding tables that the routes between pairs of end ports of *found*, the last sweep,
        need. See `ibkeys.discovery.forwarding.read_routes`.
        """
        from ibkeys.discovery.forwarding import read_routes

        read_routes(self.client, found, pairs)

    def sa(
        self, sm_key: SMKey | int | None = None, sm_lid: int | None = None, pkey_index: int | None = None
    ) -> SaClient:
        """Return a client for the SA. Sends nothing yet.

        *sm_key*: SM_Key to show (OpenSM's sa_key), none by default; *sm_lid*: LID of the SA, by default the local
        port's MasterSMLID; *pkey_index*: place in the local P_Key table, by default that of the default partition.
        Raises UsageError for a value of a wrong type or out of bounds.
        """
        from ibkeys.client.sa import SaClient, check_access
        from ibkeys.keys.smkey import NO_SM_KEY, SMKey

        check_access(sm_key, sm_lid, pkey_index)
        key = SMKey(sm_key) if isinstance(sm_key, int) else sm_key or NO_SM_KEY
        return SaClient(self.umad, self.client.timing, key, sm_lid, pkey_index, self.client.limits)

    def read_port_counters(
        self, ports: Iterable[Port], pkey_index: int | None = None
    ) -> list[tuple[Port, CountersOrError]]:
        """Get PortCounters of ports that a sweep found, many at a time, and return the counters of each. A port that
        could not be read has the error instead.

        Raises AgentRefused, UsageError (no P_Key at *pkey_index*), Unreachable (not in the default partition).
        """
        from ibkeys.client.gmp import gmp_path
        from ibkeys.discovery.port_counters import read_port_counters

        path = gmp_path(self.local(), pkey_index)
        self.umad.register(MgmtClass.PERF_MGMT)
        return read_port_counters(SmpClient(self.umad, self.client.timing, self.client.limits), path, ports)

    def read_constraint_errors(
        self, ports: Iterable[Port], pkey_index: int | None = None
    ) -> dict[Port, ConstraintErrors]:
        """Get PortCounters of switch ports that were read, many at a time; return the constraint errors of each, or the
        error.

        Nothing is raised, and without ports nothing is sent.
        """
        from ibkeys.discovery.port_counters import ConstraintErrors

        wanted = list(ports)
        if not wanted:
            return {}
        try:
            readings = self.read_port_counters(wanted, pkey_index)
        except IbkeysError as error:
            return {port: ConstraintErrors(None, None, str(error)) for port in wanted}
        return {port: ConstraintErrors.of(reading) for port, reading in readings}

    def class_key_questions(
        self, ports: Iterable[Port], classes: Iterable[KeyClass], *, ask_unkeyed: bool = False
    ) -> list[PortQuestion]:
        """Return the queries for keys of classes to the end ports among *ports*, one for each class, for
        `ask_class_keys`. A query with a ``why_not`` will not be sent.

        If a key is known for one of the ports, the subnet is swept unless it was, the links to these ports are checked
        again, and it is proven that each is at its known place. *ask_unkeyed*: query without a key too where that may
        count a violation. Raises the errors of `sweep`.
        """
        from ibkeys.classkeys.asking import questions_for
        from ibkeys.classkeys.places import doubtful_places
        from ibkeys.discovery.links.check import LinkCheck

        wanted = list(ports)
        known = self.ring.class_keys
        keyed = [port for port in wanted if self.ring.has_class_key(port.guid)]
        doubtful: dict[Port, str] = {}
        if keyed:
            found = self._topology()
            doubtful = doubtful_places(
                keyed, found, self.ring, self._link_check or LinkCheck(self.client, self.ring, found)
            )
        return questions_for(wanted, classes, known, doubtful, ask_unkeyed=ask_unkeyed)

    def ask_class_keys(self, questions: Sequence[PortQuestion], pkey_index: int | None = None) -> list[ClassKeyReading]:
        """Query ports for keys of classes, many at a time, and return the reading of each.

        Raises AgentRefused, UsageError (no P_Key at *pkey_index*), Unreachable (not in the default partition).
        """
        from ibkeys.classkeys.asking import ask_class_keys

        for of in {question.of.name: question.of for question in questions if not question.why_not}.values():
            self.umad.register(of.mgmt_class, of.class_version)
        client = SmpClient(self.umad, self.client.timing, self.client.limits)
        return ask_class_keys(client, self.local(), questions, pkey_index)

    def find_port(
        self, address: AddressLike = None, portnum: int | None = None, retries: int | None = None
    ) -> PortHandle:
        """Find one port and return a handle on it. This reads NodeInfo of the port, or sweeps the subnet, or both.

        *address*: see `as_address`. *portnum*: port of the addressed node; by default 0 on a switch, else the port
        reached. A port of a CA or router other than the port reached is looked for by discovery, because only its own
        route leads to its P_Key table.

        Raises AddressError (exit 2: no such address, or several nodes match), UsageError (port number past the node's
        ports), ImpossibleValue (the node's own port numbers make no sense), Unreachable (no port of the fabric has the
        address), NoReply, MadStatusError, SendRefused, and MKeyNeeded (the local port shows that the subnet is
        protected by keys that are not known).
        """
        if portnum is not None and type(portnum) is not int:
            raise UsageError(f"portnum= takes the number of a port, not {portnum!r}")
        wanted = as_address(address)
        if isinstance(wanted, GuidAddress | NameAddress):
            return self.handle(find_port(self._topology(), wanted, portnum))
        return self._by_route(wanted, portnum, retries)

    def adopt(self, found: Topology) -> None:
        """Use *found* as the last sweep: its links are checked again before an M_Key is sent over them."""
        from ibkeys.discovery.links.check import LinkCheck

        self.swept = found
        self._link_check = LinkCheck(self.client, self.ring, found)

    def handle(self, port: Port) -> PortHandle:
        """Return a handle on a port that a sweep of this run found."""
        return PortHandle(self, port, DirectedAddress(port.agent_path))

    def find_changed_links(self, ports: Iterable[Port], max_age: float = 0.0) -> dict[Port, str]:
        """Check the links to *ports* again, before a key is sent over them; return the ports behind a changed link,
        with the reason.

        A link counts as changed if it differs from the last sweep of this run, or cannot be checked. A check is valid
        for *max_age* seconds. A port that this sweep did not find is not checked. Without a sweep, or when the topology
        is trusted, no port is checked. Raises TransportError.
        """
        links = self._link_check
        return links.at_links_to(ports, max_age) if links is not None and not self.ring.trust_topology else {}

    def has_changed(self, port: Port) -> bool:
        """Return whether a link to *port* differs from the last sweep, as far as the links were checked. Sends
        nothing."""
        return self._link_check is not None and self._link_check.has_changed(port)

    def look_at_way(self, port: Port) -> Task:
        """Task: check the links to one port as `find_changed_links` does, except those checked within the last second.

        Return the change, "" for none.
        """
        if self._link_check is None or self.ring.trust_topology:
            return ""
        return (yield from self._link_check.check_route(port))

    def swept_port(self, lid: int) -> PortHandle | None:
        """Return a handle on the end port with *lid* by the last sweep of this run, or None without one."""
        port = self.swept.find_lid(lid) if self.swept is not None else None
        return self.handle(port) if port is not None else None

    # --- finding a port ------------------------------------------------------------------------------------------

    def _by_route(self, address: Route, portnum: int | None, retries: int | None) -> PortHandle:
        if self.ring.has_keys and address != LOCAL:
            # The port may have a key of the ring without which it must not be queried, and which needs proof: a sweep
            # proves each link and sends each key to its own port only.
            return self._pick(find_ports(self._topology(), address), portnum, str(address))
        if address == LOCAL:
            info, key = self._ask_own_port(self.ring.key_of(self.own_guid), retries)
        else:
            self._ask_own_port_first()
            info, key = self._ask(address, self.ring.for_unknown_port, retries)
        arrival = NodeInfo(info)
        node = Node(info, address.path if isinstance(address, DirectedAddress) else ())
        port = node.port(0 if node.is_switch else arrival.local_port_num)
        check_port_numbers(port)
        port.guid = arrival.port_guid
        port.m_key = key
        self._describe(node, address, port.m_key)
        num = port.number_meant(portnum)
        if num == port.num:
            port.path = node.path if isinstance(address, DirectedAddress) else None
            return PortHandle(self, port, address)
        if node.is_switch:
            return PortHandle(self, node.port(num), address)
        # The port is behind another route, which a sweep must find.
        return self._pick(self._own_route(node, portnum, port, address), portnum, str(address))

    def _topology(self) -> Topology:
        """Return the result of the last sweep of this run; sweep if there was none."""
        return self.swept or self.sweep()

    def _ask_own_port(self, key: MKey, retries: int | None) -> tuple[bytes, MKey]:
        """Get NodeInfo of the local port; without a key only once, because a protected port counts each request."""
        is_keyless = key.is_zero and self.ring.for_all is None
        try:
            return self._ask(LOCAL, key, 0 if is_keyless else retries)
        except (NoReply, SendRefused) as error:
            raise explain_own_error(error, self.ring, self.own_guid) from error

    def _ask_own_port_first(self) -> None:
        """Query the local port, once in a run and before any other, if no key is known for it: its PortInfo shows
        whether this subnet is protected.

        Raises MKeyNeeded if it is, NoReply or SendRefused where the local port does not answer.
        """
        ring = self.ring
        if self._own_was_asked or ring.for_all is not None or ring.ask_unproven:
            return
        local = self.umad.attributes()
        if not ring.key_of(local.port_guid).is_zero:
            return
        try:
            own = PortInfo(self.get(PortInfo, local.port, LOCAL, retries=0))
        except (NoReply, SendRefused) as error:
            raise explain_own_error(error, ring, local.port_guid) from error
        check_own_port(local, own)
        self._own_was_asked = True

    def _ask(self, route: Route, key: MKey, retries: int | None) -> tuple[bytes, MKey]:
        """Get NodeInfo with *key*; the local port also with the further keys that it may have."""
        if route != LOCAL or not self.ring.others_for(self.own_guid, key):
            return self.get(NodeInfo, 0, route, key, retries=retries), key
        last: IbkeysError = NoReply("")
        for candidate in self.ring.attempts(self.own_guid, key, self.client.timing.retries):
            try:
                info = self.get(NodeInfo, 0, route, candidate, retries=0)
            except (NoReply, SendRefused) as error:
                last = error
                continue
            self.ring.answered(self.own_guid, candidate)
            return info, candidate
        raise last

    def _own_route(self, node: Node, portnum: int | None, reached: Port, address: Route) -> list[Port]:
        same = [other for other in self._topology().nodes if other.guid == node.guid]
        if len(same) > 1:
            raise AddressError(f"node GUID 0x{node.guid:016x} is shared by {len(same)} nodes: {candidates(same)}")
        found = [
            port for other in same for port in other.ports.values() if port.num == portnum and port.path is not None
        ]
        if not found:
            raise Unreachable(self._why_not_reached(node, portnum, reached, address))
        return found

    def _why_not_reached(self, node: Node, portnum: int | None, reached: Port, address: Route) -> str:
        what = (
            f"port {portnum} of {node.description or hex(node.guid)!r} cannot be asked through {address}: that leads "
            f"to port {reached.num}, and a {node.type_name} answers only for the port that receives the SMP; no route "
            f"to port {portnum} was found"
        )
        try:
            info = PortInfo(self.get(PortInfo, portnum or 0, address, reached.m_key))
        except IbkeysError:
            return f"{what}; query it by its own LID, from its own subnet"
        if info.port_physical_state != PortPhysicalState.LINK_UP:
            return f"{what}: it has no link"
        if info.lid:
            return (
                f"{what}; its LID, in another subnet or behind a silent node, is {info.lid}: query LID {info.lid} there"
            )
        return f"{what}; it has no LID yet"

    def _pick(self, ports: Sequence[Port], portnum: int | None, what: str) -> PortHandle:
        return self.handle(pick(self.swept, ports, portnum, what))

    def _describe(self, node: Node, route: Route, key: MKey) -> None:
        try:
            text = NodeDescription(self.get(NodeDescription, 0, route, key)).node_description
        except IbkeysError:
            return  # a name is for the reader only: the port is identified by its GUIDs, and node_desc stays unknown
        node.description = self.node_names.get(node.guid, text)

"""Reading a node and its ports into the model of one sweep; attributes that could not be read become troubles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ibkeys.client.request import Envelope
from ibkeys.client.smp import SmpClient, SmpOutcome, Task
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.links.gmps import LinkGmps
from ibkeys.discovery.tables import gets_to, read_guid_info, read_p_key_tables, read_virtualization
from ibkeys.discovery.wanted import OnFound, Wanted
from ibkeys.errors import IbkeysError
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import (
    Attribute,
    GUIDInfo,
    NodeDescription,
    PKeyTable,
    PortInfo,
    SMInfo,
    SwitchInfo,
)
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.topology.impossible_values import Problem, port_problems
from ibkeys.topology.model import Topology, Trouble
from ibkeys.topology.nodes import Port

_PROGRESS_EVERY: Final = 64
"""The number of ports that are read between two calls of the sweep's ``progress``."""


@dataclass(eq=False, repr=False)
class PortReader:
    """Reads nodes and ports for one sweep, into ``topology``.

    ``go_on``: called with each port as soon as its PortInfo was read, which shows whether there is a link; the other
    attributes are read after that. ``own_info``: PortInfo of the local port if it was read already, else b"".
    """

    client: SmpClient
    ring: KeyRing
    topology: Topology
    gmps: LinkGmps
    wanted: Wanted
    go_on: Callable[[Port], None]
    progress: OnFound | None
    own_info: bytes = b""
    _ports_read: int = 0
    _gets_to: dict[Port, tuple[MKey, Envelope]] = field(default_factory=dict)

    def add_problems(self, port: Port, problems: Sequence[Problem]) -> None:
        """Add a trouble of *port* for each of *problems*, its impossible values."""
        for wrong, text in problems:
            self.topology.troubles.append(Trouble(port, text, wrong))

    def read_node(self, own: Port) -> Task:
        """Task: read NodeDescription and, of a switch, SwitchInfo of the node of *own*. *own*: the end port whose agent
        is queried."""
        node = own.node
        attributes: list[type[Attribute]] = [NodeDescription, SwitchInfo] if node.is_switch else [NodeDescription]
        gets = self._gets(own)
        answers: list[SmpOutcome] = yield [gets.ask(attribute) for attribute in attributes]
        for attribute, answer in zip(attributes, answers, strict=True):
            if isinstance(answer, IbkeysError):
                self.topology.troubles.append(Trouble.of(own, attribute.name, answer))
            elif attribute is NodeDescription:
                node.description_raw = answer
                node.description = NodeDescription(answer).node_description
            else:
                node.switch_info_raw = answer

    def read_ports(self, ports: Sequence[Port]) -> Task:
        """Task: read PortInfo and the other wanted attributes of *ports*, external ports of one switch."""
        gets = self._gets(ports[0])
        infos: list[SmpOutcome] = yield gets.ask_each(PortInfo, [port.num for port in ports])
        for port, info in zip(ports, infos, strict=True):
            if isinstance(info, IbkeysError):
                self.topology.troubles.append(Trouble.of(port, PortInfo.name, info))
            else:
                port.info = info
                self._take_info(port)
        yield from self._read_p_keys(ports, gets)
        self._count(len(ports))

    def read_port(self, port: Port) -> Task:
        """Task: read PortInfo and the other wanted attributes of *port*."""
        if port.is_external:
            yield from self.read_ports([port])
            return
        gets = self._gets(port)
        try:
            yield from self._read_end_port_info(port, gets)
        except IbkeysError as error:
            self.topology.troubles.append(Trouble.of(port, PortInfo.name, error))
        else:
            self._take_info(port)
        yield from self._read_p_keys([port], gets)
        if port.info is not None:
            yield from self._read_identity(port)
        self._count(1)

    def _take_info(self, port: Port) -> None:
        """Process the PortInfo of *port*, which was just read."""
        problems = port_problems(port)
        if problems:
            self.add_problems(port, problems)
        self.go_on(port)

    def _read_p_keys(self, ports: Sequence[Port], gets: Envelope) -> Task:
        """Task: read the P_Key tables of *ports* by `read_p_key_tables`, if they are wanted."""
        if self.wanted.p_keys:
            for port, problem in (yield from read_p_key_tables(ports, gets)):
                self.topology.troubles.append(Trouble.of(port, PKeyTable.name, problem))

    def _count(self, ports: int) -> None:
        """Add *ports* to the number of ports that were read, and call ``progress`` after every `_PROGRESS_EVERY`
        ports."""
        before, self._ports_read = self._ports_read, self._ports_read + ports
        if self.progress and before // _PROGRESS_EVERY != self._ports_read // _PROGRESS_EVERY:
            self.progress(len(self.topology.nodes), self._ports_read)

    def _read_end_port_info(self, port: Port, gets: Envelope) -> Task:
        """Task: read PortInfo of an end port. If the port hides its key, read it again with the other possible keys."""
        if port.agent_path == ():  # the local port, which may have been read already
            known, self.own_info = self.own_info, b""
            port.info = known or (yield gets.ask(PortInfo, port.num))
            self.gmps.start(port)
        else:
            port.info = yield gets.ask(PortInfo, port.num)
        if port.m_key_state == "hidden":
            yield from self._uncover(port)

    def _uncover(self, port: Port) -> Task:
        """Task: read PortInfo of a port that hides its key with its other possible keys, until one makes it show the
        key.

        A port hides its key at level 1 if the key in the Get was wrong. It counts no violation for that.
        """
        for other in self.ring.others_for(port.guid, port.m_key):
            info: bytes = yield self.client.gets_to(port.agent_path, port.node, other).ask(PortInfo, port.num)
            if PortInfo(info).m_key:
                port.info, port.m_key = info, other
                return

    def _read_identity(self, port: Port) -> Task:
        """Task: read the GUIDs, virtual ports and SMInfo of an end port, as far as they are wanted."""
        if self.wanted.guid_info:
            problem = yield from read_guid_info(port, self._gets(port))
            if problem is not None:
                self.topology.troubles.append(Trouble.of(port, GUIDInfo.name, problem))
        if self.wanted.p_keys and port.can_have_virtual_ports:
            problem = yield from read_virtualization(port, self._gets(port))
            if problem is not None:
                self.topology.troubles.append(Trouble.of(port, VirtualizationInfo.name, problem))
        if self.wanted.sm_info and port.is_sm:
            try:
                port.sm_info = yield self._gets(port).ask(SMInfo)
            except IbkeysError as error:
                self.topology.troubles.append(Trouble.of(port, SMInfo.name, error))

    def _gets(self, port: Port) -> Envelope:
        """Return the envelope for Gets to the agent of *port*.

        The ports of a switch share one envelope. It is made again when the key of the agent has changed.
        """
        own = port.end_port
        known = self._gets_to.get(own)
        if known is None or known[0] is not own.m_key:
            known = self._gets_to[own] = (own.m_key, gets_to(self.client, port))
        return known[1]

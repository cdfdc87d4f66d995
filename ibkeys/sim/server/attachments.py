"""Answering the control requests of ibsim's protocol, by which programs attach, query their port, and detach."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ibkeys.errors import AddressError
from ibkeys.mad.attributes import PortInfo
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.server import clients as attached
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.clients import Client, Clients, SocketAddress
from ibkeys.sim.server.credentials import receive
from ibkeys.sim.server.is_sm import IsSm
from ibkeys.sim.server.loop import Loop
from ibkeys.sim.server.traffic import BATCH, PacketTraffic
from ibkeys.sim.subnet import Subnet

_ANSWERS: Final[Mapping[int, Callable[[SimPort], bytes]]] = {
    protocol.GET_NODE_INFO: lambda port: port.node.node_info(port.number),
    protocol.GET_VENDOR: lambda port: protocol.vendor(port.node.vendor_id, port.node.device_id, port.node.revision),
    protocol.GET_PORT: lambda port: protocol.port(port.lid, port.state),
    protocol.GET_P_KEYS: lambda port: port.p_key_block(0),
    protocol.GET_GUID: lambda port: protocol.guid(port.node.guid),
    protocol.GET_GID: lambda port: port.gid_prefix.to_bytes(8) + protocol.guid(port.node.guid),
}
"""Kind of request → the function that returns the answer about the port of a client."""


@dataclass(eq=False, repr=False)
class Attachments:
    """Answers the control requests that arrive at the socket ``control``. ``traffic``: carries the MADs of the clients.

    ``users``: the users whose programs may attach; None: all users. ``home``: the node of programs that name none.
    ``log``: called with a line about each refused program; ``log_clients``: with a line about each program that
    attaches or detaches.
    """

    subnet: Subnet
    clients: Clients
    control: socket.socket
    loop: Loop
    traffic: PacketTraffic
    counts: Counter[str]
    is_sm: IsSm
    users: Container[int] | None
    home: SimNode
    log: Callable[[str], None]
    log_clients: Callable[[str], None]
    _logged_users: set[int] = field(default_factory=set)
    _detach: dict[SimPort, Callable[[], None]] = field(default_factory=dict)

    def read(self, events: int) -> None:
        """Receive control requests and answer them."""
        for _ in range(BATCH):
            try:
                raw, user, address = receive(self.control, protocol.CONTROL_SIZE + 1)
            except BlockingIOError:
                return
            except OSError:
                continue  # UDP reports here that an earlier reply reached no socket.
            may_attach = self.users is None or user in self.users
            reply = self._reply(raw, address) if may_attach else self._turn_away(raw, user)
            if reply is None or not address:
                self.counts["malformed"] += 1
                continue
            try:
                self.control.sendto(reply, address)
            except OSError:
                self.counts["lost"] += 1
            if self.clients.leaving:
                self.detach_leaving()

    def _turn_away(self, raw: bytes, user: int) -> bytes | None:
        """Return the reply that refuses a request of another user, None for a malformed request. A program without a
        reply would wait forever."""
        self.counts["of other users"] += 1
        if user not in self._logged_users:
            self._logged_users.add(user)
            self.log(
                f"a program of another user (UID {user}) was turned away; `ibkeys sim serve --allow-others` lets it "
                "attach"
            )
        request = protocol.parse_control(raw)
        return None if request is None else protocol.control(request, protocol.ERROR)

    def _reply(self, raw: bytes, address: SocketAddress | None) -> bytes | None:
        request = protocol.parse_control(raw)
        if request is None or not address:
            return None
        self.counts["control requests"] += 1
        if request.kind == protocol.CONNECT:
            data = self._connect(protocol.parse_client_info(request.data), address)
        elif request.client >= attached.MAX_CLIENTS:
            return None
        elif not protocol.DISCONNECT <= request.kind <= protocol.GET_P_KEYS:
            return raw
        else:
            client = self.clients.get(request.client)
            # A program may send requests for its own slot only.
            data = self._answer(client, request) if client is not None and client.address == address else None
        return protocol.control(request, protocol.ERROR) if data is None else protocol.control(request, data=data)

    def _connect(self, info: protocol.ClientInfo, address: SocketAddress) -> bytes | None:
        try:
            node = self.subnet.node(info.node) if info.node else self.home
        except AddressError as error:
            self.log(f"refused {info.ident}, for SIM_HOST in its environment does not fit: {error}")
            return None
        former = self.clients.same(info.ident, address)
        if former is not None:
            self.clients.mark_gone(former)
        self.detach_leaving()
        if info.is_sm and self._sms_on(node):
            self.drop_dead()
            if self._sms_on(node):
                self.log(f"refused {info.ident}: another SM is attached to {node.description}")
                return None
        port = self.subnet.attach_port(node)
        try:
            client = self.clients.add(info.ident, port, address)
            if client is None:
                self.drop_dead()
                client = self.clients.add(info.ident, port, address)
        except OSError as error:
            self.log(f"refused {info.ident}: {error.strerror or error}")
            return None
        if client is None:
            self.log(f"refused {info.ident}: all {attached.MAX_CLIENTS} slots are taken")
            return None
        self.loop.register(client.fd, partial(self.traffic.ready, client))
        if port not in self._detach:
            self._detach[port] = self.subnet.attach(port, partial(self.traffic.arrived, port))
        if info.is_sm:
            self._set_is_sm(client, True)
        self.log_clients(f"{client} attached")
        return protocol.client_info(client.slot, info.is_sm, node.node_id)

    def _sms_on(self, node: SimNode) -> list[Client]:
        return [client for client in self.clients if client.is_sm and client.port.node is node]

    def _answer(self, client: Client, request: protocol.Control) -> bytes | None:
        if request.kind in _ANSWERS:
            return _ANSWERS[request.kind](client.port)
        if request.kind == protocol.GET_PORT_INFO:
            return self._port_info(client.port, request.data[0])
        if request.kind == protocol.SET_IS_SM:
            self._set_is_sm(client, protocol.number(request.data) != 0)
        else:
            self.clients.mark_gone(client)
        return request.data

    def _port_info(self, home: SimPort, number: int) -> bytes | None:
        """Return PortInfo of port *number* of the client's node (0: its own port) without the M_Key; None if there is
        no such port."""
        if number > home.node.num_ports:
            return None
        info = PortInfo(bytes(home.node.ports[number].info if number else home.info))
        return info.replace(m_key=0, local_port_num=number or home.number).raw

    def _set_is_sm(self, client: Client, on: bool) -> None:
        client.is_sm = on
        self.is_sm.set(client.port, client, on)

    def drop_dead(self) -> None:
        """Free the slots of clients that have ended without detaching."""
        for client in self.clients:
            if not self.clients.is_alive(client):
                self.clients.mark_gone(client)
        self.detach_leaving()

    def detach_leaving(self) -> None:
        """Free the slots of the clients in ``clients.leaving``."""
        while self.clients.leaving:
            client = self.clients.leaving.pop()
            self.loop.unregister(client.fd)
            self.clients.remove(client)
            if client.is_sm:
                self._set_is_sm(client, False)
            if not self.clients.at(client.port):
                self._detach.pop(client.port)()
            self.log_clients(f"{client} left")

    def close(self) -> None:
        """Detach all programs and close their sockets."""
        for detach in self._detach.values():
            detach()
        for client in self.clients:
            self.clients.remove(client)

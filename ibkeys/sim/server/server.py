"""A simulated subnet as a server for any libibumad program: what ibsim is, with M_Keys, through Debian's libumad2sim0.

One loop serves all clients; each packet goes through `Subnet.send` at the client's port. What gets no answer comes back
at once with status 110, as ibsim has it: the client library has no timers. What is for a program (SA requests, SMInfo,
traps, reports and their responses) is handed to the client at the port where it arrives.
"""

from __future__ import annotations

import errno
import heapq
import os
import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Container
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Self

from ibkeys.errors import AddressError, EncodeError, FileFormatError, IbkeysError, UsageError
from ibkeys.mad.const import MAD_SIZE, Method, MgmtClass
from ibkeys.sim.nodes import KEY, Node, Port
from ibkeys.sim.receivers import Delivery
from ibkeys.sim.server import clients as attached
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server import steer_socket
from ibkeys.sim.server.clients import Address, Client, Clients
from ibkeys.sim.server.credentials import own_users, receive
from ibkeys.sim.server.ibsim_protocol import HEADER_SIZE, PACKET_SIZE
from ibkeys.sim.server.steer_socket import Answer, Connection
from ibkeys.sim.steering.commands import execute
from ibkeys.sim.steering.script import Script
from ibkeys.sim.subnet import Subnet

BATCH: Final = 64
"""Most packets taken from one client before the others have their turn."""
TICK: Final = 1.0
"""Seconds between two looks for clients that died and for changes to save."""
SAVING_SHARE: Final = 20
"""Saving takes at most one part in so many of the time: a large subnet is saved less often."""
_IN: Final = select.EPOLLIN
_OUT: Final = select.EPOLLOUT
_DIRECTED: Final = int(MgmtClass.SUBN_DIRECTED_ROUTE)
_TRAP_REPRESS: Final = int(Method.TRAP_REPRESS)
_LENGTH: Final = MAD_SIZE.to_bytes(8)
_LEAST_MAD: Final = 24
_SA_DATA: Final = 168
"""Bytes of SA data that arrive unharmed: libumad2sim's reader hands on 224 bytes of a MAD, the header has 56."""
_SILENCE: Final = errno.ETIMEDOUT.to_bytes(4) + bytes(4)
_ANSWERED: Final = bytes(8)
_NO_LID: Final = bytes(4)
_QP0: Final = bytes(4)
_LID_AT: Final = 0 if sys.byteorder == "little" else 2
_DEAD: Final = frozenset({errno.ECONNREFUSED, errno.ENOTCONN, errno.ECONNRESET, errno.EPIPE, errno.ENOENT})
_WRITTEN_WRONG: Final = (AddressError, UsageError, EncodeError, FileFormatError)

_HELP: Final = """

Of the server:
clients                           who is attached
counts                            packets, and what became of them
"""


class Seen(NamedTuple):
    """A MAD that passed: from *client* into the subnet (``out``) or to it.

    With a ``note`` it is the client's own, back because nothing answered it: the note says why.
    """

    client: Client
    out: bool
    mad: bytes
    slid: int
    dlid: int
    qpn: int
    note: str = ""


class Server:
    """Serves *subnet* under the base name *name*; with *listen* (address, port) over UDP instead.

    Programs of *users*, by default root and the own user, may attach, with *allow_others* those of every user; UDP does
    not tell users apart, so it needs that: UsageError. Only *users* may steer. Programs that name no node attach to
    *home*, by default the first one.
    *watch* sees every MAD; *save* is called once a second; *tell* gets a line about whatever went wrong and about the
    script, *chat* about clients that come and go. Raises TransportError.
    """

    def __init__(
        self,
        subnet: Subnet,
        name: str = protocol.DEFAULT_NAME,
        *,
        listen: tuple[str, int] | None = None,
        allow_others: bool = False,
        users: Container[int] | None = None,
        home: Node | None = None,
        watch: Callable[[Seen], None] | None = None,
        save: Callable[[], None] | None = None,
        tell: Callable[[str], None] | None = None,
        chat: Callable[[str], None] | None = None,
    ) -> None:
        self.subnet = subnet
        self.name = protocol.check_name(name)
        if listen is not None and not allow_others:
            raise UsageError("over UDP nobody can tell whose a program is: serve with --allow-others, or locally")
        self.home = home or subnet.nodes[0]
        self._users = own_users() if users is None else users
        self._allow_others = allow_others
        self._told: set[int] = set()
        self.clients = Clients(name, listen)
        self._counts: Counter[str] = Counter()
        self._script = Script()
        self._script_start = 0.0
        self._watch = watch
        self._save = save
        self._save_at = 0.0
        self._tell = tell or (lambda line: None)
        self._chat = chat or (lambda line: None)
        self._later: list[tuple[float, int, Callable[[], object]]] = []
        self._sequence = 0
        self._stopping = False
        self._closed = False
        self._by_fd: dict[int, Client] = {}
        self._steering: dict[int, Connection] = {}
        self._detach: dict[Port, Callable[[], None]] = {}
        self._leaving: list[Client] = []
        self._packets = 0
        self._current: tuple[Client, bytes, bytes, bytes] | None = None
        self._forwarded = False
        self._control = attached.bind(name, listen)
        try:
            self._steer = steer_socket.bind(name)
        except BaseException:
            self._control.close()
            raise
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        for fd in (self._control.fileno(), self._steer.fileno(), self._wake):
            self._epoll.register(fd, _IN)
        subnet.sa_data_limit = _SA_DATA
        self._ahead = subnet.now - time.monotonic()
        subnet.follow_clock(lambda: self._ahead + time.monotonic())

    # The loop

    def serve(self) -> None:
        """Serve until `stop`. What a client does, or a bug that it meets, never ends this."""
        next_tick = time.monotonic() + TICK
        while not self._stopping:
            now = time.monotonic()
            if now >= next_tick:
                self._tick()
                next_tick = now + TICK
            wait = next_tick - now
            if self._later:
                self._run_due(now)
                wait = min(wait, max(0.0, self._later[0][0] - now)) if self._later else wait
            if self._script.next_time is not None:
                wait = min(wait, self._play_on())
            timer = self.subnet.next_timer()
            if timer is not None:
                wait = min(wait, max(0.0, self._run_timers(timer)))
            for fd, events in self._epoll.poll(wait):
                try:
                    self._event(fd, events)
                except Exception as error:
                    self._bug(error)
            try:
                self._let_go()
            except Exception as error:
                self._bug(error)

    def _event(self, fd: int, events: int) -> None:
        client = self._by_fd.get(fd)
        if client is not None:
            if events & _OUT:
                self._flush(client)
            if events & ~_OUT and not client.held and not client.gone:
                self._read_client(client)
        elif fd == self._control.fileno():
            self._read_control()
        elif fd == self._steer.fileno():
            self._accept()
        elif fd in self._steering:
            self._steered(self._steering[fd], events)

    def _bug(self, error: Exception) -> None:
        """Count what should not have happened and say where; the text of the error may quote a key."""
        self._counts["internal errors"] += 1
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "?"
        self._tell(f"internal error ({type(error).__name__} at {place}): a bug in ibkeys; going on")

    def stop(self) -> None:
        """Let `serve` return. May be called from a signal handler or another thread."""
        self._stopping = True
        if not self._closed:
            os.eventfd_write(self._wake, 1)

    def counts(self) -> dict[str, int]:
        """Return how many packets there were, and what became of those that were not simply answered."""
        return {"packets": self._packets, **self._counts}

    def close(self) -> None:
        """Close all sockets. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        for detach in self._detach.values():
            detach()
        for client in self.clients:
            self.clients.remove(client)
        for connection in self._steering.values():
            connection.socket.close()
        self._epoll.close()
        self._control.close()
        self._steer.close()
        os.close(self._wake)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What happens by itself

    def at(self, delay: float, work: Callable[[], object]) -> None:
        """Do *work* *delay* seconds from now, in the loop."""
        self._sequence += 1
        heapq.heappush(self._later, (time.monotonic() + delay, self._sequence, work))

    def _run_due(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            try:
                heapq.heappop(self._later)[2]()
            except Exception as error:
                self._bug(error)

    def _run_timers(self, due: float) -> float:
        """Do what the subnet does by itself; returns the seconds until there is more to do."""
        if due <= self.subnet.now:
            try:
                self.subnet.run_timers()
            except Exception as error:
                self._bug(error)
        timer = self.subnet.next_timer()
        return TICK if timer is None else timer - self.subnet.now

    def _tick(self) -> None:
        try:
            self._bury()
            now = time.monotonic()
            for connection in list(self._steering.values()):
                if now >= connection.deadline:
                    self._hang_up(connection)
            if self._save is not None and now >= self._save_at:
                self._save()
                done = time.monotonic()
                self._save_at = done + SAVING_SHARE * (done - now)
        except Exception as error:
            self._bug(error)

    # Control requests

    def _read_control(self) -> None:
        for _ in range(BATCH):
            try:
                raw, user, address = receive(self._control, protocol.CONTROL_SIZE + 1)
            except BlockingIOError:
                return
            except OSError:
                continue  # UDP: an earlier reply found nobody
            reply = self._control_reply(raw, address) if self._may_attach(user) else self._turn_away(raw, user)
            if reply is None or not address:
                self._counts["malformed"] += 1
                continue
            try:
                self._control.sendto(reply, address)
            except OSError:
                self._counts["lost"] += 1
            if self._leaving:
                self._let_go()

    def _may_attach(self, user: int) -> bool:
        return self._allow_others or user in self._users

    def _turn_away(self, raw: bytes, user: int) -> bytes | None:
        """Do nothing of what another user asks for, and say so: a program that hears nothing waits for ever."""
        self._counts["of other users"] += 1
        if user not in self._told:
            self._told.add(user)
            self._tell(f"a program of another user (UID {user}) was turned away; --allow-others lets it attach")
        request = protocol.parse_control(raw)
        return None if request is None else protocol.control(request, protocol.ERROR)

    def _control_reply(self, raw: bytes, address: Address | None) -> bytes | None:
        request = protocol.parse_control(raw)
        if request is None or not address:
            return None
        self._counts["control requests"] += 1
        if request.kind == protocol.CONNECT:
            data = self._connect(protocol.parse_client_info(request.data), address)
        elif request.client >= attached.MAX_CLIENTS:
            return None
        elif not protocol.DISCONNECT <= request.kind <= protocol.GET_P_KEYS:
            return raw
        else:
            client = self.clients.get(request.client)
            # Nobody speaks for another program.
            data = self._inform(client, request) if client is not None and client.address == address else None
        return protocol.control(request, protocol.ERROR) if data is None else protocol.control(request, data=data)

    def _connect(self, info: protocol.ClientInfo, address: Address) -> bytes | None:
        try:
            node = self.subnet.node(info.node) if info.node else self.home
        except AddressError as error:
            self._tell(f"refused {info.ident}: SIM_HOST: {error}")
            return None
        former = self.clients.same(info.ident, address)
        if former is not None:
            self._lost(former)
        self._let_go()
        if info.is_sm and self._sms_on(node):
            self._bury()
            if self._sms_on(node):
                self._tell(f"refused {info.ident}: another SM is attached to {node.description}")
                return None
        port = self.subnet.attach_port(node)
        try:
            client = self.clients.add(info.ident, port, address)
            if client is None:
                self._bury()
                client = self.clients.add(info.ident, port, address)
        except OSError as error:
            self._tell(f"refused {info.ident}: {error.strerror or error}")
            return None
        if client is None:
            self._tell(f"refused {info.ident}: all {attached.MAX_CLIENTS} slots are taken")
            return None
        self._by_fd[client.fd] = client
        self._epoll.register(client.fd, _IN)
        if port not in self._detach:
            self._detach[port] = self.subnet.attach(port, lambda delivery: self._arrived(port, delivery))
        if info.is_sm:
            self._set_is_sm(client, True)
        self._chat(f"{client} attached")
        return protocol.client_info(client.slot, info.is_sm, node.node_id)

    def _sms_on(self, node: Node) -> list[Client]:
        return [client for client in self.clients if client.is_sm and client.port.node is node]

    def _inform(self, client: Client, request: protocol.Control) -> bytes | None:
        port, kind = client.port, request.kind
        node = port.node
        if kind == protocol.GET_NODE_INFO:
            return node.node_info(port.number)
        if kind == protocol.GET_PORT_INFO:
            return self._port_info(port, request.data[0])
        if kind == protocol.GET_VENDOR:
            return protocol.vendor(node.vendor_id, node.device_id, node.revision)
        if kind == protocol.GET_PORT:
            return protocol.port(port.lid, port.state)
        if kind == protocol.GET_P_KEYS:
            return port.p_key_block(0)
        if kind == protocol.GET_GUID:
            return protocol.guid(node.guid)
        if kind == protocol.GET_GID:
            return bytes(port.info[8:16]) + protocol.guid(node.guid)
        if kind == protocol.SET_IS_SM:
            self._set_is_sm(client, protocol.number(request.data) != 0)
        else:
            self._lost(client)
        return request.data

    def _port_info(self, home: Port, number: int) -> bytes | None:
        """Return PortInfo as the host knows it, which is without its M_Key."""
        if number > home.node.num_ports:
            return None
        info = bytearray(home.node.ports[number].info if number else home.info)
        info[KEY] = bytes(8)
        info[28] = number or home.number
        return bytes(info)

    def _set_is_sm(self, client: Client, on: bool) -> None:
        client.is_sm = on
        port = client.port
        own = port.node.sm  # one that the subnet plays itself
        self.subnet.set_is_sm(
            port, any(other.is_sm for other in self.clients.at(port)) or (own is not None and own.port is port)
        )

    # Clients that leave

    def _lost(self, client: Client) -> None:
        """Note that *client* is not there any more; `_let_go` does the rest when nothing is under way."""
        if not client.gone:
            client.gone = True
            self._leaving.append(client)

    def _bury(self) -> None:
        """Look for clients that died without a word and free their slots."""
        for client in self.clients:
            if not self.clients.is_alive(client):
                self._lost(client)
        self._let_go()

    def _let_go(self) -> None:
        while self._leaving:
            client = self._leaving.pop()
            self._by_fd.pop(client.fd, None)
            self._epoll.unregister(client.fd)
            self.clients.remove(client)
            if client.is_sm:
                self._set_is_sm(client, False)
            if not self.clients.at(client.port):
                self._detach.pop(client.port)()
            self._chat(f"{client} left")

    # Packets

    def _read_client(self, client: Client) -> None:
        take = client.socket.recv if client.is_known or self._allow_others else partial(self._first_packet, client)
        for _ in range(BATCH):
            try:
                raw = take(PACKET_SIZE + 1)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _DEAD:
                    self._lost(client)
                return
            if len(raw) == PACKET_SIZE:
                self._packet(client, raw)
            elif client.is_known or self._allow_others:
                self._counts["malformed"] += 1
            if client.gone or client.held:
                return

    def _first_packet(self, client: Client, size: int) -> bytes:
        """Take a packet of a program whose user is not known yet; an empty one in the place of another user's.

        Once is enough: the kernel lets nobody else send to a socket that is connected. To ask it each time would cost a
        tenth of all that this server does.
        """
        raw, user, _ = receive(client.socket, size)
        client.is_known = user in self._users
        if not client.is_known:
            self._counts["of other users"] += 1
        return raw if client.is_known else b""

    def _packet(self, client: Client, raw: bytes) -> None:
        mad = raw[HEADER_SIZE:]
        if raw[24:32] != _LENGTH:
            length = int.from_bytes(raw[24:32])
            if not _LEAST_MAD <= length <= MAD_SIZE:
                self._counts["malformed"] += 1
                return
            mad = mad[:length].ljust(MAD_SIZE, b"\0")
        method = mad[3]
        # A directed route begins at HopPointer 0, and D says whether it goes back, as R does.
        if mad[0] != 1 or mad[2] > 2 or (mad[1] == _DIRECTED and (mad[6] or (mad[4] ^ method) & 0x80)):
            self._counts["malformed"] += 1
            return
        self._packets += 1
        if method < 0x80:
            mad = mad[:8] + client.slot_bytes + mad[10:]
        slid = raw[4:8]
        if slid == _NO_LID:
            slid = protocol.packet_lid(client.port.lid)
        dlid = raw[_LID_AT] << 8 | raw[_LID_AT + 1]
        self._current = (client, raw, mad, slid)
        self._forwarded = False
        subnet = self.subnet
        if self._watch is not None:
            self._watch(Seen(client, True, mad, _lid(slid), dlid, int.from_bytes(raw[8:12])))
        arriving = subnet.send(mad, client.port, dlid)
        self._current = None
        if arriving:
            for delay, answer, _ in arriving:
                reply = b"".join((slid, raw[0:4], raw[12:16], raw[8:12], _ANSWERED, _LENGTH, answer))
                if delay:
                    self.at(delay, partial(self._write, client, reply))
                else:
                    self._write(client, reply)
        elif not self._forwarded:
            if subnet.last_drop == "malformed":
                self._counts["malformed"] += 1
            elif method < 0x80 and method != _TRAP_REPRESS:
                self._counts["unanswered"] += 1
                echo = b"".join((raw[0:4], slid, raw[8:16], _SILENCE, raw[24:32], mad))
                self._write(client, echo, f"no answer: {subnet.last_drop or 'the program there is gone'}")

    def _arrived(self, port: Port, delivery: Delivery) -> None:
        """Hand a MAD that arrived at *port* to the program it is for, unchanged."""
        mad = delivery.mad
        current = self._current
        forwarding = current is not None and current[2][:128] == mad[:128]
        client = self._program_for(port, mad)
        if client is None:
            self._counts["nobody there"] += 1
        elif forwarding and current is not None:
            _, raw, _, slid = current
            packet = b"".join((raw[0:4], slid, raw[8:16], _ANSWERED, raw[24:32], mad))
            self._forwarded = self._write(client, packet)
            self._counts["forwarded"] += self._forwarded
        else:
            lids = protocol.packet_lid(port.lid), protocol.packet_lid(delivery.slid)
            self._write(client, protocol.header(*lids, _QP0, _QP0) + mad)
            self._counts["traps"] += 1

    def _program_for(self, port: Port, mad: bytes) -> Client | None:
        """A response is for the program whose slot its TransactionID names, all else for the one that is an SM."""
        if mad[3] & 0x80:
            client = self.clients.get(mad[8] << 8 | mad[9])
            return client if client is not None and client.port is port else None
        return next((client for client in self.clients.at(port) if client.is_sm), None)

    def _write(self, client: Client, packet: bytes, note: str = "") -> bool:
        """Write to a client, or keep it until the client reads. Returns False when nobody is there."""
        if client.gone:
            return False
        if self._watch is not None:
            lids = _lid(packet[4:8]), _lid(packet[0:4])
            self._watch(Seen(client, False, packet[HEADER_SIZE:], *lids, int.from_bytes(packet[12:16]), note))
        if client.waiting:
            return self._keep(client, packet)
        try:
            client.socket.send(packet)
        except BlockingIOError:
            return self._keep(client, packet)
        except OSError as error:
            if error.errno in _DEAD:
                self._lost(client)
                return False
            self._counts["lost"] += 1
        return True

    def _keep(self, client: Client, packet: bytes) -> bool:
        waiting = client.waiting
        if len(waiting) >= attached.MAX_WAITING:
            self._counts["lost"] += 1
            return True
        waiting.append(packet)
        client.held = len(waiting) >= attached.HOLD
        self._epoll.modify(client.fd, _OUT if client.held else _IN | _OUT)
        return True

    def _flush(self, client: Client) -> None:
        waiting = client.waiting
        try:
            while waiting:
                client.socket.send(waiting[0])
                waiting.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self._lost(client)
            return
        if len(waiting) < attached.HOLD:
            client.held = False
        self._epoll.modify(client.fd, _OUT if client.held else _IN | _OUT if waiting else _IN)

    # Steering

    def steer(self, line: str) -> Answer:
        """Execute one steering line: ``clients`` and ``counts`` are about the server, the rest is about the subnet."""
        word = line.strip()
        if word == "clients":
            return Answer("ok", "\n".join(f"{client}{' SM' if client.is_sm else ''}" for client in self.clients))
        if word == "counts":
            return Answer("ok", "\n".join(f"{name}: {count}" for name, count in sorted(self.counts().items())))
        try:
            text = execute(self.subnet, line)
        except _WRITTEN_WRONG as error:
            return Answer("usage", str(error))
        except IbkeysError as error:
            return Answer("error", str(error))
        except Exception as error:
            self._bug(error)
            return Answer("error", f"internal error ({type(error).__name__})")
        # Where the line moved the virtual time ahead, real time goes on from there.
        self._ahead += max(0.0, self.subnet.now - (self._ahead + time.monotonic()))
        return Answer("ok", text + _HELP.rstrip() if word == "help" else text)

    def play(self, script: Script) -> None:
        """Execute *script*: what is due at once now, the rest in the loop. Raises UsageError for a line of now."""
        self._script, self._script_start = script, self.subnet.now
        for line in script.due_lines(0.0):
            answer = self.steer(line.text)
            if answer.outcome != "ok":
                raise UsageError(f"line {line.number}: {answer.text}")
            self._tell(f"{line.text}: {answer.text}")

    def _play_on(self) -> float:
        """Execute what is due of the script; returns the seconds until the next line."""
        for line in self._script.due_lines(self.subnet.now - self._script_start):
            answer = self.steer(line.text)
            self._tell(f"{line.text}: {'' if answer.outcome == 'ok' else 'not done: '}{answer.text}")
        due = self._script.next_time
        return TICK if due is None else max(0.0, self._script_start + due - self.subnet.now)

    def _accept(self) -> None:
        connection = steer_socket.accept(self._steer, self._users)
        if connection is None:
            return
        if len(self._steering) >= steer_socket.MAX_CONNECTIONS:
            connection.socket.close()
            return
        self._steering[connection.fd] = connection
        self._epoll.register(connection.fd, _IN)

    def _steered(self, connection: Connection, events: int) -> None:
        more = connection.write() if connection.rest is not None else connection.read(self.steer)
        if not more:
            self._hang_up(connection)
        elif connection.rest is not None:
            self._epoll.modify(connection.fd, _OUT)

    def _hang_up(self, connection: Connection) -> None:
        del self._steering[connection.fd]
        self._epoll.unregister(connection.fd)
        connection.socket.close()


def _lid(raw: bytes) -> int:
    return raw[_LID_AT] << 8 | raw[_LID_AT + 1]

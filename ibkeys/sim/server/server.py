"""A simulated subnet as a server for any libibumad program: what ibsim is, with M_Keys, through Debian's libumad2sim0.

One loop serves all clients: programs attach (`Attachments`), their packets go through the subnet (`Traffic`), and lines
that steer it are executed here, as are scripts of them.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Container
from types import TracebackType
from typing import Final, Self

from ibkeys.errors import AddressError, EncodeError, FileFormatError, IbkeysError, UsageError
from ibkeys.sim.nodes import Node
from ibkeys.sim.server import clients as attached
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server import steer_socket
from ibkeys.sim.server.attachments import Attachments
from ibkeys.sim.server.clients import Clients
from ibkeys.sim.server.credentials import own_users
from ibkeys.sim.server.loop import WRITABLE, Loop
from ibkeys.sim.server.outbox import Watch
from ibkeys.sim.server.steer_socket import Answer, Connection
from ibkeys.sim.server.traffic import Traffic
from ibkeys.sim.steering.commands import execute
from ibkeys.sim.steering.script import Script
from ibkeys.sim.subnet import Subnet

TICK: Final = 1.0
"""Seconds between two looks for clients that died and for changes to save."""
SAVING_SHARE: Final = 20
"""Saving takes at most one part in so many of the time: a large subnet is saved less often."""
_SA_DATA: Final = 168
"""Bytes of SA data that arrive unharmed: libumad2sim's reader hands on 224 bytes of a MAD, the header has 56."""
_WRITTEN_WRONG: Final = (AddressError, UsageError, EncodeError, FileFormatError)

_HELP: Final = """

Of the server:
clients                           who is attached
counts                            packets, and what became of them
"""


class Server:
    """Serves *subnet* under the base name *name*; with *listen* (address, port) over UDP instead.

    Programs of *users*, by default root and the own user, may attach, with *allow_others* those of every user; UDP does
    not tell users apart, so it needs that: UsageError. Only *users* may steer. Programs that name no node attach to
    *home*, by default the first one.
    *watch* sees every MAD; *save* is called once a second; *log* gets a line about whatever went wrong and about the
    script, *log_clients* about clients that come and go. Raises TransportError.
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
        watch: Watch | None = None,
        save: Callable[[], None] | None = None,
        log: Callable[[str], None] | None = None,
        log_clients: Callable[[str], None] | None = None,
    ) -> None:
        self.subnet = subnet
        self.name = protocol.check_name(name)
        if listen is not None and not allow_others:
            raise UsageError("over UDP nobody can tell whose a program is: serve with --allow-others, or locally")
        self.home = home or subnet.nodes[0]
        self._users = own_users() if users is None else users
        self.clients = Clients(name, listen)
        self._counts: Counter[str] = Counter()
        self._script = Script()
        self._script_start = 0.0
        self._save = save
        self._save_at = 0.0
        self._log = log or (lambda line: None)
        self._closed = False
        self._steering: dict[int, Connection] = {}
        self._control = attached.bind(name, listen)
        try:
            self._steer = steer_socket.bind(name)
        except BaseException:
            self._control.close()
            raise
        self._loop = Loop(self._report_bug)
        attaching = None if allow_others else self._users
        self._traffic = Traffic(subnet, self.clients, self._loop, self._counts, attaching, watch)
        self._attachments = Attachments(
            subnet,
            self.clients,
            self._control,
            self._loop,
            self._traffic,
            self._counts,
            users=attaching,
            home=self.home,
            log=self._log,
            log_clients=log_clients or (lambda line: None),
        )
        self._loop.register(self._control.fileno(), self._attachments.read)
        self._loop.register(self._steer.fileno(), self._accept)
        subnet.carrier.sa_data_limit = _SA_DATA
        self._ahead = subnet.now - time.monotonic()
        subnet.history.follow_clock(lambda: self._ahead + time.monotonic())

    # The loop

    def serve(self) -> None:
        """Serve until `stop`. What a client does, or a bug that it meets, never ends this."""
        next_tick = time.monotonic() + TICK
        while not self._loop.stopping:
            now = time.monotonic()
            if now >= next_tick:
                self._loop.guarded(self._tick)
                next_tick = now + TICK
            wait = next_tick - now
            due = self._loop.run_due(now)
            if due is not None:
                wait = min(wait, due)
            if self._script.next_time is not None:
                wait = min(wait, self._play_due())
            timer = self.subnet.next_timer()
            if timer is not None:
                wait = min(wait, max(0.0, self._run_timers(timer)))
            self._loop.poll(wait)
            self._loop.guarded(self._attachments.detach_leaving)

    def _report_bug(self, error: Exception) -> None:
        """Count what should not have happened and say where; the text of the error may quote a key."""
        self._counts["internal errors"] += 1
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "?"
        self._log(f"internal error ({type(error).__name__} at {place}): a bug in ibkeys; going on")

    def stop(self) -> None:
        """Let `serve` return. May be called from a signal handler or another thread."""
        self._loop.stop()

    def counts(self) -> dict[str, int]:
        """Return how many packets there were, and what became of those that were not simply answered."""
        return {"packets": self._traffic.packets, **self._counts}

    def close(self) -> None:
        """Close all sockets. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._attachments.close()
        for connection in self._steering.values():
            connection.socket.close()
        self._loop.close()
        self._control.close()
        self._steer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What happens by itself

    def _run_timers(self, due: float) -> float:
        """Do what the subnet does by itself; returns the seconds until there is more to do."""
        if due <= self.subnet.now:
            self._loop.guarded(self.subnet.run_timers)
        timer = self.subnet.next_timer()
        return TICK if timer is None else timer - self.subnet.now

    def _tick(self) -> None:
        self._attachments.drop_dead()
        now = time.monotonic()
        for connection in list(self._steering.values()):
            if now >= connection.deadline:
                self._hang_up(connection)
        if self._save is not None and now >= self._save_at:
            self._save()
            done = time.monotonic()
            self._save_at = done + SAVING_SHARE * (done - now)

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
            self._report_bug(error)
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
            self._log(f"{line.text}: {answer.text}")

    def _play_due(self) -> float:
        """Execute what is due of the script; returns the seconds until the next line."""
        for line in self._script.due_lines(self.subnet.now - self._script_start):
            answer = self.steer(line.text)
            self._log(f"{line.text}: {'' if answer.outcome == 'ok' else 'not done: '}{answer.text}")
        due = self._script.next_time
        return TICK if due is None else max(0.0, self._script_start + due - self.subnet.now)

    def _accept(self, events: int) -> None:
        connection = steer_socket.accept(self._steer, self._users)
        if connection is None:
            return
        if len(self._steering) >= steer_socket.MAX_CONNECTIONS:
            connection.socket.close()
            return
        self._steering[connection.fd] = connection
        self._loop.register(connection.fd, lambda events: self._converse(connection))

    def _converse(self, connection: Connection) -> None:
        more = connection.write() if connection.rest is not None else connection.read(self.steer)
        if not more:
            self._hang_up(connection)
        elif connection.rest is not None:
            self._loop.wait_for(connection.fd, WRITABLE)

    def _hang_up(self, connection: Connection) -> None:
        del self._steering[connection.fd]
        self._loop.unregister(connection.fd)
        connection.socket.close()

"""Executing commands on a served subnet, which come from a socket, or from a script at their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ibkeys.errors import AddressError, EncodeError, FileFormatError, IbkeysError, UsageError
from ibkeys.sim.history import SimHistory
from ibkeys.sim.server import steer_socket
from ibkeys.sim.server.loop import WRITABLE, Loop
from ibkeys.sim.server.outbox import Attached
from ibkeys.sim.server.steer_socket import Connection, SteeringAnswer
from ibkeys.sim.steering.commands import execute
from ibkeys.sim.steering.script import Script
from ibkeys.sim.subnet import Subnet

_WRITTEN_WRONG: Final = (AddressError, UsageError, EncodeError, FileFormatError)
_HELP: Final = """

Of the server:
clients                           who is attached
counts                            packets, and what became of them
"""


class RunningClock:
    """Lets the clock of *history* run with real time. After ``time +SECONDS`` it continues from the later time."""

    def __init__(self, history: SimHistory) -> None:
        self._history = history
        self._ahead = history.now - time.monotonic()
        history.follow_clock(self._now)

    def _now(self) -> float:
        return self._ahead + time.monotonic()

    def go_on(self) -> None:
        """Let the clock continue from the time that a command may have set."""
        self._ahead += max(0.0, self._history.now - self._now())


@dataclass(eq=False, repr=False)
class Steering:
    """Executes commands on ``subnet``. Its socket has a name made from ``name``, and only ``users`` may connect to it.

    ``attached`` and ``counts``: return the data for the commands clients and counts. ``log``: called with the result of
    each line of a script. ``connections``: descriptor → control connection. Raises TransportError if the name is in
    use.
    """

    subnet: Subnet
    name: str
    users: Container[int]
    loop: Loop
    attached: Callable[[], Sequence[Attached]]
    counts: Callable[[], Mapping[str, int]]
    log: Callable[[str], None]
    connections: dict[int, Connection] = field(default_factory=dict)
    _script: Script = field(default_factory=Script)
    _script_start: float = 0.0

    def __post_init__(self) -> None:
        self._clock = RunningClock(self.subnet.history)
        self._listening = steer_socket.bind(self.name)
        self.loop.register(self._listening.fileno(), self._accept)

    def execute(self, line: str) -> SteeringAnswer:
        """Execute one line and return the answer. The commands clients and counts are about the server, all others
        about the subnet."""
        word = line.strip()
        if word == "clients":
            return SteeringAnswer("ok", "\n".join(f"{each}{' SM' if each.is_sm else ''}" for each in self.attached()))
        if word == "counts":
            return SteeringAnswer("ok", "\n".join(f"{name}: {count}" for name, count in sorted(self.counts().items())))
        try:
            text = execute(self.subnet, line)
        except _WRITTEN_WRONG as error:
            return SteeringAnswer("usage", str(error))
        except IbkeysError as error:
            return SteeringAnswer("error", str(error))
        except Exception as error:
            self.loop.report(error)
            return SteeringAnswer("error", f"internal error ({type(error).__name__})")
        self._clock.go_on()
        return SteeringAnswer("ok", text + _HELP.rstrip() if word == "help" else text)

    def play(self, script: Script) -> None:
        """Start *script*: execute its lines for time 0 now; `play_due` executes the others. Raises UsageError if a line
        fails now."""
        self._script, self._script_start = script, self.subnet.now
        for line in script.due(0.0):
            answer = self.execute(line.text)
            if answer.outcome != "ok":
                raise UsageError(f"line {line.number}: {answer.text}")
            self.log(f"{line.text}: {answer.text}")

    def play_due(self) -> float | None:
        """Execute the lines of the script that are due; return the seconds until the next line, None if there is
        none."""
        if self._script.next_time is None:
            return None
        for line in self._script.due(self.subnet.now - self._script_start):
            answer = self.execute(line.text)
            self.log(f"{line.text}: {'' if answer.outcome == 'ok' else 'not done: '}{answer.text}")
        due = self._script.next_time
        return None if due is None else max(0.0, self._script_start + due - self.subnet.now)

    def _accept(self, events: int) -> None:
        connection = steer_socket.accept(self._listening, self.users)
        if connection is None:
            return
        if len(self.connections) >= steer_socket.MAX_CONNECTIONS:
            connection.socket.close()
            return
        self.connections[connection.fd] = connection
        self.loop.register(connection.fd, lambda events: self._converse(connection))

    def _converse(self, connection: Connection) -> None:
        more = connection.write() if connection.rest is not None else connection.read(self.execute)
        if not more:
            self._hang_up(connection)
        elif connection.rest is not None:
            self.loop.wait_for(connection.fd, WRITABLE)

    def _hang_up(self, connection: Connection) -> None:
        del self.connections[connection.fd]
        self.loop.unregister(connection.fd)
        connection.socket.close()

    def drop_slow(self, now: float) -> None:
        """Close connections that did not send their line or read the answer in time. *now*: time of the monotonic
        clock."""
        for connection in list(self.connections.values()):
            if now >= connection.deadline:
                self._hang_up(connection)

    def close(self) -> None:
        """Close the socket and all connections."""
        for connection in self.connections.values():
            connection.socket.close()
        self._listening.close()

"""A server that simulates a subnet for any program on libibumad: like ibsim, with M_Keys.

One loop serves all clients: programs on the simulator's own libibumad (`Connections`); programs on Debian's
libumad2sim0, which attach by ibsim's protocol (`Attachments`) and whose packets go through the subnet
(`PacketTraffic`); and the senders of commands (`Steering`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Container
from typing import Final

from ibkeys.closing import Closing
from ibkeys.errors import UsageError
from ibkeys.printable import place_of
from ibkeys.sim.nodes import SimNode
from ibkeys.sim.server import clients as attached
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.attachments import Attachments
from ibkeys.sim.server.clients import Clients
from ibkeys.sim.server.credentials import own_users
from ibkeys.sim.server.is_sm import IsSm
from ibkeys.sim.server.loop import Loop
from ibkeys.sim.server.outbox import Attached, MadTap, Outbox
from ibkeys.sim.server.steering import Steering
from ibkeys.sim.server.traffic import PacketTraffic
from ibkeys.sim.server.umad.connections import Connections
from ibkeys.sim.server.umad.shells import StartShell
from ibkeys.sim.subnet import Subnet

TICK: Final = 1.0
"""Seconds between two checks for clients that have ended, and for changes to save."""
SAVING_SHARE: Final = 20
"""After a save, the next one waits for at least so many times its duration: a large subnet is saved less often."""


class Server(Closing):
    """Serves *subnet* under the base name *name*, or with *listen* (address, port) over UDP.

    *users*: the users whose programs may attach and who may send commands, by default root and the current user.
    *allow_others*: programs of every user may attach. UDP has no credentials, so it needs *allow_others*. *home*: the
    node of programs that name none, by default the first node. *watch*: called with every MAD. *save*: called about
    once a second, or less often if it takes long (`SAVING_SHARE`). *log*: called with a line about each error, each
    refusal and the script; *log_clients*: with a line about each client that attaches or detaches. *fabric*: the served
    fabric, in words for `ibkeys sim ls`. *folder*: the folder for the files of the hosts; None: a folder that is
    removed with the server. *start_shell*: starts a shell on a host, for a program on another one; None: such a program
    is refused. ``steering``: executes commands. Raises UsageError for an invalid name, and for *listen* without
    *allow_others*; TransportError if a socket name or port is in use or cannot be used.
    """

    def __init__(
        self,
        subnet: Subnet,
        name: str = protocol.DEFAULT_NAME,
        *,
        listen: tuple[str, int] | None = None,
        allow_others: bool = False,
        users: Container[int] | None = None,
        home: SimNode | None = None,
        watch: MadTap | None = None,
        save: Callable[[], None] | None = None,
        log: Callable[[str], None] | None = None,
        log_clients: Callable[[str], None] | None = None,
        fabric: str = "",
        folder: str | None = None,
        start_shell: StartShell | None = None,
    ) -> None:
        self.subnet = subnet
        self.name = protocol.check_name(name)
        if listen is not None and not allow_others:
            raise UsageError(
                "over UDP the server cannot see which user a program belongs to: let all users attach, or serve locally"
            )
        self.home = home or subnet.nodes[0]
        self._users = own_users() if users is None else users
        self.clients = Clients(name, listen)
        self._counts: Counter[str] = Counter()
        self._save = save
        self._save_at = 0.0
        self._log = log or (lambda line: None)
        self._closed = False
        self._folder, self._keeps_folder = folder, folder is not None
        self._control = attached.bind(name, listen)
        self._loop = Loop(self._report_bug)
        try:
            self.steering = Steering(
                subnet,
                name,
                self._users,
                self._loop,
                self.attached,
                self.counts,
                self._log,
            )
        except BaseException:
            self._loop.close()
            self._control.close()
            raise
        attaching = None if allow_others else self._users
        is_sm = IsSm(subnet.software)
        outbox = Outbox(self.clients, self._loop, self._counts, watch)
        self._traffic = PacketTraffic(subnet.carrier, self.clients, self._loop, outbox, self._counts, attaching, watch)
        self._attachments = Attachments(
            subnet,
            self.clients,
            self._control,
            self._loop,
            self._traffic,
            self._counts,
            is_sm,
            users=attaching,
            home=self.home,
            log=self._log,
            log_clients=log_clients or (lambda line: None),
        )
        try:
            self._connections = Connections(
                subnet,
                name,
                self._loop,
                self._counts,
                is_sm,
                users=attaching,
                home=self.home,
                watch=watch,
                log=self._log,
                log_clients=log_clients or (lambda line: None),
                folder=self.folder,
                fabric=fabric,
                start_shell=start_shell,
            )
        except BaseException:
            self.steering.close()
            self._loop.close()
            self._control.close()
            raise
        self._loop.register(self._control.fileno(), self._attachments.read)

    def folder(self) -> str:
        """Return the folder for the files of the hosts, which is created if it does not exist, for this user only.
        Raises OSError."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="ibkeys-sim-hosts-")
        os.makedirs(self._folder, 0o700, exist_ok=True)
        return self._folder

    def serve(self, until: int | None = None) -> None:
        """Serve until `stop` is called, or the descriptor *until* becomes readable, such as a pidfd when the process
        ends.

        No action of a client ends it, not even one that triggers a bug of the server.
        """
        if until is not None:
            self._loop.register(until, lambda events: self.stop())
        next_tick = time.monotonic() + TICK
        while not self._loop.stopping:
            now = time.monotonic()
            if now >= next_tick:
                self._loop.guarded(self._tick)
                next_tick = now + TICK
            wait = next_tick - now
            for due in (self._loop.run_due(), self.steering.play_due(), self._run_timers()):
                if due is not None and due < wait:
                    wait = due
            self._loop.poll(wait)
            if self.clients.leaving:
                self._loop.guarded(self._attachments.detach_leaving)

    def _report_bug(self, error: Exception) -> None:
        """Count an internal error and log its place in the code. The text of *error* is left out, because it may
        contain a key."""
        self._counts["internal errors"] += 1
        where = f"{type(error).__name__} at {place_of(error)}"
        self._log(f"internal error ({where}): a bug in ibkeys; the server continues")

    def stop(self) -> None:
        """Let `serve` return. It may be called from a signal handler or another thread."""
        self._loop.stop()

    def counts(self) -> dict[str, int]:
        """Return the number of packets, and by reason the number of packets that were not simply answered."""
        return {"packets": self._traffic.packets + self._connections.packets, **self._counts}

    def attached(self) -> list[Attached]:
        """Return the programs that are attached now."""
        self._attachments.drop_dead()
        return [*self.clients, *self._connections.open_ports()]

    def close(self) -> None:
        """Close all sockets. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._connections.close()
        self._attachments.close()
        self.steering.close()
        self._loop.close()
        self._control.close()
        if self._folder is not None and not self._keeps_folder:
            shutil.rmtree(self._folder, ignore_errors=True)  # It may contain folders of other users.

    def _run_timers(self) -> float | None:
        """Run the timers of the subnet that are due; return the seconds until the next timer, None if there is none."""
        timer = self.subnet.next_timer()
        if timer is None:
            return None
        if timer <= self.subnet.now:
            self._loop.guarded(self.subnet.run_timers)
            timer = self.subnet.next_timer()
        return None if timer is None else max(0.0, timer - self.subnet.now)

    def _tick(self) -> None:
        self._attachments.drop_dead()
        now = time.monotonic()
        self.steering.drop_slow(now)
        if self._save is not None and now >= self._save_at:
            self._save()
            done = time.monotonic()
            self._save_at = done + SAVING_SHARE * (done - now)

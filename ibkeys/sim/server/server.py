"""A simulated subnet as a server for any libibumad program: like ibsim, with M_Keys.

One loop serves all: programs on our own libibumad (`Connections`), those on Debian's libumad2sim0, which attach by
ibsim's protocol (`Attachments`) and whose packets go through the subnet (`PacketTraffic`), and control lines
(`Steering`).
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
from ibkeys.sim.subnet import Subnet

TICK: Final = 1.0
"""Seconds between two checks for clients that died and for changes to save."""
SAVING_SHARE: Final = 20
"""Saving takes at most one part in so many of the time: a large subnet is saved less often."""


class Server(Closing):
    """Serves *subnet* under the base name *name*; with *listen* (address, port) over UDP instead.

    Programs of *users*, by default root and the current user, may attach, with *allow_others* those of every user. UDP
    has no credentials, so it needs *allow_others*: UsageError. Only *users* may send control lines. Programs that name
    no node attach to *home*, by default the first one. *watch* is called with every MAD; *save* is called once a
    second; *log* gets a line about each error and about the script, *log_clients* about clients that attach and detach.
    *fabric*: what is served, in words for `sim ls`. *folder*: where the files of the hosts lie; None: in a folder that
    exists as long as the server. ``steering`` executes lines. Raises TransportError.
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
            )
        except BaseException:
            self.steering.close()
            self._loop.close()
            self._control.close()
            raise
        self._loop.register(self._control.fileno(), self._attachments.read)

    def folder(self) -> str:
        """Return the folder of the hosts' files, which only this user may enter. Raises OSError."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="ibkeys-sim-hosts-")
        os.makedirs(self._folder, 0o700, exist_ok=True)
        return self._folder

    # The loop

    def serve(self, until: int | None = None) -> None:
        """Serve until `stop`, or until the descriptor *until* is readable, as that of a process that has ended.

        No action of a client, and no bug that it meets, ends this.
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
        """Count an internal error and log its place; the text of the error is left out because it may contain a key."""
        self._counts["internal errors"] += 1
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "?"
        self._log(f"internal error ({type(error).__name__} at {place}): a bug in ibkeys; the server continues")

    def stop(self) -> None:
        """Let `serve` return. May be called from a signal handler or another thread."""
        self._loop.stop()

    def counts(self) -> dict[str, int]:
        """Return the number of packets, and the numbers of those that were not simply answered, by reason."""
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
            shutil.rmtree(self._folder, ignore_errors=True)  # a host's program may have made folders of other users

    # Timers

    def _run_timers(self) -> float | None:
        """Run the timers of the subnet; return the seconds until the next, None when there is none."""
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

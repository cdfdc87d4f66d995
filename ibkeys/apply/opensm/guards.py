"""Guard processes on other hosts, which roll a change back if it is not confirmed in time: one for each file that is
replaced there. A guard needs neither the connection nor this process. This process rolls back at the end of the time, a
guard a little later (`MARGIN`). Both do nothing if the former bytes are in place already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from ibkeys.errors import HostNotReached, IbkeysError, StoreError
from ibkeys.managers.files.opensm_file import FileKey, OpensmFile
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.machines.opening import open_machine
from ibkeys.managers.machines.remote_guard import RemoteGuard
from ibkeys.managers.site import hosts_in

KEPT_GUARDS: Final = "guards"
"""The journal's name of the tokens by which the guards of an operation are reached."""
MARGIN: Final = 5.0
"""Seconds that a guard waits longer than this process."""


@dataclass(slots=True)
class Guards:
    """The guards of one change; none on this host, where a child of this process does the same work."""

    by_file: dict[FileKey, RemoteGuard] = field(default_factory=dict)
    tokens: list[dict[str, str]] = field(default_factory=list)

    def begin(self, files: Iterable[OpensmFile], seconds: float) -> None:
        """Start a guard for each file on another host that an OpenSM reads. Raises HostRefused, HostNotReached."""
        for file in files:
            guard = file.machine.guard(seconds + MARGIN) if file.opensms else None
            if guard is not None:
                process = file.opensms[0].instance.process
                self.tokens.append({"host": file.machine.name, "token": guard.start(file.seen, process)})
                self.by_file[file.key] = guard

    def announce(self, contents: Mapping[FileKey, bytes | None]) -> None:
        """Send each guard the bytes that are about to be written to its file. Raises HostRefused, HostNotReached."""
        for key, guard in self.by_file.items():
            data = contents.get(key)
            if data is not None:
                guard.announce(data)

    def keep_alive(self) -> None:
        """Tell each guard that this process is alive. Raises HostRefused, HostNotReached."""
        for guard in self.by_file.values():
            guard.keep_alive()

    def start_time_limit(self) -> list[str]:
        """Start the time limit of the guards; return their problems, in words."""
        problems = []
        for guard in self.by_file.values():
            try:
                guard.start_time_limit()
            except IbkeysError as error:
                problems.append(f"{error}; the guard on that host rolls back if it is not contacted in time")
        return problems

    def end(self, confirmed: bool, hosts: Mapping[str, SmHost]) -> list[str]:
        """End the guards: the change is *confirmed*, or was undone. *hosts*: the hosts by name, which are connected to
        again if the connection was cut while the user was asked. Return problems in words, such as a guard that rolls
        back although the change is confirmed."""
        problems = []
        for (host, path), guard in self.by_file.items():
            try:
                is_late = not _end(guard.confirm if confirmed else guard.end, guard.token, hosts[host])
            except IbkeysError as error:
                problems.append(f"{path} on {host}: the guard there could not be reached ({error}); check the file")
                continue
            if is_late and confirmed:
                problems.append(f"{path} on {host}: too late, the guard there is rolling back or has rolled back")
        self.by_file.clear()
        return problems


def _end(end: Callable[[], bool], token: str, host: SmHost) -> bool:
    """End the guard with this *token* by *end*, or over a new connection; return its result."""
    try:
        return end()
    except HostNotReached:
        with open_machine(host) as machine:
            return machine.confirm_guard(token)


def confirm_guards(options: Mapping[str, Any]) -> None:
    """Tell the guards of an operation that it is confirmed. *options*: the operation's options in the journal, with the
    guards' tokens.

    Raises StoreError if it is too late for one of them, HostRefused, HostNotReached.
    """
    tokens = options.get(KEPT_GUARDS)
    if not isinstance(tokens, list):
        return
    with ExitStack() as stack:
        reached = [stack.enter_context(open_machine(host)) for host in hosts_in(options)]
        machine = {each.name: each for each in reached}
        for each in tokens:
            host = str(each.get("host", ""))
            if host in machine and not machine[host].confirm_guard(str(each.get("token", ""))):
                raise StoreError(
                    f"the guard on host {host} is rolling back or has rolled back: it is too late to confirm"
                )


def end_guards(options: Mapping[str, Any]) -> list[str]:
    """Tell the guards of an operation not to roll back, because the operation goes on or its record ends. *options*: as
    in `confirm_guards`. Return, in words, the guards that could not be reached. A guard that has ended is no problem:
    its rollback is visible in the files, which are read before the operation goes on."""
    tokens, problems = options.get(KEPT_GUARDS), []
    if not isinstance(tokens, list):
        return []
    try:
        for host in hosts_in(options):
            mine = [str(each["token"]) for each in tokens if each["host"] == host.name]
            if not mine:
                continue
            try:
                with open_machine(host) as machine:
                    for token in mine:
                        machine.confirm_guard(token)
            except IbkeysError as error:
                problems.append(f"the guard on {host.name} may still restore the former policy there: {error}")
    except (IbkeysError, LookupError, TypeError):
        problems.append("the journal is damaged: the guards of the operation cannot be read")
    return problems

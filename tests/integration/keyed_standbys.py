"""Three OpenSMs on the served simulator, one master and two standbys, whose fabric gets M_Keys from ibkeys.

A standby that is told to end is started again by who reads ibkeys' standard error, and types the command that stands
there.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ibkeys.mad.const import CapabilityMask
from tests.corpus import DATA
from tests.integration.forkserver import Forked
from tests.integration.hosted import Hosted
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.keyed_opensm import KeyedPorts, stored_keys
from tests.integration.opensms import Log, NodesOpensm, listen
from tests.integration.sshd import Sshd
from tests.integration.standin_systemd import StandInSystemd
from tests.integration.waiting import by_method

NET = DATA / "fabrics" / "two-switch.net"
NODES = {
    "node01 mlx4_0": 0x2C903000A1011,
    "node05 mlx4_0": 0x2C903000A1051,
    "node06 mlx4_0": 0x2C903000A1061,
}
"""Where the OpenSMs sit; the first is master."""
OPTIONS = "sa_key 0x5e11a7c0ffee\nsweep_interval 3\nsminfo_polling_timeout 200\n"
_TO_TYPE = re.compile(r"start (?:(?!; type).)*; type[^:]*: (?P<command>.*)$")
_GUID = re.compile(r"port GUID (0x[0-9a-f]{16})")
_KEY_IN_FILE = re.compile(r"^(?:m_key |0x[0-9a-f]{16} )(0x[0-9a-f]{16})$", re.MULTILINE)
"""Of an options file, and of guid2mkey."""
PortView = tuple[int, str]
"""Exit code, and all that it said."""


@dataclass(slots=True)
class KeyedSite(KeyedPorts):
    """The subnet with its OpenSMs, by port GUID. ``typed``: the commands that were typed; ``user``: what the user does
    who reads one of these; by default he types it; ``words``: of each ibkeys, and what stands
    ``before`` it; ``systemd``: runs the OpenSMs; ``asked``: the ibkeys that
    was started last; ``hears``: called with each line that it says."""

    served: Hosted
    stack: ExitStack
    opensms: list[NodesOpensm]
    typed: list[str] = field(default_factory=list)
    user: Callable[[int, str], None] | None = None
    words: Sequence[str | Path] = ()
    systemd: StandInSystemd | None = None
    before: Sequence[str] = ()
    asked: subprocess.Popen[str] | Forked | None = None
    hears: list[Callable[[str], None]] = field(default_factory=list)

    @property
    def master(self) -> NodesOpensm:
        return self.opensms[0]

    @property
    def standbys(self) -> list[NodesOpensm]:
        return self.opensms[1:]

    def key(self) -> tuple[int, int, int]:
        """Return what all end ports have."""
        [found] = self.keys()
        return found

    def states(self) -> list[str]:
        """Return what the SMs say they are, sorted."""
        done = self.served.ibkeys("sm-show", "-f", "json")
        return sorted(str(each["state"]) for each in json.loads(done.stdout)["managers"])

    def assert_no_key_is_lost(self) -> None:
        """Every key on a port or in a file of OpenSM is in the key store."""
        stored = stored_keys(self.served.folder / "stores")
        assert {key for key, _, _ in self.keys()} <= stored | {0}
        for path in self.served.folder.glob("node0*/*"):
            found = re.findall(_KEY_IN_FILE, path.read_text(errors="replace")) if path.is_file() else []
            assert {int(each, 16) for each in found} <= stored | {0}, path

    def by_guid(self, guid: int) -> NodesOpensm:
        return self.opensms[list(NODES.values()).index(guid)]

    def ibkeys(self, *words: str | Path, via: bool = True, timeout: float = 300) -> PortView:
        """Run a command that says yes, and do what it says is to be done."""
        arguments = [*(by_method(words) if via else words), "--yes", *self.words]
        first = "" if self.systemd is None else self.systemd.first
        return self.follow(self.served.start_ibkeys(*arguments, before=self.before, first=first), timeout)

    def follow(self, process: subprocess.Popen[str] | Forked, timeout: float = 300) -> PortView:
        """Read what an ibkeys says that was started, and do what it says is to be done, until it has ended."""
        self.asked = process
        giving_up = threading.Timer(timeout, process.kill)
        giving_up.start()
        said = ""
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                said += line
                for hear in self.hears:
                    hear(line)
                self.answer(line)
        code = process.wait(timeout)
        giving_up.cancel()
        return code, said

    def answer(self, line: str) -> None:
        """Do what ibkeys asks for in a line, if it asks for anything."""
        if (found := _TO_TYPE.search(line)) is not None and line.startswith("ibkeys: to do"):
            guid = _GUID.search(line)
            assert guid is not None, line
            self._do(int(guid[1], 16), found["command"])

    def _do(self, guid: int, command: str) -> None:
        if self.user is None:
            self.type(guid, command)
        else:
            self.user(guid, command)

    def type(self, guid: int, command: str) -> None:
        """Type the command that starts an OpenSM, on its node."""
        self.typed.append(command)
        opensm = self.by_guid(guid)
        opensm.log.close()
        opensm.process, opensm.log = self.shell(command, opensm.node)

    def shell(self, command: str, node: str) -> tuple[subprocess.Popen[str], Log]:
        """Let a shell on *node* become *command*."""
        words = ["/bin/sh", "-c", re.sub(r"\bopensm -", "exec opensm -", command, count=1)]
        process, log = listen(self.served.arguments(words), "/", {**self.served.environment, **self.served.at(node)})
        self.stack.callback(log.close)
        self.stack.callback(process.wait, RUN_TIMEOUT)
        self.stack.callback(process.kill)
        return process, log

    def kill_standbys(self) -> None:
        """Let the standbys die; their IsSM bits are gone when this returns."""
        for each in self.standbys:
            each.process.kill()
            each.process.wait(RUN_TIMEOUT)
        deadline = time.monotonic() + RUN_TIMEOUT
        while sum(bool(port.capability_mask & CapabilityMask.IS_SM) for port in self.end_ports()) > 1:
            assert time.monotonic() < deadline, self.served.steer("clients")

    def kill_master(self, heir: NodesOpensm | None = None) -> None:
        """Let the master die; *heir*, by default the first standby, has taken over when this returns."""
        heir = heir or self.standbys[0]
        before = len(heir.log.lines)
        self.master.process.kill()
        self.master.process.wait(RUN_TIMEOUT)
        heir.log.wait("SUBNET UP", heir.place("ENTERING SM MASTER STATE", before))
        heir.sweep()  # its second sweep would heal what the first one broke, and count violations


@contextmanager
def keyed_site(number: int = 3, words: Sequence[str | Path] = ()) -> Iterator[KeyedSite]:
    """Serve the subnet with so many OpenSMs; the first one is master."""
    with ExitStack() as stack:
        served = stack.enter_context(Hosted(NET))
        site = KeyedSite(served, stack, [], words=words)
        for at, (node, guid) in enumerate(list(NODES.items())[:number]):
            site.opensms.append(NodesOpensm(served, node, 9 - at, stack, "", guid, OPTIONS))
            site.opensms[-1].log.wait("SUBNET UP" if at == 0 else "ENTERING SM STANDBY STATE")
        yield site


def through_ssh(stack: ExitStack, folder: Path, *, own_mounts: bool = False) -> tuple[Sshd, list[str | Path]]:
    """Start an sshd that leads to the host of the OpenSMs, and return it with the options that name it. This host shows
    none of them."""
    sshd = stack.enter_context(Sshd(folder / "sshd", own_mounts=own_mounts))
    settings = folder / "sm.toml"
    settings.write_text('[here]\nunit = "no-such-unit"\n')
    settings.chmod(0o600)
    return sshd, ["--sm-host", "smhost", "--ssh-config", sshd.config, "--sm-config", settings]

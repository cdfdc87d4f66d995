"""A made-up OpenSM whose files are real ones: its process is a folder of a made-up /proc, its signals are calls.

At SIGHUP it reads its options file; at the next pause it sweeps: policy, enforcement, M_Keys, then guid2mkey and
opensm-subnet.lst, as a real one was seen to do (`tests.apply.opensm.madeup`, `tests.mkeys.opensm.madeup`).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final

from ibkeys.keys.mkey import MKey
from ibkeys.mad.const import SMState
from ibkeys.managers.opensm.options_file import OptionsFile, read_options
from ibkeys.plan.model import SmOptions
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.store.opensm import KEY_FILES, KeyFiles, write_key_files
from tests.apply.opensm import madeup

POLICY: Final = "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\nio=0x0001 : ALL=limited ;\n"
_PAUSES: Final = 3
"""How often somebody waits before an OpenSM that was ended is started again."""


class Tables(madeup.MadeUpOpensm):
    """The P_Key tables that an OpenSM on *home* writes."""

    def __init__(self, policy: str, options: SmOptions, net: Subnet, home: SimPort) -> None:
        self._home = home
        super().__init__(policy, options, net)

    @property
    def sm_guid(self) -> int:
        return self._home.guid


class Opensm:
    """The OpenSM of a node. ``is_deaf``: it hears no signal."""

    def __init__(self, net: Subnet, node: str, folder: Path, proc: Path, pid: int, priority: int, more: str) -> None:
        self.net, self.folder, self.pid, self.priority = net, folder, pid, priority
        self.home = net.port(node, 1)
        self.conf, self.policy, self.cache = folder / "opensm.conf", folder / "partitions.conf", folder / "cache"
        self.cache.mkdir(parents=True, mode=0o700)
        folder.chmod(0o700)
        self._write(self.policy, POLICY, 0o644)
        self._write(folder / "opensm.log", "", 0o600)
        self._write(
            self.conf,
            f"# made-up\nsm_priority {priority}\npartition_config_file {self.policy}\n"
            f"part_enforce both\nsweep_interval 10\nlog_file {folder}/opensm.log\n{more}",
            0o600,
        )
        self.is_deaf, self.is_due = False, False
        self._proc, self._pauses, self._sweeps = proc, 0, 0
        self._start()
        self._options = self._read()
        self._tables = Tables(POLICY, SmOptions(part_enforce="both"), net, self.home)
        self.sweep()

    @staticmethod
    def _write(path: Path, text: str, mode: int) -> None:
        path.touch()
        path.chmod(mode)
        path.write_text(text)

    def _start(self) -> None:
        """Let /proc show it."""
        self.process = self._proc / str(self.pid)
        words = ["opensm", "-F", str(self.conf), "-g", f"{self.home.guid:#x}"]
        environment = [f"OSM_CACHE_DIR={self.cache}", f"OSM_TMP_DIR={self.folder}"]
        user = os.geteuid()
        (self.process / "fd").mkdir(parents=True)
        (self.process / "ns").mkdir()
        texts = {
            "cmdline": "".join(f"{word}\0" for word in words),
            "environ": "".join(f"{word}\0" for word in environment),
            "status": f"Name:\topensm\nUmask:\t0077\nUid:\t{user}\t{user}\t{user}\t{user}\n",
            "cgroup": "0::/made-up\n",
            "stat": f"{self.pid} (opensm) S {' '.join(['1'] * 18)} {self.pid} 0 0\n",
        }
        for name, text in texts.items():
            (self.process / name).write_text(text)
        for name, leads_to in {"exe": "/usr/sbin/opensm", "root": "/", "cwd": "/", "fd/1": "/dev/null"}.items():
            (self.process / name).symlink_to(leads_to)
        (self.process / "ns" / "mnt").symlink_to("mnt:[1]")

    @property
    def is_master(self) -> bool:
        return self.home.node.sm is not None and self.home.node.sm.state == SMState.MASTER

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self.process.exists()

    def end(self, for_good: bool = False) -> None:
        """End at SIGTERM. Somebody starts it again soon, with the options of then, but for *for_good*."""
        shutil.rmtree(self.process)
        self.net.set_sm(self.home.node, None)
        self._pauses = 0 if for_good else _PAUSES

    def wait(self) -> None:
        """Let somebody wait for it."""
        self._pauses -= 1
        if not self.runs and self._pauses == 0:
            self.start_again()

    def start_again(self) -> None:
        """Start as a standby, with the options file as it is."""
        self.pid += 100
        self._start()
        self._options = self._read()
        self._announce(SMState.STANDBY)

    def hear(self) -> None:
        """Read the options file; the sweep comes when somebody waits."""
        if not self.is_deaf:
            self._options = self._read()
            self.is_due = True
            assert self.home.node.sm is not None
            self._announce(SMState(self.home.node.sm.state))

    def _read(self) -> OptionsFile:
        return read_options(self.conf.read_bytes())

    def _key(self, name: str) -> int:
        value = self._options.value(name)
        assert isinstance(value, MKey)
        return value.reveal()

    def _announce(self, state: SMState) -> None:
        """Answer SMInfo and, as master, SA requests with the keys of the options."""
        self.net.set_sm(self.home.node, state, self.priority, 1, self._key("sm_key"))
        if state == SMState.MASTER:
            self.net.sa_of(self.home.node).sa_key = self._key("sa_key")

    def begin_again(self) -> None:
        """Read all tables again, and sweep."""
        self._tables = Tables(POLICY, SmOptions(part_enforce="both"), self.net, self.home)
        self._tables.write()
        self.sweep()

    def begin(self, state: SMState) -> None:
        """Appear on the fabric."""
        self._announce(state)

    def sweep(self) -> None:
        """Write what policy and options say to the fabric, and then its files."""
        self.is_due = False
        self._tables.host.file.data = self.policy.read_bytes()
        enforce: Any = self._options.value("part_enforce")
        if enforce != self._tables.options.enforce:
            self._tables.options = SmOptions(part_enforce=enforce)
            self._enforce(enforce)
        self._tables.write()
        key, level, lease = (
            self._key("m_key"),
            self._number("m_key_protection_level"),
            self._number("m_key_lease_period"),
        )
        ports = [port for node in self.net.nodes for port in node.end_ports if port.is_up or node.is_switch]
        for port in ports:
            port.m_key, port.protect_bits, port.lease_period = key, level, lease
        links = {
            (port.node.guid, port.number): port.peer
            for node in self.net.nodes
            for port in node.ports
            if port is not None
        }
        neighbors = {near: (far.node.guid, far.number) for near, far in links.items() if far is not None}
        keys = {port.guid: MKey(port.m_key) for port in ports}
        lids = {port.guid: (port.lid, port.lid) for port in ports}
        write_key_files(self.cache, KeyFiles(keys, neighbors, lids), KEY_FILES)
        self._sweeps += 1
        self._write(self.folder / "opensm-subnet.lst", f"sweep {self._sweeps}\n", 0o600)

    def _number(self, name: str) -> int:
        value = self._options.value(name)
        assert isinstance(value, int)
        return value

    def _enforce(self, enforce: str) -> None:
        for node in self.net.nodes:
            for port in node.ports[1:] if node.is_switch else ():
                if port is not None and port.peer is not None and not port.peer.node.is_switch:
                    port.inbound_enforcement = int(enforce in ("both", "in"))
                    port.outbound_enforcement = int(enforce in ("both", "out"))

"""A made-up OpenSM on the simulated subnet: its policy is bytes in memory, and a signal lets it write the tables.

It does what `ibkeys.partitions` says that OpenSM does; that this is so is shown by the tests with the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

import pytest

from ibkeys.apply.by_sm.course import CarrierSettings
from ibkeys.apply.opensm import carrier as carrier_module
from ibkeys.apply.opensm.carrier import OpensmCarrier
from ibkeys.apply.opensm.guards import Guards
from ibkeys.apply.opensm.policy_files import PolicyFiles
from ibkeys.apply.opensm.site import OpensmSite
from ibkeys.change.clock import Clock
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import FileChanged
from ibkeys.host.replacing.conversions import FileConversions
from ibkeys.host.replacing.file_to_replace import FoundFile, Metadata, SeenFile
from ibkeys.host.replacing.replace import LeftOvers, RecordedImages
from ibkeys.keys.pkey import PKey
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.instance import Instance, Role
from ibkeys.managers.opensm.command_line import CommandLine
from ibkeys.managers.opensm.effective_options import EffectiveOptions
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.managers.site import ReachedHost, RunningOpensm
from ibkeys.managers.subnet_managers import Manager
from ibkeys.partitions.membership import EndPort, PortKind
from ibkeys.partitions.opensm_tables import place_leaf
from ibkeys.partitions.reader import parse_policy
from ibkeys.partitions.sweeps import Sweeps
from ibkeys.plan.model import PartitionPlan, SmOptions
from ibkeys.plan.planner import make_plan
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import FileEntry, FileImage, RunningOperation
from ibkeys.topology.subnet_manager import SubnetManager
from tests.fabricsim import subnet

POLICY = Path("/etc/opensm/partitions.conf")
SM = "node01 mlx4_0"


@dataclass
class MadeUpFile:
    """One file as a host has it; ``inode`` changes with each replacement."""

    data: bytes | None
    inode: int = 1

    def seen(self) -> SeenFile:
        found = None
        if self.data is not None:
            found = FoundFile(self.data, Metadata(0o640, 12, 34), 1, self.inode, self.inode, 1)
        return SeenFile(POLICY, found)


@dataclass
class MadeUpHost:
    """A `Machine` in memory. ``before_each``: called with a word before a file is looked at, replaced, or a signal
    sent; raises what shall go wrong. ``log``: those words."""

    file: MadeUpFile
    sweep: Callable[[], None]
    name: str = ""
    files: Any = None
    before_each: Callable[[str], None] = lambda word: None
    log: list[str] = field(default_factory=list)
    reason: str | None = None
    is_layered: bool = False
    leads_to: Path = POLICY

    def look(self, path: Path) -> SeenFile:
        self._note("look")
        return SeenFile(path if path != POLICY else self.leads_to, self.file.seen().found)

    def hindrance(self, seen: SeenFile) -> str | None:
        return self.reason

    def is_in_layer(self, seen: SeenFile) -> bool:
        return self.is_layered

    def replace(self, operation: RunningOperation, seen: SeenFile, data: bytes | None, **rest: Any) -> FileEntry:
        entry = operation.record_file(FileImage(str(seen.path), seen.data, data, 0o640, 12, 34, {}, self.name))
        self._note("replace")
        if self.file.seen().found != seen.found:
            entry.failed()
            raise FileChanged(f"{seen.path}: another user or program changed it in the meantime")
        self.file.data, self.file.inode = data, self.file.inode + 1
        return entry

    def clean_up(self, recorded: RecordedImages, conversions: FileConversions) -> LeftOvers:
        return LeftOvers()

    def may_signal(self, process: OpensmProcess) -> str | None:
        return None

    def signal(self, process: OpensmProcess) -> None:
        self._note("signal")
        self.sweep()

    def guard(self, seconds: float) -> None:
        return None

    def confirm_guard(self, token: str) -> bool:
        return False

    def _note(self, word: str) -> None:
        self.log.append(word)
        self.before_each(word)


class MadeUpOpensm:
    """OpenSM on node01 of two-switch.net, with *policy* in force.

    ``is_deaf``: it does not hear signals. ``late``: how many times it is waited for before it writes. ``other_sms``:
    how many SMs may take over; they have its policy file. ``managers``: all SMs, port GUID → port. ``standbys``: the
    hosts of other SMs, which have policy files of their own; ``out_of_reach``: other SMs, in words.
    """

    def __init__(self, policy: str | None, options: SmOptions | None = None, net: Subnet | None = None) -> None:
        self.net = net or subnet("two-switch")
        self.options = options or SmOptions()
        self.host = MadeUpHost(MadeUpFile(None if policy is None else policy.encode()), self.hear)
        self.is_deaf = False
        self.late = 0
        self.sweeps = 0
        self.other_sms = 0
        self.managers: dict[str, str] = {}
        self.standbys: list[MadeUpHost] = []
        self.out_of_reach: tuple[str, ...] = ()
        self._memory = self._new_memory()
        self._due: list[int] = []
        self.write()

    @property
    def sm_guid(self) -> int:
        return self.net.port(SM, 1).guid

    def hear(self) -> None:
        if self.is_deaf:
            return
        self.sweeps += 1
        if self.late:
            self._due.append(self.late)
        else:
            self.write()

    def add_standby(self, policy: str) -> MadeUpHost:
        """Let the OpenSM of another host be a standby with this policy."""
        host = MadeUpHost(MadeUpFile(policy.encode(), inode=100), lambda: None, "sm2")
        self.standbys.append(host)
        return host

    def sleep(self, seconds: float) -> None:
        """What passes for time: the tables are written once it was waited for often enough."""
        self.clock += seconds
        due = [left - 1 for left in self._due]
        self._due = [left for left in due if left > 0]
        if len(self._due) < len(due):
            self.write()

    clock = 0.0

    def write(self) -> None:
        """Read the policy, and write what it makes of it where that differs from what is remembered."""
        data = self.host.file.data
        policy = None if data is None else parse_policy(data)
        before = {guid: dict(table) for guid, table in self._memory.tables.items()}
        for guid, placed in self._memory.sweep(policy).items():
            if placed.entries == before[guid] and self.sweeps:
                continue
            port = self._ports[guid]
            put(port, placed.entries)
            peer = port.peer
            if self.options.enforce != "off" and peer is not None and peer.node.is_switch and not port.node.is_switch:
                leaf = place_leaf(valid(peer), placed.entries, peer.p_key_capacity)
                put(peer, leaf.entries)
                peer.inbound_enforcement = int(leaf.enforces and self.options.enforce in ("both", "in"))
                peer.outbound_enforcement = int(leaf.enforces and self.options.enforce in ("both", "out"))
        self.sweeps += 1

    def _new_memory(self) -> Sweeps:
        ports = [port for node in self.net.nodes for port in node.end_ports]
        self._ports = {port.guid: port for port in ports}
        kinds = {port.guid: cast(PortKind, "switch" if port.node.is_switch else "ca") for port in ports}
        return Sweeps(
            [EndPort(guid, kind) for guid, kind in kinds.items()],
            self.sm_guid,
            {port.guid: valid(port) for port in ports},
            {port.guid: port.p_key_capacity for port in ports},
            self.options.allow_both_pkeys,
            self.options.keep_pkey_indexes,
        )

    # --- for the carrier ---------------------------------------------------------------------------------------------

    def plan(self, fabric: Any, text: str) -> PartitionPlan:
        """Plan *text* on the fabric."""
        found = fabric.sweep(p_keys=True)
        return make_plan(
            parse_policy(text.encode()), found, manager=SubnetManager(1, "active", "the made-up one", self.sm_guid)
        )

    def carrier(
        self, monkeypatch: pytest.MonkeyPatch, writer: ChangeWriter, settings: CarrierSettings | None = None
    ) -> OpensmCarrier:
        """Return the carrier that goes through it."""
        writer.fabric.is_simulated = False
        monkeypatch.setattr(carrier_module, "find_site", lambda writer, reached, found: self.site(writer, found))
        reached = [ReachedHost(SmHost(), self.host)]  # type: ignore[arg-type]
        return OpensmCarrier(writer, reached, settings, Clock(lambda: self.clock, self.sleep))

    def site(self, writer: ChangeWriter, found: Any) -> OpensmSite:
        data = self.host.file.data
        process = OpensmProcess(7, Path("/c"), True, None, ticks=1)
        policy = None if data is None else parse_policy(data, str(POLICY))
        instance = Instance(
            "", process, {}, EffectiveOptions(CommandLine(), None, False, ""), None, policy, None, self.sm_guid
        )
        port = next(port for port in found.end_ports() if port.guid == self.sm_guid)
        manager = Manager(port, self.sm_guid, "master", 0, 0)
        master = RunningOpensm(instance, self.host, manager)
        reached = [ReachedHost(SmHost(), self.host), *(ReachedHost(SmHost(), each) for each in self.standbys)]
        writer.managers |= self.managers
        standbys = tuple(RunningOpensm(instance, each, manager) for each in self.standbys)
        count = self.other_sms + len(standbys)
        return StillSite(writer, reached, manager, master, self.options, standbys, self.out_of_reach, count)


class StillSite(OpensmSite):
    """A site in which nothing is looked at again: processes and options files are not made up here."""

    def policy_files(self) -> list[OpensmFile]:
        host = cast(Any, self.master.machine)
        place = Path("/proc/7/root") if host.files else POLICY
        others = [OpensmFile(each.machine, POLICY, each.machine.look(POLICY)) for each in self.standbys]
        return [*others, OpensmFile(host, POLICY, host.look(POLICY), opensms=[self.master], places=[place])]

    def unread_edit(self, role: Role) -> str:
        return ""

    def make_policy_files(self, files: list[OpensmFile], guards: Guards, check: Callable[[], None]) -> PolicyFiles:
        made = super().make_policy_files(files, guards, check)
        return StillFiles(*(getattr(made, each.name) for each in fields(made)))


class StillFiles(PolicyFiles):
    def verify(self) -> None:
        """All is as it was."""

    def verify_process(self) -> None:
        """All is as it was."""


def put(port: SimPort, entries: Any) -> None:
    port.p_keys = [entries.get(index, 0) for index in range(max(entries, default=-1) + 1)]


def valid(port: SimPort) -> dict[int, PKey]:
    return {index: PKey(key) for index, key in enumerate(port.p_keys) if key & 0x7FFF}

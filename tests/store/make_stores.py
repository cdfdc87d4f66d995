"""Made ``tests/data/stores/VERSION``: stores as that version left them, also where it was killed.

    python -m tests.store.make_stores DIRECTORY

Run with the version whose files are wanted. Each scene is a folder: ``journal.db`` and ``keys.db``, plan files, and
``wire.json``, what the fabric held then. That file is no format of the simulator, so that it can be read as long as the
net file is there. The keys are invented, as far as they are not random.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ibkeys.sim.nodes import SimPort
from ibkeys.sim.state.file import StateFile
from ibkeys.sim.subnet import Subnet

NET = Path(__file__).parents[1] / "data" / "fabrics" / "two-switch.net"
PASSPHRASE = "seven invented words for a test store"
KILLED = 137
POLICY = """\
Default=0x7fff : ALL=full ;
Blue=0x10 : 0x2c903000a1021=full, 0x2c903000a1031=full, 0x2c903000a1041=limited ;
Green=0x11 : 0x2c903000a1051=full, 0x2c903000a1061=full ;
"""
NEXT_POLICY = POLICY.replace("0x2c903000a1051=full", "0x2c903000a1051=limited")
EACH = ("--per-port",)
"""Each port gets a key of its own; 70c34ae did so without an option, so this was () there."""


class Scene:
    """One folder: a fabric of its own, and the commands that were run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = Path(tempfile.mkdtemp())
        self.state = self.work / "fabric"
        for name, text in (("passphrase", PASSPHRASE), ("policy.conf", POLICY), ("next.conf", NEXT_POLICY)):
            path = self.work / name
            path.touch(0o600)
            path.write_text(text)
        self.plan = self.work / "plan.json"

    def run(self, *args: object, die_after: int = 0, code: int = 0) -> None:
        """Run a command; *die_after*: it is killed when so many Sets have arrived."""
        command = [sys.executable, "-m", "tests.store.make_stores", "--tool", str(die_after), *map(str, args)]
        own = {name: value for name, value in os.environ.items() if not name.startswith("IBKEYS_")}
        done = subprocess.run(
            [*command, "--backend", f"sim:{NET},state={self.state}"], env=own, capture_output=True, text=True
        )
        expected = KILLED if die_after else code
        if done.returncode != expected:
            raise SystemExit(f"{args}: ended with {done.returncode}, not {expected}: {done.stdout}{done.stderr}")

    def encrypt(self) -> None:
        secret = self.work / "passphrase"
        self.run("keystore", "encrypt", "--new-passphrase", f"@{secret}")

    @property
    def sealed(self) -> str:
        return f"--keystore-passphrase=@{self.work / 'passphrase'}"

    def keep(self) -> None:
        """Put what is left into the scene's folder."""
        self.folder.mkdir(parents=True)
        for suffix, name in ((".journal", "journal.db"), (".keys", "keys.db")):
            path = self.state.with_name(self.state.name + suffix)
            if path.exists():
                connection = sqlite3.connect(path)
                connection.execute("PRAGMA page_size = 512")  # small files: each of its tables takes a page at least
                connection.execute("VACUUM")
                connection.close()
                shutil.copyfile(path, self.folder / name)
        for plan in self.work.glob("*.json"):
            shutil.copyfile(plan, self.folder / plan.name)
        subnet = Subnet.from_file(NET)
        file = StateFile(self.state, subnet)
        file.close()
        text = ",\n".join(json.dumps(wire_of(port)) for node in subnet.nodes for port in node.all_ports if cabled(port))
        (self.folder / "wire.json").write_text(f'{{"net": "{NET.stem}", "ports": [\n{text}\n]}}\n')
        shutil.rmtree(self.work)


def cabled(port: SimPort) -> bool:
    return port.number == 0 or port.peer is not None


def wire_of(port: SimPort) -> dict[str, Any]:
    """Return what a port holds that a command may change; `put_on_wire` gives it back."""
    own = port.guard is port
    return {
        "node_guid": f"0x{port.node.guid:016x}",
        "port": port.number,
        "m_key": f"0x{port.m_key:016x}" if own else None,
        "m_key_protect_bits": port.protect_bits,
        "m_key_lease_period": port.lease_period,
        "p_keys": {str(index): f"0x{key:04x}" for index, key in enumerate(port.p_keys) if key},
        "enforcement": [port.inbound_enforcement, port.outbound_enforcement],
    }


def put_on_wire(port: SimPort, record: dict[str, Any]) -> None:
    """Let *port* hold what `wire_of` found."""
    if record["m_key"] is not None:
        port.m_key = int(record["m_key"], 16)
    port.protect_bits, port.lease_period = record["m_key_protect_bits"], record["m_key_lease_period"]
    keys = {int(index): int(key, 16) for index, key in record["p_keys"].items()}
    if port.p_key_capacity:
        port.p_keys = [keys.get(index, 0) for index in range(max(keys, default=-1) + 1)]
    port.inbound_enforcement, port.outbound_enforcement = record["enforcement"]


def make_all(directory: Path) -> None:
    # All that undo and resume can meet: an undone operation, two done ones, and an apply that was killed half way.
    scene = Scene(directory / "apply-cut-off")
    scene.run("pkey-set", 2, "3=0x8010", "--yes")
    scene.run("undo", 1, "--yes")
    scene.run("pkey-add", 3, "0x8020", "--yes")
    scene.run("enforce-set", 7, 2, "--inbound", "on", "--yes")
    scene.run("plan", "--policy", scene.work / "policy.conf", "--out", scene.plan, code=1)
    scene.run("apply", scene.plan, "--allow-removals", "--yes", die_after=9)
    scene.keep()

    scene = Scene(directory / "apply-first")
    scene.run("plan", "--policy", scene.work / "policy.conf", "--out", scene.plan, code=1)
    scene.run("apply", scene.plan, "--yes", "--first", 1)
    scene.keep()

    scene = Scene(directory / "undo-cut-off")
    scene.run("plan", "--policy", scene.work / "policy.conf", "--out", scene.plan, code=1)
    scene.run("apply", scene.plan, "--allow-removals", "--yes")
    scene.run("plan", "--policy", scene.work / "next.conf", "--out", scene.work / "next.json", code=1)
    scene.run("undo", 1, "--yes", die_after=5)
    scene.keep()

    scene = Scene(directory / "deploy-first")
    scene.run("mkey-deploy", *EACH, "--protect", 2, "--lease", 60, "--first", 3, "--yes")
    scene.keep()

    for name, sealed in (("rotate-cut-off", False), ("rotate-cut-off-encrypted", True)):
        scene = Scene(directory / name)
        scene.run("mkey-deploy", *EACH, "--protect", 2, "--lease", 60, "--yes")
        if sealed:
            scene.encrypt()
        extra = [scene.sealed] if sealed else []
        scene.run("mkey-rotate", *EACH, "--protect", 3, "--lease", 90, "--at-once", 2, "--yes", *extra, die_after=4)
        scene.keep()

    scene = Scene(directory / "finished")
    scene.run("plan", "--policy", scene.work / "policy.conf", "--out", scene.plan, code=1)
    scene.run("apply", scene.plan, "--allow-removals", "--yes")
    scene.run("mkey-deploy", *EACH, "--protect", 2, "--lease", 60, "--yes")
    scene.run("mkey-rotate", *EACH, "--protect", 3, "--lease", 90, "--yes")
    scene.keep()


def tool(die_after: int, args: list[str]) -> None:
    """Run the command line in this process, which is killed when *die_after* Sets have arrived."""
    from ibkeys.cli import main
    from ibkeys.mad.const import Method
    from ibkeys.umad.simulated import SimulatedPort

    send, left = SimulatedPort.send, [die_after]

    def one_by_one(self: SimulatedPort, batch: Any) -> Any:
        for out in batch:
            send(self, [out])
            if out.mad[3] == Method.SET:
                left[0] -= 1
                if left[0] == 0:
                    assert self._state is not None
                    self.recv(0.0)
                    self._state.save()
                    os._exit(KILLED)
        return []

    if die_after:
        SimulatedPort.send = one_by_one  # type: ignore[method-assign, assignment]
    main(args)


if __name__ == "__main__":
    if sys.argv[1] == "--tool":
        tool(int(sys.argv[2]), sys.argv[3:])
    else:
        make_all(Path(sys.argv[1]))

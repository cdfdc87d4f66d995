"""Recovery through the real libibumad: all keys of a served subnet are lost, and its time is moved on by steering."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.served import Served

NET = DATA / "fabrics" / "two-switch.net"
LIDS = [4, 5, 6, 8, 2, 3, 7, 1]  # the farthest first, the local port last
LEASE = 300
KEY = 0x5EC2E7C0DE5EC2E7


def violations(fabric: Served) -> int:
    """Return the M_Key violations of all ports, as the server knows them."""
    ports = [f"0x{node.guid:016x}[{0 if node.is_switch else 1}]" for node in Subnet.from_file(NET).nodes]
    shown = "".join(fabric.steer(f"show {port}") for port in ports)
    return sum(map(int, re.findall(r"violations: M_Key (\d+)", shown)))


def test_all_keys_lost_and_back_after_one_lease(tmp_path: Path) -> None:
    with Served(NET, port_guids="file", links="active") as fabric:
        snapshot, key = tmp_path / "before", tmp_path / "key"
        key.touch(0o600)
        assert fabric.ibkeys("snapshot", snapshot).returncode == 0
        for lid in LIDS:
            key.write_text(f"{KEY + lid:#x}\n")
            options = ("--new-m-key", f"@{key}", "--protect", 2, "--lease", LEASE, "--yes", "--trust-topology")
            done = fabric.ibkeys("mkey-set", lid, *options)
            assert done.returncode == 0, done.stderr
        before = violations(fabric)
        shutil.rmtree(fabric.folder / "stores")

        stores = ("--keystore", str(tmp_path / "keys.db"), "--journal", str(tmp_path / "journal.db"))
        options = ("--topology", str(snapshot), "-f", "json", "--yes", "-d", "-t", "500")
        command = [sys.executable, "-m", "ibkeys", "mkey-recover", *options, *stores]
        process = fabric.begin(command, stderr=subprocess.PIPE)
        deadline = threading.Timer(RUN_TIMEOUT, process.kill)
        deadline.start()
        assert process.stdout is not None
        assert process.stderr is not None
        said, told = [], 0
        for line in process.stderr:
            said.append(line)
            told += "TrapRepress" in line
            if told == len(LIDS) - 1:  # the local port was asked before
                break
        fabric.steer(f"time +{LEASE}")
        rest: list[str] = []
        reader = threading.Thread(target=lambda: rest.extend(process.stderr or ()))
        reader.start()
        output = process.stdout.read()
        assert process.wait(RUN_TIMEOUT) == 0, "".join(rest[-5:])
        reader.join()
        deadline.cancel()
        process.stdout.close()
        process.stderr.close()

        *ports, last = map(json.loads, output.splitlines())
        assert {port["result"] for port in ports} == {"done"}
        assert len(ports) == last["summary"]["done"] == len(LIDS)
        assert last["summary"]["seconds"] < LEASE
        shown = fabric.run([*command[:3], "mkey-show", "--all", "-K", "-f", "json", *stores])
        rows = [row for row in json.loads(shown.stdout)["ports"] if row["node_type"] == "ca" or row["port"] == 0]
        assert {row["lid"]: int(row["m_key"], 16) for row in rows} == {lid: KEY + lid for lid in LIDS}
        assert len(LIDS) <= violations(fabric) - before <= last["summary"]["violations"]
        text = (output + "".join(said) + "".join(rest)).lower()
        assert not [lid for lid in LIDS if f"{KEY + lid:x}" in text or str(KEY + lid) in text]

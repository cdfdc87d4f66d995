"""``plan --script``: what a person would type is typed, and after each step the ports show what the script says."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from tests.corpus import DATA
from tests.integration.hosted import opensm
from tests.integration.subnet import Subnet
from tests.integration.tenants import PAIRS
from tests.integration.ufmed import NODES, policy, stored, ufmed
from tests.managers.ufm.mock import TOKEN

SHOWN = re.compile(r"#   ibkeys pkey-show -G (0x[0-9a-f]{16})   # .*?: ([0-9a-fx, ]+)$", re.MULTILINE)


def steps_of(script: str) -> list[str]:
    """Return what is typed, step by step; the first one with what comes before it."""
    head, *steps = re.split(r"^# === (?=step)", script, flags=re.MULTILINE)
    steps[-1] = steps[-1].partition("# === to roll back")[0]
    return [head, *(f"# {step}" for step in steps)]


def type_in(text: str, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        ["sh", "-eu", "-c", text],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(text: str) -> dict[int, set[str]]:
    return {int(guid, 16): set(keys.split(", ")) for guid, keys in SHOWN.findall(text)}


def on_wire(served: Subnet, guids: set[int]) -> dict[int, set[str]]:
    found = {}
    for guid in guids:
        done = served.ibkeys("pkey-show", "-G", f"{guid:#x}", "-f", "json")
        assert done.returncode == 0, done.stderr
        [port] = json.loads(done.stdout)["ports"]
        found[guid] = {entry["pkey"] for entry in port["pkeys"]}
    return found


def test_what_is_typed_on_opensms_host_makes_what_the_script_says() -> None:
    old, new, _, count = PAIRS["reused and moved on"]
    with Subnet(DATA / "fabrics" / "two-switch.net") as served, opensm(served, old) as running:
        wanted, present = served.folder / "wanted.conf", served.folder / "present.conf"
        wanted.write_text(new)
        present.write_text(old)
        words = ("plan", "--policy", wanted, "--script", "opensm")
        refused = served.ibkeys(*words)
        assert refused.returncode == 2
        assert f"{count - 1} intermediate policies are needed" in refused.stderr
        done = served.ibkeys(*words, "--present", present)
        assert done.returncode == 1, done.stderr
        head, *steps = steps_of(done.stdout)
        assert len(steps) == count
        variables = {"POLICY": str(running.policy), "OPENSM": str(running.process.pid)}
        type_in(head, served.folder, **variables)
        for step in steps:
            before = len(running.log.lines)
            type_in(step, served.folder, **variables)
            running.log.wait("SUBNET UP", running.log.place("INITIATING HEAVY SWEEP", before))
            expected = shown(step)
            assert expected
            assert on_wire(served, set(expected)) == expected
        assert running.policy.read_text() == new
        assert running.policy.with_name(running.policy.name + ".before").read_text() == old
        assert served.ibkeys("plan", "--policy", wanted).returncode == 0, "nothing is left to change"


def test_what_is_typed_at_ufm_makes_what_the_script_says() -> None:
    old = {0x10: {2: "full", 3: "full"}, 0x20: {4: "full", 5: "limited"}, 0x40: {6: "full"}}
    new = {0x11: {2: "full", 3: "full"}, 0x20: {4: "limited", 5: "full"}, 0x40: {6: "full", 2: "full"}}
    with ufmed(old) as over:
        served, wanted = over.served, over.served.folder / "wanted.conf"
        wanted.write_text(policy(new))
        done = served.ibkeys("plan", "--policy", wanted, "--script", "ufm")
        assert done.returncode == 1, done.stderr
        head, *steps = steps_of(done.stdout)
        header = served.folder / "header"
        header.touch(mode=0o600)
        header.write_text(f"Authorization: Basic {TOKEN}\n")
        variables = {"UFM": f"{over.mock.url}/ufmRestV3", "HEADER": str(header)}
        type_in(head, served.folder, **variables)
        for step in steps:
            before = len(over.running.log.lines)
            said = type_in(step, served.folder, **variables)
            assert said.startswith("{"), "what UFM had is shown before it is changed"
            over.running.log.wait("SUBNET UP", over.running.log.place("INITIATING HEAVY SWEEP", before))
            expected = shown(step)
            wait_for(served, expected)
        assert stored(over.mock) == new
        assert served.ibkeys("plan", "--policy", wanted).returncode == 0
        assert NODES[2] in over.mock.words(0x11)


def wait_for(served: Subnet, expected: dict[int, set[str]]) -> None:
    """Several calls are several sweeps: look again until the last one is over."""
    found: dict[int, set[str]] = {}
    for _ in range(30):
        found = on_wire(served, set(expected))
        if found == expected:
            return
    assert found == expected

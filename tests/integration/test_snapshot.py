"""A snapshot through the real libibumad holds what smpquery prints, and a run that is killed leaves a whole file."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from ibkeys.fabric.snapshot import Snapshot
from ibkeys.fabric.snapshot_file import load_snapshot
from ibkeys.topology.nodes import Port
from tests.corpus import DATA
from tests.integration.iba_names import IBA_NAMES, NAMES, decode, same
from tests.integration.ibsim import RUN_TIMEOUT, Ibsim, ibkeys_environment, parse_dump, parse_pkeys
from tests.integration.served import Served
from tests.sample import SOAK

TWO_SWITCH = DATA / "fabrics" / "two-switch.net"
LARGER = DATA / "fabrics" / "torus444.net"
KEY = 0x6B2F90C1D4E5A387
LOCKED = f"m_key {KEY:#x}\nm_key_protection_level 2\nm_key_lease_period 60\n"
POLICY = """Default=0x7fff: ALL=limited, SELF=full;
blue=0x12: 0x0002c903000a1011=full, 0x0002c903000a1021=full, 0x0002c903000a1041=limited;
red=0x13: 0x0002c903000a1031=full, 0x0002c903000a1061=full;
"""
KILLS = 60 if SOAK else 6


@pytest.fixture(scope="module", params=["ibsim", "served", "served at level 2"])
def taken(request: pytest.FixtureRequest) -> Iterator[tuple[Ibsim, Snapshot, tuple[str, ...]]]:
    """A fabric to which OpenSM applied a policy, its snapshot, and the options that smpquery needs there."""
    locked = request.param == "served at level 2"
    with (Ibsim if request.param == "ibsim" else Served)(TWO_SWITCH) as fabric:
        fabric.opensm(LOCKED if locked else None, POLICY)
        keys = ("--security-keys", fabric.opensm_cache) if locked else ()
        done = fabric.ibkeys("snapshot", "fabric.db", *keys)
        assert (done.returncode, done.stderr) == (0, "")
        yield fabric, load_snapshot(fabric.folder / "fabric.db"), ("-y", hex(KEY)) if locked else ()


def test_a_snapshot_is_what_smpquery_prints(taken: tuple[Ibsim, Snapshot, tuple[str, ...]]) -> None:
    fabric, snapshot, options = taken
    ports = list(snapshot.fabric.ports())
    assert len(ports) == 24
    assert {key.partition for port in ports for _, key in port.occupied or ()} == {0x7FFF, 0x12, 0x13}
    for port in ports:
        where = route_of(port)
        printed = parse_dump(query(fabric, options, "portinfo", *where))
        assert port.info is not None
        decoded = json.loads(decode("PortInfo", port.info.hex()))
        wrong = {
            name: (text, value)
            for name, text in printed.items()
            if (iba_name := IBA_NAMES["PortInfo"][name]) != "M_Key"  # its fingerprint stands there
            and not same(iba_name, text, value := decoded[NAMES["PortInfo"][iba_name]])
        }
        assert wrong == {}, f"PortInfo of {port}"
        assert len(printed) > 40
        if port.is_end_port:
            shown = int(printed[next(name for name, iba in IBA_NAMES["PortInfo"].items() if iba == "M_Key")], 16)
            assert shown == (KEY if options else 0)
            assert port.m_key_state == ("set" if options else "zero")
        assert [*(port.p_keys or ())] == parse_pkeys(query(fabric, options, "pkeys", *where)), f"P_Keys of {port}"
    assert not snapshot.fabric.troubles


def route_of(port: Port) -> tuple[str, int]:
    path = port.node.path if port.node.is_switch else port.path
    assert path is not None
    return ",".join(map(str, (0, *path))), port.num


def query(fabric: Ibsim, options: tuple[str, ...], attribute: str, route: str, port: int) -> str:
    command = ["smpquery", "-K", *options, "-D", attribute, route, str(port)]
    return fabric.run(command, check=True).stdout


def test_the_tables_for_people_say_the_same_as_the_bytes(taken: tuple[Ibsim, Snapshot, tuple[str, ...]]) -> None:
    fabric, snapshot, options = taken
    with sqlite3.connect(fabric.folder / "fabric.db") as database:
        rows = database.execute(
            "SELECT node_guid, ports.port, p_key_index, p_key FROM p_keys JOIN ports ON p_keys.port = ports.id "
            "JOIN nodes ON ports.node = nodes.id"
        ).fetchall()
        states = database.execute("SELECT DISTINCT m_key_state, m_key_protect_bits FROM ports").fetchall()
    database.close()
    assert sorted(rows) == sorted(
        (f"0x{port.node.guid:016x}", port.num, index, str(key))
        for port in snapshot.fabric.ports()
        for index, key in port.occupied or ()
    )
    assert states == [("set", 2)] if options else [("zero", 0)]


def test_no_key_is_in_the_file(taken: tuple[Ibsim, Snapshot, tuple[str, ...]]) -> None:
    data = (taken[0].folder / "fabric.db").read_bytes()
    assert KEY.to_bytes(8) not in data
    assert f"{KEY:x}".encode() not in data.lower()


def test_a_killed_run_leaves_the_former_file_or_a_whole_new_one(tmp_path: Path) -> None:
    """SIGKILL at random moments; test_crash.py in tests/store has every step of the writing."""
    file = tmp_path / "fabric.db"
    start(file, TWO_SWITCH).communicate(timeout=RUN_TIMEOUT)
    former = file.read_bytes()
    begun = monotonic()
    start(tmp_path / "other.db", LARGER).communicate(timeout=RUN_TIMEOUT)
    whole = monotonic() - begun
    nodes = len(load_snapshot(tmp_path / "other.db").fabric.nodes)
    chance = random.Random(4)
    for _ in range(KILLS):
        file.write_bytes(former)
        run = start(file, LARGER)
        try:
            run.communicate(timeout=chance.uniform(whole / 3, whole * 1.1))
        except subprocess.TimeoutExpired:
            run.kill()
            run.communicate(timeout=RUN_TIMEOUT)
        assert file.read_bytes() == former or len(load_snapshot(file).fabric.nodes) == nodes
    run = start(file, LARGER)
    assert run.communicate(timeout=RUN_TIMEOUT)[1] == ""
    assert len(load_snapshot(file).fabric.nodes) == nodes
    assert sorted(each.name for each in tmp_path.iterdir()) == ["fabric.db", "other.db"]


def start(file: Path, fabric: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ibkeys", "snapshot", str(file), "--backend", f"sim:{fabric}"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env=ibkeys_environment(), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    )

"""A snapshot and other tools' files on `ibkeys sim serve`, with the real OpenSM and infiniband-diags."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ibkeys.fabric.snapshot_file import load_snapshot
from ibkeys.sim.subnet import Subnet
from tests import documents
from tests.corpus import DATA, files, label
from tests.dumps.synthetic import db_csv, swept
from tests.integration.ibsim import ibkeys, parse_pkeys
from tests.integration.own_umad import OwnUmad
from tests.integration.served import Served
from tests.protectedsim import end_ports
from tests.replica.comparing import snapshot_of

TWO_SWITCH = DATA / "fabrics" / "two-switch.net"
DUMPS = DATA / "dumps"
KEY = 0x6B2F90C1D4E5A387
LOCKED = f"m_key {KEY:#x}\nm_key_protection_level 2\nm_key_lease_period 0\n"
REAL = [file for file in files("fabrics/*.net") if file.stem in ("psmn-x5-2020", "dgx-pod-2025", "isr9024-2007")]
NAME = "node02 mlx4_0"


class Recorded(Served):
    """A server of a file of any kind, in the state that it says."""

    def __init__(self, file: Path, *, sim_host: str | None = None, extra: Sequence[str] = ()) -> None:
        super().__init__(file, sim_host=sim_host)
        self.options = ["--port-guids", "ibsim", *extra]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A snapshot of two switches whose ports all have one of two M_Keys, at level 2, and P_Keys of their own."""
    net = Subnet.from_file(TWO_SWITCH, "ibsim")
    for number, port in enumerate(end_ports(net)):
        port.m_key, port.protect_bits, port.lease_period = KEY + number % 2, 2, 60
        port.p_keys = [0xFFFF, 0, 0x8012 + number][: port.p_key_capacity]
    net.set_sm("node01 mlx4_0")
    snapshot_of(net, tmp_path / "a.db")
    return tmp_path / "a.db"


def test_opensm_takes_over_a_snapshot_with_the_keys_that_were_exported(recorded: Path) -> None:
    snapshot = load_snapshot(recorded)
    with Recorded(recorded, extra=("--export-keys", "keys")) as fabric:
        keys = fabric.folder / "keys"
        said = "".join(fabric.output)
        assert "M_Keys (8 ports): 2 made-up keys" in said
        assert "subnet managers (1 port): none runs" in said
        exported = dict(re.findall(r"^(0x\w+) (0x\w+)$", (keys / "guid2mkey").read_text(), re.MULTILINE))
        assert len(exported) == 8
        assert len(set(exported.values())) == 2
        assert not {*exported.values()} & {hex(KEY), hex(KEY + 1)}

        shown = fabric.ibkeys("mkey-show", "--all", "-f", "json", "--security-keys", keys)
        assert shown.returncode == 0, shown.stderr
        ports = json.loads(shown.stdout)["ports"]
        assert {(each["m_key_protect_bits"], each["m_key_lease_period"]) for each in ports} == {(2, 60)}
        own = exported["0x0002c903000a1021"]
        printed = parse_pkeys(fabric.run(["smpquery", "-y", own, "pkeys", "2", "1"], check=True).stdout)
        port = next(each for each in snapshot.fabric.end_ports() if each.guid == 0x0002C903000A1021)
        assert printed == [*(port.p_keys or ())]
        assert fabric.run(["smpquery", "portinfo", "2", "1"]).returncode != 0, "level 2: no answer without the key"

        fabric.opensm_cache = keys
        fabric.opensm(
            f"m_key {KEY:#x}\nm_key_protection_level 2\nm_key_lease_period 0\n", "Default=0x7fff: ALL=full;\n"
        )
        taken = fabric.ibkeys("mkey-show", "--all", "-f", "json", "-y", hex(KEY))
        assert taken.returncode == 0, taken.stderr
        assert {each["m_key_state"] for each in json.loads(taken.stdout)["ports"]} == {"set"}


def test_a_snapshot_of_what_is_served_is_the_snapshot(tmp_path: Path) -> None:
    with Served(TWO_SWITCH) as fabric:
        fabric.opensm(None, "Default=0x7fff: ALL=limited, SELF=full;\nblue=0x12: 0x0002c903000a1021=full;\n")
        assert fabric.ibkeys("snapshot", tmp_path / "a.db").returncode == 0
    with Recorded(tmp_path / "a.db") as fabric:
        assert fabric.ibkeys("snapshot", tmp_path / "b.db").returncode == 0
    done = ibkeys("diff", tmp_path / "a.db", tmp_path / "b.db")
    assert (done.returncode, done.stdout) == (0, "no difference\n"), done.stdout + done.stderr


@pytest.mark.parametrize(
    "names", [["plain.cache"], ["opensm-subnet.lst"], ["keyed.cache", "pir-keyed.txt", "pktr3.txt"]]
)
def test_opensm_brings_up_what_other_tools_wrote(names: Sequence[str]) -> None:
    first, *more = (DUMPS / name for name in names)
    extra = (*map(str, more), "--export-keys", "keys")
    with Recorded(first, sim_host="node01 mlx4_0", extra=extra) as fabric:
        fabric.opensm_cache = fabric.folder / "keys"
        fabric.opensm()
        assert fabric.run(["ibnetdiscover"], check=True).stdout.count("\nSwitch") == 2


@pytest.mark.parametrize("leave_out", [(), ("SWITCHES",)], ids=str)
def test_opensm_brings_up_a_db_csv(leave_out: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(db_csv(swept(Subnet.from_file(TWO_SWITCH, "ibsim")), leave_out))
    with Recorded(tmp_path / "a.csv", sim_host=NAME) as fabric:
        fabric.opensm(None, "Default=0x7fff: ALL=full;\nblue=0x12: ALL=full;\n")
        assert parse_pkeys(fabric.smpquery("pkeys", "1", "1"))[:2] == [0xFFFF, 0x8012]


@pytest.mark.parametrize("file", REAL, ids=label)
def test_opensm_brings_up_the_snapshot_of_a_real_cluster(file: Path, tmp_path: Path) -> None:
    before = snapshot_of(Subnet.from_file(file), tmp_path / "a.db")
    hosts = [node for node in before.fabric.nodes if not node.is_switch and node.port(1).peer is not None]
    with Recorded(tmp_path / "a.db", sim_host=f"H-{hosts[0].guid:016x}") as fabric:
        fabric.opensm()
        printed = fabric.run(["ibnetdiscover"], check=True).stdout
    assert len(re.findall(r"^(?:Switch|Ca|Rt)\t", printed, re.MULTILINE)) == len(before.fabric.nodes)


def test_what_is_assumed_is_in_the_document_too(recorded: Path) -> None:
    with JsonServed(recorded) as fabric:
        documents.check("".join(fabric.output))
        document = json.loads("".join(fabric.output))
        assert (document["nodes"], document["end_ports"], document["m_keys"]) == (8, 8, None)
        assert document["node"] == {"node_id": "H-0002c903000a1010", "node_desc": "node01 mlx4_0"}
        assert document["environment"] == {"IBSIM_SOCKNAME": fabric.socket_name, "SIM_HOST": "H-0002c903000a1010"}
        assumed = {each["what"]: (each["count"], each["unit"]) for each in document["assumed"]}
        assert assumed["M_Keys"] == (8, "port")
        assert assumed["forwarding tables"] == (None, "port")


class RecordedOwn(OwnUmad):
    """The same with our libibumad, which shows the port GUIDs of the file."""

    def __init__(self, file: Path, *, sim_host: str | None = None) -> None:
        super().__init__(file, sim_host=sim_host)
        self.options = []


@pytest.mark.parametrize("file", REAL, ids=label)
def test_opensm_runs_on_a_port_of_a_real_cluster_by_its_own_guid(file: Path, tmp_path: Path) -> None:
    before = snapshot_of(Subnet.from_file(file), tmp_path / "a.db")
    port = next(port for port in before.fabric.end_ports() if not port.node.is_switch and port.peer is not None)
    with RecordedOwn(tmp_path / "a.db", sim_host=f"H-{port.node.guid:016x}") as fabric:
        fabric.opensm()  # it comes up only if the port that it runs on is one of the fabric
        printed = fabric.run(["ibnetdiscover"], check=True).stdout
    begun = re.search(r"# Initiated from node (\w+) port (\w+)\n", printed)
    assert begun is not None
    # On a host with several adapters that may be another one of them.
    assert (int(begun[1], 16), int(begun[2], 16)) in {(each.node.guid, each.guid) for each in before.fabric.end_ports()}
    assert len(re.findall(r"^(?:Switch|Ca|Rt)\t", printed, re.MULTILINE)) == len(before.fabric.nodes)


class JsonServed(Recorded):
    """A server that writes a document when it is ready."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, extra=("-f", "json"))

    def says_ready(self, line: str) -> bool:
        return line == "]}\n"


def test_keys_never_take_the_place_of_other_keys(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir(mode=0o700)
    real = tmp_path / "keys" / "guid2mkey"
    real.write_text("0x0002c903000a1011 0x00000000deadbeef\n\n")
    done = ibkeys("sim", "serve", recorded, "--export-keys", tmp_path / "keys", "--socket", "ibkeys-refused")
    assert done.returncode == 4, done.stderr
    assert re.fullmatch(r"ibkeys: error: .*guid2mkey.*\n", done.stderr)
    assert real.read_text() == "0x0002c903000a1011 0x00000000deadbeef\n\n"


@pytest.mark.parametrize("names", [["pktr.txt"], ["plain.cache", "no-such-file"], ["README.md"]])
def test_files_that_cannot_be_served_are_named(names: Sequence[str]) -> None:
    done = ibkeys("sim", "serve", *(DUMPS / name for name in names), "--socket", "ibkeys-refused")
    assert done.returncode == 2
    assert re.fullmatch(rf"ibkeys: error: {re.escape(str(DUMPS / names[-1]))}: .*\n", done.stderr), done.stderr


def test_a_backend_says_what_its_snapshot_does_not(recorded: Path) -> None:
    done = ibkeys("mkey-show", "-G", "0x0002c903000a1011", "--backend", f"sim:{recorded}")
    assert "simulated, and not as it was recorded: subnet managers (1 port): none runs; M_Keys (8 ports)" in done.stderr
    done = ibkeys("discover", "--backend", f"sim:{TWO_SWITCH}")
    assert (done.returncode, done.stderr) == (0, "")

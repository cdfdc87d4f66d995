"""What ibkeys reads equals what smpquery prints, field by field, and a P_Key that ibkeys sets is read by smpquery."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests import corpus
from tests.integration.iba_names import ATTRIBUTES, IBA_NAMES, NAMES, decode, same
from tests.integration.ibsim import Ibsim, parse_dump, parse_pkeys

FABRICS = {file.stem: file for file in reversed(corpus.files("fabrics/*.net"))}
SAMPLE = "dual-home"


# Prints for each port that a sweep finds: the route, and NodeInfo, SwitchInfo and PortInfo as they come on it.
READER = """
import json, ibkeys
from ibkeys.mad.attributes import NodeInfo, PortInfo, SwitchInfo
with ibkeys.open() as fabric:
    for port in fabric.sweep().ports():
        handle = fabric.handle(port)
        route = ",".join(map(str, (0, *handle.route.path)))
        switch = handle.get(SwitchInfo).hex() if port.node.is_switch else None
        raw = {"NodeInfo": handle.get(NodeInfo).hex(), "SwitchInfo": switch}
        print(json.dumps([route, port.num, {**raw, "PortInfo": handle.get(PortInfo, port.num).hex()}]))
"""


class Read(NamedTuple):
    """One port as smpquery prints it and as ibkeys decodes its bytes; fields by IBA name, in smpquery's words."""

    printed: dict[str, dict[str, str]]
    decoded: dict[str, dict[str, Any]]


class Topology(NamedTuple):
    """A fabric that OpenSM configured, every port of it read."""

    ibsim: Ibsim
    ports: dict[tuple[str, int], Read]


def fabrics() -> list[Any]:
    return [
        pytest.param(name, marks=() if name == SAMPLE else pytest.mark.soak)
        for name in sorted(FABRICS)
        if name not in ("ft648", "ft2048", "dgx-pod-2025")  # smpquery asks one port at a time
    ]


@pytest.fixture(scope="module", params=fabrics())
def fabric(request: pytest.FixtureRequest) -> Iterator[Topology]:
    with Ibsim(FABRICS[request.param]) as ibsim:
        ibsim.opensm()
        done = ibsim.run([sys.executable, "-c", READER], check=True)
        yield Topology(
            ibsim,
            {
                (route, num): read(ibsim, route, num, raw)
                for route, num, raw in map(json.loads, done.stdout.splitlines())
            },
        )


def read(ibsim: Ibsim, route: str, num: int, raw: dict[str, str]) -> Read:
    printed, decoded = {}, {}
    for attribute in ATTRIBUTES:
        if raw[attribute] is None:
            continue
        words: list[str | int] = ["-K", "-D", route, *([num] if attribute == "PortInfo" else [])]
        dump = parse_dump(ibsim.smpquery(attribute.lower(), *words))
        printed[attribute] = {IBA_NAMES[attribute][name]: value for name, value in dump.items()}
        decoded[attribute] = json.loads(decode(attribute, raw[attribute]))
    return Read(printed, decoded)


def test_decode_agrees_with_every_field_that_smpquery_prints(fabric: Topology) -> None:
    assert len(fabric.ports) > 20
    for place, port in fabric.ports.items():
        assert port.printed.keys() == port.decoded.keys() >= {"NodeInfo", "PortInfo"}
        for attribute, fields in port.printed.items():
            assert len(fields) == len(IBA_NAMES[attribute])
            wrong = {
                name: (text, port.decoded[attribute][NAMES[attribute][name]])
                for name, text in fields.items()
                if not same(name, text, port.decoded[attribute][NAMES[attribute][name]])
            }
            assert wrong == {}, f"{attribute} of port {place}"


def test_the_command_decode_gives_the_same(fabric: Topology) -> None:
    """The bytes of one port through the command line, which the test above leaves out."""
    done = fabric.ibsim.run([sys.executable, "-c", READER], check=True)
    *_, raw = json.loads(done.stdout.splitlines()[0])
    for attribute in ("NodeInfo", "PortInfo"):
        said = fabric.ibsim.ibkeys("decode", "--attribute", attribute, "-K", "-f", "json", raw[attribute], check=True)
        port = next(iter(fabric.ports.values()))
        assert json.loads(said.stdout)["fields"] == port.decoded[attribute]
        assert all(
            same(name, text, port.decoded[attribute][NAMES[attribute][name]])
            for name, text in port.printed[attribute].items()
        )


SHOWN = {
    "mkey-show": ("PortInfo", ["M_Key", "M_KeyProtectBits", "M_KeyLeasePeriod", "M_KeyViolations"]),
    "port-show --counters": ("PortInfo", ["M_KeyViolations", "P_KeyViolations", "Q_KeyViolations"]),
    "port-show --enforcement": ("PortInfo", ["PartitionEnforcementInbound", "PartitionEnforcementOutbound"]),
    "port-show --caps": ("SwitchInfo", ["PartitionEnforcementCap", "InboundEnforcementCap", "OutboundEnforcementCap"]),
}


@pytest.mark.parametrize("command", SHOWN)
def test_commands_show_what_smpquery_prints(fabric: Topology, command: str) -> None:
    attribute, names = SHOWN[command]
    rows = json.loads(fabric.ibsim.ibkeys(*command.split(), "--all", "--each", "-K", "-f", "json", check=True).stdout)[
        "ports"
    ]
    by_place = {(row["node_guid"], row["port"]): row for row in rows}
    assert len(by_place) == len(rows) == len(fabric.ports)
    for (_, num), port in fabric.ports.items():
        node = port.printed["NodeInfo"]
        row = by_place[node["NodeGUID"], num]
        external = node["NodeType"] == "Switch" and num != 0
        assert row["port_guid"] == node["PortGUID"]
        if not external:
            assert row["lid"] == int(port.printed["PortInfo"]["LID"])
        if command == "port-show --caps":
            assert row["partition_cap"] == int(node["PartitionCap"])
        # an external port of a switch has the M_Key of port 0; other nodes have no SwitchInfo
        source = fabric.ports[port_zero(fabric, num, node)] if command == "mkey-show" and external else port
        for name in names:
            expected = source.printed.get(attribute, {}).get(name)
            assert (
                expected is None
                or (command == "port-show --enforcement" and not external)  # null where nothing enforces
                if row[NAMES[attribute][name]] is None
                else same(name, str(expected), as_number(row[NAMES[attribute][name]]))
            )


def as_number(value: object) -> object:
    """Return what a field holds: JSON has one bit of enforcement as true or false."""
    return int(value) if isinstance(value, bool) else value


def port_zero(fabric: Topology, num: int, node: dict[str, str]) -> tuple[str, int]:
    return next(
        place
        for place, port in fabric.ports.items()
        if place[1] == 0 and port.printed["NodeInfo"]["NodeGUID"] == node["NodeGUID"]
    )


# --- a P_Key written by ibkeys ---------------------------------------------------------------------------------------

LEAF = "0x248a070300f00100"  # ib-a, 12 ports
DUAL = "0x248a070300b10300"  # an HCA with a port on each of two switches


@pytest.fixture
def dual_home(ibsim: Callable[..., Ibsim]) -> Ibsim:
    fabric = ibsim(FABRICS["dual-home"])
    fabric.opensm()
    return fabric


def port_of(fabric: Ibsim, guid: str, num: int) -> dict[str, Any]:
    done = fabric.ibkeys("pkey-show", "-G", guid, num, "-f", "json")
    assert done.returncode == 0, done.stderr
    (port,) = json.loads(done.stdout)["ports"]
    assert (port["node_guid"], port["port"]) == (guid, num)
    return dict(port)


@pytest.mark.parametrize(
    ("guid", "num", "index"), [(DUAL, 1, 1), (DUAL, 2, 40), (LEAF, 0, 7), (LEAF, 3, 9), (LEAF, 3, 33), (LEAF, 12, 63)]
)
def test_p_key_that_ibkeys_sets_is_read_by_smpquery(dual_home: Ibsim, guid: str, num: int, index: int) -> None:
    port = port_of(dual_home, guid, num)
    before = parse_pkeys(dual_home.smpquery("pkeys", port["lid"], num))
    done = dual_home.ibkeys("pkey-set", "-G", guid, num, f"{index}=0x8abc", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    expected = [0x8ABC if place == index else key for place, key in enumerate(before)]
    assert parse_pkeys(dual_home.smpquery("pkeys", port["lid"], num)) == expected
    assert {"index": index, "pkey": "0x8abc", "partition": "0x0abc", "membership": "full"} in port_of(
        dual_home, guid, num
    )["pkeys"]


def test_p_key_goes_to_the_port_asked_for_whichever_port_is_addressed(dual_home: Ibsim) -> None:
    """A CA answers P_KeyTable for the port that an SMP came in by: PORTNUM has to find that port's own route."""
    lids = {num: port_of(dual_home, DUAL, num)["lid"] for num in (1, 2)}
    assert len(set(lids.values())) == 2
    for addressed, num, key in ((1, 2, 0x8222), (2, 1, 0x8111), (1, 1, 0x8101)):
        done = dual_home.ibkeys("pkey-add", lids[addressed], num, f"{key:#06x}", "--yes")
        assert (done.returncode, done.stderr) == (0, "")
    assert parse_pkeys(dual_home.smpquery("pkeys", lids[1], 1))[:4] == [0xFFFF, 0x8111, 0x8101, 0]
    assert parse_pkeys(dual_home.smpquery("pkeys", lids[2], 2))[:4] == [0xFFFF, 0x8222, 0, 0]


def test_what_smpquery_reads_after_removal_is_empty(dual_home: Ibsim) -> None:
    lid = port_of(dual_home, DUAL, 1)["lid"]
    for command, expected in (("pkey-add", [0xFFFF, 0x0123, 0x8124]), ("pkey-remove", [0xFFFF, 0, 0x8124])):
        words = ["0x123:limited", "0x124:full"] if command == "pkey-add" else ["0x0123"]
        assert dual_home.ibkeys(command, lid, *words, "--yes").returncode == 0
        assert parse_pkeys(dual_home.smpquery("pkeys", lid, 1))[:3] == expected


# --- what ibsim accepts and does not store ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "mkey-set -D 0 --new-m-key @key --protect 0 --yes",
        "mkey-set -D 0,1 --new-m-key @key --protect 2 --lease 60 --yes",
        "mkey-set -D 0 --lease 60 --yes",
        "enforce-set -D 0,1 3 --inbound on --yes",
        "enforce-set -D 0,1 3 --inbound on --outbound on --yes",
    ],
)
def test_accepted_but_not_stored(dual_home: Ibsim, line: str) -> None:
    key = dual_home.folder / "key"
    key.write_text("0x83f1c05e9a2d7b46\n")
    key.chmod(0o600)
    done = dual_home.ibkeys(*line.split())
    assert done.returncode == 3
    notes, error = done.stderr.splitlines()[:-1], done.stderr.splitlines()[-1]
    assert "accepted but not stored" in error
    assert error.startswith("ibkeys: error: ")
    assert all(note.startswith("ibkeys: note: ") for note in notes)
    assert "83f1c05e9a2d7b46" not in done.stdout + done.stderr


def test_a_key_that_was_not_stored_is_not_taken_for_the_ports_own(dual_home: Ibsim) -> None:
    """The key stays in the key store, but PortInfo at level 0 proves that the port has none."""
    key = dual_home.folder / "key"
    key.write_text("0x83f1c05e9a2d7b46\n")
    key.chmod(0o600)
    for _ in range(2):
        done = dual_home.ibkeys("mkey-set", "-D", "0,1", "--new-m-key", "@key", "--protect", 0, "--yes")
        assert (done.returncode, "accepted but not stored" in done.stderr) == (3, True)
        assert "M_Key: zero -> set" in done.stdout
    done = dual_home.ibkeys("mkey-set", "-D", "0,1", "--lease", 60, "--dry-run", "-f", "json")
    changes = json.loads(done.stdout)["ports"][0]["changes"]
    assert [change["kind"] for change in changes] == ["m_key_lease_period"]


@pytest.mark.parametrize("where", [["-D", "0"], ["-D", "0,1", "3"], ["--all"]])
def test_ibsim_never_counts_so_there_is_nothing_to_clear(dual_home: Ibsim, where: list[str]) -> None:
    """Its counters are always 0, and a counter at 0 is not written: no Set is sent that it could fail to store."""
    done = dual_home.ibkeys("counters-clear", *where, "--yes")
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing to change\n", "")

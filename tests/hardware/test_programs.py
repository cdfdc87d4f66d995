"""infiniband-diags beside us: what differs is named by field, and why a program was not asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.errors import FileFormatError
from ibkeys.hardware.check import CheckAnswer, make_check
from ibkeys.hardware.checks import infiniband_diags
from ibkeys.scripting import Fabric
from tests.fabricsim import subnet, tool
from tests.hardware.looking import look_at
from tests.keyedsite import Site

NODE = """# Node info: Lid 1
NodeType:........................Channel Adapter
NumPorts:........................{ports}
SystemGuid:......................0x2c903000a1012
Guid:............................0x0002c903000a1010
PortGuid:........................0x0002c903000a1011
PartCap:.........................64
LocalPort:.......................1
"""
PORT = """# Port info: Lid 1 port 1
Mkey:............................0x9c4e21d7b05a63f8
Lid:.............................1
LMC:.............................{lmc}
MkeyLeasePeriod:.................0
"""
RECORD = """PortInfoRecord dump:
\t\tEndPortLid..............1
\t\tPortNum.................1
\t\tLid:.............................1
\t\tLMC:.............................{lmc}
"""
PKEYS = """   0: 0xffff {second} 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000
{rest}64 pkeys capacity for this port
"""
COUNTERS = """# Port counters: Lid 1 port 1 (CapMask: 0x00)
PortSelect:......................1
LinkDownedCounter:...............{downed}
"""
TOPOLOGY = """caguid=0x2c903000a1010
Ca\t1 "H-0002c903000a1010"\t\t# "node01 mlx4_0"
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a program in the place of each of infiniband-diags that is named; no other one is there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def put(name: str, prints: str, code: int = 0) -> None:
        (folder / f"{name}.txt").write_text(prints)
        said = folder / f"{name}.words"
        body = f'#!/bin/sh\necho "$*" > {said}\nwhile IFS= read -r line; do echo "$line"; done < {folder}/{name}.txt\n'
        (folder / name).write_text(f"{body}exit {code}\n")
        (folder / name).chmod(0o755)

    return put


@pytest.fixture
def fabric() -> Fabric:
    """A port of a fabric that other programs can reach too."""
    net = subnet("two-switch")
    net.set_sm("node04 mlx4_0")
    opened = tool(net, timeout=0.1)
    opened.is_simulated = False
    return opened


def asked(fabric: Fabric, id: str) -> CheckAnswer:
    [each] = [each for each in infiniband_diags.CHECKS if each.id == id]
    with fabric:
        return each.ask(look_at(fabric))


TABLE = "".join(f"{first:4}:{' 0x0000' * 8}\n" for first in range(8, 64, 8))


READ = [
    ("smpquery.nodeinfo", NODE.format(ports=1), NODE.format(ports=2), "NumPorts"),
    ("smpquery.portinfo", PORT.format(lmc=0), PORT.format(lmc=3), "LMC"),
    ("saquery.own-record", RECORD.format(lmc=0), RECORD.format(lmc=3), "LMC"),
    (
        "smpquery.pkeys",
        PKEYS.format(second="0x0000", rest=TABLE),
        PKEYS.format(second="0x8001", rest=TABLE),
        "1 differ",
    ),
    ("perfquery.counters", COUNTERS.format(downed=0), COUNTERS.format(downed=9), "LinkDownedCounter"),
]
"""A check, what its program prints where it reads the same, what it prints otherwise, and what is said of that."""


@pytest.mark.parametrize(("id", "other", "differing"), [(id, other, what) for id, _, other, what in READ])
def test_a_value_that_is_read_otherwise_is_named(
    programs: Callable[..., None], fabric: Fabric, tmp_path: Path, id: str, other: str, differing: str
) -> None:
    program = id.partition(".")[0]
    programs(program, other)
    found = asked(fabric, id)
    assert (found.outcome, differing in found.text) == ("differs", True)
    assert "9c4e21d7b05a63f8" not in repr(found)
    words = (tmp_path / "bin" / f"{program}.words").read_text().split()
    assert words[:4] == ["-C", "sim0", "-P", "1"]
    assert not {"-y", "--m_key", "-K", "--smkey"} & set(words)


@pytest.mark.parametrize(("id", "same"), [(id, same) for id, same, *_ in READ])
def test_the_same_value_is_the_same(programs: Callable[..., None], fabric: Fabric, id: str, same: str) -> None:
    programs(id.partition(".")[0], same)
    assert asked(fabric, id).outcome == "same"


def test_nodes_that_only_one_of_two_found_are_counted(programs: Callable[..., None], fabric: Fabric) -> None:
    programs("ibnetdiscover", TOPOLOGY)
    found = asked(fabric, "ibnetdiscover.fabric")
    assert (found.outcome, found.values["nodes_differ"]) == ("differs", 7)


@pytest.mark.parametrize(
    ("prints", "code", "why"),
    [(None, 0, "smpquery is not installed"), ("", 1, "smpquery failed: exit 1"), ("", 0, "no NodeInfo")],
)
def test_a_program_that_is_missing_fails_or_says_nothing_is_not_a_difference(
    programs: Callable[..., None], fabric: Fabric, prints: str | None, code: int, why: str
) -> None:
    if prints is not None:
        programs("smpquery", prints, code)
    [each] = [each for each in infiniband_diags.CHECKS if each.id == "smpquery.nodeinfo"]
    with fabric:
        answer = make_check(each, look_at(fabric)).answer
    assert answer.outcome == "not-checked"
    assert why in answer.text


def test_output_that_is_not_understood_shows_no_value(programs: Callable[..., None], fabric: Fabric) -> None:
    programs("smpquery", NODE.format(ports="0x9c4e21d7b05a63f8"))
    with pytest.raises(FileFormatError) as error:
        asked(fabric, "smpquery.nodeinfo")
    assert "9c4e21d7b05a63f8" not in str(error.value)
    assert "/tmp" not in str(error.value)


def test_no_program_is_run_where_its_gets_would_be_counted(programs: Callable[..., None], tmp_path: Path) -> None:
    programs("smpquery", NODE.format(ports=1))
    programs("ibnetdiscover", TOPOLOGY)
    fabric = Site(tmp_path).open()
    fabric.is_simulated = False
    with fabric:
        reading = look_at(fabric)
        texts = [make_check(each, reading).answer.text for each in infiniband_diags.CHECKS]
    assert all("M_Key at level 2 or 3" in text for text in texts)
    assert not list((tmp_path / "bin").glob("*.words"))


def test_only_what_asks_other_nodes_waits_for_theirs(programs: Callable[..., None]) -> None:
    """The local port has no key, another one does: smpquery of the local port costs nothing, ibnetdiscover does."""
    programs("smpquery", NODE.format(ports=1))
    programs("ibnetdiscover", TOPOLOGY)
    net = subnet("two-switch")
    far = net.port("node03 mlx4_0", 1)
    far.m_key, far.protect_bits = 5, 2
    fabric = tool(net, timeout=0.1)
    fabric.is_simulated = False
    with fabric:
        reading = look_at(fabric)
        asked = [each for each in infiniband_diags.CHECKS if "query" not in each.id or "nodeinfo" in each.id]
        found = {each.id: make_check(each, reading).answer for each in asked}
    assert found["smpquery.nodeinfo"].outcome == "same"
    assert "did not answer" in found["ibnetdiscover.fabric"].text

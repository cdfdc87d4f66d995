"""What went wrong at many ports for one reason is said once; nothing that differs is said together."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from, tuples

from ibkeys.cli.listing.causes import lines_by_cause
from ibkeys.port_text import PortText, at_port
from tests.cli.conftest import TWO_SWITCH, run

SILENT = "no reply after 3 attempts of 1000 ms (no such node, a dead link, or a wrong M_Key)"


def row(number: int, node_type: str = "ca") -> dict[str, Any]:
    guid = f"0x{number:016x}"
    name = f"node{number:02} mlx5_0"
    return {"node_guid": guid, "port_guid": guid, "node_desc": name, "node_type": node_type, "port": 1, "lid": number}


def asked(number: int, cause: str = SILENT) -> PortText:
    return PortText(
        f"SubnGet(PortInfo, modifier 0x{number:x}) to route 0,1,{number}: {cause}", f"SubnGet(PortInfo): {cause}"
    )


def test_forty_ports_with_one_cause_are_one_line_with_their_names() -> None:
    troubles = [(row(number), asked(number)) for number in range(1, 41)]
    assert lines_by_cause(troubles, each=False) == [(f"40 ports: SubnGet(PortInfo): {SILENT}: node[01-40] mlx5_0", "")]
    each = lines_by_cause(troubles, each=True)
    assert [text for text, _ in each][6] == f"node07 mlx5_0 (ca 0x0000000000000007) port 1, LID 7: {asked(7)}"
    assert len(each) == 40


def test_one_port_alone_is_said_as_ever() -> None:
    assert lines_by_cause([(row(1), asked(1))], each=False) == lines_by_cause([(row(1), asked(1))], each=True)


def test_one_port_with_one_cause_for_many_blocks() -> None:
    [(line, _)] = lines_by_cause([(row(1), asked(block)) for block in range(4)], each=False)
    assert line.startswith("node01 mlx5_0 (ca 0x0000000000000001) port 1, LID 1: 4 times: SubnGet(PortInfo): no reply")


def test_the_port_itself_is_no_part_of_the_cause() -> None:
    texts = [(row(at), at_port(f"'node{at:02} mlx5_0' 0x{at:016x} port 1", "accepted but not stored")) for at in (1, 2)]
    assert lines_by_cause(texts, each=False) == [("2 ports: accepted but not stored: node[01-02] mlx5_0", "")]


def test_details_stand_below_and_what_is_of_no_port_stays_alone() -> None:
    file = PortText("the file", "the file", "-a\n+b")
    assert lines_by_cause([(None, file), (None, file)], each=False) == [
        ("the file", "-a\n+b"),
        ("the file", "-a\n+b"),
    ]


def test_many_names_that_do_not_fold_say_how_to_see_the_rest() -> None:
    twins = [({**row(number), "node_desc": "twin"}, asked(number)) for number in range(1, 13)]
    [(line, _)] = lines_by_cause(twins, each=False)
    assert line.endswith("0x0000000000000007,0x0000000000000008) and 4 more (all of them: -v)")


CAUSES = ("no reply", "status 0x1c", "nobody is behind it (route 0,1): silence", "M_Key 0x0000000000000001")


@given(lists(tuples(integers(1, 30), sampled_from(CAUSES)), max_size=40))
def test_only_equal_causes_are_together_and_every_trouble_is_counted(met: list[tuple[int, str]]) -> None:
    troubles = [(row(number), asked(number, cause)) for number, cause in met]
    lines = [text for text, _ in lines_by_cause(troubles, each=False)]
    assert len(lines) == len({cause for _, cause in met})
    for cause in {cause for _, cause in met}:
        said = f"SubnGet(PortInfo): {cause}"
        ports = {number for number, each in met if each == cause}
        fitting = [line for line in lines if said in line] or [line for line in lines if f": {cause}" in line]
        assert len(fitting) == 1
        counts = re.match(r"([0-9]+) ports: ", fitting[0])
        assert (int(counts[1]) if counts else 1) == len(ports)


def test_a_lossy_sweep_says_each_cause_once_and_each_port_with_v() -> None:
    lossy = ("pkey-show", "--all", "--backend", f"{TWO_SWITCH},drop=60,seed=4", "--retries", 1, "-t", 10)
    for seed in range(12):
        words = [str(word).replace("seed=4", f"seed={seed}") for word in lossy]
        short, long = run(*words), run(*words, "-v")
        if not re.search(r"not read: [0-9]+ ports: ", short.err):
            continue
        assert short.err.count("not read: ") < long.err.count("not read: ")
        assert not re.search(r"not read: [0-9]+ ports: ", long.err + run(*words, "--each").err)
        assert short.err.splitlines()[-1] == next(line for line in long.err.splitlines() if "partial" in line)
        return
    raise AssertionError("no seed made two ports silent")

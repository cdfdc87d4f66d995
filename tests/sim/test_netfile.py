"""Net files: every fabric of the corpora, the parts of the grammar, and mistakes with line and column."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError
from ibkeys.mad.const import NodeType
from ibkeys.sim.netfile import reader
from ibkeys.sim.netfile.model import NetFile
from ibkeys.sim.netfile.reader import parse_net_file, parse_net_text
from ibkeys.umad.sim_spec import DEMO
from tests.corpus import files, label

FABRICS = files("fabrics/*.net")
PAIR = """\
vendid=0x2c9
devid=0x1017
sysimgguid=0x2c903000a1012
caguid=0x2c903000a1010
Ca\t1 "H-1"\t\t# "node01 mlx5_0"
[1](2c903000a1011) \t"S-1"[3]\t\t# lid 7 lmc 2 "MF0;sw:MSB7700/U1" lid 9 4xEDR

switchguid=0x2c90200401000(2c90200401000)
Switch\t4 "S-1"\t\t# "MF0;sw:MSB7700/U1" enhanced port 0 lid 9 lmc 0
[3]\t"H-1"[1](2c903000a1011) \t\t# "node01 mlx5_0" lid 7 4xEDR
"""


def counts(file: NetFile) -> tuple[int, ...]:
    types = [node.node_type for node in file.nodes]
    ends = [file.nodes[index].node_type for link in file.links for index, _ in link]
    kinds = (NodeType.CA, NodeType.SWITCH, NodeType.ROUTER)
    return (*(types.count(kind) for kind in kinds), len(ends) - ends.count(NodeType.SWITCH), len(file.links))


def counts_in_readme(path: Path) -> tuple[int, ...]:
    readme = (path.parent / "README.md").read_text()
    row = re.search(rf"^\| `{re.escape(path.name)}` \|((?: *\d+ \|){{5}})", readme, re.M)
    assert row, f"README.md beside it says nothing of {path.name}"
    return tuple(int(number) for number in re.findall(r"\d+", row[1]))


@pytest.mark.parametrize("path", FABRICS, ids=label)
def test_fabric_has_the_nodes_and_links_that_ibnetdiscover_counted(path: Path) -> None:
    assert counts(parse_net_file(path)) == counts_in_readme(path)


def test_the_demo_fabric_is_a_small_cluster() -> None:
    assert counts(parse_net_file(DEMO)) == (40, 6, 0, 44, 60)


def test_a_record_says_all_that_is_written_in_it() -> None:
    file = parse_net_text(PAIR)
    host, switch = file.nodes
    assert (host.node_type, host.num_ports, host.node_id, host.description) == (NodeType.CA, 1, "H-1", b"node01 mlx5_0")
    assert (host.guid, host.system_image_guid) == (0x2C903000A1010, 0x2C903000A1012)
    assert (host.vendor_id, host.device_id) == (0x2C9, 0x1017)
    port = host.ports[1]
    assert (port.guid, port.lid, port.lmc, port.width, port.speed) == (0x2C903000A1011, 7, 2, 4, "EDR")
    assert (switch.guid, switch.lid, switch.enhanced_port0) == (0x2C90200401000, 9, True)
    assert (switch.vendor_id, switch.device_id) == (0, 0x1017)  # vendid= is for one node, devid= for all that follow
    assert switch.system_image_guid == switch.guid
    assert file.links == [((0, 1), (1, 3))]


def test_guids_that_the_file_does_not_give_count_up_as_in_ibsim() -> None:
    text = 'Switch 8 "s1"\nSwitch 8 "s2"\nHca 2 "h1"\nCa 1 "h2"\ncaguid=0x5\nCa 1 "h3"\ncaguid=+0x10\nCa 1 "h4"\n'
    assert [node.guid for node in parse_net_text(text).nodes] == [0x200000, 0x200001, 0x100000, 0x100003, 5, 0x15]


@pytest.mark.parametrize(
    ("header", "description", "lid"),
    [
        ('Switch 4 "S" # "4036 # 4036-8C5C" base port 0 lid 9 lmc 0', b"4036 # 4036-8C5C", 9),
        ('Switch 4 "S" # spine one enhanced port 0 lid 3', b"spine one", 3),
        ('Switch 4 "S" # spine lid 4', b"spine", 4),
        ('Switch 4 "S"', b"S", 0),
        ('Switch 4 "S" # "a lid 5" lid 6', b"a lid 5", 6),
        ('Switch 4 "S" # "' + "x" * 70 + '"', b"x" * 64, 0),
    ],
)
def test_node_description(header: str, description: bytes, lid: int) -> None:
    node = parse_net_text(header).nodes[0]
    assert (node.description, node.lid) == (description, lid)


def test_what_is_no_part_of_the_grammar_is_skipped() -> None:
    noise = "query_smp.c:195; umad (0,1 Attr 0x11:0) bad status 110\n#\n# Topology file\n\nNon-Chassis Nodes\n\x00\n"
    assert parse_net_text(noise + PAIR).links == parse_net_text(PAIR).links


def test_console_commands_are_not_run() -> None:
    assert parse_net_text(PAIR + 'do Unlink "S-1"[3]\n').links == parse_net_text(PAIR).links


def test_modules_aliases_and_includes(tmp_path: Path) -> None:
    (tmp_path / "rack.net").write_text('Switch 4 "sw"\n@[1] "up"\n[2] "host"\n\nCa 1 "host"\n[1] "sw"[2]\n')
    main = tmp_path / "main.net"
    main.write_text(
        'module = "one"\ninclude "rack.net"\nmodule = "two"\ninclude "rack.net"\n'
        'module = ""\nSwitch 4 "top"\n[1] "one@up"\n[2] "two@up"\n'.replace('module = ""\n', 'module = "core"\n')
    )
    file = parse_net_file(main)
    assert [node.node_id for node in file.nodes] == ["one#sw", "one#host", "two#sw", "two#host", "core#top"]
    assert sorted(file.links) == [((0, 1), (4, 1)), ((0, 2), (1, 1)), ((2, 1), (4, 2)), ((2, 2), (3, 1))]


def test_options_set_what_a_port_enables() -> None:
    file = parse_net_text(
        'speed=3\nSwitch 2 "a"\n[1] "b"[1] w=1 s=7 e=2\n[2] "b"[2]\n\nSwitch 2 "b"\n[1] "a"[1]\n[2] "a"[2]\n'
    )
    assert file.nodes[0].ports[1].enabled == {"w": 1, "s": 7, "e": 2}
    assert file.nodes[0].ports[2].enabled == {"s": 3}


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ('Ca 1 "a\n', 1, 6, "not closed"),
        ("Ca 1 a\n", 1, 6, "double quotes"),
        ('Ca 0 "a"\n', 1, 4, "at least one port"),
        ('Ca 300 "a"\n', 1, 4, "more than 254"),
        ('Switch "S-1"\n', 1, 8, "number of ports"),
        ('Ca 1 "a#b"\n', 1, 6, "reserved"),
        ('Ca 1 "a"\n\nCa 1 "a"\n', 3, 6, "line 1"),
        ('caguid=1\nCa 1 "a"\n\ncaguid=1\nCa 1 "b"\n', 5, 1, "GUID"),
        ('Ca 1 "a"\n[2] "b"\n', 2, 1, "port 2"),
        ('Ca 1 "a"\n[x] "b"\n', 2, 1, "[1]"),
        ('Ca 1 "a"\n[1] "b"\n', 2, 1, '"b"'),
        ('Ca 1 "a"\n[1] "b"[7]\n\nCa 1 "b"\n[1] "a"\n', 2, 1, "no port 7"),
        ('Ca 1 "a"\n[1] "b"\n\nCa 1 "b"\n', 2, 1, "both of its ends"),
        ('Ca 1 "a"\n[1] "b"\n\nCa 2 "b"\n[2] "a"\n', 2, 1, "both of its ends"),
        ('Switch 3 "a"\n[1] "b"[1]\n[2] "b"[2]\n\nSwitch 2 "b"\n[1] "a"[2]\n[2] "a"[1]\n', 2, 1, "which names"),
        ('Switch 3 "a"\n[1] "b"\n[1] "b"\n', 3, 1, "line 2"),
        ('[1] "b"\n', 1, 1, "without a node"),
        ("vendid=zzz\n", 1, 8, "not a number"),
        ('caguid=0x2c9030.0a1060\nCa 1 "a"\n', 1, 8, "not a number"),
        ("devid=0xg1\n", 1, 7, "not a number"),
        ("vendid 3\n", 1, 7, "'='"),
        ("devid=0x10000\n", 1, 7, "more than"),
        ("caguid=0x10000000000000000\n", 1, 8, "more than"),
        ('Ca 1 "a"\n[1] "b"[1] q=3\n', 2, 12, "option"),
        ('Ca 1 "a"\n[1] "b"[1] w=99\n', 2, 14, "more than 31"),
        ('Ca 1 "a"\n[1] "b"[1] # lid 60000 lmc 0 "x" lid 1 4xQDR\n', 2, 14, "LID"),
        ('Ca 1 "a"\n[1] "b"[1] # lid 6 lmc 8 "x" lid 1 4xQDR\n', 2, 20, "LMC"),
        ('Ca 1 "a"\n[1] "@nowhere"\n', 2, 1, "not defined"),
        ('include "x.net"\n', 1, 8, "file"),
        ("module one\n", 1, 8, "'='"),
        ("nothing here\n", 0, 0, "no node"),
    ],
)
def test_a_mistake_is_reported_with_line_and_column(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        parse_net_text(text, "x.net")
    assert (caught.value.path, caught.value.line, caught.value.column) == ("x.net", line, column)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_and_one_that_includes_itself(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"none\.net: cannot be read: No such file"):
        parse_net_file(tmp_path / "none.net")
    loop = tmp_path / "loop.net"
    loop.write_text('include "loop.net"\n')
    with pytest.raises(FileFormatError, match="nested more than"):
        parse_net_file(loop)


@given(st.text())
def test_any_text_parses_or_raises_the_one_error(text: str) -> None:
    for prefix in ("", 'Switch 4 "a" ', 'Ca 2 "a"\n[1] "a"[2]', "caguid=", 'include "'):
        with suppress(FileFormatError):
            parse_net_text(prefix + text)


def test_files_that_include_others_many_times_come_to_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine files of a thousand lines would be read 10^27 times."""
    for depth in range(9):
        (tmp_path / f"{depth}.net").write_text(f'include "{depth + 1}.net"\n' * 1000)
    (tmp_path / "9.net").write_text("# the end\n")
    read = 0
    whole = reader.files.read_bytes

    def counted(path: Path, limit: int) -> bytes:
        nonlocal read
        read += 1
        return whole(path, limit)

    monkeypatch.setattr(reader.files, "read_bytes", counted)
    with pytest.raises(FileFormatError, match="the files that it includes"):
        parse_net_file(tmp_path / "0.net")
    assert read <= 1001

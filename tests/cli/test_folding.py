"""Equal things together: what a folded table says is exactly what the rows say, and it fits a screen."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.cli.listing.folding import NARROW, fold_rows, indented
from ibkeys.printable import clean
from ibkeys.topology.folded_names import FoldedNames, natural
from tests.cli.conftest import TWO_SWITCH, Cli, on_terminal, run
from tests.cli.unfolding import Row, unfolded, words_below, words_of
from tests.corpus import DATA

HOSTS = st.one_of(
    st.builds("{}{:0{}d}".format, st.sampled_from(["gpu-a", "n", "r1c", ""]), st.integers(0, 30), st.integers(1, 3)),
    st.sampled_from(["MF0;sw1:IS5023/U1", "a[1-3]", "b,c", "@group", "x!y", "-", "&", "(0x0000000000000001)"]),
    st.text(max_size=8),
)
NAMES = st.one_of(
    st.none(),
    st.builds(
        lambda host, device: f"{host} {device}".rstrip(),
        HOSTS,
        st.sampled_from(["", "mlx5_0", "HCA-1", "a b", "port 3", "²"]),
    ),
)


@st.composite
def sheets(draw: st.DrawFn) -> list[Row]:
    rows = []
    for guid in range(draw(st.integers(0, 12))):
        name, kind = draw(NAMES), draw(st.sampled_from(["ca", "switch"]))
        for port in draw(st.sets(st.integers(0 if kind == "switch" else 1, 40), min_size=1, max_size=6)):
            said = draw(st.integers(0, 2))
            rows.append(
                {"node_desc": name, "node_guid": f"0x{guid:016x}", "node_type": kind, "port": port, "said": said}
            )
    return rows


@given(rows=sheets())
def test_what_is_folded_unfolds_to_each_port_once_and_nothing_that_differs_is_together(rows: list[Row]) -> None:
    names = FoldedNames(rows)
    groups = fold_rows(rows, lambda row: row["said"])
    for group in groups:
        assert len({row["said"] for row in group}) == 1
        wanted = Counter((row["node_guid"], row["port"]) for row in group)
        assert Counter(unfolded(names.words(group), rows)) == wanted
        assert Counter(unfolded(words_of(indented(names, group)), rows)) == wanted
    assert sum(map(len, groups)) == len(rows)
    assert len({group[0]["said"] for group in groups}) == len(groups)


@given(rows=sheets())
def test_no_name_spoils_a_line(rows: list[Row]) -> None:
    assert all(line == clean(line) for line in indented(FoldedNames(rows), rows))


def test_people_count_2_before_10() -> None:
    assert sorted(["n10", "n2", "m", "n02x"], key=natural) == ["m", "n02x", "n2", "n10"]


def rows_of(command: str, backend: str) -> list[Row]:
    ports: list[Row] = run(command, "--all", "--backend", backend, "-f", "json").json["ports"]
    return ports


LISTS = {
    "mkey-show": lambda row: row["node_type"] != "switch" or row["port"] == 0,
    "caps-show": lambda row: row["node_type"] != "switch" or row["port"] == 0,
    "enforce-show": lambda row: row["node_type"] == "switch" and row["port"] != 0,
    "pkey-show": lambda row: True,
    "counters-show": lambda row: True,
}


@pytest.mark.parametrize("fabric", ["two-switch", "dual-home", "ft648", "torus444"])
@pytest.mark.parametrize("command", LISTS)
def test_each_port_of_the_json_is_in_the_folded_table_once(command: str, fabric: str) -> None:
    backend = f"sim:{DATA / 'fabrics' / f'{fabric}.net'}"
    rows = rows_of(command, backend)
    lines = run(command, "--all", "--fold", "--backend", backend).out.splitlines()
    words = [word for word in words_below(lines) if not re.fullmatch(r"[\d-][\w -]*", word)]  # a row's own cells
    wanted = Counter((row["node_guid"], row["port"]) for row in rows if LISTS[command](row))
    assert Counter(unfolded(words, rows)) == wanted
    assert max(map(len, lines)) <= NARROW
    assert len(lines) < 50


def test_ports_that_differ_are_apart(cli: Cli) -> None:
    cli("pkey-add", 2, "0x8010", "--yes")
    out = cli("pkey-show", "--all", "--fold").out
    assert "1 port, 2/64 P_Keys used (index:P_Key): 0:0xffff 1:0x8010\n    node02 mlx4_0\n" in out
    assert "    node[01,03-06] mlx4_0\n" in out


def test_a_terminal_gets_folded_rows_and_each_gives_every_row() -> None:
    def shown(*words: str) -> str:
        return on_terminal(*words, "--backend", TWO_SWITCH, columns=200).out

    piped = run("mkey-show", "--all", "--backend", TWO_SWITCH).out
    folded = run("mkey-show", "--all", "--fold", "--backend", TWO_SWITCH).out
    assert len(folded.splitlines()) < len(piped.splitlines())
    assert shown("mkey-show", "--all") == folded
    assert shown("mkey-show", "--all", "--each") == piped
    assert shown("mkey-show", "--all", "-f", "csv").count("\n") == 9
    assert shown("mkey-show", "--all", "--each", "-f", "csv").count("\n") == 25


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--each", "--fold"), "--each and --fold exclude each other"),
        (("--fold", "-f", "json"), "--fold is for tables only: -f json has one record for each port"),
        (("--fold", "-f", "csv"), "--fold is for tables only: -f csv has one record for each port"),
    ],
)
@pytest.mark.parametrize("command", LISTS)
def test_what_does_not_go_together_is_refused(cli: Cli, command: str, words: tuple[str, ...], said: str) -> None:
    result = cli(command, "--all", *words)
    assert (result.code, result.error) == (2, said)


def test_a_name_that_repeats_has_its_guid_beside_it() -> None:
    guids = [f"0x{number:016x}" for number in (1, 2, 3)]
    rows = [
        {"node_desc": name, "node_guid": guid, "node_type": "ca", "port": 1}
        for name, guid in zip(["twin mlx5_0", "twin mlx5_0", "n1 mlx5_0"], guids, strict=True)
    ]
    assert FoldedNames(rows).words(rows) == ["n1 mlx5_0", f"twin mlx5_0 ({guids[0]},{guids[1]})"]

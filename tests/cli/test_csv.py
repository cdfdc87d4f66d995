"""CSV: what a spreadsheet would run is quoted as data. The rule is OWASP's ("CSV Injection")."""

from __future__ import annotations

import csv
import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ibkeys.cli.render import write_csv
from tests.cli.conftest import run
from tests.corpus import DATA

FORMULAS = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "\uff1d1",
    "a;=1",
    'a";=1',
    "a\n@b",
]
STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def written(*values: object) -> list[str]:
    out = io.StringIO()
    columns = [str(at) for at in range(len(values))]
    with redirect_stdout(out):
        write_csv(columns, [dict(zip(columns, values, strict=True))])
    return list(csv.reader(io.StringIO(out.getvalue(), newline="")))[1]


def runs(cell: str) -> bool:
    """Whether a spreadsheet would run a cell, or what another separator makes of it."""
    return any(part.lstrip().startswith(STARTS) for part in re.split(r"[;\t\r\n]", cell) if part.strip() != "-")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_becomes_text(text: str) -> None:
    [cell] = written(text)
    assert runs(text)
    assert not runs(cell)
    assert cell.replace("'", "") == text.replace("'", "")


def test_numbers_and_harmless_text_stay() -> None:
    assert written(-5, 0.25, True, None, "-", "a-b=c", "0x8001", "it's") == [
        "-5",
        "0.25",
        "1",
        "",
        "-",
        "a-b=c",
        "0x8001",
        "it's",
    ]


@given(st.text(st.sampled_from("=+-@;\t\r\n \"',ab1\uff1d")))
@example("-")
@example(";-")
def test_no_text_is_run(text: str) -> None:
    [cell] = written(text)
    assert not runs(cell)
    assert cell.replace("'", "") == text.replace("'", "")


@pytest.mark.parametrize(
    "command",
    [
        ("discover",),
        ("pkey-show", "--all"),
        ("mkey-show", "--all"),
        ("port-show", "--counters", "--all"),
        ("matrix",),
        ("matrix", "--pairs"),
        ("audit", "--fail-on", "never"),
        ("pkey-set", "-L", 2, "3=0x8010", "--yes"),
        ("decode", "--attribute", "NodeDescription", b"=1+1".ljust(64, b"\0").hex()),
    ],
    ids=lambda words: words[0],
)
def test_no_node_description_is_run(command: tuple[object, ...], tmp_path: Path) -> None:
    net = (DATA / "fabrics" / "two-switch.net").read_text()
    net = net.replace('"node02 mlx4_0"', '"=HYPERLINK(1)"').replace('"node03 mlx4_0"', '"@node03;=1+1"')
    (tmp_path / "hostile.net").write_text(net)
    backend = () if command[0] == "decode" else ("--backend", f"sim:{tmp_path / 'hostile.net'}")
    out = run(*command, *backend, "-f", "csv").out
    assert "\r" not in out
    assert "=HYPERLINK(1)" in out or "=1+1" in out
    assert [cell for row in csv.reader(io.StringIO(out)) for cell in row if runs(cell)] == []

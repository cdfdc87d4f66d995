"""help WORD: what is no command is searched in all help texts, man pages and symptoms."""

from __future__ import annotations

import re

import click
import pytest

from ibkeys.cli import COMMANDS, main
from ibkeys.cli.help import search as search_module
from ibkeys.cli.help.search import search
from tests.cli.conftest import run
from tests.corpus import DATA

MAN = DATA.parent.parent / "man"


def found(*words: str) -> dict[str, str]:
    return {hit.name: hit.where for hit in search(words, click.Context(main))}


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("NO-CARRIER", "ipoib-no-carrier"),
        ("timed out", "timed-out"),
        ("status 110", "mad-rpc"),
        ("query failed", "query-failed"),
        ("client_register", "umad-register"),
        ("retry exceeded", "retry-exceeded"),
        ("ERR 1B11", "opensm-1B11"),
        ("ERR 3113", "opensm-3113"),
        ("mis-set", "opensm-3120"),
        ("VF GUID", "vf-guid-not-valid"),
        ("Kubernetes", "ib-kubernetes-p-key"),
        ("SHARP", "sharp"),
        ("NVLink", "nvlink"),
        ("pkey_index", "perftest-p-key"),
        ("lease", "mkey-set"),
        ("guid2mkey", "ibkeys-opensm(7)"),
        ("host without root", "host-show"),
    ],
)
def test_a_word_of_a_user_leads_somewhere(word: str, name: str) -> None:
    assert name in found(word)


def test_spelling_does_not_matter() -> None:
    assert found("p_key") == found("PKEY") == found("P-Key") != {}


def test_the_names_come_first() -> None:
    result = run("help", "PKEY")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[:2] == ["Commands (ibkeys help COMMAND):", "  pkey-show: Show P_Key tables."]
    assert max(len(line) for line in result.out.splitlines()) < 120
    assert "Messages (ibkeys explain" in result.out
    assert "Man pages:" in result.out


def test_the_commands_that_have_the_word_in_their_name_come_first() -> None:
    commands = [name for name, where in found("partition").items() if where == "command"]
    named = [name for name in COMMANDS if "partition" in name]
    assert commands[: len(named)] == named
    assert "partition-spread" in run("help", "partition").out


@pytest.mark.parametrize("word", ["tenant", "isolated", "isolation", "prove"])
def test_who_has_to_prove_isolation_finds_the_rule(word: str) -> None:
    assert "PK005" in run("help", word).out


def test_rules_are_listed_by_their_titles() -> None:
    assert "Audit rules (ibkeys audit --explain RULE):\n  PK014: tenant in the default" in run("help", "tenant").out
    assert found("PK005")["PK005"] == "rule"


def test_a_word_that_is_nowhere_is_refused() -> None:
    result = run("help", "xyzzy")
    assert (result.code, result.out) == (2, "")
    assert result.error.startswith("No such command 'xyzzy'")


def test_what_is_no_command_says_that_help_finds_it() -> None:
    result = run("NO-CARRIER")
    assert (result.code, result.out) == (2, "")
    assert re.fullmatch(
        r"No such command 'NO-CARRIER'; it is in [0-9]+ help texts?: ibkeys help NO-CARRIER \(see ibkeys help -a\)",
        result.error,
    )


def test_without_man_pages_the_rest_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module.Path, "glob", lambda *_: iter(()))
    assert {*found("lease").values()} == {"command", "symptom", "rule"}


@pytest.mark.parametrize("word", ["infiniband", "P_Key", "M_Key", "partition"])
def test_apropos_finds_the_pages(word: str) -> None:
    """`apropos` looks at the line below NAME."""
    lines = {file.stem: file.read_text().split("\n.SH NAME\n")[1].split("\n")[0] for file in MAN.glob("ibkeys*.[157]")}
    named = {name for name, line in lines.items() if word.lower() in line.lower()}
    about = {"infiniband": "show", "P_Key": "pkey", "M_Key": "mkey", "partition": "partition"}[word]
    assert {f"ibkeys-{name}" for name in COMMANDS if about in name and name != "qkey-explain"} <= named
    assert len(named) >= 12


def test_no_line_below_name_is_too_long_for_a_list() -> None:
    for file in MAN.glob("ibkeys*.[157]"):
        line = file.read_text().split("\n.SH NAME\n")[1].split("\n")[0].replace("\\-", "-")
        assert line.startswith(f"{file.stem} - ")
        assert len(line) < 160

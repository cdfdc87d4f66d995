"""An error is one line with a hint; with -v what explains it stands below."""

from __future__ import annotations

import pytest

from ibkeys import errors
from ibkeys.cli import exits
from tests.cli.conftest import TWO_SWITCH, Cli, run

LINE = "ibkeys: error: sim0 port 1: no room"
MORE = "  Why it is so: (not shown).\n  What else.\n"
TYPED = "0x1122334455667788"


@pytest.fixture
def failing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    def fail(*_: object, **__: object) -> None:
        raise errors.Refused("sim0 port 1: no room", "index-0", "-a\n+b").explained(
            f"Why it is so: {TYPED}.", "What else."
        )

    monkeypatch.setattr("ibkeys.opening.fabric_at", fail)
    return cli


def test_the_short_form_ends_with_a_hint(failing: Cli) -> None:
    result = failing("pkey-show")
    assert (result.code, result.out) == (4, "")
    assert result.err == f"{LINE}; -v says more\n  -a\n  +b\n"


@pytest.mark.parametrize("words", [("-v",), ("-vv",), ("--verbose",)])
def test_with_v_the_rest_stands_below_without_keys(failing: Cli, words: tuple[str, ...]) -> None:
    result = failing("pkey-show", *words, "--journal", TYPED)
    assert result.err == f"{LINE}\n{MORE}  -a\n  +b\n"


def test_the_variable_of_v_counts_too(failing: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_VERBOSE", "1")
    assert "  What else.\n" in failing("pkey-show").err


def test_v_of_one_run_says_nothing_of_the_next(failing: Cli) -> None:
    assert "What else" in failing("pkey-show", "-v").err
    assert "What else" not in failing("pkey-show").err


def test_a_command_without_v_keeps_nothing_back(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        raise errors.NoRoom("full").explained("Why it is so.")

    exits.explain(False)
    assert exits.run(command) == 3
    assert capsys.readouterr().err == "ibkeys: error: full\n  Why it is so.\n"


def test_without_more_there_is_no_hint() -> None:
    assert "-v says more" not in run("pkey-show", "--backend", TWO_SWITCH, 0).err


def test_silence_is_explained() -> None:
    silent = ("pkey-show", "--backend", TWO_SWITCH, "-t", 10, "--retries", 0, 99)
    assert run(*silent).error.endswith("(no such node, a dead link, or a wrong M_Key); -v says more")
    assert "\n  A port that refuses an M_Key does not answer" in run(*silent, "-v").err


def test_what_would_refuse_a_dry_run_is_explained_too() -> None:
    words = ("mkey-deploy", "--backend", f"{TWO_SWITCH},links=initialize", "--same", "--protect", 2, "--lease", 60)
    said = "bring the subnet up first, or begin with --protect 1 (--override links-initialize)"
    assert f"{said}; -v says more\n" in run(*words, "--dry-run").err
    assert f"{said}\n  Later commands cannot prove" in run(*words, "--dry-run", "-v").err

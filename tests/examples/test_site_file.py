"""Every command that README, docs and man pages show works with a site file: what is typed every day stands there.

The commands are for a real stack, which is not there: they are parsed, and those with several methods end where they
would open the fabric, after the check of the options that the method lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import pytest

import ibkeys.cli.partitions.apply as apply_command
from ibkeys.cli import main
from ibkeys.cli.mkeys.run_request import RunRequest
from ibkeys.cli.partitions.apply import ApplyRequest
from ibkeys.errors import UsageError
from tests.cli.conftest import KEY, key_argument
from tests.examples.pages import MAN_PAGES, PAGES, ROOT, Shown, commands, named

METHODS: Final = ("opensm", "direct")
"""``via`` of the site file: of a site with OpenSM, and of one without a subnet manager."""
SEVERAL_METHODS: Final = frozenset({"apply", "mkey-deploy", "mkey-rotate", "mkey-remove"})
IN_THE_FILE: Final = ("via", "sm_host", "sudo", "ssh_config", "smkey", "node_name_map")
"""Options that no page types with a change, by what click calls them."""
TYPED: Final = {
    "ibkeys apply PLAN --via ufm:URL",
    "ibkeys apply change.json --via ufm:https://ufm.example",
    "ibkeys apply change.json --yes --via opensm --sm-host root@sm1 --sm-host root@sm2",
    "ibkeys mkey-deploy --protect 2 --lease 60 --via opensm --dry-run",
    "ibkeys mkey-deploy --protect 2 --lease 60 --via opensm --yes",
    "ibkeys mkey-rotate --via opensm --yes",
    "ibkeys apply change.json --via opensm --yes",
    "ibkeys partition-spread --sm-host sm2 --dry-run",
    "ibkeys partition-spread --sm-host sm2",
}
"""Where the method or the other host is the subject: UFM is never chosen, and a script without a site file has to name
all of it. On the simulated host of the tutorial no site file is read."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command means with a site file. ``method``: its own or that of the file; None for a command that has one
    method only. ``typed``: which options of `IN_THE_FILE` stand on the command line."""

    method: str | None
    typed: frozenset[str]


Outcomes = Callable[[Shown], list[Outcome]]


@pytest.fixture
def outcomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outcomes:
    """Return what a command means, with each of the site files in which it is no usage error."""
    monkeypatch.chdir(tmp_path)
    for variable in ("IBKEYS_BACKEND", "IBKEYS_SITE"):
        monkeypatch.delenv(variable, raising=False)
    for key in ("key", "new.key", "sa_key"):
        key_argument(tmp_path / key, KEY)
    files = [_site_file(tmp_path / f"{method}.toml", method) for method in METHODS]
    methods: list[str | None] = []
    monkeypatch.setattr(apply_command, "carry_out", lambda request, within: methods.append(_method_of(request)) or 0)
    monkeypatch.setattr(RunRequest, "carry_out", lambda run, plan: methods.append(_method_of_run(run)) or 0)

    def understood(shown: Shown) -> list[Outcome]:
        found = []
        for file in files:
            monkeypatch.setattr("ibkeys.cli.site.file.DEFAULT_SITE", file)
            methods.clear()
            try:
                context = _context(shown)
                if context is None:
                    return [Outcome(None, frozenset())]
                with context.scope():
                    if context.info_name in SEVERAL_METHODS:
                        context.command.invoke(context)
                sources = {name: context.get_parameter_source(name) for name in IN_THE_FILE}
            except (click.UsageError, UsageError):
                continue
            typed = {name for name, source in sources.items() if source is click.core.ParameterSource.COMMANDLINE}
            found.append(Outcome(methods[0] if methods else None, frozenset(typed)))
        return found

    return understood


def _site_file(path: Path, method: str) -> Path:
    path.touch(0o600)
    path.write_text(
        f"""\
subnet = ["0x0002c903000a1011"]
via = "{method}"
sm_host = ["root@sm1", "root@sm2"]
sudo = true
smkey = "@{path.parent}/sa_key"
policy = "{path.parent}/partitions.conf"
node_name_map = "{path.parent}/names"
"""
    )
    return path


def _context(shown: Shown) -> click.Context | None:
    """Return the context of a command, parsed; None for one that a sentence names without what it needs."""
    command, rest = named(shown)
    parent = click.Context(main, **main.context_settings)
    try:
        context = command.make_context(shown.words[0], list(rest), parent)
        return context if shown.is_whole or rest else None
    except (click.MissingParameter, click.BadOptionUsage):
        if shown.is_whole:
            raise
    except click.exceptions.Exit:  # --help
        pass
    return None


def _method_of(request: ApplyRequest) -> str | None:
    """Return the method of an apply. Raises UsageError for an option that it lacks."""
    method = request.through.via
    if request.permissions.first is not None and method != "direct":
        raise UsageError("--first counts leaf switches")
    if request.rewrite and method != "opensm":
        raise UsageError("--rewrite is for a change through OpenSM")
    return method


def _method_of_run(run: RunRequest) -> str | None:
    return run.method and run.method.name


def _is_change(shown: Shown) -> bool:
    return any(option.name == "yes" for option in named(shown)[0].params)


def _is_simulated(shown: Shown) -> bool:
    return any(word.startswith("sim:") for word in shown.words)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES, *MAN_PAGES], ids=lambda page: page.name)
def test_each_command_of_a_page_works_with_a_site_file(page: Path, outcomes: Outcomes) -> None:
    """The method of a change stands in the file, and so does all else that is no decision about one command."""
    for shown in commands(page):
        if shown.words[0].startswith("-"):
            continue
        found = outcomes(shown)
        assert found, f"{shown}: a usage error with each site file"
        if shown.is_whole and shown.words[0] in SEVERAL_METHODS and not _is_simulated(shown):
            assert all(each.method not in (None, "auto") for each in found), f"{shown}: no method is fixed"
        if _is_change(shown) and str(shown) not in TYPED:
            typed = frozenset().union(*(each.typed for each in found))
            assert not typed, f"{shown}: {', '.join(sorted(typed))} stands in the site file"


def test_the_pages_show_changes_by_each_method(outcomes: Outcomes) -> None:
    shown = [each for page in (ROOT / "README.md", *PAGES, *MAN_PAGES) for each in commands(page)]
    assert {str(each) for each in shown} >= TYPED
    whole = [each for each in shown if each.is_whole and each.words[0] in SEVERAL_METHODS]
    assert {each.words[0] for each in whole} == SEVERAL_METHODS
    assert {outcome.method for each in whole for outcome in outcomes(each)} >= set(METHODS)


@pytest.mark.parametrize(
    "line",
    [
        "mkey-rotate --first 3 --confirm-within 300",  # each option is for another method
        "mkey-deploy --per-port --via opensm",
        "mkey-deploy --via direct --protect 2",  # one key or several?
        "apply change.json --first 2 --via opensm",
        "mkey-set 14 --protect 1 --no-such-option",
        "pkey-set",
    ],
)
def test_a_command_that_no_site_file_completes_is_found(line: str, outcomes: Outcomes) -> None:
    assert outcomes(Shown(tuple(line.split()), is_whole=True)) == []


def test_what_is_typed_instead_of_the_file_is_found(outcomes: Outcomes) -> None:
    (typed,) = outcomes(Shown(("mkey-rotate", "--via", "opensm", "--sm-host", "sm2", "--sudo"), is_whole=True))[:1]
    assert typed == Outcome("opensm", frozenset({"via", "sm_host", "sudo"}))
    (choosing,) = outcomes(Shown(("mkey-rotate", "--via", "auto"), is_whole=True))[:1]
    assert choosing.method is None

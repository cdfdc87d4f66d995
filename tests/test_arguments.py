"""What a message tells a script to give is an argument that there is, and what it tells others an option.

The library names an option only by `given`, or within a whole command in backquotes, which is the same for both.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

import ibkeys
from ibkeys.arguments import ARGUMENTS, given
from ibkeys.automation.operations import Operation
from ibkeys.printable import Rest, set_rest
from tests.cli.sites import commands
from tests.texts import ROOT, fixed_text

_OPTION: Final = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_COMMAND: Final = re.compile(r"`([^`\s-][^`]*)`")
_VALUE: Final = r"(X|opensm|[^a-z\s]\S*)"
_OPTIONS: Final = rf"( --[a-z-]+( {_VALUE})?)+"
_NO_PROSE: Final = re.compile(
    rf"--[a-z][\w-]*(=\S*| {_VALUE}| or --[a-z-]+)?|X?{_OPTIONS}|(ibkeys )?[a-z-]+( list| restore X| X)?{_OPTIONS}"
)
"""The whole of a text that is a word for a child process, a part that a command gets, or a command."""
_OF_OTHERS: Final = {
    Path("audit/pictures"): "variables of CSS",
    Path("plan/by_hand/ufm.py"): "a shell script for curl",
    Path("symptoms"): "the table of `ibkeys explain`, for people; tests/symptoms holds its commands",
    Path("sim/steering"): "words of `ibkeys sim ctl`",
}
"""Files whose texts have words like options that are none → what they are."""


def texts() -> Iterator[tuple[str, str]]:
    """Yield the place and the contents of each text of the library, but docstrings and what `given` is given."""
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT)
        if room.parts[0] in ("cli", "arguments.py") or any(room.is_relative_to(each) for each in _OF_OTHERS):
            continue
        left_out: set[ast.AST] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Expr):
                left_out.add(node.value)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "given":
                left_out.update(ast.walk(node))
            elif isinstance(node, ast.JoinedStr):
                left_out.update(node.values)
            if isinstance(node, ast.JoinedStr | ast.Constant) and node not in left_out:
                yield f"{room}:{node.lineno}", fixed_text(node)


def arguments() -> Iterator[str]:
    """Yield the names of what scripts can give to a change."""
    for function in (
        ibkeys.audit.run,
        ibkeys.Fabric.plan,
        ibkeys.Fabric.apply,
        ibkeys.Fabric.remove_m_keys,
        ibkeys.Fabric.sa,
        ibkeys.Partitions.add,
        Operation.undo,
    ):
        yield from inspect.signature(function).parameters
    yield from ibkeys.NewKeys.__annotations__
    values: tuple[Any, ...] = (ibkeys.ThroughOpenSM, ibkeys.ThroughUFM, ibkeys.Consent)
    values += (ibkeys.Local, ibkeys.Keys, ibkeys.Stores, ibkeys.audit.AuditInput)
    yield from (field.name for value in values for field in fields(value))


@pytest.mark.parametrize(("option", "argument"), ARGUMENTS.items())
def test_both_exist(option: str, argument: str) -> None:
    names = {
        name for _, command in commands() for param in command.params for name in (*param.opts, *param.secondary_opts)
    }
    assert {word for word in shlex.split(option) if word.startswith("--")} <= names
    assert {*re.findall(r"(\w+)=", argument)} <= {*arguments()}


def test_no_text_of_the_library_names_an_option_outside_a_command() -> None:
    named = [
        (where, text)
        for where, text in texts()
        if _OPTION.search(_COMMAND.sub("X", text)) and not _NO_PROSE.fullmatch(text)
    ]
    assert named == []


def test_a_command_in_a_text_of_the_library_has_these_options() -> None:
    known: dict[str, set[str]] = {}
    for name, command in commands():  # `import` is a command, and one of the group `keystore`
        known.setdefault(name, set()).update(option for param in command.params for option in param.opts)
    found = [each for _, text in texts() for each in _COMMAND.findall(text) if each.startswith("ibkeys ")]
    assert len(found) > 100
    wrong = {
        each
        for each in found
        if (options := _OPTION.findall(each))
        and not any(set(options) <= known[word] for word in each.split()[1:3] if word in known)
    }
    assert wrong == set()


def test_a_script_and_a_user_of_the_command_line_are_told_their_own() -> None:
    assert (given("--first"), given("--sm-host sm2", "it to hosts=")) == ("first=", "it to hosts=")
    set_rest(Rest.HINTED)
    assert (given("--first"), given("--sm-host sm2", "it to hosts=")) == ("--first", "--sm-host sm2")

"""What a message tells a script to give is an argument that there is, and what it tells others an option."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

import ibkeys
from ibkeys.arguments import ARGUMENTS, given
from ibkeys.automation.operations import Operation
from ibkeys.printable import Rest, tell_rest
from tests.cli.sites import commands


def arguments() -> Iterator[str]:
    """Yield the names of what scripts can give to a change."""
    for function in (
        ibkeys.Fabric.plan,
        ibkeys.Fabric.apply,
        ibkeys.Fabric.remove_m_keys,
        ibkeys.Fabric.sa,
        Operation.undo,
    ):
        yield from inspect.signature(function).parameters
    yield from ibkeys.NewKeys.__annotations__
    values: tuple[Any, ...] = (ibkeys.ThroughOpenSM, ibkeys.ThroughUFM, ibkeys.Consent, ibkeys.Keys, ibkeys.Stores)
    yield from (field.name for value in values for field in fields(value))


@pytest.mark.parametrize(("option", "argument"), ARGUMENTS.items())
def test_both_exist(option: str, argument: str) -> None:
    names = {name for _, command in commands() for param in command.params for name in param.opts}
    assert {word for word in shlex.split(option) if word.startswith("--")} <= names
    assert {*re.findall(r"(\w+)=", argument)} <= {*arguments()}


def test_a_script_and_somebody_who_types_are_told_their_own() -> None:
    assert (given("--first"), given("--sm-host sm2", "it to hosts=")) == ("first=", "it to hosts=")
    tell_rest(Rest.HINTED)
    assert (given("--first"), given("--sm-host sm2", "it to hosts=")) == ("--first", "--sm-host sm2")

"""Site files for tests, and commands that are parsed with one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from ibkeys.cli import COMMANDS, main
from tests.hostile import OWN_GUID

LOCAL_PORT = f"0x{OWN_GUID + 1:016x}"
FILES = ("ssh_config", "sm_config", "node_name_map", "ufm_cert", "ufm_key", "ufm_ca", "keystore", "journal", "policy")
SECRETS = ("smkey", "keystore_passphrase", "ufm_token")
HERE = Path(__file__)
Written = Callable[..., Path]


def toml(**values: Any) -> str:
    return "".join(f"{name} = {_written(value)}\n" for name, value in values.items())


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command, and those of a group, with its name."""
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from command.commands.items()


def parsed(name: str, *args: object) -> click.Context:
    """Return the context of a command as it is called with *args*."""
    command = dict(commands())[name]
    parent = click.Context(main, info_name="ibkeys", help_option_names=["-h", "--help"])
    return command.make_context(name, [str(arg) for arg in args], parent)

"""The command line that starts an OpenSM again as before, shown to the user."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from ibkeys.managers.instance import Instance


def command_to_start(instance: Instance, more: Sequence[str] = ()) -> str:
    """Return the command line that starts this OpenSM again, with *more* words. A key that was given there is left out,
    so the user has to add it."""
    process = instance.process
    where = [f"cd {shlex.quote(str(process.cwd))} &&"] if process.cwd is not None and str(process.cwd) != "/" else []
    variables = [f"{name}={shlex.quote(value)}" for name, value in (process.environment or {}).items()]
    return " ".join([*where, *variables, shlex.join(["opensm", *_words(instance), *more])])


def _words(instance: Instance) -> Iterator[str]:
    for given in instance.process.command.given:
        yield f"--{given.argument.name}" if len(given.argument.name) > 1 else f"-{given.argument.name}"
        if given.argument.takes_value:
            yield "KEY" if given.value is None else given.value

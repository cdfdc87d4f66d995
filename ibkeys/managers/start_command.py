"""The command line with which the user can start an OpenSM again as it was started before."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from ibkeys.managers.instance import Instance


def command_to_start(instance: Instance, more: Sequence[str] = ()) -> str:
    """Return the command line that starts this OpenSM again, with the arguments *more* added. In place of a key it has
    the word KEY, which the user has to replace. Words of the command line that ibkeys does not understand are left
    out."""
    process = instance.process
    where = [f"cd {shlex.quote(str(process.cwd))} &&"] if process.cwd is not None and str(process.cwd) != "/" else []
    variables = [f"{name}={shlex.quote(value)}" for name, value in (process.environment or {}).items()]
    return " ".join([*where, *variables, shlex.join(["opensm", *_argument_words(instance), *more])])


def _argument_words(instance: Instance) -> Iterator[str]:
    for given in instance.process.command.given:
        yield f"--{given.argument.name}" if len(given.argument.name) > 1 else f"-{given.argument.name}"
        if given.argument.takes_value:
            yield "KEY" if given.value is None else given.value

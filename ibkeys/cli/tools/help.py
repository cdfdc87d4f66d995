"""The command `help`: all commands, the help of one, or all texts about a word."""

from __future__ import annotations

from typing import Final

import click

from ibkeys.cli import GROUPS, exits, names_a_command, options
from ibkeys.cli.exits import write, write_exact
from ibkeys.cli.help.command import SHOWS_ALL, command, usage_of
from ibkeys.cli.help.search import Hit, search
from ibkeys.errors import UsageError

_USAGE_WIDTH: Final = 18
"""The longest usage, in columns, that has its summary on the same line. Most commands then fit a line of 80 columns."""

_MOST_HITS: Final = 8
_TITLES: Final = {
    "command": "Commands (ibkeys help COMMAND):",
    "symptom": "Messages (ibkeys explain 'MESSAGE', ibkeys-symptoms(7)):",
    "rule": "Audit rules (ibkeys audit --explain RULE):",
    "page": "Man pages:",
}


@command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND|WORD]...")
@options.flag("-a", "--all", "every", help="List all commands; of a COMMAND: all its options, the common ones too.")
@options.common
def help(words: tuple[str, ...], every: bool) -> int:
    """Show the help of a command, or of all that name a word.

        Without COMMAND, lists the commands to begin with; with -a, all commands and their arguments. COMMAND is a name
    such as pkey-show (pkey show is accepted too) or sim serve. Any other WORD is searched in the help of all commands,
    the audit rules, the man pages and the symptoms that ibkeys explain knows; several words are searched together.
    """
    context = click.get_current_context().find_root()
    if every and not words:
        write_exact(_all_commands(context))
        return exits.DONE
    context.meta[SHOWS_ALL] = every
    rest = list(words)
    if words and not names_a_command(words) and (hits := search(words, context)):
        _write_hits(hits)
        return exits.DONE
    while rest:
        if not isinstance(context.command, click.Group):
            raise UsageError(f"{context.command_path} has no command {rest[0]!r}")
        name, subcommand, rest = context.command.resolve_command(context, rest)
        assert subcommand is not None, "resolve_command raises for an unknown command"
        context = click.Context(subcommand, context, name)
    write_exact(context.get_help())
    return exits.DONE


def _write_hits(hits: list[Hit]) -> None:
    """Write the places where the words are, by kind, `_MOST_HITS` of each kind."""
    for where, title in _TITLES.items():
        of_kind = [hit for hit in hits if hit.where == where]
        if not of_kind:
            continue
        write(title)
        for hit in of_kind[:_MOST_HITS]:
            is_named = where == "page" or (where == "command" and hit.rank > 0)
            write(f"  {hit.name:24} {hit.text}" if is_named else f"  {hit.text}", 27)
        if len(of_kind) > _MOST_HITS:
            write(f"  and {len(of_kind) - _MOST_HITS} more")


def _all_commands(root: click.Context) -> str:
    formatter = root.make_formatter()
    assert isinstance(root.command, click.Group)
    for title, group in GROUPS.items():
        rows = []
        for name, entry in group.items():
            listed = root.command.get_command(root, name)
            assert listed is not None
            rows.append((usage_of(listed, click.Context(listed, root, name)), entry.summary))
        with formatter.section(title):
            formatter.write_dl(rows, col_max=_USAGE_WIDTH)
    return formatter.getvalue().strip()

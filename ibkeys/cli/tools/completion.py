"""The command `completion`: completion scripts for shells."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ibkeys.cli import COMPLETE_VARIABLE, PROG_NAME, exits, main, options
from ibkeys.cli.completing import shells
from ibkeys.cli.exits import write_exact
from ibkeys.cli.help.command import command


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@options.common
def completion(shell: str) -> int:
    """Print the completion script of a shell.

    \b
    bash: eval "$(ibkeys completion bash)" in ~/.bashrc
    zsh:  eval "$(ibkeys completion zsh)" in ~/.zshrc
    fish: ibkeys completion fish > ~/.config/fish/completions/ibkeys.fish
    """
    shells.register()
    script = get_completion_class(shell)
    assert script is not None, "click knows all three"
    write_exact(script(main, {}, PROG_NAME, COMPLETE_VARIABLE).source())
    return exits.DONE

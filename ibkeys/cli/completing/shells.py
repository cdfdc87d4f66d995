"""Completion in bash beyond click's own.

bash ends a word at each of ``: = @``, and inserts completions without quoting them.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Final

from click.shell_completion import BashComplete, add_completion_class, split_arg_string

if TYPE_CHECKING:
    from ibkeys.cli.completing.offers import Item

_SCRIPT: Final = """\
%(complete_func)s() {
    local response type value
    response=$(env COMP_WORDS="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1" 2>/dev/null)
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done <<< "$response"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """Completion for bash. zsh and fish quote the inserted words themselves."""

    source_template = _SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the word to complete, and that word, from the line up to the cursor."""
        *words, last = split_arg_string(os.environ["COMP_WORDS"] + ".")
        return words[1:], last.removesuffix(".")

    def format_completion(self, item: Item) -> str:
        """Return a line for the script. A blank gets a backslash, unless the user has opened a quote."""
        if item.type != "plain":
            return item.type
        value = item.value if _quote_is_open(os.environ["COMP_WORDS"]) else item.value.replace(" ", "\\ ")
        return f"plain,{value}"


def _quote_is_open(line: str) -> bool:
    words = shlex.shlex(line, posix=True)
    words.whitespace_split, words.commenters = True, ""
    try:
        list(words)
    except ValueError:  # the line ends within a quote, or after a backslash
        return getattr(words, "state", None) in tuple(words.quotes)
    return False


def register() -> None:
    """Make click use `Bash` for bash."""
    add_completion_class(Bash)

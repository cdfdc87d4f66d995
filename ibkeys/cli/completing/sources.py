"""Functions that offer the values of parameters, and two tables that choose the function for a parameter.

Each function takes click's context, with the words that were typed before, and the word to complete. It imports in its
own body, so that completing one parameter does not load the modules of another.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from ibkeys.cli.completing.offers import Item, offer, offer_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibkeys.cli.completing.offers import Item


_LARGEST_POLICY: Final = 1 << 18
"""Bytes: a larger policy takes longer to read than a shell should wait."""


def commands(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer the commands, in the order of their help."""
    root = ctx.find_root()
    return root.command.shell_complete(root, incomplete)


def files(ctx: click.Context, incomplete: str) -> list[Item]:
    """Let the shell offer files."""
    return [CompletionItem(incomplete, type="file")]


def directories(ctx: click.Context, incomplete: str) -> list[Item]:
    """Let the shell offer directories."""
    return [CompletionItem(incomplete, type="dir")]


def rules(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer the audit's rules with their titles. The word to complete may be a list with commas."""
    from ibkeys.audit.catalogue import CATALOGUE

    return offer_list({rule.id: rule.title for rule in CATALOGUE}, incomplete)


def groups(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer the groups of the audit's rules. The word to complete may be a list with commas."""
    from ibkeys.audit.findings import GROUPS

    return offer_list(GROUPS, incomplete)


def interlocks(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer the interlocks with the reasons of their refusals."""
    from ibkeys.change.consent import INTERLOCKS

    return offer(INTERLOCKS, incomplete)


def nodes(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer the nodes of the last sweep by their whole names."""
    return offer(_node_names(ctx), incomplete)


def simulated_nodes(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer the nodes of the last sweep of a simulated subnet."""
    from ibkeys.cli.completing.names import SIMULATED_NODES, load_names

    return offer(load_names(SIMULATED_NODES), incomplete)


def hosts(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer the nodes of the last sweep without their devices.

    A name without a device stands for all devices of the host.
    """
    from ibkeys.similar_names import split_description

    return offer({split_description(name)[0] for name in _node_names(ctx)}, incomplete)


def address(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer a node's name in place of ADDR, after -N."""
    return nodes(ctx, incomplete) if ctx.params.get("name") and not ctx.params.get("words") else []


def address_or_directory(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer a node's name as `address` does; else a directory."""
    return address(ctx, incomplete) or directories(ctx, incomplete)


def pair(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer values for one of the arguments A and B: nodes after -N, nothing without it.

    A command that has no option -N takes files.
    """
    if "name" not in ctx.params:
        return files(ctx, incomplete)
    return nodes(ctx, incomplete) if ctx.params["name"] else []


def operations(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer the operations of the journal; for `undo` only operations that are not undone yet."""
    from ibkeys.store.journal import Journal
    from ibkeys.umad.sim_spec import stores_of

    path = stores_of(ctx.params["backend"], journal=ctx.params["journal"]).journal
    if path is None or not path.exists():
        return []
    with Journal.read(path) as stored:
        records = stored.list_operations()
    return offer(
        {
            str(record.id): f"{record.command}, {record.started}, {record.state}"
            for record in records
            if ctx.command.name != "undo" or record.state != "undone"
        },
        incomplete,
    )


def partitions(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer the partitions of the policy file that the command line names."""
    from ibkeys.partitions.reader import read_policy

    path = Path(ctx.params.get("file") or ctx.params.get("policy_file") or "")
    if not path.is_file() or path.stat().st_size > _LARGEST_POLICY:
        return []
    return offer({each.name: f"{each.base:#06x}" for each in read_policy(path).partitions}, incomplete)


def steering(ctx: click.Context, incomplete: str) -> list[Item]:
    """Offer the next word of `sim ctl` by its grammar. Nodes are those of the simulator that ``--socket`` names."""
    from ibkeys.sim.steering.commands import GRAMMAR

    verb, *before = ctx.params.get("words") or ("",)
    usages = [(words, text) for words, text in _usages(GRAMMAR) if not verb or words[0] == verb]
    if not verb:
        return offer({words[0]: text for words, text in usages}, incomplete)
    offered: set[str] = set()
    for words, _text in usages:
        if len(before) + 1 < len(words):
            offered.update(_alternatives(words[len(before) + 1], ctx.params.get("name")))
    return offer(offered, incomplete)


def _usages(grammar: str) -> Iterator[tuple[list[str], str]]:
    """Yield the words of each command in *grammar*, and its description. Two blanks separate them on their line."""
    for line in grammar.split("\n\n")[0].splitlines():
        if not line.startswith(" "):
            usage, _, text = line.partition("  ")
            yield usage.split(), text.strip()


def _alternatives(word: str, socket: Any) -> list[str]:
    """Return the values that may stand for a word of the grammar. *socket*: the simulator's socket name.

    For NODE, A and B these are the names of its nodes; for ``up|down`` the alternatives in lower case.
    """
    from ibkeys.cli.completing.names import load_names_of_server

    if word in ("A", "B") or word.startswith("NODE"):
        return load_names_of_server(socket)
    return [each for each in word.strip("[]").split("|") if each == each.lower() and each.isalpha()]


def _node_names(ctx: click.Context) -> list[str]:
    from ibkeys.cli.completing.names import list_of_last_sweep, load_names

    return load_names(list_of_last_sweep(ctx.params.get("backend") or ""))


CompletionSource = Callable[[click.Context, str], "list[Item]"]

_BY_WORD: Final[dict[str, CompletionSource]] = {
    **dict.fromkeys(("FILE", "FILE...", "PATH", "PLAN", "SNAPSHOT", "A", "B"), files),
    "DIR": directories,
    "ID": rules,
    "GROUP": groups,
    **dict.fromkeys(("GLOB", "WHO", "WHO..."), hosts),
    "NODE": simulated_nodes,
    "ADDR": address,
    "WHAT": address_or_directory,
    "PARTITION": partitions,
    "COMMAND": commands,
    "COMMAND...": steering,
}
"""Functions by the first word of the metavar, such as ``FILE`` of ``FILE|opensm`` or ``ADDR`` of ``[ADDR] [PORTNUM]``.
"""
_BY_NAME: Final[dict[tuple[str, str | None], CompletionSource]] = {
    ("file", None): files,
    **dict.fromkeys((("a", None), ("b", None), ("a", "[A]"), ("b", "[B]")), pair),
    ("override", "NAME"): interlocks,
    ("operation", "[ID]"): operations,
    ("partition", None): partitions,
}
"""Functions by the name of a parameter and its metavar (None: an argument without one).

They come before the functions of `_BY_WORD`, because the metavar alone is ambiguous.
"""


def set_completion(param: click.Parameter) -> None:
    """Make *param* complete its values by the function that one of the tables has for it, if any."""
    word = re.split(r"[][ |]", (param.metavar or "").lstrip("["))[0]
    source = _BY_NAME.get((param.name or "", param.metavar)) or _BY_WORD.get(word)
    if source is not None:
        # click takes shell_complete only in a parameter's constructor, and the decorators do not know the source.
        param.shell_complete = source  # type: ignore[assignment, method-assign]

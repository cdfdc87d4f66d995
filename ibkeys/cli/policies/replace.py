"""The command `replace`: a replaced adapter takes over what a policy and other files have for the former one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.policies import REPLACE
from ibkeys.cli.help.command import command
from ibkeys.cli.policies.edit import carry_out
from ibkeys.cli.policies.edit_request import EditOptions, editing_options
from ibkeys.cli.tools.names import exempt_guids

if TYPE_CHECKING:
    from ibkeys.topology.model import Topology


@command("replace")
@click.argument("old", required=False)
@click.argument("new", required=False)
@options.option(
    "--baseline", metavar="SNAPSHOT", help="An earlier snapshot that has OLD. Without OLD: all pairs that it shows."
)
@options.option("--waivers", metavar="FILE", help="The waivers of audits, whose GUIDs are replaced too.")
@editing_options
def replace(
    old: str | None, new: str | None, baseline: str | None, waivers: str | None, command_options: EditOptions
) -> int:
    """Give a new adapter the place of the former one.

    OLD is the former adapter, NEW the one that took its place: a node GUID, a port GUID or a name. With --baseline, an
    earlier snapshot, OLD is looked up there, and NEW may be omitted: it is the new adapter with OLD's name at OLD's
    place. Without both, all such pairs are taken. Each port takes over from one port. The policy in force and the
    fabric are changed together, through the subnet manager, and with them the node name map, the waivers, and the
    places in the key store; --policy FILE only edits files. Refused while OLD answers, and for a NEW that the policy
    names already.
    """
    from ibkeys.automation.replaced_adapters import ReplacedAdapters
    from ibkeys.cli.given import is_typed
    from ibkeys.cli.opening import name_map_of, stores_of

    exempt_guids([word for word in (old, new) if word is not None])
    where, is_file_only = command_options.where, command_options.editing.file is not None
    names = name_map_of(where) if not is_file_only or is_typed("node_name_map") else None
    if is_file_only and not is_typed("waivers"):
        waivers = None
    adapters = ReplacedAdapters(
        old,
        new,
        _load(baseline),
        stores_of(where).keystore,
        Path(names) if names is not None else None,
        Path(waivers) if waivers is not None else None,
        exits.note,
        exits.warn,
        sets_places=not is_file_only,
    )
    return carry_out(adapters.requested(), REPLACE, command_options)


def _load(baseline: str | None) -> Topology | None:
    from ibkeys.cli.opening import load

    return load(Path(baseline)).fabric if baseline is not None else None

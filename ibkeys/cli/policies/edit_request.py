"""The options of a command that edits partitions."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.cli import options
from ibkeys.cli.options import Folding
from ibkeys.cli.options.through_managers import SM_WAIT
from ibkeys.cli.sm.files_request import ChangeWithHostsOptions


@dataclass(frozen=True, slots=True)
class Editing:
    """The options of an edit: the policy, the file to write, and the permissions and the method of a change of the
    fabric.

    ``file``: the policy file to edit; None: the policy that is in force, which is changed together with the fabric. It
    must be typed: the site file and the environment name the policy in force, and a command that edits a draft must not
    change that policy or the fabric.
    """

    file: str | None = options.field(
        "--policy", "file", env=False, metavar="FILE", help="Only edit this file.  [default: the policy in force]"
    )
    out: str | None = options.field(
        "--out", env=False, metavar="FILE", help="Write the edited policy to this file, and change nothing else."
    )
    allow_removals: bool = options.field_of(
        options.flag("--allow-removals", help="Allow removals in other partitions too."), default=False
    )
    allow_break: bool = options.field_of(options.allow_break, default=False)
    confirm_within: int | None = options.field_of(
        options.confirm_within("Roll back unless confirmed within S seconds.")
    )
    sm_wait: int = options.field_of(options.wait_for_sm, SM_WAIT)


@dataclass(frozen=True, slots=True)
class EditOptions(ChangeWithHostsOptions):
    """All options of a command that edits partitions."""

    editing: Editing
    folding: Folding


editing_options = options.group(
    "command_options",
    EditOptions,
    options.group("editing", Editing),
    options.sm_hosts,
    options.changing,
    options.folding,
    options.format,
    options.reading,
)

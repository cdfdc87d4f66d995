"""What a command that edits partitions was asked for: its options, and the edit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ibkeys.cli import exits, options
from ibkeys.cli.documents.field import Document
from ibkeys.cli.options import Folding
from ibkeys.cli.options.through_managers import SM_WAIT
from ibkeys.cli.sm.files_request import ChangeWithHostsOptions
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.cli.policies.members import PortsOfWords
    from ibkeys.partitions.editing.changes import EditedPolicy
    from ibkeys.partitions.editing.partition_name import PartitionName
    from ibkeys.partitions.model import Policy
    from ibkeys.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Editing:
    """The options of an edit: the policy, the file to write, and the permissions and the method of a change of the
    fabric.

    ``file``: the policy file to edit; None: the policy that is in force, which is changed together with the fabric. It
    must be typed. The site file and the environment name the policy in force, and a user who edits a draft must not
    change the fabric by a variable, nor the policy in force by a draft's command.
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


@dataclass(frozen=True, slots=True)
class RequestedEdit:
    """An edit that the user typed.

    ``document``: the document of the command, with its name. ``words``: the words that name ports. ``edit``: makes the
    edit of a policy. ``target``: the partition whose members may be removed; None: those that the edit changes.
    ``leaves_ipoib_open``: whether the user could give ipoib to the partition, and did not say whether it gets it.
    ``find``: looks the words up on a fabric; None: as `ibkeys.cli.policies.members.look_up`.
    """

    document: Document
    words: Sequence[str]
    edit: Callable[[Policy, PortsOfWords], EditedPolicy]
    target: PartitionName | None
    leaves_ipoib_open: bool = False
    find: Callable[[Topology], PortsOfWords] | None = None

    @property
    def subject(self) -> str:
        """The partition, or else the words, for the journal and for messages."""
        return str(self.target) if self.target is not None else " ".join(self.words)

    def look_up(self, topology: Topology) -> PortsOfWords:
        """Return the ports that the words stand for. Raises the errors of `look_up` and ``find``."""
        from ibkeys.cli.policies.members import look_up

        return look_up(topology, self.words) if self.find is None else self.find(topology)

    def lacking_ipoib(self, policy: Policy) -> str:
        """Return a remark if the partition is new in *policy* and lacks the ipoib of most others; "" otherwise."""
        from ibkeys.partitions.editing.heads import lacking_ipoib
        from ibkeys.partitions.editing.partition_name import find_partition

        if self.target is None or not self.leaves_ipoib_open or find_partition(policy, self.target) is not None:
            return ""
        return lacking_ipoib(policy)


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


def warn_of_unread(topology: Topology) -> None:
    """Warn if a part of the fabric could not be read: a name may belong to more ports."""
    if topology.troubles:
        unread = counted(len(topology.troubles), "thing")
        exits.warn(f"{unread} could not be read, so a name may belong to more ports: see discover")

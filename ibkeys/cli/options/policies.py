"""The arguments and options of commands that read a partition policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click
from click.core import ParameterSource

from ibkeys.cli.options.declaring import F, flag, option
from ibkeys.cli.types import GUID
from ibkeys.errors import UsageError

_FILE: Final = f"{__name__}.file"
"""Key in the ``meta`` of click's context: the policy that was typed as FILE."""


class PolicyOrFile(click.Option):
    """The option ``--policy`` of a command that also takes the policy as FILE (`policy_argument`).

    If FILE is typed, it becomes the value of the option, and the environment and the site file do not count.
    """

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """Return the policy, and the source of this value. Raises UsageError if both FILE and --policy are typed."""
        file = ctx.meta.get(_FILE)
        if file is None:
            return super().consume_value(ctx, opts)
        if self.name in opts:
            raise UsageError("the policy is given twice, as FILE and with --policy: omit one")
        return file, ParameterSource.COMMANDLINE


def _keep_file(ctx: click.Context, _param: click.Parameter, policy_file: str | None) -> None:
    ctx.meta[_FILE] = policy_file


policy_argument: Final = click.argument(
    "file", required=False, metavar="FILE", is_eager=True, expose_value=False, callback=_keep_file
)
"""FILE in place of ``--policy``. The argument is eager, so that its value is known when the option is read."""


def policy(help: str) -> Callable[[F], F]:
    """Return the option ``--policy`` of a command that takes any policy; *help*: its help text."""
    return option("--policy", metavar="FILE|opensm|ufm:URL", help=help)


allow_both_pkeys: Final = flag(
    "--allow-both-pkeys", help="A port may have the full and the limited P_Key of a partition."
)
sm_guid: Final = option("--sm-guid", env=False, type=GUID, metavar="GUID", help="The subnet manager's port, for SELF.")
partition_names: Final = policy(
    "Take partition names from this partitions.conf; opensm: the policy of the master on this host; ufm:URL: from UFM."
)
"""The option of commands that take only partition names from a policy."""

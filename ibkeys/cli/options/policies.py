"""What commands take that work with a partition policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ibkeys.cli.options.declaring import F, flag, option
from ibkeys.cli.types import GUID


def policy(help: str) -> Callable[[F], F]:
    """Return the option ``--policy`` of a command that takes any policy; *help*: what for."""
    return option("--policy", metavar="FILE|opensm|ufm:URL", help=help)


allow_both_pkeys: Final = flag(
    "--allow-both-pkeys", help="A port may have the full and the limited P_Key of a partition."
)
sm_guid: Final = option("--sm-guid", env=False, type=GUID, metavar="GUID", help="The subnet manager's port, for SELF.")
partition_names: Final = policy(
    "Take partition names from this partitions.conf; opensm: the policy of the master on this host; ufm:URL: from UFM."
)
"""For commands that a policy gives only names."""

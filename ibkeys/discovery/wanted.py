"""The attributes that a sweep reads of each port, and the form of its progress reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.arguments import PROGRESS, flag, one_of, refuse_wrong

Routes = Literal["none", "where checked", "all"]
"""The forwarding tables that a sweep reads: none; all of them if a port on a link between switches checks P_Keys, or
may; or all of them in any case."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The attributes that a sweep reads besides nodes and links.

    PortInfo of every port is read in any case: it shows the links. ``p_keys``: the P_Key table of every port, and
    whether it has virtual ports with further ones. ``guid_info``: all GUIDs of every end port. ``sm_info``: SMInfo of
    every port whose IsSM bit is set. ``link_downed``: LinkDownedCounter of each port before its far end is queried.
    """

    p_keys: bool = False
    guid_info: bool = False
    sm_info: bool = False
    link_downed: bool = False

    def __post_init__(self) -> None:
        """Check the values. Raises UsageError if one is neither True nor False."""
        refuse_wrong({name: getattr(self, name) for name in _RULES}, _RULES)


_RULES: Final = dict.fromkeys(("p_keys", "guid_info", "sm_info", "link_downed"), flag())
"""The rules for the values of `Wanted`."""
_SWEEP_RULES: Final = {"progress": PROGRESS, "wanted": one_of((Wanted,), "an ibkeys.Wanted")}
"""The rules for the arguments of a sweep."""


def wanted_of(p_keys: bool, progress: OnFound | None, wanted: Wanted | None) -> Wanted:
    """Return the attributes that a sweep with these arguments reads. Raises UsageError for a wrong value."""
    refuse_wrong({"progress": progress, "wanted": wanted}, _SWEEP_RULES)
    return wanted or Wanted(p_keys=p_keys)


EVERYTHING = Wanted(p_keys=True, guid_info=True, sm_info=True)
"""The attributes that a snapshot reads: all but LinkDownedCounter."""
LINKS = Wanted(link_downed=True)
"""The attribute that is read for the links in the key store, which are stored with their LinkDownedCounter."""


OnFound = Callable[[int, int], None]
"""A function that is called from time to time during a sweep, with the number of nodes found and of ports read."""

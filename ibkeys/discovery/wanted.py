"""What a sweep is asked to read of each port, and how it says how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a sweep reads besides nodes and links. PortInfo of every port is read in any case: links show in it.

    ``p_keys``: the P_Key table of every port, and whether it has virtual ports with further ones. ``guid_info``: all
    GUIDs of every end port. ``sm_info``: SMInfo of every port whose IsSM bit is set. ``link_downed``: LinkDownedCounter
    of each port before its far end is asked.
    """

    p_keys: bool = False
    guid_info: bool = False
    sm_info: bool = False
    link_downed: bool = False


EVERYTHING = Wanted(p_keys=True, guid_info=True, sm_info=True)
"""What a snapshot holds."""
LINKS = Wanted(link_downed=True)
"""What the key store keeps of links: each with the LinkDownedCounter that it had when it was proven."""


OnFound = Callable[[int, int], None]
"""Called now and then with (nodes found, ports read)."""

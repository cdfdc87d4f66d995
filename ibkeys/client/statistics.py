"""Counts of the MADs that were sent and received."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class Statistics:
    """The MADs that were sent and received, attempt by attempt.

    ``sent``: MADs given to the port, including those that were ``refused``; ``keyed``: SMPs among them with an M_Key
    other than 0. ``timeouts``: attempts without a reply; ``lost_by_kernel``: those of them whose timeout the kernel
    never reported. ``strays``: late, duplicate and foreign replies. ``widest``: most attempts in the window at once.
    ``by_attribute``: ``sent`` by AttributeID, of GMPs by ``MgmtClass << 16`` and AttributeID together.
    """

    sent: int = 0
    keyed: int = 0
    replies: int = 0
    timeouts: int = 0
    lost_by_kernel: int = 0
    strays: int = 0
    refused: int = 0
    widest: int = 0
    by_attribute: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

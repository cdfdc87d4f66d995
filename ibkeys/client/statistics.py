"""Counts of the MADs that were sent and received."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class Statistics:
    """The MADs that were sent and received, attempt by attempt. `ibkeys.client.sa.SaClient` counts only some of them.

    ``sent``: MADs passed to the port; ``keyed``: SMPs among them with an M_Key other than 0; ``refused``: MADs among
    them that the port did not send. ``replies``: replies that matched an attempt. ``timeouts``: attempts without a
    reply; ``lost_by_kernel``: attempts among them whose timeout the kernel never reported. ``strays``: late, duplicate
    and foreign replies. ``widest``: the most attempts that filled the window at once. ``by_attribute``: ``sent`` by
    AttributeID, for GMPs by ``MgmtClass << 16 | AttributeID``.
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

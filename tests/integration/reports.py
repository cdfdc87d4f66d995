"""A subscriber, and what an OpenSM tells it."""

from __future__ import annotations

from typing import Any

from ibkeys.mad.const import Method, MgmtClass
from ibkeys.sim.server.outbox import PassedMad
from tests.integration.hosted import Hosted

SA_KEY = 0x5A5A_0000_1234_0001


CONF = f"sa_key {SA_KEY:#x}\npart_enforce off\n"


M_KEY = 0x6B1D_0000_0000_0007


KEYED = f"{CONF}m_key {M_KEY:#x}\nm_key_protection_level 1\n"


SUBSCRIBER, OTHER = "H-0002c903000a1040", "H-0002c903000a1060"


OFFERED = 0x0BAD_C0DE_5EC2_E701


class Answered:
    """What passed of Reports: how often each was written to a program, and how many answers came."""

    def __init__(self) -> None:
        self.reports: list[bytes] = []
        self.answers = 0

    def __call__(self, seen: PassedMad) -> None:
        mad = seen.mad
        if mad[1] == MgmtClass.SUBN_ADM and not seen.note:
            if mad[3] == Method.REPORT and seen.out:
                self.reports.append(mad[12:16] + mad[56:136])
            self.answers += mad[3] == Method.REPORT_RESP and seen.out


def port_of(served: Hosted, description: str) -> Any:
    return served.net.port(description, 1)

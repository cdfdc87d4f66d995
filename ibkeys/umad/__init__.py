"""How a MAD leaves this host.

`port` says what a port can do, `libibumad` does it on the real stack, `simulated` on a simulated subnet. `requests`: a
batch of MADs as C takes it. `descriptor` and `devices`: what libibumad opens and lists. `tap` shows what passes a port
to a trace and to the capture file of `pcap`. `probe` looks at what of the real stack is there. The names of `port` are
exported here and loaded when first used, so that ``import ibkeys`` costs nothing and works without libibumad.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibkeys.lazily import loads

if TYPE_CHECKING:
    from ibkeys.umad.port import (
        ETIMEDOUT,
        PERMISSIVE_LID,
        Incoming,
        LocalCa,
        LocalPort,
        Outgoing,
        SendFailure,
        UmadPort,
    )

__all__ = [
    "ETIMEDOUT",
    "PERMISSIVE_LID",
    "Incoming",
    "LocalCa",
    "LocalPort",
    "Outgoing",
    "SendFailure",
    "UmadPort",
]


__getattr__ = loads(__name__, {"umad.port": __all__})

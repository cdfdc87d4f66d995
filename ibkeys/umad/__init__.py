"""How a MAD leaves this host.

`port` says what a port can do, `libibumad` does it on the real stack, `simulated` on a simulated subnet, `probe` looks
at what of the real stack is there. The names of `port` are exported here and loaded when first used, so that
``import ibkeys`` costs nothing and works without libibumad.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ibkeys.umad import port

    value = globals()[name] = getattr(port, name)
    return value

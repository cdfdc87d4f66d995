"""OpenSM's partitions.conf: the reader, what it means, and who is a member of what.

For scripts: `read_policy` reads the file, `resolve` says who its members are. The names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ibkeys.partitions.membership import EndPort, Resolution, resolve
    from ibkeys.partitions.model import Policy
    from ibkeys.partitions.reader import read_policy

__all__ = ["EndPort", "Policy", "Resolution", "read_policy", "resolve"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ibkeys.partitions import membership, model, reader

    home = {"Policy": model, "read_policy": reader}.get(name, membership)
    value = globals()[name] = getattr(home, name)
    return value

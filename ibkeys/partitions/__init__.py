"""OpenSM's partitions.conf: the reader, the meaning of each line, and the members of each partition.

For scripts: `read_policy` reads a file, `parse_policy` a text, `add_member` adds a port to a partition, and `resolve`
returns the members. The modules of these names are imported when a name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibkeys.lazily import lazy_getattr

if TYPE_CHECKING:
    from ibkeys.partitions.editing.changes import add_member
    from ibkeys.partitions.membership import EndPort, Resolution, resolve
    from ibkeys.partitions.model import Policy
    from ibkeys.partitions.reader import parse_policy, read_policy

__all__ = ["EndPort", "Policy", "Resolution", "add_member", "parse_policy", "read_policy", "resolve"]

_MODULES = {
    "partitions.editing.changes": ("add_member",),
    "partitions.membership": ("EndPort", "Resolution", "resolve"),
    "partitions.model": ("Policy",),
    "partitions.reader": ("parse_policy", "read_policy"),
}
"""The names that are loaded from each module when they are first used."""


__getattr__ = lazy_getattr(__name__, _MODULES)

"""The identity of a port as every JSON document has it, the key that distinguishes ports, and a count of a fabric's
ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from ibkeys.mad.const import NODE_TYPE_NAMES
from ibkeys.printable import counted

PortKey = tuple[int, int]
"""NodeGUID and port number, which together identify a port."""


@dataclass(frozen=True, slots=True)
class PortId:
    """A port as every JSON document has it. ``port_guid``, ``node_desc`` and ``lid`` are None when not readable."""

    node_guid: int
    port_guid: int | None
    node_desc: str | None
    node_type: str
    port: int
    lid: int | None

    @classmethod
    def of_json(cls, port: Mapping[str, Any]) -> Self:
        """Return the port with the identity in a JSON object; see `to_json`."""
        guid = port["port_guid"]
        port_guid = None if guid is None else int(guid, 16)
        return cls(int(port["node_guid"], 16), port_guid, *(port[each] for each in IDENTITY[2:]))

    @property
    def key(self) -> PortKey:
        """NodeGUID and port number."""
        return self.node_guid, self.port

    @property
    def is_external(self) -> bool:
        """Whether this is an external port of a switch."""
        return self.node_type == "switch" and self.port != 0

    def to_json(self) -> dict[str, Any]:
        """Return the keys that every port carries."""
        return identity(self.node_guid, self.port_guid, self.node_desc, self.node_type, self.port, self.lid)

    def __str__(self) -> str:
        name = f"{self.node_desc!r} " if self.node_desc else ""
        return f"{name}0x{self.node_guid:016x} port {self.port}"


def identity(
    node_guid: int | None,
    port_guid: int | None,
    node_desc: str | None,
    node_type: str | None,
    port: int | None,
    lid: int | None,
) -> dict[str, Any]:
    """Return the keys that every port carries in every JSON document, null for unknown values, and for a NodeType that
    no node can have; the arguments are the fields of `PortId`."""
    return {
        "node_guid": None if node_guid is None else f"0x{node_guid:016x}",
        "port_guid": None if port_guid is None else f"0x{port_guid:016x}",
        "node_desc": node_desc,
        "node_type": node_type if node_type in NODE_TYPE_NAMES.values() else None,
        "port": port,
        "lid": lid,
    }


IDENTITY: Final = tuple(each.name for each in fields(PortId))
"""The keys that every port carries in every JSON document."""


@dataclass(frozen=True, slots=True)
class LookedAt:
    """How many ports of a fabric a filter let through."""

    ports: int
    of: int

    def __str__(self) -> str:
        return f"only {self.ports} of {counted(self.of, 'port')} {'was' if self.ports == 1 else 'were'} examined"

    def to_json(self) -> dict[str, int]:
        """Return the counts as the JSON document has them."""
        return {"ports": self.ports, "of": self.of}

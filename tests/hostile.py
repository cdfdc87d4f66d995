"""A `UmadPort` behind which every question is answered by a function: fabrics that no cable could make.

`EndlessFabric` has a new switch behind every port. Its clock is virtual: an answer comes ``delay`` seconds after its
question, or with its timeout as the kernel would have it, and `recv` moves the clock to what comes next.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from ibkeys.mad.attributes import NodeInfo, PortInfo, SwitchInfo
from ibkeys.mad.const import AttributeID, NodeType, PortPhysicalState, PortState
from ibkeys.umad.port import ETIMEDOUT, Incoming, LocalPort, Outgoing, SendFailure

OWN_GUID = 0x0002C903000A0001

Answer = Callable[[tuple[int, ...], int, int], bytes | None]
"""From (directed route, AttributeID, AttributeModifier) to the attribute's 64 bytes; None is silence."""


class AnsweringPort:
    """Port 1 of a CA. *answer* speaks for every node, the own one (route ``()``) included."""

    def __init__(self, answer: Answer, delay: float = 0.000_01) -> None:
        self.ca_name, self.port = "hostile0", 1
        self.delay = delay
        self._answer = answer
        self._clock = 0.0
        self._coming: list[tuple[float, int, Incoming]] = []
        self.sent = 0

    def attributes(self) -> LocalPort:
        return LocalPort(self.ca_name, 1, 1, 0, 1, 0, 4, 5, 0, 0xFE80 << 48, OWN_GUID + 1, "InfiniBand", (0xFFFF,))

    def register(self, mgmt_class: int, class_version: int = 1, methods: Sequence[int] = ()) -> None:
        pass

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        for out in batch:
            mad = out.mad
            path = tuple(mad[129 : 129 + mad[7]])
            data = self._answer(path, int.from_bytes(mad[16:18]), int.from_bytes(mad[20:24]))
            self.sent += 1
            if data is None:
                wait, reply = out.timeout_ms / 1000, Incoming(mad[:24], ETIMEDOUT)
            else:
                wait, reply = self.delay, Incoming(mad[:3] + b"\x81\x80\0" + mad[6:64] + data + mad[128:])
            heapq.heappush(self._coming, (self._clock + wait, self.sent, reply))
        return []

    def recv(self, timeout: float) -> list[Incoming]:
        coming = self._coming
        if not coming or coming[0][0] > self._clock + timeout:
            self._clock += timeout
            return []
        self._clock = max(self._clock, coming[0][0])
        arrived = []
        while coming and coming[0][0] <= self._clock:
            arrived.append(heapq.heappop(coming)[2])
        return arrived

    def now(self) -> float:
        return self._clock

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def node_info(kind: int, ports: int, guid: int, arrival: int = 1, partition_cap: int = 32) -> bytes:
    """Return NodeInfo of a node with port GUID *guid* + 1."""
    return (
        NodeInfo()
        .replace(
            node_type=kind,
            num_ports=ports,
            node_guid=guid,
            system_image_guid=guid,
            port_guid=guid + 1,
            partition_cap=partition_cap,
            local_port_num=arrival,
        )
        .raw
    )


LINKED = PortInfo().replace(port_state=PortState.ACTIVE, port_physical_state=PortPhysicalState.LINK_UP, lid=7).raw


class EndlessFabric:
    """What every node answers: the own CA, and behind every port of every switch another switch of *ports* ports.

    *guid*: gives all switches this NodeGUID in the place of one for each. *partition_cap* is that of every port.
    """

    def __init__(self, ports: int = 254, guid: int | None = None, partition_cap: int = 32) -> None:
        self.ports = ports
        self.guid = guid
        self.partition_cap = partition_cap
        self._switch_info = SwitchInfo().replace(partition_enforcement_cap=partition_cap).raw

    def __call__(self, path: tuple[int, ...], attribute: int, modifier: int) -> bytes | None:
        """Return the attribute that the node at the end of *path* answers with."""
        if attribute == AttributeID.NODE_INFO:
            if not path:
                return node_info(NodeType.CA, 1, OWN_GUID)
            guid = self.guid or int.from_bytes(hashlib.blake2b(bytes(path), digest_size=8).digest()) & ~0xF
            return node_info(NodeType.SWITCH, self.ports, guid, partition_cap=self.partition_cap)
        if attribute == AttributeID.PORT_INFO:
            return LINKED
        if attribute == AttributeID.SWITCH_INFO:
            return self._switch_info
        return bytes(64)

"""Injected faults: MADs lost, changed or delayed, at random (seeded) or on request."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from ibkeys.errors import UsageError
from ibkeys.mad import offsets as at
from ibkeys.mad.const import MgmtClass
from ibkeys.sim.nodes import Node

Direction = Literal["request", "reply"]


@dataclass(slots=True)
class _Order:
    """Lose the next ``count`` MADs that fit; None fits all."""

    direction: Direction
    node: Node | None
    method: int | None
    attribute: int | None
    count: int


class Faults:
    """Probabilities (0 to 1) for requests, replies and traps, and single losses to order. Equal seeds give equal
    faults.

    ``drop`` loses the request or the reply, each as likely, ``duplicate`` delivers a reply twice, ``corrupt`` flips
    one bit of it, ``delay`` holds it back for up to ``delay_seconds``.
    """

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.drop = self.duplicate = self.corrupt = self.delay = 0.0
        self.delay_seconds = 2.0
        self._orders: list[_Order] = []

    @property
    def active(self) -> bool:
        """Whether anything can go wrong at all."""
        return bool(self._orders or self.drop or self.duplicate or self.corrupt or self.delay)

    def lose_next(
        self,
        direction: Direction = "reply",
        *,
        node: Node | None = None,
        method: int | None = None,
        attribute: int | None = None,
        count: int = 1,
    ) -> None:
        """Lose the next *count* requests to *node*, or its replies to them, that have *method* and *attribute*."""
        if count < 1:
            raise UsageError(f"{count} MADs cannot be lost")
        self._orders.append(_Order(direction, node, method, attribute, count))

    def clear(self) -> None:
        """End all losses, duplicates, corruption and delays. Nodes that are silent stay so."""
        self.drop = self.duplicate = self.corrupt = self.delay = 0.0
        self._orders.clear()

    def loses(self, direction: Direction, node: Node, request: bytes) -> bool:
        """Decide about one request on its way to *node*, or about the reply to it."""
        method, attribute = request[at.METHOD], int.from_bytes(request[at.ATTRIBUTE_ID])
        for order in self._orders:
            if (
                order.direction == direction
                and order.node in (None, node)
                and order.method in (None, method)
                and order.attribute in (None, attribute)
            ):
                order.count -= 1
                if order.count == 0:
                    self._orders.remove(order)
                return True
        # Two throws for each exchange, so that `drop` is the share of exchanges lost, not of single packets.
        lost = self.drop > 0 and self.random.random() < 1 - (1 - self.drop) ** 0.5
        return lost and not (self.drop < 1 and _is_local(request))

    def spoil(self, reply: bytes) -> list[tuple[float, bytes]]:
        """Return what arrives of *reply* as (extra seconds, bytes)."""
        arriving = [(self._extra(), self._corrupted(reply))]
        if self.duplicate and self.random.random() < self.duplicate:
            arriving.append((self._extra(), self._corrupted(reply)))
        if _is_local(reply) and max(self.delay, self.duplicate, self.corrupt) < 1:
            return [(0.0, reply)]
        return arriving

    def _extra(self) -> float:
        if self.delay and self.random.random() < self.delay:
            return self.random.uniform(0, self.delay_seconds)
        return 0.0

    def _corrupted(self, reply: bytes) -> bytes:
        if not self.corrupt or self.random.random() >= self.corrupt:
            return reply
        spoiled = bytearray(reply)
        spoiled[self.random.randrange(len(spoiled))] ^= 1 << self.random.randrange(8)
        return bytes(spoiled)


def _is_local(mad: bytes) -> bool:
    """Whether a program asks its own port: that is on no wire where SMPs get lost. At 100 % it suffers as all do."""
    return mad[at.MGMT_CLASS] == MgmtClass.SUBN_DIRECTED_ROUTE and mad[at.HOP_COUNT] == 0

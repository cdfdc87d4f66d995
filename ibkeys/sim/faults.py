"""Injected faults: MADs lost, changed or delayed, at random (seeded) or on request."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from ibkeys.errors import UsageError
from ibkeys.mad import offsets as at
from ibkeys.mad.const import MgmtClass
from ibkeys.sim.nodes import SimNode

LossDirection = Literal["request", "reply"]


@dataclass(slots=True)
class _Order:
    """An order to lose the next ``count`` matching MADs; None matches all."""

    direction: LossDirection
    node: SimNode | None
    method: int | None
    attribute: int | None
    count: int


class _Share:
    """A probability of `Faults`. Setting it updates ``active``, which is read for every MAD."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, faults: Faults, owner: type) -> float:
        return faults.shares[self.name]

    def __set__(self, faults: Faults, share: float) -> None:
        faults.shares[self.name] = share
        faults.set_active()


class Faults:
    """Probabilities (0 to 1) for requests, replies and traps, and orders for single losses. Equal seeds give equal
    faults.

    ``drop`` loses the request or the reply, each as likely, ``duplicate`` delivers a reply twice, ``corrupt`` flips one
    bit of it, ``delay`` delays it by up to ``delay_seconds``. ``active``: whether any fault can occur.
    """

    drop = _Share()
    duplicate = _Share()
    corrupt = _Share()
    delay = _Share()

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.shares = dict.fromkeys(("drop", "duplicate", "corrupt", "delay"), 0.0)
        self.delay_seconds = 2.0
        self.active = False
        self._orders: list[_Order] = []

    def set_active(self) -> None:
        """Compute ``active`` again."""
        self.active = bool(self._orders) or any(self.shares.values())

    def lose_next(
        self,
        direction: LossDirection = "reply",
        *,
        node: SimNode | None = None,
        method: int | None = None,
        attribute: int | None = None,
        count: int = 1,
    ) -> None:
        """Lose the next *count* requests to *node*, or its replies to them, that have *method* and *attribute*."""
        if count < 1:
            raise UsageError(f"{count} MADs cannot be lost")
        self._orders.append(_Order(direction, node, method, attribute, count))
        self.set_active()

    def clear(self) -> None:
        """End all losses, duplicates, corruption and delays. Nodes that are silent stay so."""
        self.shares = dict.fromkeys(self.shares, 0.0)
        self._orders.clear()
        self.set_active()

    def loses(self, direction: LossDirection, node: SimNode, request: bytes) -> bool:
        """Return whether a request on its route to *node*, or the reply to it, is lost."""
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
                    self.set_active()
                return True
        # Two draws for each exchange, so that `drop` is the share of exchanges lost, not of single packets.
        lost = self.drop > 0 and self.random.random() < 1 - (1 - self.drop) ** 0.5
        return lost and not (self.drop < 1 and is_local(request))

    def spoil(self, reply: bytes) -> list[tuple[float, bytes]]:
        """Return the packets that arrive of *reply*, as (extra seconds, bytes)."""
        arriving = [(self._extra(), self._corrupted(reply))]
        if self.duplicate and self.random.random() < self.duplicate:
            arriving.append((self._extra(), self._corrupted(reply)))
        if is_local(reply) and max(self.delay, self.duplicate, self.corrupt) < 1:
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


def is_local(mad: bytes) -> bool:
    """Return whether a program queries its own port: such SMPs use no link, so they are lost at 100 % only."""
    return mad[at.MGMT_CLASS] == MgmtClass.SUBN_DIRECTED_ROUTE and mad[at.HOP_COUNT] == 0

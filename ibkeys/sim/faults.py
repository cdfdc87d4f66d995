"""Injected faults: MADs are lost, changed or delayed, at random with a seed, or by an order for single MADs."""

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
class _LossOrder:
    """An order to lose the next ``count`` MADs that match. A field that is None matches every MAD."""

    direction: LossDirection
    node: SimNode | None
    method: int | None
    attribute: int | None
    count: int


class _Share:
    """A descriptor: a probability of `Faults`. Setting it updates ``active``, which is read for every MAD."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, faults: Faults, owner: type) -> float:
        return faults.shares[self.name]

    def __set__(self, faults: Faults, share: float) -> None:
        faults.shares[self.name] = share
        faults.set_active()


class Faults:
    """The faults of one subnet: probabilities from 0 to 1, and orders for single losses. Equal seeds give equal faults.

    ``drop``: the request or its reply is lost; also the probability that a trap is lost. ``duplicate``: a reply is
    delivered twice. ``corrupt``: one bit of a reply is flipped. ``delay``: a reply comes up to ``delay_seconds`` later.
    ``active``: whether any fault can occur.
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
        self._orders: list[_LossOrder] = []

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
        """Lose the next *count* requests to *node* with *method* and *attribute*, or the replies to them. None for any.

        *direction*: whether the requests or the replies are lost. *method* and *attribute* are those of the request.
        Raises UsageError for a *count* below 1.
        """
        if count < 1:
            raise UsageError(f"{count} MADs cannot be lost")
        self._orders.append(_LossOrder(direction, node, method, attribute, count))
        self.set_active()

    def clear(self) -> None:
        """End all losses, duplicates, corruption and delays. Silent nodes stay silent."""
        self.shares = dict.fromkeys(self.shares, 0.0)
        self._orders.clear()
        self.set_active()

    def loses(self, direction: LossDirection, node: SimNode, request: bytes) -> bool:
        """Return whether *request* on its route to *node*, or the reply to it, is lost. A call counts as one MAD for
        the orders of `lose_next`, and may draw a random number."""
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
        """Return the packets that arrive instead of *reply*, each as the extra delay in seconds and the bytes."""
        arriving = [(self._extra_delay(), self._corrupted(reply))]
        if self.duplicate and self.random.random() < self.duplicate:
            arriving.append((self._extra_delay(), self._corrupted(reply)))
        if is_local(reply) and max(self.delay, self.duplicate, self.corrupt) < 1:
            return [(0.0, reply)]
        return arriving

    def _extra_delay(self) -> float:
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
    """Return whether *mad* is an SMP of a program to its own port. It passes no link, so it is lost only if all MADs
    are."""
    return mad[at.MGMT_CLASS] == MgmtClass.SUBN_DIRECTED_ROUTE and mad[at.HOP_COUNT] == 0

"""The programs attached to ports of a simulated subnet: they receive MADs that no agent answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ibkeys.sim.deliveries import Delivery
from ibkeys.sim.nodes import SimPort

Receiver = Callable[[Delivery], bool | None]
"""Takes what arrives at its port; returns False when it is for none of its programs."""


class Receivers:
    """The receivers at each port, in the order in which they were attached. False while there are none at all.

    What nobody asked for goes to one program of a port only: the one that claimed the class and method first (Linux
    mad.c: method_in_use).
    """

    def __init__(self) -> None:
        self._at: dict[SimPort, list[Receiver]] = {}
        self._owners: dict[tuple[SimPort, int, int], Receiver] = {}

    def claim(self, port: SimPort, owner: Receiver, mgmt_class: int, methods: Iterable[int]) -> bool:
        """Let *owner* have what comes unasked with these methods; returns False where one has an owner already."""
        keys = [(port, mgmt_class, method) for method in methods]
        if any(key in self._owners for key in keys):
            return False
        self._owners.update(dict.fromkeys(keys, owner))
        return True

    def __bool__(self) -> bool:
        return bool(self._at)

    def attach(self, port: SimPort, receiver: Receiver) -> Callable[[], None]:
        """Let *receiver* have what arrives at *port*; returns the function that ends this."""
        self._at.setdefault(port, []).append(receiver)

        def detach() -> None:
            receivers = self._at.get(port, [])
            if receiver in receivers:
                receivers.remove(receiver)
            if not receivers:
                self._at.pop(port, None)
            self._owners = {key: owner for key, owner in self._owners.items() if owner != receiver}

        return detach

    def deliver(self, port: SimPort, delivery: Delivery) -> bool:
        """Give *delivery* to every receiver at *port*; returns whether one took it."""
        took = [receiver(delivery) for receiver in list(self._at.get(port, ()))]
        return any(each is not False for each in took)

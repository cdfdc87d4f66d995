"""The programs attached to ports of a simulated subnet: they receive MADs that no agent answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ibkeys.sim.deliveries import Delivery
from ibkeys.sim.nodes import SimPort

Receiver = Callable[[Delivery], bool | None]
"""A function that receives the MADs at its port; it returns False for a MAD that is for none of its programs."""


class Receivers:
    """The receivers at each port, in the order in which they were attached. As a bool it is False while no
    port has a receiver.

    An unsolicited MAD goes to one program of a port only: the program that claimed the class and method first (Linux
    mad.c: method_in_use).
    """

    def __init__(self) -> None:
        self._at: dict[SimPort, list[Receiver]] = {}
        self._owners: dict[tuple[SimPort, int, int], Receiver] = {}

    def claim(self, port: SimPort, owner: Receiver, mgmt_class: int, methods: Iterable[int]) -> bool:
        """Give *owner* the unsolicited MADs with these methods; return False if one has an owner already."""
        keys = [(port, mgmt_class, method) for method in methods]
        if any(key in self._owners for key in keys):
            return False
        self._owners.update(dict.fromkeys(keys, owner))
        return True

    def __bool__(self) -> bool:
        return bool(self._at)

    def attach(self, port: SimPort, receiver: Receiver) -> Callable[[], None]:
        """Attach *receiver* at *port*; return the function that detaches it."""
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
        """Give *delivery* to every receiver at *port*; return whether one accepted it."""
        took = [receiver(delivery) for receiver in list(self._at.get(port, ()))]
        return any(each is not False for each in took)

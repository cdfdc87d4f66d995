"""The receivers at the ports of a simulated subnet, for programs: they get the MADs that no agent answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ibkeys.sim.deliveries import Delivery
from ibkeys.sim.nodes import SimPort

Receiver = Callable[[Delivery], bool | None]
"""A function that gets the MADs at its port. It returns False for a MAD that is for none of its programs."""


class Receivers:
    """The receivers at each port, in the order in which they were attached. ``bool(receivers)`` is False while no port
    has one.

    Each MAD is passed to all receivers at its port. A receiver has to `claim` the classes and methods of unsolicited
    MADs that it accepts: each has only one owner at a port, as in Linux (mad.c: method_in_use).
    """

    def __init__(self) -> None:
        self._receivers: dict[SimPort, list[Receiver]] = {}
        self._owners: dict[tuple[SimPort, int, int], Receiver] = {}

    def claim(self, port: SimPort, owner: Receiver, mgmt_class: int, methods: Iterable[int]) -> bool:
        """Make *owner* the owner of the unsolicited MADs of *mgmt_class* with these methods at *port*.

        Returns False, and changes nothing, if one of them has an owner already, which may be *owner* itself.
        """
        keys = [(port, mgmt_class, method) for method in methods]
        if any(key in self._owners for key in keys):
            return False
        self._owners.update(dict.fromkeys(keys, owner))
        return True

    def __bool__(self) -> bool:
        return bool(self._receivers)

    def attach(self, port: SimPort, receiver: Receiver) -> Callable[[], None]:
        """Attach *receiver* at *port*; return a function that detaches it and ends its claims."""
        self._receivers.setdefault(port, []).append(receiver)

        def detach() -> None:
            receivers = self._receivers.get(port, [])
            if receiver in receivers:
                receivers.remove(receiver)
            if not receivers:
                self._receivers.pop(port, None)
            self._owners = {key: owner for key, owner in self._owners.items() if owner != receiver}

        return detach

    def deliver(self, port: SimPort, delivery: Delivery) -> bool:
        """Pass *delivery* to every receiver at *port*; return whether at least one of them accepted it."""
        accepted = [receiver(delivery) for receiver in list(self._receivers.get(port, ()))]
        return any(each is not False for each in accepted)

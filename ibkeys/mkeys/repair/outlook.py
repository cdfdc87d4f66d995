"""The maximum cost of reading the ports with their keys, reported before anything is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ibkeys.discovery.keyring import KeyRing
from ibkeys.mkeys.repair.candidates import Candidates, KeyOrigin
from ibkeys.store.keystore.keystore import KeyStore


@dataclass(frozen=True, slots=True)
class RepairOutlook:
    """The ports that a repair would read, and the maximum cost.

    ``ports``: number of ports that are read with a key of the key store; ``orders``: the origins of a port's keys, in
    the order in which they are tried → number of ports with these. ``protected``: number of ports that are not known to
    be at level 0 or 1. ``violations``: most M_Key violations that ports count: one for each key of each protected port.
    ``leases``: the leases of protected ports in the key store, and those of each opensm.conf, in seconds, without 0;
    ``unknown_leases``: number of protected ports without a lease in the key store; ``never_open``: number of protected
    ports with lease 0, which never open by themselves.
    """

    ports: int
    orders: dict[tuple[KeyOrigin, ...], int]
    protected: int
    violations: int
    leases: tuple[int, ...]
    unknown_leases: int
    never_open: int

    def to_json(self) -> dict[str, Any]:
        """Return the outlook as JSON values."""
        document = {_JSON_NAMES.get(name, name): getattr(self, name) for name in self.__slots__}
        return document | {"orders": [{"keys": keys, "ports": count} for keys, count in self.orders.items()]}


_JSON_NAMES: Final = {"never_open": "never"}
"""Field → its name in the document, where that differs."""


def outlook_of(
    store: KeyStore, ring: KeyRing, candidates: Candidates, conf_leases: Iterable[int] = ()
) -> RepairOutlook:
    """Return the maximum cost of reading every port of *candidates*. *ring*: the key ring with the keys of these ports;
    *conf_leases*: the m_key_lease_period of each opensm.conf, in seconds. Raises StoreError."""
    protected = ring.protected()
    leases: dict[int, set[int]] = {}
    for row in store.outline():
        if row.m_key_lease_period is not None and row.state != "former" and row.port_guid in protected:
            leases.setdefault(row.port_guid, set()).add(row.m_key_lease_period)
    orders = Counter(tuple(each.origin for each in keys) for keys in candidates.values())
    return RepairOutlook(
        ports=len(candidates),
        orders=dict(orders.most_common()),
        protected=len(protected),
        violations=sum(len(candidates[guid]) for guid in protected),
        leases=tuple(sorted(set().union(conf_leases if protected else (), *leases.values()) - {0})),
        unknown_leases=len(protected - leases.keys()),
        never_open=sum(0 in each for each in leases.values()),
    )

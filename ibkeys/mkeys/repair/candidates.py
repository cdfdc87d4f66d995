"""The keys that a port may have by the key store, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ibkeys.discovery.keyring import KeyRing
from ibkeys.keys.mkey import MKey
from ibkeys.store.keystore.key_table import KeyState
from ibkeys.store.keystore.keystore import TRY_ORDER, KeyStore

KeyOrigin = KeyState | Literal["subnet"]
"""The origin of a key: its state in the key store; ``subnet``: the m_key of an opensm.conf, which OpenSM sets on every
port."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A key that a port may have."""

    m_key: MKey
    origin: KeyOrigin


Candidates = Mapping[int, Sequence[Candidate]]
"""Port GUID → the keys that the port may have, in the order in which they are tried, each once."""


def candidates_of(store: KeyStore) -> Candidates:
    """Return the keys of every port that has a row in *store*: its current, pending, imported and former keys, and then
    the keys of the subnet.

    Key 0 is left out if there is another key, because a port without a key answers to any key. Raises StoreError.
    """
    origins: dict[int, dict[MKey, KeyState]] = {}
    for row in store.rows():
        of_port = origins.setdefault(row.port_guid, {})
        known = of_port.get(row.m_key, row.state)
        of_port[row.m_key] = min(known, row.state, key=TRY_ORDER.index)
    subnet = [Candidate(key, "subnet") for key in store.subnet_keys()]
    candidates = {}
    for guid, keys in store.all_keys().items():
        all_of_port = [Candidate(key, origins[guid][key]) for key in keys]
        all_of_port += [each for each in subnet if each.m_key not in keys]
        candidates[guid] = [each for each in all_of_port if not each.m_key.is_zero] or all_of_port
    return candidates


def ring_of(ring: KeyRing, candidates: Candidates) -> KeyRing:
    """Return a key ring with the links, LIDs and levels of *ring*, and the keys of *candidates*."""
    return replace(
        ring,
        by_guid={guid: keys[0].m_key for guid, keys in candidates.items()},
        spares={guid: tuple(each.m_key for each in keys[1:]) for guid, keys in candidates.items()},
        learned={},
    )

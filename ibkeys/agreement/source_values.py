"""The values of one port in one source: P_Keys by partition, enforcement bits, M_Key protection."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ibkeys.fabric.sa_view import SaView
from ibkeys.mad.attributes import PKeyTable, PortInfo
from ibkeys.reach.forms import by_partition
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.nodes import Port

MemberGuids = frozenset[int]
"""The P_Keys of one partition that a port has: none, the full one, the limited one or both."""
NOT_A_MEMBER: Final[MemberGuids] = frozenset()
_TABLES_KEPT: Final = 4096


@dataclass(frozen=True, slots=True)
class Protection:
    """M_KeyProtectBits and M_KeyLeasePeriod, the latter in seconds, of the port that owns an M_Key."""

    level: int
    lease: int

    def __str__(self) -> str:
        return f"level {self.level}, {self.lease} s"


@dataclass(frozen=True, slots=True)
class PortView:
    """The values of one port in one source.

    ``keys``: partition → P_Keys, None if the table is not known; the indexes of P_Keys are left out. ``enforcement``,
    ``protection``: None if they are not known. ``uncertain``: partitions whose P_Keys are not known. ``left_open``:
    partitions that this source does not define. The other sources decide whether these are compared.
    """

    keys: Mapping[int, MemberGuids] | None = None
    enforcement: Enforcement | None = None
    protection: Protection | None = None
    uncertain: frozenset[int] = frozenset()
    left_open: frozenset[int] = frozenset()

    def of(self, partition: int) -> MemberGuids | None:
        """Return the P_Keys of one partition; None if they are not known."""
        if self.keys is None or partition in self.uncertain or partition in self.left_open:
            return None
        return self.keys.get(partition, NOT_A_MEMBER)


NOTHING: Final = PortView()


def values_of_node(port: Port) -> PortView:
    """Return the values that the port itself gave in a sweep. A value that a file has only from the SM is left out."""
    table = None if PKeyTable.name in port.attributes_from_sm else port.p_key_raw
    return _view_of(table, None if PortInfo.name in port.attributes_from_sm else port.info)


def values_of_sa(view: SaView | None, port: Port) -> PortView:
    """Return the values in the SA's records of a port, or none if the SA was not queried."""
    if view is None:
        return NOTHING
    sa_port = view.of(port)
    return _view_of(sa_port.p_key_raw, sa_port.port_info)


def _view_of(table: bytes | None, info: bytes | None) -> PortView:
    keys = _table(table) if table is not None else None
    if info is None:
        return PortView(keys)
    view = PortInfo(info)
    enforcement = Enforcement.of(view)
    return PortView(keys, enforcement, Protection(view.m_key_protect_bits, view.m_key_lease_period))


@lru_cache(maxsize=_TABLES_KEPT)
def _table(raw: bytes) -> Mapping[int, MemberGuids]:
    return by_partition(struct.unpack(f">{len(raw) // 2}H", raw))

"""The data that all checks share: the open port, one sweep, the SA, and whether other programs may send queries too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from ibkeys.arguments import given
from ibkeys.client.sa import SaClient
from ibkeys.errors import IbkeysError, Unreachable
from ibkeys.fabric.handle import PortHandle
from ibkeys.fabric.live import LiveFabric
from ibkeys.keys.smkey import SMKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import MKeyState, Port
from ibkeys.umad.port import LocalCa

_T = TypeVar("_T")


class FabricReading:
    """One examination of a fabric: values that are read once and shared by all checks.

    *cas*: returns the host's channel adapters, sends nothing. *sm_key*: the key in queries to the SA, None for none.
    ``sweep_seconds``: how long the sweep took, by the clock of the port. ``shown_keys``: keys in answers, which must
    not be in a report. ``is_silent``: the local port was queried already and did not answer, so it is not queried
    again: it may count each query as a violation.
    """

    def __init__(self, fabric: LiveFabric, cas: Callable[[], Sequence[LocalCa]], sm_key: SMKey | None = None) -> None:
        self.fabric = fabric
        self.cas = cas
        self.sm_key = sm_key
        self.local = fabric.local()
        self.sweep_seconds = 0.0
        self.is_silent = False
        self.shown_keys: set[int] = set()
        self._kept: dict[str, Any] = {}

    @property
    def handle(self) -> PortHandle:
        """The local port, queried by an SMP that does not leave the host.

        Raises the errors of `LiveFabric.find_port`; Unreachable for a port that is silent.
        """
        if self.is_silent:
            raise Unreachable("the local port does not answer, so it is not asked again: `ibkeys doctor` says more")
        return self._once("port", self.fabric.find_port)

    @property
    def own(self) -> PortInfo:
        """PortInfo of the local port. Raises the errors of `PortHandle.read_port_info`."""
        return self._once("PortInfo", lambda: self.handle.read_port_info())

    @property
    def own_is_protected(self) -> bool:
        """Whether the local port counts a Get without its M_Key: it has one, at level 2 or 3. Raises the errors of
        `own`."""
        return _counts_gets(self.own, self.handle.port.end_port.m_key_state)

    @property
    def found(self) -> Topology:
        """The sweep, with P_Key tables; made when it is first needed.

        Raises the errors of `LiveFabric.sweep`; Unreachable if each of its queries would be counted as a violation.
        """
        return self._once("sweep", self._sweep)

    def _sweep(self) -> Topology:
        # this raises if the local port does not answer, so that a sweep does not query it again: that may be counted
        if self.own_is_protected and not self._may_know_others():
            raise Unreachable(
                "the local port has an M_Key at level 2 or 3, and no M_Key of another port is known: the next port "
                f"would count each query as a violation; give {given('-y, --keystore or --security-keys')}"
            )
        now = self.fabric.umad.now
        started = now()
        found = self.fabric.sweep(p_keys=True)
        self.sweep_seconds = now() - started
        return found

    def _may_know_others(self) -> bool:
        """Return whether a key is known for ports other than the local one, or the user wants them queried without."""
        ring = self.fabric.ring
        others = (key for guid, key in ring.by_guid.items() if guid != self.local.port_guid)
        return ring.ask_unproven or not all(key.is_zero for key in (ring.for_unknown_port, *others))

    def _once(self, what: str, read: Callable[[], _T]) -> _T:
        """Return the result of *read*, or raise its error; it is called once for each *what*."""
        if what not in self._kept:
            try:
                self._kept[what] = read()
            except IbkeysError as error:
                self._kept[what] = error
        kept = self._kept[what]
        if isinstance(kept, IbkeysError):
            raise kept
        value: _T = kept
        return value

    @cached_property
    def sa(self) -> SaClient:
        """The SA, queried with the SM_Key that was given."""
        return self.fabric.sa(self.sm_key)

    @property
    def swept_port(self) -> Port | None:
        """The local port in the sweep, None if the sweep did not find it. Raises the errors of `found`."""
        return self.found.nodes[0].ports.get(self.local.port)

    @property
    def neighbour(self) -> Port | None:
        """The port at the other end of the local port's cable, None where none was found. Raises the errors of
        `found`."""
        own = self.swept_port
        return own.peer if own is not None else None

    @property
    def end_ports(self) -> list[Port]:
        """The end ports of the sweep whose PortInfo was read. Raises the errors of `found`."""
        return [port for port in self.found.end_ports() if port.info is not None]

    @property
    def port_infos(self) -> list[PortInfo]:
        """PortInfo of `end_ports`."""
        return [info for port in self.end_ports if (info := port.port_info) is not None]

    def at_lid(self, lid: int) -> PortHandle:
        """Return a handle on the port at *lid*. Raises the errors of `LiveFabric.find_port`, and for another port those
        of `found`."""
        if lid == self.own.lid:
            return self.handle
        _ = self.found  # raises where no other port may be queried
        return self.fabric.find_port(lid)

    def why_alone(self) -> str:
        """Return why no other program may send SMPs through this fabric; "" if it may.

        Other programs send no M_Key of ours: a port at level 2 or 3 would count each of their Gets, send a trap to the
        SM and start its lease. Raises the errors of `found`.
        """
        if self.fabric.ring.protected():
            return "some ports are known to have an M_Key at level 2 or 3, or at a level that is not known"
        if self.found.troubles or self.found.unasked:
            return "some ports did not answer, and may have an M_Key at level 2 or 3"
        for port in self.end_ports:
            info = port.port_info
            if info is not None and _counts_gets(info, port.m_key_state):
                return "some ports have an M_Key at level 2 or 3"
        return ""


def _counts_gets(info: PortInfo, m_key_state: MKeyState) -> bool:
    """Return whether a port counts a Get without its M_Key: it has one, at level 2 or 3."""
    return info.m_key_protect_bits >= 2 and m_key_state != "zero"

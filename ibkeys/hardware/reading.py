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

    *cas*: returns the host's channel adapters, sends nothing. *sm_key*: the SM_Key in queries to the SA, None for
    queries without a key. ``local``: what this host knows about the local port. ``sweep_seconds``: the duration of the
    sweep by the clock of the port. ``shown_keys``: keys in answers, which must not be in a report. ``is_silent``: the
    local port did not answer an earlier query, so it is not queried again: it may count each query as a violation.
    """

    def __init__(self, fabric: LiveFabric, cas: Callable[[], Sequence[LocalCa]], sm_key: SMKey | None = None) -> None:
        self.fabric = fabric
        self.cas = cas
        self.sm_key = sm_key
        self.local = fabric.local()
        self.sweep_seconds = 0.0
        self.is_silent = False
        self.shown_keys: set[int] = set()
        self._results: dict[str, Any] = {}

    @property
    def handle(self) -> PortHandle:
        """The local port, queried by an SMP that does not leave the host.

        Raises the errors of `LiveFabric.find_port`; Unreachable if ``is_silent``.
        """
        if self.is_silent:
            raise Unreachable("the local port does not answer, so it is not asked again: `ibkeys doctor` says more")
        return self._once("port", self.fabric.find_port)

    @property
    def own_info(self) -> PortInfo:
        """PortInfo of the local port. Raises the errors of `PortHandle.read_port_info`."""
        return self._once("PortInfo", lambda: self.handle.read_port_info())

    @property
    def own_is_protected(self) -> bool:
        """Whether the local port counts a Get without its M_Key: it has one, at level 2 or 3. Raises the errors of
        `own_info`."""
        return _counts_gets(self.own_info, self.handle.port.end_port.m_key_state)

    @property
    def topology(self) -> Topology:
        """The sweep, with P_Key tables; made when it is first needed.

        Raises the errors of `LiveFabric.sweep`; Unreachable if each of its queries would be counted as a violation.
        """
        return self._once("sweep", self._sweep)

    def _sweep(self) -> Topology:
        # This raises if the local port does not answer. A sweep would query it again, which may count as a violation.
        if self.own_is_protected and not self._knows_other_keys():
            raise Unreachable(
                "the local port has an M_Key at level 2 or 3, and no M_Key of another port is known: the next port "
                f"would count each query as a violation; give {given('-y, --keystore or --security-keys')}"
            )
        now = self.fabric.umad.now
        started = now()
        topology = self.fabric.sweep(p_keys=True)
        self.sweep_seconds = now() - started
        return topology

    def _knows_other_keys(self) -> bool:
        """Return whether the M_Key of another port is known, or the user wants ports queried without their key."""
        ring = self.fabric.ring
        others = (key for guid, key in ring.by_guid.items() if guid != self.local.port_guid)
        return ring.ask_unproven or not all(key.is_zero for key in (ring.for_unknown_port, *others))

    def _once(self, name: str, read: Callable[[], _T]) -> _T:
        """Return the result of *read* or raise its IbkeysError; later calls with the same *name* do the same again."""
        if name not in self._results:
            try:
                self._results[name] = read()
            except IbkeysError as error:
                self._results[name] = error
        result = self._results[name]
        if isinstance(result, IbkeysError):
            raise result
        value: _T = result
        return value

    @cached_property
    def sa(self) -> SaClient:
        """The SA, queried with ``sm_key``."""
        return self.fabric.sa(self.sm_key)

    @property
    def swept_port(self) -> Port | None:
        """The local port in the sweep, None if the sweep did not find it. Raises the errors of `topology`."""
        return self.topology.nodes[0].ports.get(self.local.port)

    @property
    def neighbour(self) -> Port | None:
        """The port at the other end of the local port's cable, None if the sweep did not find it. Raises the errors
        of `topology`."""
        own = self.swept_port
        return own.peer if own is not None else None

    @property
    def end_ports(self) -> list[Port]:
        """The end ports of the sweep whose PortInfo was read. Raises the errors of `topology`."""
        return [port for port in self.topology.end_ports() if port.info is not None]

    @property
    def port_infos(self) -> list[PortInfo]:
        """PortInfo of each of the `end_ports`. Raises the errors of `topology`."""
        return [info for port in self.end_ports if (info := port.port_info) is not None]

    def at_lid(self, lid: int) -> PortHandle:
        """Return a handle on the port at *lid*. Raises the errors of `own_info` and `LiveFabric.find_port`, and for
        another port than the local one those of `topology`."""
        if lid == self.own_info.lid:
            return self.handle
        _ = self.topology  # This raises if no other port may be queried.
        return self.fabric.find_port(lid)

    def why_no_other_program(self) -> str:
        """Return why no other program may send SMPs through this fabric; "" if other programs may.

        They do not have the M_Keys of ibkeys: a port at level 2 or 3 would count each of their Gets, send a trap to
        the SM and start its lease. Raises the errors of `topology`.
        """
        if self.fabric.ring.protected():
            return "some ports are known to have an M_Key at level 2 or 3, or at a level that is not known"
        if self.topology.troubles or self.topology.unasked:
            return "some ports did not answer, and may have an M_Key at level 2 or 3"
        for port in self.end_ports:
            info = port.port_info
            if info is not None and _counts_gets(info, port.m_key_state):
                return "some ports have an M_Key at level 2 or 3"
        return ""


def _counts_gets(info: PortInfo, m_key_state: MKeyState) -> bool:
    """Return whether a port counts a Get without its M_Key: it has one, at level 2 or 3."""
    return info.m_key_protect_bits >= 2 and m_key_state != "zero"

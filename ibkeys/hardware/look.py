"""What all checks share: the open port, one sweep, the SA, and whether other programs may ask too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from ibkeys.client.sa import SaClient
from ibkeys.errors import IbkeysError
from ibkeys.fabric.handle import PortHandle
from ibkeys.fabric.live import Fabric
from ibkeys.keys.smkey import SMKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.umad.port import LocalCa

_T = TypeVar("_T")


class Look:
    """One look at a fabric.

    *cas*: asks the host for its channel adapters, sends nothing. *sm_key*: what is shown to the SA, None for none.
    ``sweep_seconds``: how long the sweep took, by the clock of the port. ``shown_keys``: keys that somebody showed,
    which may stand nowhere in a report. What is read once is kept.
    """

    def __init__(self, fabric: Fabric, cas: Callable[[], Sequence[LocalCa]], sm_key: SMKey | None = None) -> None:
        self.fabric = fabric
        self.cas = cas
        self.sm_key = sm_key
        self.local = fabric.local()
        self.sweep_seconds = 0.0
        self.shown_keys: set[int] = set()
        self._kept: dict[str, Any] = {}

    @property
    def handle(self) -> PortHandle:
        """The local port, asked by an SMP that does not leave the host. Raises as `Fabric.find_port`."""
        return self._once("port", self.fabric.find_port)

    @property
    def own(self) -> PortInfo:
        """PortInfo of the local port. Raises as `PortHandle.read_port_info`."""
        return self._once("PortInfo", lambda: self.handle.read_port_info())

    @property
    def found(self) -> Topology:
        """The sweep, with P_Key tables; made when it is first needed. Raises as `Fabric.sweep`."""
        return self._once("sweep", self._sweep)

    def _sweep(self) -> Topology:
        assert self.own is not None  # a local port that does not answer is not asked again: each time may be counted
        now = self.fabric.umad.now
        started = now()
        found = self.fabric.sweep(p_keys=True)
        self.sweep_seconds = now() - started
        return found

    def _once(self, what: str, read: Callable[[], _T]) -> _T:
        """Return what *read* returns, or raise what it raises; it is called once."""
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
        """The SA, asked with the SM_Key that was given."""
        return self.fabric.sa(self.sm_key)

    @property
    def neighbour(self) -> Port | None:
        """The port at the other end of the local port's cable, None where none was found. Raises as `found`."""
        own = self.found.nodes[0].ports.get(self.local.port)
        return own.peer if own is not None else None

    @property
    def end_ports(self) -> list[Port]:
        """The end ports of the sweep whose PortInfo was read. Raises as `found`."""
        return [port for port in self.found.end_ports() if port.info is not None]

    def why_alone(self) -> str:
        """Return why no other program may send SMPs through this fabric; "" if it may.

        Other programs send no M_Key of ours: a port at level 2 or 3 would count each of their Gets, tell the SM and
        start its lease. Raises as `found`.
        """
        if self.fabric.ring.protected():
            return "some ports are known to have an M_Key at level 2 or 3, or at a level that is not known"
        if self.found.troubles or self.found.unasked:
            return "some ports did not answer, and may have an M_Key at level 2 or 3"
        for port in self.end_ports:
            info = port.port_info
            if info is not None and info.m_key_protect_bits >= 2 and port.m_key_state != "zero":
                return "some ports have an M_Key at level 2 or 3"
        return ""

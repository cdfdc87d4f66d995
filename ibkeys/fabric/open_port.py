"""One open local port: its key ring, and single requests through it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ibkeys.client.limits import Limits
from ibkeys.client.smp import Route, SmpClient, Timing
from ibkeys.closing import Closing
from ibkeys.discovery.keyring import KeyRing
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import Attribute
from ibkeys.mad.const import Method
from ibkeys.topology.nodes import Port
from ibkeys.umad.port import LocalPort, UmadPort

if TYPE_CHECKING:  # not at runtime: a read of one port needs no Topology
    from ibkeys.topology.model import Topology


class OpenPort(Closing):
    """An open local port. Use it as a context manager; not thread-safe.

    ``ring``: the M_Keys by port. ``client``: sends SMPs, and counts them. ``swept``: the result of the last sweep
    through this port, None before the first.
    """

    def __init__(
        self,
        umad: UmadPort,
        ring: KeyRing | None = None,
        timing: Timing | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.umad = umad
        self.ring = ring or KeyRing()
        self.client = SmpClient(umad, timing, limits)
        self.swept: Topology | None = None

    def local(self) -> LocalPort:
        """Return the attributes of the local port from the host. Sends nothing."""
        return self.umad.attributes()

    @cached_property
    def own_guid(self) -> int:
        """The port GUID of the local port: unlike its LID and state it does not change while the port is open."""
        return self.local().port_guid

    def doubt_of(self, port: Port) -> str:
        """Return why the last sweep did not trust the GUID of *port*, "" if it did."""
        return self.swept.doubtful.get(port.end_port, "") if self.swept is not None else ""

    def get(
        self, attribute: type[Attribute], modifier: int, route: Route, key: MKey = NO_MKEY, retries: int | None = None
    ) -> bytes:
        """Send one SubnGet and return the attribute's 64 bytes. Raises NoReply, MadStatusError, SendRefused.

        *retries*: attempts after the first, by default those of ``client.timing``.
        """
        request = self.client.gets_to(route, None, key).ask(attribute, modifier)
        if retries is not None:
            request.retries = retries
        data: bytes = self.client.ask(request)
        return data

    def set(self, attribute: type[Attribute], modifier: int, route: Route, data: bytes, key: MKey = NO_MKEY) -> bytes:
        """Send one SubnSet, in one attempt whatever the retries are. Returns the 64 bytes the agent answered.

        Raises NoReply, MadStatusError, SendRefused. After any of these errors the port may have changed nevertheless;
        only a Get shows whether it did. Changes use `ibkeys.change.engine`, which sends that Get.
        """
        request = self.client.request(Method.SET, attribute, modifier, route, m_key=key, data=data, retries=0)
        answer: bytes = self.client.ask(request)
        return answer

    def close(self) -> None:
        """Close the local port. Safe to call twice."""
        self.umad.close()

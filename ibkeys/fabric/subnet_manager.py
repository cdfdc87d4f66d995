"""Whether a subnet manager is master of this subnet, for the interlocks ``active-sm`` and ``mkey-under-sm``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ibkeys.client.address import LOCAL
from ibkeys.errors import ClosedError, IbkeysError, MadStatusError, NoReply, SendRefused, TransportError
from ibkeys.fabric.live import LiveFabric
from ibkeys.mad.attributes import PortInfo, SMInfo
from ibkeys.mad.const import MAX_UNICAST_LID, CapabilityMask, SMState
from ibkeys.topology.model import Topology
from ibkeys.topology.subnet_manager import Presence, SubnetManager, sm_state_name

BESIDE_SM: Final = (
    "a change made without OpenSM lasts only until OpenSM next writes that block; a lasting change belongs in the "
    "policy file that OpenSM reads"
)
"""Why a P_Key table or enforcement must not simply be written while an SM is master.

Source: opensm, observed: a sweep after SIGHUP writes only blocks that its policy changes, and tables of ports that are
new or come back.
"""

_WEIGHT: Final = {"none": 0, "unknown": 1, "active": 2}


def find_subnet_manager(
    fabric: LiveFabric, master_sm_lids: Sequence[int] = (), own_answers: bool = True, retries: int | None = None
) -> SubnetManager:
    """Query SMInfo at MasterSMLID; without an answer let the IsSM bit of that port decide.

    *master_sm_lids*: MasterSMLID of other ports, as read: an SM may not have configured the own port yet. Where they
    differ, the strongest evidence for a master counts. *own_answers* False: the local port is known to be silent, and
    its MasterSMLID is taken from the host's driver. *retries*: attempts at SMInfo after the first; a master that does
    not answer still shows by its IsSM bit. Source: IBA 14.2.5.13, 14.2.5.6 (CapabilityMask.IsSM).

    Raises TransportError and ClosedError if the local port can no longer be used: that says nothing about an SM.
    """
    try:
        own = PortInfo(fabric.find_port(LOCAL).get(PortInfo, 0)).master_sm_lid if own_answers else fabric.local().sm_lid
    except (TransportError, ClosedError):
        raise
    except IbkeysError as error:
        return SubnetManager(0, "unknown", f"the MasterSMLID of the local port cannot be read: {error}")
    lids = list(dict.fromkeys(lid for lid in (own, *master_sm_lids) if 1 <= lid <= MAX_UNICAST_LID))
    if not lids:
        return SubnetManager(0, "none", "neither the local port nor the one to be changed has a MasterSMLID")
    asked = [
        _ask(fabric, lid, retries) if own_answers or lid != fabric.local().base_lid else _by_driver(fabric)
        for lid in lids
    ]
    return max(asked, key=lambda manager: _WEIGHT[manager.presence])


class OwnSmLid:
    """MasterSMLID of the local port, read from the port itself: for `ibkeys.client.reports.Subscriber.ask_sm_lid`.

    The kernel gets each new value, a program on libumad2sim (`sim serve`, ibsim) does not. The port is queried with the
    key by which the last sweep read it, once, and after silence not again before the next sweep: its key may have been
    changed since, and each query would be a violation. Then, and before the first sweep, the host's value is returned.
    """

    def __init__(self, fabric: LiveFabric) -> None:
        self._fabric = fabric
        self._silent_since: Topology | None = None

    def __call__(self) -> int:
        """Return the LID, 0 for none. Raises TransportError."""
        fabric, local = self._fabric, self._fabric.local()
        swept = fabric.swept
        own = swept.nodes[0].ports.get(local.port) if swept is not None and swept.nodes else None
        if own is None or own.info is None or swept is self._silent_since:
            return local.sm_lid
        try:
            return PortInfo(fabric.get(PortInfo, own.num, LOCAL, own.m_key, retries=0)).master_sm_lid
        except (NoReply, SendRefused, MadStatusError):
            self._silent_since = swept
            return local.sm_lid


def _by_driver(fabric: LiveFabric) -> SubnetManager:
    """Return the SM by this host's data about its own port, which is named as the SM's and does not answer."""
    local = fabric.local()
    where = (
        f"the local port, LID {local.base_lid}, is named as the SM's port but does not answer; according to this host"
    )
    if local.capability_mask & CapabilityMask.IS_SM:
        return SubnetManager(local.base_lid, "unknown", f"{where} its IsSM bit is set")
    return SubnetManager(local.base_lid, "none", f"{where} no SM runs there")


def _ask(fabric: LiveFabric, lid: int, retries: int | None) -> SubnetManager:
    try:
        # A port that a sweep proved is queried as usual; another only once, for it may be locked and count violations.
        port = fabric.swept_port(lid) or fabric.find_port(lid, retries=0)
    except (TransportError, ClosedError):
        raise
    except IbkeysError as error:
        return SubnetManager(lid, "unknown", f"LID {lid}, named as the SM's, does not answer: {error}")
    try:
        info = SMInfo(fabric.get(SMInfo, 0, port.route, port.m_key, retries))
    except (TransportError, ClosedError):
        raise
    except IbkeysError:
        return _by_capability(lid, port.read_port_info_or_none())
    where = f"the SM at LID {lid} (GUID 0x{info.guid:016x}) says it is {sm_state_name(info.sm_state)}"
    if info.sm_state == SMState.MASTER:
        return SubnetManager(lid, "active", where, info.guid, info.sm_key)
    presence: Presence = "none" if info.sm_state == SMState.NOT_ACTIVE else "unknown"
    return SubnetManager(lid, presence, where, info.guid, info.sm_key)


def _by_capability(lid: int, info: PortInfo | None) -> SubnetManager:
    if info is None:
        return SubnetManager(
            lid, "unknown", f"no SM answers at LID {lid}, and it is not known whether the port there runs one"
        )
    if info.capability_mask & CapabilityMask.IS_SM:
        return SubnetManager(lid, "unknown", f"no SM answers at LID {lid}, but its IsSM bit is set")
    return SubnetManager(lid, "none", f"no SM answers at LID {lid}, and its IsSM bit is clear")

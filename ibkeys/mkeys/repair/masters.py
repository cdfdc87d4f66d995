"""Whether an SM is running that would make repaired key files outdated. Sends no SMP to a protected port."""

from __future__ import annotations

from ibkeys.errors import AgentRefused, IbkeysError, MadStatusError, TransportError
from ibkeys.fabric.live import LiveFabric
from ibkeys.mad.const import MAX_UNICAST_LID, CapabilityMask
from ibkeys.topology.subnet_manager import SubnetManager


def presence_by_sa(fabric: LiveFabric) -> SubnetManager:
    """Return whether a master SM is active, by the SA at MasterSMLID and by the IsSM bit of the local port, as this
    host's driver has them. An SA is asked by a GMP, which needs no M_Key; the SA of a master answers. An SA that does
    not answer proves little, so a sweep has to look for SMs too. Raises TransportError.
    """
    local = fabric.local()
    lid = local.sm_lid
    if not 1 <= lid <= MAX_UNICAST_LID:
        return SubnetManager(0, "none", "the local port has no MasterSMLID")
    if lid == local.base_lid:
        if local.capability_mask & CapabilityMask.IS_SM:
            return SubnetManager(lid, "active", f"an SM runs on the local port, LID {lid}: its IsSM bit is set")
        return SubnetManager(lid, "none", f"no SM runs on the local port, LID {lid}: its IsSM bit is clear")
    try:
        fabric.sa().class_port_info()
    except MadStatusError:
        pass  # an answer, if one that says no
    except IbkeysError as error:
        if isinstance(error, TransportError) and not isinstance(error, AgentRefused):
            raise
        return SubnetManager(lid, "none", f"the SA at LID {lid} does not answer: {error}")
    return SubnetManager(lid, "active", f"the SA at LID {lid} answers, so its SM is master")

"""Checks of the subnet manager and its SA."""

from __future__ import annotations

from typing import Final

from ibkeys.errors import MadStatusError
from ibkeys.hardware.check import CheckAnswer, as_assumed, check, differs, not_checked, same, seen
from ibkeys.hardware.reading import FabricReading
from ibkeys.keys.smkey import NO_SM_KEY
from ibkeys.mad.attributes import PortInfo, SMInfo
from ibkeys.mad.const import SaStatus, SMState
from ibkeys.mad.records import NodeRecord, PKeyTableRecord, PortInfoRecord
from ibkeys.topology.subnet_manager import sm_state_name

_STEADY: Final = (
    *("gid_prefix", "lid", "master_sm_lid", "capability_mask", "m_key_lease_period", "m_key_protect_bits", "lmc"),
    *("master_sm_sl", "neighbor_mtu", "port_state", "mtu_cap", "vl_cap", "guid_cap", "subnet_timeout"),
)
"""Fields of PortInfo that are the same at the SA and at the port: the SM writes them, or they never change. The other
fields may change between two sweeps of the SM."""


@check("sm.master", "standard", "an SM answers at MasterSMLID and says that it is master")
def master(reading: FabricReading) -> CheckAnswer:
    """Get SMInfo from the port at MasterSMLID; its SM_Key is left out."""
    lid = reading.own_info.master_sm_lid
    if not lid:
        return not_checked("no subnet manager has configured the local port (MasterSMLID 0)")
    info = SMInfo(reading.at_lid(lid).get(SMInfo))
    reading.shown_keys.add(info.sm_key)
    text = f"{sm_state_name(info.sm_state)}, priority {info.priority}, SM_Key {'shown' if info.sm_key else 'not shown'}"
    return as_assumed(info.sm_state == SMState.MASTER, text, sm_lid=lid)


@check("sa.there", "standard", "the SA answers ClassPortInfo without an SM_Key")
def sa_answers(reading: FabricReading) -> CheckAnswer:
    """Get ClassPortInfo of the SA."""
    info = reading.fabric.sa().class_port_info()
    return same(
        f"class version {info.class_version}, CapabilityMask 0x{info.capability_mask:04x}, "
        f"CapabilityMask2 0x{info.capability_mask2:07x}",
        resp_time_value=info.resp_time_value,
    )


@check("sa.own-record", "standard", "PortInfoRecord of the local port says what the port says")
def own_record(reading: FabricReading) -> CheckAnswer:
    """Compare the local port's PortInfo with its record at the SA, in the fields that do not change by themselves."""
    own = reading.own_info
    record = reading.sa.get(PortInfoRecord, endport_lid=own.lid, port_num=reading.local.port)
    in_record: PortInfo = record.port_info
    reading.shown_keys.add(in_record.m_key)
    wrong = [PortInfo.rows[name].name for name in _STEADY if getattr(in_record, name) != getattr(own, name)]
    return as_assumed(not wrong, f"differ: {', '.join(wrong)}" if wrong else f"{len(_STEADY)} fields", differing=wrong)


@check("sa.hides-m-keys", "standard", "without an SM_Key the SA shows no M_Key")
def hides_m_keys(reading: FabricReading) -> CheckAnswer:
    """Get the PortInfoRecords of all ports without an SM_Key, and return how many have an M_Key."""
    records = reading.fabric.sa(NO_SM_KEY).get_table(PortInfoRecord)
    keys = [record.port_info.m_key for record in records if record.port_info.m_key]
    reading.shown_keys.update(keys)
    if not keys and all(port.m_key_state == "zero" for port in reading.end_ports):
        return not_checked(f"{len(records)} records without an M_Key, and no port of the sweep has an M_Key")
    return as_assumed(not keys, f"{len(records)} records, {len(keys)} of them with an M_Key", shown=len(keys))


@check("sa.p-key-records", "standard", "without an SM_Key the SA refuses P_KeyTableRecords with status 0x0200")
def p_key_records(reading: FabricReading) -> CheckAnswer:
    """Get P_KeyTableRecords without an SM_Key. OpenSM refuses them; the check shows whether this SM does."""
    try:
        records = reading.fabric.sa(NO_SM_KEY).get_table(PKeyTableRecord, lid=reading.own_info.lid)
    except MadStatusError as error:
        return as_assumed(error.status == SaStatus.REQUEST_INVALID, f"status 0x{error.status:04x}")
    return differs(f"{len(records)} records")


@check("sa.long-answer", "standard", "NodeRecords of all nodes arrive whole, and are the nodes of the sweep")
def long_answer(reading: FabricReading) -> CheckAnswer:
    """Compare the NodeRecords of the SA, which come in many RMPP segments, with the sweep.

    The SA leaves out nodes that share no P_Key with this port. Nodes that the sweep could not read are no difference.
    """
    records = reading.fabric.sa().get_table(NodeRecord)
    in_sa = {record.node_info.node_guid for record in records}
    in_sweep = {node.guid for node in reading.topology.nodes}
    text = (
        f"{len(records)} records; {len(in_sweep - in_sa)} nodes only in the sweep, "
        f"{len(in_sa - in_sweep)} only in the SA"
    )
    if in_sweep < in_sa and (reading.topology.troubles or reading.topology.unasked):
        return seen(text, records=len(records))
    return as_assumed(in_sa == in_sweep, text, records=len(records))


@check("sa.trusts", "unknown", "whether the SM_Key that was given shows P_Key tables is recorded")
def trusts(reading: FabricReading) -> CheckAnswer:
    """Get the P_KeyTableRecords of the local port with the SM_Key, if one was given."""
    if reading.sm_key is None or reading.sm_key.is_zero:
        return not_checked("no SM_Key was given")
    records = reading.sa.get_table(PKeyTableRecord, lid=reading.own_info.lid)
    return seen(f"{len(records)} records of the local port", records=len(records))

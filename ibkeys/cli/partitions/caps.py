"""Capacities of P_Key tables, enforcement capabilities, and what survives a reset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ibkeys.cli import options
from ibkeys.cli.help.command import command
from ibkeys.cli.options import ShownPorts
from ibkeys.cli.render import NOTHING, Column
from ibkeys.cli.showing import read_sheet, show

if TYPE_CHECKING:
    from ibkeys.topology.nodes import Port

_SWITCH_CAPS = ("partition_enforcement_cap", "inbound_enforcement_cap", "outbound_enforcement_cap")


@command("caps-show")
@options.shown_ports()
def caps_show(asked: ShownPorts) -> int:
    """Show P_Key capacities and enforcement capabilities.

    PartitionCap is the size of the P_Key table of CA and router ports and of a switch's port 0, PartitionEnforcementCap
    that of a switch's external ports. Both are values of the node, so with --all the table omits external ports. The
    NV-RAM bits show whether M_Key and P_Keys survive a reset.
    """
    sheet = read_sheet(asked, lambda handle: (handle.read_port_info(), handle.read_switch_info()), _values)
    columns = [
        Column("partition_cap", "PartitionCap", short="Partitions"),
        _column("partition_enforcement_cap", "PartitionEnforcementCap", "Enforced"),
        _column("inbound_enforcement_cap", "InboundEnforcementCap", "Inbound"),
        _column("outbound_enforcement_cap", "OutboundEnforcementCap", "Outbound"),
        Column("is_m_key_nvram", "IsM_KeyNVRAM", short="M_Key NVRAM"),
        Column("is_p_key_nvram", "IsP_KeyNVRAM", short="P_Key NVRAM"),
    ]
    return show("caps-show", sheet, columns, asked, lambda row: row["node_type"] != "switch" or row["port"] == 0)


def _column(key: str, title: str, short: str) -> Column:
    # Nodes that are not switches have no such value, which differs from one that could not be read.
    return Column(key, title, lambda row: row[key] if row["node_type"] == "switch" else NOTHING, short)


def _values(port: Port) -> dict[str, Any]:
    from ibkeys.mad.const import CapabilityMask
    from ibkeys.topology.enforcement import as_shown

    switch, info = port.node.switch_info, port.end_port.port_info
    mask = info.capability_mask if info is not None else None
    return {
        "partition_cap": port.node.node_info.partition_cap,
        **{key: as_shown(key, getattr(switch, key)) if switch is not None else None for key in _SWITCH_CAPS},
        "is_m_key_nvram": None if mask is None else bool(mask & CapabilityMask.IS_M_KEY_NVRAM),
        "is_p_key_nvram": None if mask is None else bool(mask & CapabilityMask.IS_P_KEY_NVRAM),
    }

"""The command `port-show`: partition enforcement, capacities and violation counters of ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits, options
from ibkeys.cli.documents.fabric import STATE
from ibkeys.cli.documents.field import NOTHING, JsonRow
from ibkeys.cli.documents.port import (
    CAPS,
    COUNTERS,
    ENFORCEMENT,
    PORT_SHOW,
    SUPPRESSION,
    has_enforcement,
    is_external,
)
from ibkeys.cli.help.command import command
from ibkeys.cli.options import ShowPortsOptions
from ibkeys.cli.showing import PortListing, peer_document, read_port_listing, show, values_of
from ibkeys.cli.sm.policy import policy_if_known
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.cli.documents.field import Field
    from ibkeys.discovery.port_counters import ConstraintErrors
    from ibkeys.fabric.readable_port import ReadablePort
    from ibkeys.source import Source
    from ibkeys.topology.nodes import Port

_GROUPS: Final[Mapping[str, tuple[tuple[Field, ...], Callable[[JsonRow], bool]]]] = {
    "enforcement": (ENFORCEMENT, has_enforcement),
    "caps": (CAPS, lambda row: not is_external(row)),
    "counters": (COUNTERS, lambda row: True),
}
"""For each option its fields, and a function that returns whether a table lists a port with this option."""
_OVERVIEW_FIELDS: Final = frozenset(field.name for field in (STATE, *ENFORCEMENT[:2], *COUNTERS))
"""The fields in a table of many ports without such an option: as many as fit a screen."""
_CONSTRAINT_ERRORS: Final = {"xmit_constraint_errors": "transmitted", "rcv_constraint_errors": "received"}
"""The attributes of `ConstraintErrors`, by their JSON names."""


@command("port-show")
@options.show_ports_options(
    options.flag("--enforcement", help="Only partition enforcement, and the far end of the link."),
    options.flag("--caps", help="Only P_Key capacities and enforcement capabilities."),
    options.flag("--counters", help="Only violation counters and constraint errors."),
)
def port_show(command_options: ShowPortsOptions, **groups: bool) -> int:
    """Show enforcement, capacities and violations of ports.

    Without --enforcement, --caps or --counters, which can be combined, all values are shown; the table of many ports
    then has PortState, enforcement and counters only. Inbound applies to packets that enter a switch, outbound to
    packets that leave it; only external ports of switches enforce partitions, and sometimes ports of routers. Violation
    counters stop at 65535, and counters-clear clears them. Constraint errors, which counters-clear leaves as they are,
    stop at 255: packets that a switch port dropped, most because of its enforcement.
    """
    no_group_chosen = not any(groups.values())
    chosen = [name for name in _GROUPS if no_group_chosen or groups[name]]
    fields = [*([STATE] if no_group_chosen else []), *(field for name in chosen for field in _GROUPS[name][0])]
    constraint_errors: dict[Port, ConstraintErrors] = {}

    def read(handle: ReadablePort) -> None:
        handle.read_port_info()
        if "caps" in chosen:
            handle.read_switch_info()

    def read_dropped(source: Source, ports: Sequence[Port]) -> None:
        from ibkeys.discovery.port_counters import enforcing_ports

        if "counters" in chosen:
            constraint_errors.update(source.read_constraint_errors(enforcing_ports(ports)))

    def values(port: Port) -> dict[str, Any]:
        all_values = _values(port, constraint_errors.get(port))
        return {field.name: all_values[field.name] for field in fields}

    port_listing = read_port_listing(command_options, read, values, policy_if_known, read_more=read_dropped)
    _note_unread(constraint_errors)
    if "enforcement" in chosen and not port_listing.is_sweep:  # only a sweep reads the neighbour of a port
        for row in port_listing.ports:
            row["peer"] = None
    table_fields = _in_table(fields, port_listing, no_group_chosen, constraint_errors)
    return show(
        PORT_SHOW,
        port_listing,
        table_fields,
        command_options,
        lambda row: any(_GROUPS[name][1](row) for name in chosen),
    )


def _values(port: Port, errors: ConstraintErrors | None) -> dict[str, Any]:
    """Return all values that the command can show about a port, by their JSON names.

    *errors*: its constraint errors; None if they were not read.
    """
    from ibkeys.mad.const import CapabilityMask
    from ibkeys.topology.enforcement import ENFORCEMENT_BITS, as_shown, may_enforce

    info, end, switch = port.port_info, port.end_port.port_info, port.node.switch_info
    bits = values_of(info if may_enforce(port) else None, ENFORCEMENT_BITS)
    caps = values_of(switch, (field.name for field in CAPS[1:4]))
    mask = end.capability_mask if end is not None else None
    return {
        "state": info.port_state if info is not None else None,
        **{name: None if value is None else as_shown(name, value) for name, value in (bits | caps).items()},
        "peer": peer_document(port),
        "partition_cap": port.node.node_info.partition_cap,
        "is_m_key_nvram": None if mask is None else bool(mask & CapabilityMask.IS_M_KEY_NVRAM),
        "is_p_key_nvram": None if mask is None else bool(mask & CapabilityMask.IS_P_KEY_NVRAM),
        **values_of(info, (field.name for field in COUNTERS[:3])),
        **{name: getattr(errors, what) if errors is not None else None for name, what in _CONSTRAINT_ERRORS.items()},
        SUPPRESSION: _suppression(port),
    }


def _suppression(port: Port) -> int | None:
    """Return the value of MulticastPKeyTrapSuppressionEnabled of an end port; 0: it suppresses no trap.

    None if it was not read, if the port lacks the capability, and for an external port of a switch.
    """
    from ibkeys.mad.const import CapabilityMask

    info = port.port_info if port.is_end_port else None
    if info is None or not info.capability_mask & CapabilityMask.IS_MULTICAST_P_KEY_TRAP_SUPPRESSION_SUPPORTED:
        return None
    return int(getattr(info, SUPPRESSION))


def _in_table(
    fields: Sequence[Field],
    port_listing: PortListing,
    no_group_chosen: bool,
    constraint_errors: Mapping[Port, ConstraintErrors],
) -> list[Field]:
    """Return *fields* for the table: fields that it leaves out have no title.

    Constraint errors are "-" for ports that were not queried for them. *no_group_chosen*: whether no option chose the
    fields. *constraint_errors*: the results of the ports that were queried.
    """
    hidden = set() if port_listing.is_sweep else {"peer"}
    if no_group_chosen and port_listing.is_sweep:
        hidden = {field.name for field in fields} - _OVERVIEW_FIELDS
    if all(row.get(SUPPRESSION) is None for row in port_listing.ports):
        hidden.add(SUPPRESSION)
    queried = {(port.identity()["node_guid"], port.num) for port in constraint_errors}

    def errors(name: str) -> Callable[[JsonRow], Any]:
        return lambda row: row[name] if (row["node_guid"], row["port"]) in queried else NOTHING

    visible = [each._replace(title="") if each.name in hidden else each for each in fields]
    return [each._replace(text=errors(each.name)) if each.name in _CONSTRAINT_ERRORS else each for each in visible]


def _note_unread(constraint_errors: Mapping[Port, ConstraintErrors]) -> None:
    """Write a note about the switch ports whose PortCounters were not read.

    PortCounters are read by LID and P_Key, so the answers to SMPs do not mean that they can be read.
    """
    unread = [(port, errors.error) for port, errors in constraint_errors.items() if errors.error is not None]
    if unread:
        port, error = unread[0]
        exits.note(f"constraint errors of {counted(len(unread), 'switch port')} are not known; {port}: {error}")

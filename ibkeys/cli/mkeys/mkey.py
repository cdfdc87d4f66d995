"""The commands `mkey-show` and `mkey-set`: M_Keys of ports."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ibkeys.cli import options
from ibkeys.cli.addresses import port_arguments
from ibkeys.cli.changing import change_port
from ibkeys.cli.documents.m_key import M_KEY_VALUES, MKEY_SET, MKEY_SHOW
from ibkeys.cli.help.command import command
from ibkeys.cli.mkeys import key_options
from ibkeys.cli.options import AddressKinds, ChangeOptions, ShowPortsOptions
from ibkeys.cli.showing import read_port_listing, show, values_of
from ibkeys.cli.sm.policy import policy_if_known
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.topology.nodes import Port


@command("mkey-show")
@options.show_ports_options(
    options.flag("--zero", help="Only ports with M_Key 0; without ADDR among all, as with --all.")
)
def mkey_show(command_options: ShowPortsOptions, zero: bool) -> int:
    """Show M_Key state, ProtectBits, lease and violations.

    The M_Key is 'zero', 'set', 'hidden' (the port shows it only to requests with the key) or 'unreadable'; -K
    prints a key that is set and readable. An external port of a switch has the M_Key of port 0, so --all lists port
    0 only; --each adds the external ports to JSON and CSV.
    """

    def values(port: Port) -> dict[str, Any]:
        return _values(port, command_options.where.show_keys)

    if zero and not command_options.words:
        command_options = replace(command_options, every_port=True)
    keeps = (lambda port: port.m_key_state == "zero") if zero else None
    port_listing = read_port_listing(
        command_options, lambda handle: handle.read_port_info(), values, policy_if_known, keeps=keeps
    )
    if port_listing.is_sweep and not (command_options.listing.each and command_options.format != "table"):
        port_listing.ports = [row for row in port_listing.ports if row["node_type"] != "switch" or row["port"] == 0]
    return show(MKEY_SHOW, port_listing, M_KEY_VALUES, command_options)


def _values(port: Port, show_keys: bool) -> dict[str, Any]:
    info = port.end_port.port_info
    state = port.m_key_state
    shown = show_keys and info is not None and state in ("set", "zero")
    return {
        "m_key_state": state,
        "m_key": f"0x{info.m_key:016x}" if shown and info is not None else None,
        **values_of(info, ("m_key_protect_bits", "m_key_lease_period", "m_key_violations")),
    }


@command("mkey-set")
@options.address()
@key_options.new_m_key("The new M_Key: @FILE reads it, '-' asks for it without echo.")
@key_options.protect("M_KeyProtectBits.")
@key_options.lease("M_KeyLeasePeriod; 0: the lease never expires.")
@options.change
def mkey_set(
    command_options: ChangeOptions,
    kind: AddressKinds,
    words: tuple[str, ...],
    new_m_key: str | None,
    protect: int | None,
    lease: int | None,
) -> int:
    """Set M_Key, ProtectBits or lease of one port.

    Values that are not given stay as they are. The new key is saved in the key store, on disk, before it is sent; a
    Set whose answer is lost is never repeated blindly. On a switch only port 0 has an M_Key.
    """
    from ibkeys.mkeys.set import plan_mkey_set

    if new_m_key is None and protect is None and lease is None:
        raise UsageError("nothing to set: give --new-m-key, --protect or --lease")
    named_port = port_arguments(words, kind)
    key = key_options.read_new_m_key(new_m_key)
    return change_port(
        MKEY_SET, command_options, named_port, lambda writer, port: plan_mkey_set(writer, port, key, protect, lease)
    )

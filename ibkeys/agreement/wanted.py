"""The P_Keys that a policy gives each end port and its leaf port, in the same form as a node's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from ibkeys.agreement.source_values import NOTHING, PortView, Protection
from ibkeys.keys.pkey import PKey
from ibkeys.partitions.membership import end_ports_of, resolve, uncertain_partitions
from ibkeys.partitions.model import Policy
from ibkeys.partitions.opensm_tables import place_leaf
from ibkeys.plan.model import Enforce
from ibkeys.reach.forms import by_partition
from ibkeys.topology.enforcement import Enforcement, leaf_of
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

_OFF: Final = PortView(None, Enforcement(False, False))


def wanted_values(
    policy: Policy | None,
    found: Topology,
    sm_port_guid: int | None,
    *,
    allow_both: bool,
    enforce: Enforce | None,
    protection: Protection | None = None,
) -> Mapping[Port, PortView]:
    """Return the values that *policy* gives each end port with a port GUID, and its leaf port.

    If *enforce* is known, ports between switches are returned too, with enforcement off. *policy* None: there is no
    file, and every port is a full member, as with a file that OpenSM refuses.

    The other arguments are the settings with which an SM turns a policy into tables. *sm_port_guid*: the port of the
    SM, None if it is not known. *allow_both*: the SM's allow_both_pkeys. *enforce*: the enforcement of leaf ports, None
    if not known. *protection*: M_Key level and lease, None if not known.

    Source: opensm osm_prtn.c, osm_pkey_mgr.c: a leaf port gets the P_Keys of its end port, without a limited one whose
    full one is there. It gets none if nothing is enforced. Ports between switches enforce nothing.
    """
    uncertain, left_open = frozenset[int](), frozenset[int]()
    if policy is not None:
        left_open = policy.open_partitions
        uncertain = uncertain_partitions(policy, knows_sm=sm_port_guid is not None) - left_open
    end_ports = end_ports_of(found.end_ports())
    members = resolve(policy, end_ports, sm_port_guid, allow_both, emulate_fallback=True).by_port
    views: dict[Port, PortView] = {}
    if enforce is not None:
        views = {port: _OFF for port in found.ports() if port.is_between_switches}
    for port in found.end_ports():
        if not port.guid:
            continue
        keys = members.get(port.guid, ())
        views[port] = PortView(by_partition(keys), protection=protection, uncertain=uncertain, left_open=left_open)
        leaf = leaf_of(port)
        if leaf is not None:
            of_leaf = _of_leaf(leaf, keys, enforce)
            views[leaf] = replace(of_leaf, uncertain=uncertain, left_open=left_open)
    return views


def _of_leaf(leaf: Port, keys: Sequence[PKey], enforce: Enforce | None) -> PortView:
    if enforce is None or not leaf.capacity:
        return NOTHING
    if enforce == "off":
        return _OFF
    made = place_leaf(dict(leaf.occupied or ()), dict(enumerate(keys)), leaf.capacity)
    return PortView(by_partition(made.entries.values()), _bits(leaf, enforce, made.enforces))


def _bits(leaf: Port, enforce: Enforce, fits: bool) -> Enforcement | None:
    """Return the enforcement wanted at a leaf port; None if its PortInfo or SwitchInfo is not known. A bit that the
    switch does not support stays as it is."""
    info, switch = leaf.port_info, leaf.node.switch_info
    if info is None or switch is None:
        return None
    inbound, outbound = fits and enforce in ("both", "in"), fits and enforce in ("both", "out")
    return Enforcement(
        inbound if switch.inbound_enforcement_cap else bool(info.partition_enforcement_inbound),
        outbound if switch.outbound_enforcement_cap else bool(info.partition_enforcement_outbound),
    )

"""The two documents that the checks SDN04-04 and SDN04-05 of NVIDIA's ai-cloud-validation read, from agents' answers.

SDN04-04: which tenant has which partition. SDN04-05: which kinds of keys are configured. ``true`` and ``false`` are
written only for facts that were read from the fabric; all others are null, with the reason. A check never passes by
null. Source of the shapes: ai-cloud-validation (Apache-2.0), read with its checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ibkeys.audit.files import Tenancy
from ibkeys.audit.inputs import AuditInput
from ibkeys.classkeys.reading import ANSWERED, ClassKeyReading
from ibkeys.grouping import gathered, grouped
from ibkeys.mad.classes.gmp import KEY_CLASSES, ClassName
from ibkeys.partitions.model import DEFAULT_PARTITION
from ibkeys.printable import counted
from ibkeys.topology.nodes import Port

DEFAULT_PLATFORM: Final = "infiniband"
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class DocumentSite:
    """The site's names in a document: ``platform`` and ``site_id`` as the reader calls them."""

    platform: str
    site_id: str


# --- SDN04-04 ---------------------------------------------------------------------------------------------------------


def partitions_document(data: AuditInput, site: DocumentSite, tenancies: Sequence[Tenancy]) -> dict[str, Any]:
    """Return the document of SDN04-04: one entry for each partition and tenant.

    The document has the partitions of *tenancies* and every other partition that some port has. The default partition,
    which every fabric has, is left out. A partition that no tenant owns is listed without a tenant; a partition of two
    tenants is listed twice.
    """
    members = _members(data)
    named = {each.base: each.name for each in data.policy.partitions} if data.policy is not None else {}
    tenants = grouped(tenancies, lambda tenancy: tenancy.partition)
    unread = _unread_tables(data)
    entries = []
    for partition in sorted({*tenants, *(each for each in members if each != DEFAULT_PARTITION)}):
        for tenancy in tenants.get(partition) or [Tenancy(partition, None)]:
            entries.append(
                {
                    "name": tenancy.name or named.get(partition) or f"0x{partition:x}",
                    "partition_key": f"0x{partition:x}",
                    "tenant_id": tenancy.tenant,
                    **_status(members.get(partition, 0), unread),
                }
            )
    return {**_head(data, site), "partitions_checked": len(entries), "partitions": entries}


def _status(members: int, unread: int) -> dict[str, Any]:
    """Return whether a partition is present on some port, and which reading shows it."""
    on_wire: bool | None
    if members:
        status, on_wire, detail = "active", True, f"{counted(members, 'port')} with a P_Key of it"
    elif unread:
        status, on_wire = "unknown", None
        detail = f"no port that was read has it; the tables of {counted(unread, 'port')} were not read"
    else:
        status, on_wire, detail = "missing", False, "no port has it"
    return {"status": status, "on_wire": on_wire, "source": "P_KeyTable", "detail": detail}


def _members(data: AuditInput) -> dict[int, int]:
    """Return how many end ports have a P_Key of each partition."""
    tables = (port.occupied or () for port in data.end_ports)
    return Counter(partition for table in tables for partition in {key.partition for _, key in table})


def _unread_tables(data: AuditInput) -> int:
    return sum(port.p_key_raw is None for port in data.end_ports) + len(data.hidden)


# --- SDN04-05 ---------------------------------------------------------------------------------------------------------


def keys_document(data: AuditInput, site: DocumentSite) -> dict[str, Any]:
    """Return the document of SDN04-05: for each kind of key whether it is configured, and the attribute that shows
    it."""
    partitions = [each for each in _members(data) if each != DEFAULT_PARTITION]
    return {
        **_head(data, site),
        "partitions_with_pkey": len(partitions),
        "keys": {
            "p_key": _p_keys(data, len(partitions)),
            "management_key": _m_keys(data),
            "aggregation_management_key": _key(
                "class 0x0B", "its layout is not public, so it is not queried; the aggregation manager's file has it"
            ),
            "vendor_specific_key": _class_keys(data, "vs"),
            "congestion_control_key": _class_keys(data, "cc"),
            "node2node_key": _key(
                "class 0x0C", "it is only in NeighborsInfo, which shows keys of other nodes too and is not queried"
            ),
            "manager2node_key": _class_keys(data, "n2n"),
        },
    }


def _key(source: str, detail: str, configured: bool | None = None) -> dict[str, Any]:
    """Return one kind of key. *configured* None: it could not be read, and *detail* gives the reason."""
    return {"configured": configured, "source": source, "detail": detail}


def _p_keys(data: AuditInput, partitions: int) -> dict[str, Any]:
    source, unread = "P_KeyTable of all end ports", _unread_tables(data)
    if partitions:
        return _key(source, f"{counted(partitions, 'partition')} besides the default one", configured=True)
    if unread:
        return _key(source, f"none seen; {counted(unread, 'port')} not read")
    return _key(source, "no port has a partition but the default one", configured=False)


def _m_keys(data: AuditInput) -> dict[str, Any]:
    """Return the entry of M_Keys. They are configured if every end port has an M_Key and no two ports have the same."""
    source = "PortInfo.M_Key of all end ports"
    ports = gathered((port.m_key_state, port) for port in data.end_ports)
    if "zero" in ports:
        return _key(source, f"not set on {_named(ports['zero'])}", configured=False)
    holders: dict[int, set[int]] = {}
    for port in ports.get("set", ()):
        if port.port_info is not None:
            holders.setdefault(port.port_info.m_key, set()).add(port.guid or id(port))
    shared = max(map(len, holders.values()), default=0)
    if shared > 1:
        return _key(source, f"{shared} ports have one and the same key", configured=False)
    unread = len(ports.get("unreadable", ())) + len(data.hidden)
    if unread or not ports:
        return _key(source, f"{counted(unread, 'port')} not read")
    if "hidden" in ports:
        on = _named(ports["hidden"])
        return _key(source, f"set, but it is not known whether each port has its own key: hidden on {on}")
    return _key(source, f"set on {counted(len(data.end_ports), 'port')}, each its own", configured=True)


def _class_keys(data: AuditInput, name: ClassName) -> dict[str, Any]:
    """Return the entry of a management class. It is configured if every port that supports the class has a key. A port
    that hides its key counts as a port with a key.
    """
    of = KEY_CLASSES[name]
    source = f"{of.key_info.name} (class 0x{of.mgmt_class:02x}) of all end ports"
    if data.snapshot.class_keys is None:
        return _key(source, "not queried: `ibkeys audit --class-keys` queries it")
    readings = [each for each in data.snapshot.class_keys if each.of == name]
    ports = gathered((each.state, each.port) for each in readings)
    if "zero" in ports:
        return _key(source, f"not set on {_named(ports['zero'])}", configured=False)
    for state, words in _UNSEEN.items():
        if state in ports:
            return _key(source, f"{words}: {_named(ports[state])}")
    if data.hidden:
        return _key(source, f"{counted(len(data.hidden), 'port')} not read")
    answered = [each for each in readings if each.state in ANSWERED]
    if not answered:
        return _key(source, "no port has this class")
    return _key(source, _how_set(answered), configured=True)


_UNSEEN: Final = {
    "silent": "no answer from",
    "refused": "refused by",
    "unconfirmed": "zeros from ports that may not have the class",
    "not-asked": "not queried",
}
"""States that decide nothing → their text in a document, the most informative first."""


def _how_set(readings: Sequence[ClassKeyReading]) -> str:
    hidden = sum(each.state == "hidden" for each in readings)
    open_ = sum(each.settings is not None and not each.settings.protect_bit for each in readings)
    text = f"set on {counted(len(readings), 'port')}"
    text += f", hidden on {hidden}" if hidden else ""
    return text + (f", readable by everybody on {open_}" if open_ else "")


# --- both -------------------------------------------------------------------------------------------------------------


def _head(data: AuditInput, site: DocumentSite) -> dict[str, Any]:
    """Return the first part of both documents. ``success``: the whole fabric was read; otherwise ``error`` names the
    first attribute that was not."""
    missing = len(data.fabric.troubles)
    head: dict[str, Any] = {"success": not missing, "platform": site.platform, "site_id": site.site_id}
    if missing:
        head["error"] = (
            f"{missing} attributes of the fabric could not be read; the first: {data.fabric.troubles[0].error}"
        )
    return head


def _named(ports: Sequence[Port]) -> str:
    """Return how many ports, with the first of them by name."""
    listed = ", ".join(map(str, ports[:_NAMED]))
    return f"{counted(len(ports), 'port')} ({listed}{', ...' if len(ports) > _NAMED else ''})"

"""The JSON and CSV of `host-show`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ibkeys.cli.showing import values_of
from ibkeys.keys.pkey import entry_documents

if TYPE_CHECKING:
    from ibkeys.host.kernel.functions import MappedFunction
    from ibkeys.host.kernel.interfaces import Interface
    from ibkeys.host.kernel.ports import KernelPort
    from ibkeys.host.kernel.programs import JobScriptLine, TableChoice
    from ibkeys.host.kernel.selinux import PKeyLabel, SelinuxPolicy
    from ibkeys.host.kernel.view import HostView


def document_of(
    view: HostView, ports: Iterable[KernelPort], settings: Iterable[JobScriptLine], partition: int | None
) -> dict[str, Any]:
    """Return the document of `host-show` without its schema. *partition*: of --partition, 15 bits; None without it."""
    return {
        "partition": None if partition is None else f"0x{partition:04x}",
        "ports": [port_document(port, view.selinux) for port in ports],
        "interfaces": [_interface(each) for each in view.interfaces],
        "settings": [_setting(each) for each in settings],
        "selinux": {
            "mode": view.selinux.mode,
            "checks_pkeys": view.selinux.checks_p_keys,
            "checks_smps": view.selinux.checks_smps,
            "labels": None if view.selinux.labels is None else [_label(each) for each in view.selinux.labels],
        },
        "errors": [{"file": each.path, "error": each.error} for each in view.troubles],
    }


def port_document(port: KernelPort, selinux: SelinuxPolicy) -> dict[str, Any]:
    """Return one port of the document. *selinux*: the policy with the labels of P_Keys."""
    entries = entry_documents(port.occupied)
    return {
        "device": port.device,
        **port.id.to_json(),
        "link_layer": port.link_layer,
        "state": port.state_name,
        "sm_lid": port.sm_lid,
        "virtual_function": port.virtual.is_virtual,
        "virtual_function_reason": port.virtual.reason,
        "capacity": port.capacity,
        "pkeys": None
        if entries is None or port.occupied is None
        else [
            {**entry, "selinux_type": selinux.type_of(port.subnet_prefix, key)}
            for entry, (_, key) in zip(entries, port.occupied, strict=True)
        ],
        "unread": port.unread,
        **port.counters,
        "p_key_violations": port.violations.p_key,
        "q_key_violations": port.violations.q_key,
        "functions": [_function(each) for each in port.mapped],
    }


def rows_of(ports: Iterable[KernelPort], selinux: SelinuxPolicy) -> Iterator[dict[str, Any]]:
    """Yield one row for each entry in use; a port without entries has no row."""
    for port in ports:
        document = port_document(port, selinux)
        for entry in document["pkeys"] or ():
            yield {**document, **entry}


def _label(label: PKeyLabel) -> dict[str, Any]:
    return {
        "type": label.type,
        "subnet_prefix": f"0x{label.subnet_prefix:016x}",
        "first": f"0x{label.first:04x}",
        "last": f"0x{label.last:04x}",
    }


def _function(function: MappedFunction) -> dict[str, Any]:
    entries: Sequence[dict[str, Any]] = [
        {
            "index": each.index,
            "physical_index": each.physical,
            "pkey": None if each.p_key is None else str(each.p_key),
        }
        for each in function.entries
    ]
    return {"pci": function.pci, "pkeys": entries}


def _interface(interface: Interface) -> dict[str, Any]:
    port = interface.port
    return {
        "name": interface.name,
        "pkey": None if interface.p_key is None else str(interface.p_key),
        **values_of(interface, ("source", "parent", "mode", "umcast")),
        "up": interface.is_up,
        "running": interface.is_running,
        "device": None if port is None else port.device,
        "port": None if port is None else port.num,
        "index": interface.index,
        "problem": interface.problem,
    }


def _setting(setting: JobScriptLine) -> dict[str, Any]:
    return {
        "program": setting.program.name,
        "variable": setting.program.variable,
        "takes": setting.program.takes,
        "value": setting.value,
        "reason": setting.reason,
        "ports": [{"device": port.device, "port": port.num, **_choice(choice)} for port, choice in setting.choices],
    }


def _choice(choice: TableChoice) -> dict[str, Any]:
    return {
        "index": choice.index,
        "pkey": None if choice.p_key is None else str(choice.p_key),
        "value": choice.value,
        "reason": choice.reason,
    }

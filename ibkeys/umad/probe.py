"""Checks of the parts of the real stack on this host, for ``ibkeys doctor``. Nothing is sent or changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ibkeys.errors import LibraryMissing
from ibkeys.files import or_none
from ibkeys.umad import devices
from ibkeys.umad.port import LocalCa, LocalPort


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of one check. ``ok``: None if the check is neither passed nor failed, such as for a port without a
    link; ``advice``: the user's action, "" for none."""

    name: str
    ok: bool | None
    detail: str
    advice: str = ""


def probe(
    root: Path = Path("/"),
    binding: Callable[[], object] = devices.binding,
    list_cas: Callable[[], Sequence[LocalCa]] = devices.list_cas,
) -> list[ProbeResult]:
    """Return the results for libibumad, RDMA devices, kernel module, device files, channel adapters and their ports, in
    that order.

    Reads folders under *root*. *binding* loads libibumad, *list_cas* asks it for the channel adapters. Needs no
    privileges. Raises DeviceGone.
    """
    checks = [_library(binding), _class(root), _module(root), _device_files(root)]
    if not checks[0].ok:
        return [*checks, ProbeResult("channel adapters", None, "cannot be listed without libibumad")]
    cas = list_cas()
    if not cas:
        return [
            *checks,
            ProbeResult("channel adapters", False, "none with InfiniBand", "is the HCA's driver loaded? lspci"),
        ]
    for ca in cas:
        kind = {1: "CA", 2: "switch", 3: "router"}.get(ca.node_type, f"type {ca.node_type}")
        detail = f"{kind} {ca.ca_type} firmware {ca.fw_version} node GUID {ca.node_guid:#018x}"
        checks.append(ProbeResult(f"channel adapter {ca.name}", True, detail))
        checks += [_port(port) for port in ca.ports]
    return checks


def _listdir(root: Path, path: str) -> list[str] | None:
    # os.listdir(), because libumad2sim intercepts it.
    names = or_none(os.listdir, root / path.lstrip("/"))
    return None if names is None else sorted(names)


def _library(binding: Callable[[], object]) -> ProbeResult:
    try:
        binding()
    except LibraryMissing as error:
        return ProbeResult("libibumad", False, error.reason, error.cure)
    return ProbeResult("libibumad", True, "ibkeys' extension is built and libibumad is loaded")


def _class(root: Path) -> ProbeResult:
    names = _listdir(root, devices.SYS_INFINIBAND)
    if names:
        return ProbeResult("RDMA devices", True, f"{devices.SYS_INFINIBAND}: {', '.join(names)}")
    detail = f"{devices.SYS_INFINIBAND} is {'empty' if names is not None else 'not there'}"
    return ProbeResult(
        "RDMA devices", False, detail, "no HCA, or its driver is not loaded: lspci, then modprobe mlx5_ib or its like"
    )


def _module(root: Path) -> ProbeResult:
    names = _listdir(root, devices.SYS_INFINIBAND_MAD)
    if names is not None and "abi_version" in names:
        return ProbeResult("kernel module ib_umad", True, f"{devices.SYS_INFINIBAND_MAD}/abi_version is there")
    detail = f"no {devices.SYS_INFINIBAND_MAD}/abi_version"
    return ProbeResult("kernel module ib_umad", False, detail, "modprobe ib_umad")


def _device_files(root: Path) -> ProbeResult:
    folder = "/dev/infiniband"
    umads = [name for name in _listdir(root, folder) or [] if name.startswith("umad")]
    if not umads:
        if "umad2sim" in os.environ.get("LD_PRELOAD", ""):
            return ProbeResult("device files", None, "simulated by libumad2sim: there are no files to check")
        return ProbeResult(
            "device files", False, f"no {folder}/umad*", "modprobe ib_umad; in a container, pass the devices to it"
        )
    closed = [name for name in umads if not os.access(root / folder.lstrip("/") / name, os.R_OK | os.W_OK)]
    if closed:
        detail = f"{folder}: this user may not open {', '.join(closed)}"
        return ProbeResult("device files", False, detail, "run as root: whoever can send SMPs controls the fabric")
    return ProbeResult("device files", True, f"{folder}: {', '.join(umads)}, readable and writable")


def _port(port: LocalPort) -> ProbeResult:
    name = f"port {port.ca_name}/{port.port}"
    state = devices.STATES.get(port.state, f"state {port.state}")
    link = "up" if port.phys_state == devices.LINK_UP else "down"
    detail = f"{state}, link {link}, {port.link_layer}, LID {port.base_lid}"
    if port.link_layer not in devices.INFINIBAND:
        return ProbeResult(name, None, detail, "an Ethernet port has no subnet management")
    if port.capability_mask & devices.IS_SM_DISABLED:
        advice = "a virtual function: send SMPs from the host that owns the HCA"
        return ProbeResult(name, False, f"{detail}, may not send SMPs", advice)
    if port.phys_state != devices.LINK_UP:
        return ProbeResult(name, None, detail, "no link: is there a cable, and is the other end on?")
    if port.state != devices.ACTIVE:
        return ProbeResult(name, None, detail, "the link waits for a subnet manager")
    return ProbeResult(name, True, f"{detail}, SM LID {port.sm_lid}")

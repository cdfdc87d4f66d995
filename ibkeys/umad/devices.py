"""The channel adapters of this host, as libibumad shows them, and the choice of one of their ports.

Everything here goes through libibumad, and folders are examined with os.listdir() only. The reason is libumad2sim, the
preload library that gives unmodified programs the device of ibsim: it intercepts neither Python's open() nor its
stat().
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from ibkeys.arguments import given
from ibkeys.errors import DeviceGone, LibraryMissing, NoDevice, PortDown, SmpsNotAllowed
from ibkeys.umad.port import LocalCa, LocalPort

SYS_INFINIBAND = "/sys/class/infiniband"
LISTING_LIMIT = 10.0
"""The longest time to list a folder of sysfs, in seconds. The kernel needs microseconds."""
SYS_INFINIBAND_MAD = "/sys/class/infiniband_mad"
BUILD_ADVICE = "apt-get install libibumad-dev gcc pkg-config python3-dev, then install ibkeys from its source"
LIBRARY_ADVICE = "apt-get install libibumad3 (on other systems the package is called libibumad)"

IS_SM_DISABLED = 0x400  # PortInfo:CapabilityMask bit 10; it is set on virtual functions, which have no QP0.
ACTIVE, LINK_UP = 4, 5
STATES = {1: "Down", 2: "Initialize", 3: "Armed", 4: "Active"}
INFINIBAND = ("InfiniBand", "IB")  # libibumad returns IB if the kernel shows no link layer.


class Binding(NamedTuple):
    """The extension: cffi's ``ffi`` and the ``lib`` with libibumad's functions."""

    ffi: Any
    lib: Any


@cache
def binding() -> Binding:
    """Return the extension, with libibumad loaded. Raises LibraryMissing, whose message names the package to install.

    Only the real stack needs the extension and libibumad, so neither is loaded before the first call.
    """
    try:
        import ibkeys.umad._libibumad as extension
    except ImportError:
        raise LibraryMissing(
            "ibkeys was built without its extension over libibumad, so the backend umad does not work",
            errno.ENOSYS,
            BUILD_ADVICE,
        ).explained(
            "Wheels and packages for a processor have the extension; the wheel that ends in -none-any.whl has not."
        ) from None
    loaded = Binding(extension.ffi, extension.lib)
    reason = loaded.lib.ibkeys_load()
    if reason:
        text = loaded.ffi.string(reason).decode("utf-8", "replace")
        raise LibraryMissing(f"libibumad cannot be loaded ({text})", errno.ENOSYS, LIBRARY_ADVICE).explained(
            "The library is searched for in the folders of LD_LIBRARY_PATH, then in those that ldconfig -p lists. A"
            " file named libibumad.so.3 without a function of version IBUMAD_1.0 is not the libibumad of rdma-core."
        )
    return loaded


# Local channel adapters -----------------------------------------------------------------------------------------------


def list_cas() -> tuple[LocalCa, ...]:
    """Return the InfiniBand-capable devices of this host, by name; () when there is none.

    A device that libibumad cannot read (more than nine ports, no P_Key table) is left out. Needs no privileges.
    Raises LibraryMissing, DeviceGone.
    """
    cas = []
    for name in ca_names():
        try:
            cas.append(read_ca(name))
        except NoDevice:
            continue
    # node_type 1, 2 and 3: CA, switch and router. Higher numbers are iWARP and others.
    return tuple(ca for ca in cas if 1 <= ca.node_type <= 3)


def ca_names() -> list[str]:
    """Return the names of all RDMA devices, whether or not libibumad can read them.

    umad_get_cas_names() is called on a simulated host only: on a real host without devices it returns invented names.
    Raises DeviceGone.
    """
    simulated = simulated_names()
    return sorted(_entries(SYS_INFINIBAND)) if simulated is None else simulated


def simulated_names() -> list[str] | None:
    """Return the names of the devices of a host that libumad2sim simulates; None on a real host, also without
    libibumad."""
    try:
        ffi, lib = binding()
    except LibraryMissing:
        return None
    names = ffi.new("char[]", lib.IBKEYS_MOST_NAMES * lib.IBKEYS_NAME_LEN)
    count = lib.ibkeys_simulated_names(names)
    if count < 0:
        return None
    size = lib.IBKEYS_NAME_LEN
    return [ffi.string(names + size * number, size).decode("utf-8", "replace") for number in range(count)]


def _entries(folder: str) -> list[str]:
    """Return the names in a folder, [] if it cannot be read. Raises DeviceGone after `LISTING_LIMIT` seconds.

    libumad2sim attaches to its simulator when a folder is first listed. If the simulator ends during that, the call of
    opendir() never returns. So a daemon thread lists the folder: the program can end without it.
    """
    names: list[str] = []

    def list_folder() -> None:
        with suppress(OSError):
            names.extend(os.listdir(folder))

    lister = threading.Thread(target=list_folder, daemon=True)
    lister.start()
    lister.join(LISTING_LIMIT)
    if lister.is_alive():
        raise DeviceGone(
            f"{folder} could not be listed within {LISTING_LIMIT:g} s: if a simulator serves it (ibsim, ibkeys sim "
            "serve), the simulator has ended or hangs: start it again",
            errno.ETIMEDOUT,
        )
    return names


def read_ca(name: str) -> LocalCa:
    """Return device *name* and its ports as libibumad shows them. Raises NoDevice, LibraryMissing."""
    ffi, lib = binding()
    ca = ffi.new("umad_ca_t *")
    result = lib.umad_get_ca(name.encode(), ca)
    if result < 0:
        raise NoDevice(f"umad_get_ca {name}: {os.strerror(-result)}", -result)
    try:
        present = [ca.ports[n] for n in range(lib.UMAD_CA_MAX_PORTS) if ca.ports[n]]
        return LocalCa(
            name=name,
            node_type=ca.node_type,
            fw_version=_text(ffi, ca.fw_ver),
            ca_type=_text(ffi, ca.ca_type),
            hw_version=_text(ffi, ca.hw_ver),
            node_guid=_be64(ca.node_guid),
            ports=tuple(_local_port(ffi, name, port) for port in present),
        )
    finally:
        lib.umad_release_ca(ca)


def read_port(ca_name: str, port: int) -> LocalPort:
    """Return one port as libibumad shows it. Raises NoDevice, LibraryMissing."""
    ffi, lib = binding()
    umad_port = ffi.new("umad_port_t *")
    result = lib.umad_get_port(ca_name.encode(), port, umad_port)
    if result < 0:
        raise NoDevice(f"umad_get_port {ca_name} port {port}: {os.strerror(-result)}", -result)
    try:
        return _local_port(ffi, ca_name, umad_port)
    finally:
        lib.umad_release_port(umad_port)


def _local_port(ffi: Any, ca_name: str, port: Any) -> LocalPort:
    return LocalPort(
        ca_name=ca_name,
        port=port.portnum,
        base_lid=port.base_lid,
        lmc=port.lmc,
        sm_lid=port.sm_lid,
        sm_sl=port.sm_sl,
        state=port.state,
        phys_state=port.phys_state,
        capability_mask=int.from_bytes(port.capmask.to_bytes(4, sys.byteorder), "big"),
        gid_prefix=_be64(port.gid_prefix),
        port_guid=_be64(port.port_guid),
        link_layer=_text(ffi, port.link_layer),
        pkeys=tuple(ffi.unpack(port.pkeys, port.pkeys_size)) if port.pkeys_size else (),
    )


def _be64(value: int) -> int:
    # GUIDs and prefixes are big-endian even in libibumad's structures.
    return int.from_bytes(value.to_bytes(8, sys.byteorder), "big")


def _text(ffi: Any, chars: Any) -> str:
    return str(ffi.string(chars).decode("utf-8", "replace"))


# Choosing a port -----------------------------------------------------------------------------------------------------


def choose_port(cas: Sequence[LocalCa], ca: str | None, port: int | None) -> LocalPort:
    """Return the port that -C (*ca*) and -P (*port*) name.

    If one of them is None, this is the first Active port that fits and may send SMPs, else the first such port with a
    link. If both are given, its link does not matter. Raises NoDevice, PortDown, SmpsNotAllowed, DeviceGone.
    """
    if not cas:
        if ca_names():
            raise NoDevice(
                f"none of the devices in {SYS_INFINIBAND} ({', '.join(ca_names())}) is an InfiniBand "
                "device that libibumad can read: run ibkeys doctor",
                errno.ENODEV,
            )
        raise NoDevice(
            "this host has no InfiniBand device: check that there is an HCA and that its driver is loaded "
            f"(`ibkeys doctor`), or use a simulated fabric ({given('`--backend sim:`', '`sim:`')})",
            errno.ENODEV,
        ).explained(f"{SYS_INFINIBAND} is empty or not there.")
    if ca is not None and ca not in [each.name for each in cas]:
        raise NoDevice(f"no channel adapter {ca}: there is {_describe(cas)}", errno.ENODEV)
    ports = [each for adapter in cas if ca in (None, adapter.name) for each in adapter.ports]
    named = [each for each in ports if port in (None, each.port)]
    if not named:
        missing = "no port" if port is None else f"no port {port}"
        raise NoDevice(f"{missing} on {ca or 'any channel adapter'}: there is {_describe(cas)}", errno.ENODEV)
    infiniband = [each for each in named if each.link_layer in INFINIBAND]
    if not infiniband:
        raise NoDevice(f"no InfiniBand link layer, so no SMPs: there is {_describe(cas)}", errno.ENODEV)
    capable = [each for each in infiniband if not each.capability_mask & IS_SM_DISABLED]
    if not capable:
        partners = [name for each in infiniband if (name := _smi_partner(cas, each))]
        advice = "run this on the host that owns the physical function"
        if partners:
            advice = f"its SMPs go through -C {partners[0]}"
        raise SmpsNotAllowed(
            f"{infiniband[0].ca_name} port {infiniband[0].port} may not send SMPs (CapabilityMask IsSMdisabled, as on "
            f"a virtual function): {advice}",
            errno.EPERM,
        )
    if ca is not None and port is not None:
        return capable[0]
    for is_preferred in (lambda each: each.state == ACTIVE, lambda each: each.phys_state == LINK_UP):
        for each in filter(is_preferred, capable):
            return each
    raise PortDown(
        f"no port with a link: there is {_describe(cas)}; check the cable; a port "
        "without a link can be queried if both -C and -P are given",
        errno.ENETDOWN,
    )


def _describe(cas: Sequence[LocalCa]) -> str:
    def ports(ca: LocalCa) -> str:
        return ", ".join(
            f"{each.port} {STATES.get(each.state, 'state ' + str(each.state))}"
            + (f" {each.link_layer}" if each.link_layer not in INFINIBAND else "")
            for each in ca.ports
        )

    return "; ".join(f"{ca.name} (port {ports(ca)})" for ca in cas)


def _same_port(cas: Sequence[LocalCa], port: LocalPort) -> Iterator[LocalPort]:
    # The two devices of an SMI/GSI pair show the same port: one with QP0, one without.
    for ca in cas:
        for other in ca.ports:
            if other.ca_name != port.ca_name and other.port_guid == port.port_guid:
                yield other


def _smi_partner(cas: Sequence[LocalCa], port: LocalPort) -> str | None:
    partners = (other for other in _same_port(cas, port) if not other.capability_mask & IS_SM_DISABLED)
    return next((other.ca_name for other in partners), None)


def gsi_partner(cas: Sequence[LocalCa], port: LocalPort) -> tuple[str, int] | None:
    """Return the name of the device and the number of the port that carry GMPs for *port* if its device carries SMPs
    only (an SMI device), else None. Raises LibraryMissing."""
    ffi, lib = binding()
    name = ffi.new("char[]", lib.IBKEYS_NAME_LEN + 1)
    if lib.ibkeys_gsi_of(port.ca_name.encode(), name) == 0:
        gsi = _text(ffi, name)
        if gsi == port.ca_name:
            return None
        numbers = [other.port for other in _same_port(cas, port) if other.ca_name == gsi]
        return gsi, numbers[0] if numbers else port.port
    for other in _same_port(cas, port):
        if other.capability_mask & IS_SM_DISABLED:
            return other.ca_name, other.port
    return None

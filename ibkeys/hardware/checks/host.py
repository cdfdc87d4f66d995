"""Checks of this host: system, adapters, and whether libibumad and the port itself agree."""

from __future__ import annotations

import os
import platform
from itertools import zip_longest
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.hardware.check import CheckAnswer, as_assumed, check, not_checked, seen
from ibkeys.hardware.reading import FabricReading
from ibkeys.mad import offsets as at
from ibkeys.mad.attributes import NodeInfo
from ibkeys.mad.const import MAX_UNICAST_LID, Method
from ibkeys.mad.smp import HEADER_SIZE, build_smp
from ibkeys.umad.devices import STATES
from ibkeys.umad.port import ETIMEDOUT, Incoming, Outgoing
from ibkeys.version import __version__

_ABI: Final = Path("/sys/class/infiniband_mad/abi_version")
_ATTEMPT_MS: Final = 500


@check("host.system", "unknown", "kernel, umad ABI and programs are recorded")
def system(reading: FabricReading) -> CheckAnswer:
    """Return the versions of kernel, Python, ibkeys and umad ABI, and nothing that identifies the host."""
    try:
        abi = files.read_text(_ABI, files.SECRET).strip()
    except (OSError, UnicodeDecodeError):
        abi = "not readable"
    kernel, machine = os.uname().release, platform.machine()
    text = f"Linux {kernel} {machine}, Python {platform.python_version()}, ibkeys {__version__}, umad ABI {abi}"
    return seen(text, simulated=reading.fabric.is_simulated)


@check("host.adapters", "unknown", "adapters, their firmware and the state of their ports are recorded")
def adapters(reading: FabricReading) -> CheckAnswer:
    """Return type, firmware and ports of every adapter of this host, as libibumad shows them."""
    data = [
        {
            "type": ca.ca_type,
            "firmware": ca.fw_version,
            "hardware": ca.hw_version,
            "ports": [
                {"port": port.port, "state": STATES.get(port.state, str(port.state)), "link_layer": port.link_layer}
                for port in ca.ports
            ],
        }
        for ca in reading.cas()
    ]
    if not data:
        return not_checked("libibumad lists no adapter")
    return seen("; ".join(f"{each['type']} firmware {each['firmware']}" for each in data), adapters=data)


@check("umad.own-port", "standard", "libibumad has the GUID, LID and SM LID that the port itself says")
def own_port(reading: FabricReading) -> CheckAnswer:
    """Compare port GUID, LID, MasterSMLID and LMC in sysfs with NodeInfo and PortInfo."""
    local, info = reading.local, reading.own_info
    pairs = {
        "port GUID": (local.port_guid, reading.handle.port.port_guid),
        "LID": (local.base_lid, info.lid),
        "SM LID": (local.sm_lid, info.master_sm_lid),
        "LMC": (local.lmc, info.lmc),
    }
    wrong = [name for name, (host, port) in pairs.items() if host != port]
    return as_assumed(not wrong, f"not the same: {', '.join(wrong)}" if wrong else ", ".join(pairs), differing=wrong)


@check("umad.p-key-table", "standard", "the P_Key table of sysfs is the one that the port answers")
def p_key_table(reading: FabricReading) -> CheckAnswer:
    """Compare the kernel's copy of the P_Key table with the port's own."""
    kernel, port = reading.fabric.local().pkeys, [int(key) for key in reading.handle.read_p_keys()]
    wrong = [index for index, (a, b) in enumerate(zip_longest(kernel, port, fillvalue=0)) if a != b]
    text = f"{len(port)} entries, {len(kernel)} in sysfs"
    return as_assumed(not wrong, text + (f"; {len(wrong)} differ" if wrong else ""), indexes=wrong[:32])


@check("umad.timeout", "standard", "a Get without an answer comes back with errno 110 when its time is over")
def timeout(reading: FabricReading) -> CheckAnswer:
    """Send one Get(NodeInfo) to a LID that no port has, and wait for the kernel's report."""
    # Subnet managers assign the lowest LIDs first, so the highest one is free in nearly every fabric.
    if any(port.lid == MAX_UNICAST_LID for port in reading.end_ports):
        return not_checked(f"LID {MAX_UNICAST_LID} is in use")
    umad = reading.fabric.umad
    mad = build_smp(Method.GET, NodeInfo.attribute_id, transaction_id=0x7EA11)
    started = umad.now()
    if failures := umad.send([Outgoing(mad, MAX_UNICAST_LID, _ATTEMPT_MS)]):
        return as_assumed(False, f"the kernel refused to send it: errno {failures[0].errno}")
    incoming = _receive_answer(reading, mad, started + 4 * _ATTEMPT_MS / 1000)
    if incoming is None:
        return as_assumed(False, f"nothing came back in {4 * _ATTEMPT_MS} ms")
    took = round(1000 * (umad.now() - started))
    text = f"errno {incoming.status} after {took} ms of {_ATTEMPT_MS}, {len(incoming.mad)} bytes"
    is_so = incoming.status == ETIMEDOUT and len(incoming.mad) >= HEADER_SIZE and took >= _ATTEMPT_MS // 2
    return as_assumed(is_so, text, errno=incoming.status, ms=took)


def _receive_answer(reading: FabricReading, mad: bytes, end: float) -> Incoming | None:
    umad = reading.fabric.umad
    while (remaining := end - umad.now()) > 0:
        for incoming in umad.recv(remaining):
            if incoming.mad[at.LOWER_TID] == mad[at.LOWER_TID]:
                return incoming
    return None

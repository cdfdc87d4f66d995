"""The InfiniBand ports of a host, and at which of them an SM runs, learned without a MAD: from the host's kernel, or
for a simulated host from the server of its fabric.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.errors import TransportError
from ibkeys.files import or_none
from ibkeys.host.host_files import HostFiles
from ibkeys.mad.const import CapabilityMask
from ibkeys.sim.hosted.servers import ask
from ibkeys.sim.server.umad import wire
from ibkeys.simulated_host import SimulatedHost

SYSFS: Final = Path("/sys/class/infiniband")
_WORDS: Final = 4
"""The number of 16-bit words in a port GUID, which is the second half of the first GID."""


@dataclass(frozen=True, slots=True)
class HostInfinibandPort:
    """A port with link layer InfiniBand. ``guid``: its port GUID. ``is_sm``: whether its IsSM bit is set."""

    device: str
    port: int
    guid: int
    is_sm: bool


def host_ports(host: HostFiles) -> tuple[HostInfinibandPort, ...]:
    """Return the InfiniBand ports of *host*; ports that cannot be read are left out. Raises HostNotReached.

    A simulated host whose server has ended has no ports.

    Source: Linux Documentation/ABI/stable/sysfs-class-infiniband (link_layer, cap_mask, gids).
    """
    if host.simulated_host is not None:
        return _simulated_ports(host.simulated_host)
    found = []
    for device in or_none(host.names, SYSFS) or ():
        for number in or_none(host.names, SYSFS / device / "ports") or ():
            port = _read_port(host, SYSFS / device / "ports" / number, device, number)
            if port is not None:
                found.append(port)
    return tuple(found)


def _simulated_ports(host: SimulatedHost) -> tuple[HostInfinibandPort, ...]:
    try:
        answer = ask(host.socket, host.host).host
    except TransportError:
        return ()
    return tuple(HostInfinibandPort(*each) for each in wire.parse_ports(answer.ports))


def _read_port(host: HostFiles, folder: Path, device: str, number: str) -> HostInfinibandPort | None:
    try:
        if _read_text(host, folder / "link_layer") != "InfiniBand":
            return None
        words = _read_text(host, folder / "gids" / "0").split(":")
        guid = _parse_number("".join(words[-_WORDS:]), 16)
        mask = _parse_number(_read_text(host, folder / "cap_mask").removeprefix("0x"), 8)
        return HostInfinibandPort(device, _parse_number(number, 3, 10), guid, bool(mask & CapabilityMask.IS_SM))
    except (OSError, ValueError):
        return None


def _parse_number(text: str, most_digits: int, base: int = 16) -> int:
    if not 0 < len(text) <= most_digits or not text.isascii() or not text.isalnum():
        raise ValueError(f"{text[:40]!r} is not a number as the kernel writes it")
    return int(text, base)


def _read_text(host: HostFiles, path: Path) -> str:
    return host.read(path, files.SETTINGS).decode("ascii", "replace").strip()

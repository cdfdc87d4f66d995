"""Hosts with OpenSMs."""

from __future__ import annotations

from tests.managers.hosts import MadeUpHost

ONE, TWO = 0x0002C903000A1011, 0x0002C903000A1021


CONF = "/etc/opensm/opensm.conf"


def sm_host(name: str, guid: int, conf: str = "", policy: str = "Default=0x7fff : ALL=full ;\n") -> MadeUpHost:
    host = MadeUpHost(name)
    host.file(CONF, conf, 0o600)
    host.file("/etc/opensm/partitions.conf", policy)
    add_port(host, "mlx5_0", guid)
    host.opensm(7)
    return host


def add_port(host: MadeUpHost, device: str, guid: int) -> None:
    folder = f"/sys/class/infiniband/{device}/ports/1"
    host.file(f"{folder}/link_layer", "InfiniBand\n")
    words = ":".join(f"{guid >> shift & 0xFFFF:04x}" for shift in (48, 32, 16, 0))
    host.file(f"{folder}/gids/0", f"fe80:0000:0000:0000:{words}\n")
    host.file(f"{folder}/cap_mask", "0x0251484a\n")

"""IPoIB interfaces in the answers of netlink: bytes as Linux' headers say, and the interfaces of a real kernel."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from pyroute2.netlink.rtnl.marshal import MarshalRtnl

from ibkeys.host.kernel.links import Link, links_of, read_links

RTM_NEWLINK = 16
IFLA_IFNAME, IFLA_LINK, IFLA_LINKINFO = 3, 5, 18
IFLA_INFO_KIND, IFLA_INFO_DATA = 1, 2
IFLA_IPOIB_PKEY, IFLA_IPOIB_MODE, IFLA_IPOIB_UMCAST = 1, 2, 3
ARPHRD_INFINIBAND = 32


def attribute(kind: int, value: bytes) -> bytes:
    head = struct.pack("=HH", 4 + len(value), kind)
    return head + value + bytes(-len(value) % 4)


def u16(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=H", value))


def link(index: int, name: str, kind: str = "", data: bytes | None = None, below: int = 0) -> bytes:
    """One RTM_NEWLINK message (linux/if_link.h)."""
    body = struct.pack("=BxHiII", 0, ARPHRD_INFINIBAND, index, 0x1043, 0)
    body += attribute(IFLA_IFNAME, name.encode() + b"\0")
    if below:
        body += attribute(IFLA_LINK, struct.pack("=I", below))
    if kind:
        info = attribute(IFLA_INFO_KIND, kind.encode() + b"\0")
        if data is not None:
            info += attribute(IFLA_INFO_DATA, data)
        body += attribute(IFLA_LINKINFO, info)
    return struct.pack("=IHHII", 16 + len(body), RTM_NEWLINK, 2, 1, 0) + body


def ipoib(p_key: int, mode: int = 0, umcast: int = 0) -> bytes:
    return u16(IFLA_IPOIB_PKEY, p_key) + u16(IFLA_IPOIB_MODE, mode) + u16(IFLA_IPOIB_UMCAST, umcast)


def parsed(*messages: bytes) -> dict[str, Link]:
    return links_of(list(MarshalRtnl().parse(b"".join(messages))))


def test_a_child_has_its_p_key_and_the_name_of_its_parent() -> None:
    found = parsed(
        link(1, "lo"),
        link(4, "ib0", "ipoib", ipoib(0xFFFF)),
        link(5, "storage", "ipoib", ipoib(0x8010, 1, 1), below=4),
        link(6, "veth0", "veth", b""),
    )
    assert found == {
        "ib0": Link("ib0", 0xFFFF, None, "datagram", False),
        "storage": Link("storage", 0x8010, "ib0", "connected", True),
    }


def test_what_the_kernel_leaves_out_is_not_known() -> None:
    assert parsed(link(5, "storage", "ipoib", None, below=9)) == {"storage": Link("storage", None, None, None, None)}
    assert parsed(link(5, "storage", "ipoib", u16(IFLA_IPOIB_MODE, 7)))["storage"].mode is None


def test_this_kernel_is_asked_and_its_interfaces_are_none_of_ipoib() -> None:
    assert all(found.name for found in read_links().values())


def test_interfaces_of_a_network_namespace_of_its_own() -> None:
    """Real interfaces of other kinds: an IPoIB link needs a device of InfiniBand, which no test machine has."""
    unshare = shutil.which("unshare")
    assert unshare is not None
    script = (
        "from pyroute2 import IPRoute\n"
        "from ibkeys.host.kernel.links import links_of, read_links\n"
        "with IPRoute() as route:\n"
        "    route.link('add', ifname='v0', kind='veth', peer={'ifname': 'v1'})\n"  # each is the other's IFLA_LINK
        "    route.link('add', ifname='b0', kind='bridge')\n"
        "    links = {link.get_attr('IFLA_IFNAME'): link for link in route.get_links()}\n"
        "assert {'v0', 'v1', 'b0'} <= set(links), links\n"
        "assert links['v0'].get_attr('IFLA_LINK') == links['v1']['index']\n"
        "assert read_links() == {}\n"
        "print('asked')\n"
    )
    command = [unshare, "--user", "--map-root-user", "--net", sys.executable, "-c", script]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode and "asked" not in done.stdout and _is_refused(done.stderr):
        pytest.skip(f"no network namespace or no links in one: {done.stderr.strip().splitlines()[-1]}")
    assert (done.returncode, done.stdout) == (0, "asked\n"), done.stderr


def _is_refused(text: str) -> bool:
    return any(word in text for word in ("unshare failed", "Operation not permitted", "not supported"))

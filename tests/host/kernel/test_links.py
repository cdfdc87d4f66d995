"""IPoIB interfaces in the answers of netlink: bytes as Linux' headers say, and the interfaces of a real kernel."""

from __future__ import annotations

import os
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


# Only pyroute2: what is refused here is refused by the kernel, not by the code under test.
ADD_LINKS = """
from pyroute2 import IPRoute
def add_links(route):
    route.link("add", ifname="v0", kind="veth", peer={"ifname": "v1"})  # each is the other's IFLA_LINK
    route.link("add", ifname="b0", kind="bridge")
"""
PROBE = f"""{ADD_LINKS}
import errno, os
from pyroute2.netlink.exceptions import NetlinkError
with IPRoute() as route:
    try:
        add_links(route)
    except NetlinkError as error:
        if error.code not in (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP):
            raise
        print("adding a link:", os.strerror(error.code))
"""
READ = f"""{ADD_LINKS}
from ibkeys.host.kernel.links import read_links
with IPRoute() as route:
    add_links(route)
    links = {{link.get_attr("IFLA_IFNAME"): link for link in route.get_links()}}
assert {{"v0", "v1", "b0"}} <= set(links), links
assert links["v0"].get_attr("IFLA_LINK") == links["v1"]["index"]
assert read_links() == {{}}
"""


def in_own_network(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a network namespace of its own, as root of it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    line = ["unshare", "--user", "--map-root-user", "--net", *command]
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def own_network() -> None:
    """Skip where a test may not make a network namespace and links in it."""
    made = in_own_network("true")
    refusal = made.stderr.strip()
    if not made.returncode:
        added = in_own_network(sys.executable, "-c", PROBE)
        assert added.returncode == 0, added.stderr
        refusal = added.stdout.strip()
    if refusal:
        pytest.skip(
            "links of a network namespace were not read: this host or container does not allow a user to make one with "
            f"veth and bridge links ({refusal}); run the test where `unshare --user --map-root-user --net true` works"
        )


@pytest.mark.usefixtures("own_network")
def test_interfaces_of_a_network_namespace_of_its_own() -> None:
    """Real interfaces of other kinds: an IPoIB link needs a device of InfiniBand, which no test machine has."""
    done = in_own_network(sys.executable, "-c", READ)
    assert done.returncode == 0, done.stderr

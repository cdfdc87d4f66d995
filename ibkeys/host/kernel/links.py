"""What netlink tells of IPoIB interfaces: the P_Key and parent of children that sysfs has no file for.

The netlink dialect is pyroute2's. Source: Linux if_link.h (IFLA_IPOIB_PKEY, IFLA_IPOIB_MODE, IFLA_IPOIB_UMCAST).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

KIND: Final = "ipoib"
_MODES: Final = {0: "datagram", 1: "connected"}


@dataclass(frozen=True, slots=True)
class Link:
    """One IPoIB interface. ``p_key``: as the driver has it; ``parent``: the name of the interface below, None for a
    parent."""

    name: str
    p_key: int | None
    parent: str | None
    mode: str | None
    umcast: bool | None


def read_links() -> dict[str, Link]:
    """Return the IPoIB interfaces of this network namespace by name, asking the kernel. Needs no rights.

    Raises OSError when there is no netlink socket, or its answer cannot be read.
    """
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with IPRoute() as route:
            return links_of(list(route.get_links()))
    except NetlinkError as error:
        raise OSError(error.code, f"the kernel refused the list of interfaces: {error}") from error


def links_of(messages: Iterable[Any]) -> dict[str, Link]:
    """Return the IPoIB interfaces among RTM_NEWLINK messages of pyroute2, by name."""
    links = list(messages)
    names = {link["index"]: link.get_attr("IFLA_IFNAME") for link in links}
    return {found.name: found for link in links if (found := _link(link, names)) is not None}


def _link(message: Any, names: dict[int, str]) -> Link | None:
    info = message.get_attr("IFLA_LINKINFO")
    name = message.get_attr("IFLA_IFNAME")
    if info is None or name is None or info.get_attr("IFLA_INFO_KIND") != KIND:
        return None
    data = info.get_attr("IFLA_INFO_DATA")
    if data is None:
        return Link(name, None, None, None, None)
    mode, umcast = data.get_attr("IFLA_IPOIB_MODE"), data.get_attr("IFLA_IPOIB_UMCAST")
    return Link(
        name,
        data.get_attr("IFLA_IPOIB_PKEY"),
        names.get(message.get_attr("IFLA_LINK") or 0),
        mode if isinstance(mode, str) else _MODES.get(mode) if mode is not None else None,
        None if umcast is None else bool(umcast),
    )

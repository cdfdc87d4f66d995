"""Whether a port is where the last sweep found it: the key of a class goes by LID, and to its own port only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import LinkEnd, Port


def doubts(
    ports: Iterable[Port],
    found: Topology,
    changed_links: Callable[[list[Port]], Mapping[Port, str]],
    place_of: Callable[[int], LinkEnd | None],
) -> dict[Port, str]:
    """Return which of *ports* get no key, and why.

    *found*: what the last sweep of this run found. *changed_links*: looks at the links to ports again and returns those
    to which one has changed. *place_of*: port GUID → the end of the link before it, where that is known from elsewhere.
    """
    by_guid: dict[int, list[Port]] = {}
    for each in found.end_ports():
        by_guid.setdefault(each.guid, []).append(each)
    doubtful: dict[Port, str] = {}
    swept: dict[Port, Port] = {}
    for port in ports:
        same = by_guid.get(port.guid, [])
        here = next((each for each in same if each.lid == port.lid), None)
        if here is None:
            doubtful[port] = f"the sweep found no port of this GUID at LID {port.lid}"
        elif here in found.doubtful:
            doubtful[port] = found.doubtful[here]
        elif any(each.node is not here.node for each in same):
            doubtful[port] = "another node says that it has this port GUID"
        elif here.peer is not None and place_of(port.guid) not in (None, here.peer.link_end):
            doubtful[port] = "its known link is another one"
        else:
            swept[port] = here
    changed = changed_links(list(swept.values())) if swept else {}
    return {**doubtful, **{port: changed[here] for port, here in swept.items() if here in changed}}

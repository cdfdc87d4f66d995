"""Net files of fat trees with two or three levels of switches: tests and benchmarks need no file from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_HOST_GUID = 0xB8CEF60300100000
_SWITCH_GUID = 0x98039B0300400000
_STEP = 0x10

Cable = tuple[str, int, str, int]
"""Node, port, node, port."""


def fat_tree(leaves: int, hosts: int, spines: int, *, pods: int = 1, cores: int = 0, radix: int = 0) -> str:
    """Return the net file of a fat tree, as ibnetdiscover prints it.

    Each of the *pods* has *leaves* switches with *hosts* hosts each, and *spines* switches, each linked to every leaf
    there. Spine n of every pod is linked to the *cores* switches of core group n; without cores there are two levels.
    36-port switches make at most ``fat_tree(18, 18, 18, pods=36, cores=18)``: 11,664 hosts.

    Ports of a switch: first those that lead down, in order, then those that lead up. *radix*: how many a switch has at
    least; free ones are the last. LIDs: hosts, leaves, spines, cores, from 1. The first host is where a program sits by
    default.
    """
    names = dict(_nodes(leaves, hosts, spines, pods, cores))
    lids = {node: lid for lid, node in enumerate(names, 1)}
    ends: dict[str, list[tuple[int, str, int]]] = {node: [] for node in names}
    for near, port, far, far_port in _cables(leaves, hosts, spines, pods, cores):
        ends[near].append((port, far, far_port))
        ends[far].append((far_port, near, port))
    lines = [f"# fat tree: {pods * leaves * hosts} hosts, {len(names) - pods * leaves * hosts} switches"]
    for node, name in names.items():
        guid, links = int(node[2:], 16), sorted(ends[node])
        if node.startswith("H"):
            [(port, peer, peer_port)] = links
            far = f'lid {lids[node]} lmc 0 "{names[peer]}" lid {lids[peer]} 4xNDR'
            lines += ["", f"caguid=0x{guid:x}", f'Ca\t1 "{node}"\t\t# "{name}"']
            lines.append(f'[{port}]({guid + 1:x})\t"{peer}"[{peer_port}]\t\t# {far}')
            continue
        ports = max(radix, links[-1][0])
        lines += ["", f"switchguid=0x{guid:x}"]
        lines.append(f'Switch\t{ports} "{node}"\t\t# "{name}" base port 0 lid {lids[node]} lmc 0')
        for port, peer, peer_port in links:
            own = f"({int(peer[2:], 16) + 1:x})" if peer.startswith("H") else ""
            lines.append(f'[{port}]\t"{peer}"[{peer_port}]{own}\t\t# "{names[peer]}" lid {lids[peer]} 4xNDR')
    return "\n".join(lines) + "\n"


def full_members(hosts: Iterable[int]) -> str:
    """Return the ports of *hosts*, by number from 0, as full members of a partition in a policy.

    Each has a line of its own, for OpenSM cuts a line after 4,095 bytes.
    """
    return ",\n".join(f"{_HOST_GUID + host * _STEP + 1:#x}=full" for host in hosts)


def _host(number: int) -> str:
    return f"H-{_HOST_GUID + number * _STEP:016x}"


def _switch(number: int) -> str:
    return f"S-{_SWITCH_GUID + number * _STEP:016x}"


def _nodes(leaves: int, hosts: int, spines: int, pods: int, cores: int) -> Iterator[tuple[str, str]]:
    """Yield the id and name of every node in the order of the LIDs."""
    for number in range(pods * leaves * hosts):
        yield _host(number), f"node{number + 1:05} mlx5_0"
    switches = [("leaf", pods, leaves), ("spine", pods, spines), ("core", spines, cores)]
    names = [
        f"{kind} {group + 1}-{n + 1}" for kind, groups, each in switches for group in range(groups) for n in range(each)
    ]
    for number, name in enumerate(names):
        yield _switch(number), name


def _cables(leaves: int, hosts: int, spines: int, pods: int, cores: int) -> Iterator[Cable]:
    """Yield every cable from below: hosts to leaves, leaves to spines, spines to cores."""
    first_spine, first_core = pods * leaves, pods * (leaves + spines)
    for number in range(pods * leaves * hosts):
        yield _host(number), 1, _switch(number // hosts), number % hosts + 1
    for pod in range(pods):
        for spine in range(spines):
            here = _switch(first_spine + pod * spines + spine)
            for leaf in range(leaves):
                yield _switch(pod * leaves + leaf), hosts + spine + 1, here, leaf + 1
            for core in range(cores):
                yield here, leaves + core + 1, _switch(first_core + spine * cores + core), pod + 1

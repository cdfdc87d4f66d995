"""Net files of three-level fat trees of 36-port switches, whole or in part."""

from __future__ import annotations

RADIX = 36
HOST_GUID = 0xB8CEF60300100000
SWITCH_GUID = 0x98039B0300400000
STEP = 0x10


def fat_tree(pods: int, leaves: int, spines: int, cores: int, hosts: int, radix: int = RADIX) -> str:
    """Return the net file of *pods* pods of *leaves* leaves and *spines* spines each.

    Each leaf has *hosts* hosts and is linked to every spine of its pod; spine n of every pod is linked to each of the
    *cores* switches of core group n. With 36 pods and 18 of all others it is the whole tree: 11,664 hosts. The first
    host is where a program sits by default. *radix*: ports of a switch. LIDs: hosts first, then leaves, spines, cores.
    """
    hosts_in_all = pods * leaves * hosts
    edges: list[tuple[str, int, str, int]] = []
    lids: dict[str, int] = {}
    names: dict[str, str] = {}

    def node(kind: str, number: int, name: str) -> str:
        guid = (HOST_GUID if kind == "H" else SWITCH_GUID) + number * STEP
        node_id = f"{kind}-{guid:016x}"
        lids[node_id] = len(lids) + 1
        names[node_id] = name
        return node_id

    host_ids = [node("H", number, f"node{number + 1:05} mlx5_0") for number in range(hosts_in_all)]
    leaf_ids = [node("S", n, f"leaf {n // leaves + 1}-{n % leaves + 1}") for n in range(pods * leaves)]
    first = len(leaf_ids)
    spine_ids = [node("S", first + n, f"spine {n // spines + 1}-{n % spines + 1}") for n in range(pods * spines)]
    first += len(spine_ids)
    core_ids = [node("S", first + n, f"core {n // cores + 1}-{n % cores + 1}") for n in range(spines * cores)]
    for number, host in enumerate(host_ids):
        leaf, place = divmod(number, hosts)
        edges.append((host, 1, leaf_ids[leaf], place + 1))
    for pod in range(pods):
        for leaf in range(leaves):
            for spine in range(spines):
                near = leaf_ids[pod * leaves + leaf]
                edges.append((near, radix // 2 + spine + 1, spine_ids[pod * spines + spine], leaf + 1))
        for spine in range(spines):
            for core in range(cores):
                near = spine_ids[pod * spines + spine]
                edges.append((near, radix // 2 + core + 1, core_ids[spine * cores + core], pod + 1))
    ends: dict[str, list[tuple[int, str, int]]] = {node_id: [] for node_id in lids}
    for one, port, other, other_port in edges:
        ends[one].append((port, other, other_port))
        ends[other].append((other_port, one, port))
    lines = [f"# three-level fat tree: {hosts_in_all} hosts, {len(lids) - hosts_in_all} switches"]
    for node_id, lid in lids.items():
        guid = int(node_id[2:], 16)
        if node_id.startswith("H"):
            [(port, peer, peer_port)] = ends[node_id]
            far = f'lid {lid} lmc 0 "{names[peer]}" lid {lids[peer]} 4xNDR'
            lines += [
                "",
                f"caguid=0x{guid:x}",
                f'Ca\t1 "{node_id}"\t\t# "{names[node_id]}"',
                f'[{port}]({guid + 1:x})\t"{peer}"[{peer_port}]\t\t# {far}',
            ]
            continue
        lines += ["", f"switchguid=0x{guid:x}"]
        lines.append(f'Switch\t{radix} "{node_id}"\t\t# "{names[node_id]}" base port 0 lid {lid} lmc 0')
        for port, peer, peer_port in sorted(ends[node_id]):
            own = f"({int(peer[2:], 16) + 1:x})" if peer.startswith("H") else ""
            lines.append(f'[{port}]\t"{peer}"[{peer_port}]{own}\t\t# "{names[peer]}" lid {lids[peer]} 4xNDR')
    return "\n".join(lines) + "\n"

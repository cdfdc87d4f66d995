"""Net files of two-level fat trees, so that the benchmarks need no file from elsewhere."""

from __future__ import annotations

HOST_GUID = 0xB8CEF60300100000
SWITCH_GUID = 0x98039B0300400000
STEP = 0x10


def fat_tree(leaves: int, hosts: int, spines: int) -> str:
    """Return the net file of *leaves* switches with *hosts* hosts each, every leaf linked to every spine.

    Ports of a leaf: first its hosts, then the spines in order; port n of a spine leads to leaf n. The first record is
    the first host, on which a program sits by default.
    """
    total = leaves * hosts
    lines = [f"# fat tree: {total} hosts, {leaves} leaves, {spines} spines"]

    def switch(number: int, name: str, ports: list[str]) -> None:
        guid, lid = SWITCH_GUID + number * STEP, total + 1 + number
        lines.extend(("", f"switchguid=0x{guid:x}"))
        lines.append(f'Switch\t{len(ports)} "S-{guid:016x}"\t\t# "{name}" base port 0 lid {lid} lmc 0')
        lines.extend(ports)

    def link(port: int, peer: str, peer_port: int, lid: int, name: str) -> str:
        return f'[{port}]\t"{peer}"[{peer_port}]\t\t# "{name}" lid {lid} 4xNDR'

    def host_id(number: int) -> str:
        return f"H-{HOST_GUID + number * STEP:016x}"

    def switch_id(number: int) -> str:
        return f"S-{SWITCH_GUID + number * STEP:016x}"

    for number in range(total):
        leaf, place = divmod(number, hosts)
        peer = f'"{switch_id(leaf)}"[{place + 1}]'
        lines += [
            "",
            f"caguid=0x{HOST_GUID + number * STEP:x}",
            f'Ca\t1 "{host_id(number)}"\t\t# "node{number + 1:05} mlx5_0"',
            f'[1]\t{peer}\t\t# lid {number + 1} lmc 0 "leaf{leaf + 1:03}" lid {total + 1 + leaf} 4xNDR',
        ]
    for leaf in range(leaves):
        first = leaf * hosts
        ports = [
            link(place + 1, host_id(first + place), 1, first + place + 1, f"node{first + place + 1:05} mlx5_0")
            for place in range(hosts)
        ]
        ports += [
            link(
                hosts + spine + 1,
                switch_id(leaves + spine),
                leaf + 1,
                total + 1 + leaves + spine,
                f"spine{spine + 1:03}",
            )
            for spine in range(spines)
        ]
        switch(leaf, f"leaf{leaf + 1:03}", ports)
    for spine in range(spines):
        ports = [
            link(leaf + 1, switch_id(leaf), hosts + spine + 1, total + 1 + leaf, f"leaf{leaf + 1:03}")
            for leaf in range(leaves)
        ]
        switch(leaves + spine, f"spine{spine + 1:03}", ports)
    return "\n".join(lines) + "\n"

"""`why --trap`: a refused packet, from its sender to the port that stops it, and the command that mends it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits
from ibkeys.cli.documents.field import JsonRow
from ibkeys.cli.documents.reach import WHY_TRAP
from ibkeys.cli.exits import write
from ibkeys.cli.partitions.paths import path_document, write_packet_verdict, write_paths
from ibkeys.cli.render import heading_of, write_document
from ibkeys.errors import UsageError
from ibkeys.topology.port_id import PortId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibkeys.keys.pkey import InboundCheck, PKey
    from ibkeys.reach.packet import HopCheck, PacketPath
    from ibkeys.reach.remedy import Remedy
    from ibkeys.source import Source
    from ibkeys.topology.model import Topology
    from ibkeys.topology.nodes import Port
    from ibkeys.watch.refused_packet import RefusedPacket

_NO_PACKET: Final = (
    "--trap: no packet was found in this text. Give a trap 257, 258 or 259 in hex, its line of OpenSM's log, an event "
    "of `ibkeys watch -f json`, or LID, LID and P_Key ('4 9 0x8001', the sender first)"
)


def read_trap(text: str) -> RefusedPacket:
    """Return the refused packet in the value of ``--trap``. Raises UsageError if there is none."""
    from ibkeys.watch.refused_packet import read_refused

    found = read_refused(text)
    if found is None:
        raise UsageError(_NO_PACKET)
    return found


def show_trap(
    source: Source, found: Topology, packet: RefusedPacket, inbound_check: InboundCheck, folder: str | None, format: str
) -> int:
    """Write who sent a refused packet, to whom, where it is stopped, and how to mend it; return the exit code.

    *folder*: snapshots that may show since when the packet is refused.
    """
    from ibkeys.keys.pkey import PKey
    from ibkeys.reach.packet import follow_packet
    from ibkeys.reach.remedy import remedy_of
    from ibkeys.topology.forwarding import follow

    ends = [found.find_lid(lid) for lid in (packet.sender, packet.receiver)]
    missing = [str(lid) for lid, end in zip((packet.sender, packet.receiver), ends, strict=True) if end is None]
    if missing:
        exits.warn(f"no port of this fabric has LID {' or '.join(missing)}: was it moved, or is it off?", "error")
    sender, receiver = ends
    paths: list[PacketPath] = []
    if sender is not None and receiver is not None and packet.p_key is not None:
        source.read_routes(found, [(sender, receiver)])
        paths = [follow_packet(follow(sender, packet.receiver), PKey(packet.p_key), inbound_check)]
    refused_at = _refused_at(found, packet)
    stop = paths[0].stopped_by if paths else None
    remedy = remedy_of(paths[0], receiver, inbound_check) if stop is not None and receiver is not None else None
    packets = [path_document("a_to_b", path) for path in paths]
    document = {
        "trap": packet.trap,
        "pkey": None if packet.p_key is None else str(PKey(packet.p_key)),
        "q_key": None if packet.q_key is None else f"0x{packet.q_key:08x}",
        "from": None if sender is None else sender.identity(),
        "to": None if receiver is None else receiver.identity(),
        "refused_at": None if refused_at is None else refused_at.identity(),
        "packets": packets,
        "passing_entries": [] if stop is None else _passing_entries(stop, PKey(packet.p_key or 0), inbound_check),
        "since": None if stop is None or folder is None else _since(stop.port, PKey(packet.p_key or 0), folder),
        "commands": _commands(packet, sender, receiver, paths[0] if paths else None, remedy),
        "no_remedy": None if remedy is None else remedy.missing or None,
        "inbound_check": inbound_check,
    }
    if not write_document(format, WHY_TRAP, lambda: document, packets):
        _write(document, folder)
    if missing or not paths:
        return exits.NOT_COMPLETED if missing else exits.SAYS_NO
    return {"delivered": exits.DONE, "unknown": exits.NOT_COMPLETED}.get(paths[0].outcome, exits.SAYS_NO)


def _refused_at(found: Topology, packet: RefusedPacket) -> Port | None:
    """Return the port that refused the packet by the trap; None if it is not known."""
    if packet.at_lid is None:
        return found.find_lid(packet.receiver) if packet.trap is not None else None
    switch = found.find_lid(packet.at_lid)
    return None if switch is None else switch.node.ports.get(packet.at_port or 0)


def _passing_entries(stop: HopCheck, p_key: PKey, inbound_check: InboundCheck) -> list[str]:
    """Return the P_Keys of which one in the table of the port that stops the packet would let it pass."""
    from ibkeys.keys.pkey import FULL_BIT, PKey

    full = PKey(p_key.partition | FULL_BIT)
    by_partition = stop.direction == "inbound" and inbound_check == "partition"
    return [str(full), *([str(PKey(p_key.partition))] if p_key.is_full or by_partition else [])]


def _since(port: Port, p_key: PKey, folder: str) -> dict[str, str] | None:
    """Return the two snapshots between which a P_Key of the partition last changed at a port; None if none did."""
    from ibkeys.cli.opening import load
    from ibkeys.fabric.history import PortHistory
    from ibkeys.fabric.snapshot_folder import SnapshotFolder
    from ibkeys.topology.matching import match_key

    wanted = match_key(port)
    history = PortHistory(lambda each: match_key(each) == wanted, p_key.partition)
    events = [event for file in SnapshotFolder(Path(folder)).snapshots() for event in history.add(load(file))]
    return {"after": events[-1].since, "by": events[-1].taken} if events else None


def _commands(
    packet: RefusedPacket, sender: Port | None, receiver: Port | None, path: PacketPath | None, remedy: Remedy | None
) -> list[dict[str, Any]]:
    """Return the commands that mend it or say more, each with what it does. *path*, *remedy*: None if not known."""
    found: list[tuple[str, str]] = []
    if packet.q_key is not None:
        found.append((f"ibkeys qkey-explain 0x{packet.q_key:08x}", "who uses this Q_Key: the two programs differ"))
    elif sender is not None and receiver is not None and path is not None:
        if path.outcome == "delivered":
            found.append(("ibkeys journal", "the change since which the packet passes"))
        if remedy is not None:
            found += _mending(remedy, path.p_key)
        found.append((f"ibkeys why -G 0x{sender.port_guid:016x} 0x{receiver.port_guid:016x}", "all P_Keys of the two"))
    return [{"command": command, "about": about} for command, about in found]


def _mending(remedy: Remedy, p_key: PKey) -> Iterator[tuple[str, str]]:
    """Yield the commands that together let the packet pass, each with what it does."""
    if remedy.memberships:
        members = [(PortId.of_json(port.identity()), port.port_guid, how) for port, how in remedy.memberships]
        options = " ".join(f"--{how} 0x{guid:016x}" for _, guid, how in members)
        about = " and ".join(f"{port} a {how} member" for port, _, how in members)
        yield f"ibkeys partition-add 0x{p_key.partition:04x} {options}", f"make {about}, through the subnet manager"
    for port, direction in remedy.unchecked:
        command = f"ibkeys enforce-set -G 0x{port.node.guid:016x} {port.num} --{direction} off"
        yield command, "no check between switches"


def _write(document: JsonRow, folder: str | None) -> None:
    key = document["pkey"] or document["q_key"]
    name = "P_Key" if document["pkey"] is not None else "Q_Key"
    write(f"trap {document['trap']}: a packet with {name} {key}" if document["trap"] else f"a packet with {name} {key}")
    for title, which in (("from", "from"), ("to", "to"), ("refused at", "refused_at")):
        if document[which] is not None:
            write(exits.clean(f"  {title}: {heading_of(document[which])}"))
    if document["packets"]:
        write_packet_verdict(document["packets"][0])
        write_paths(document["packets"])
    if document["passing_entries"]:
        write(f"  an entry that would let it pass: {' or '.join(document['passing_entries'])}")
    if document["since"] is not None:
        after, by = document["since"]["after"], document["since"]["by"]
        write(f"  since: a P_Key of this partition changed there after {after}, by {by}")
    elif folder is not None and document["passing_entries"]:
        write("  since: the snapshots have no change of a P_Key of this partition there")
    for each in document["commands"]:
        write(exits.clean(f"  {each['command']}   # {each['about']}"))
    if document["no_remedy"] is not None:
        write(exits.clean(f"  no command lets it pass: {document['no_remedy']}"))

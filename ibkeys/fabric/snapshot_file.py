"""Snapshots to and from a file: the model as rows of `ibkeys.store.snapshot`, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_args

from ibkeys.discovery.port_counters import ConstraintErrors
from ibkeys.errors import StoreError
from ibkeys.fabric.probes import SaProbe
from ibkeys.fabric.sa_view import SaAnswer, SaOutcome, SaPort, SaView
from ibkeys.fabric.snapshot import ImportedFile, Snapshot, SnapshotOrigin, fingerprint_text
from ibkeys.fabric.snapshot_class_keys import class_key_rows, readings_of
from ibkeys.fabric.snapshot_routes import packed_blocks, unpacked_blocks
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.keys.guessable import Trait
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import NodeInfo, PortInfo, SMInfo, SwitchInfo
from ibkeys.mad.fields import NumberRow
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.port_text import PortText, common_of
from ibkeys.store import columns
from ibkeys.store.snapshot import SqlRow, image_of, read_snapshot, read_snapshot_image, write_snapshot
from ibkeys.store.sqlite import guid_number, guid_text
from ibkeys.topology.model import Topology, Trouble
from ibkeys.topology.nodes import Node, Port, Reading

_COLUMNS: Final[tuple[NumberRow, ...]] = (
    PortInfo.port_state,
    PortInfo.port_physical_state,
    PortInfo.capability_mask,
    PortInfo.master_sm_lid,
)
_M_KEY_COLUMNS: Final[tuple[NumberRow, ...]] = (
    PortInfo.m_key_protect_bits,
    PortInfo.m_key_lease_period,
    PortInfo.m_key_violations,
)
"""The row of an external port of a switch has these fields of port 0, which has the M_Key of the switch."""
_KEY_COLUMNS: Final[tuple[NumberRow, ...]] = (
    PortInfo.p_key_violations,
    PortInfo.q_key_violations,
    PortInfo.partition_enforcement_inbound,
    PortInfo.partition_enforcement_outbound,
)
_TIME: Final = columns.time()
_P_KEY_BYTES: Final = 2
_GUID_BYTES: Final = 8
_DESCRIPTION_BYTES: Final = 64
_MOST_PORTS: Final = 255
_MOST_LID: Final = 0xFFFF
_MOST_HOPS: Final = 63
_READINGS: Final[dict[str, Reading]] = {reading: reading for reading in get_args(Reading)}
_TRAITS: Final[dict[str, Trait]] = {trait: trait for trait in get_args(Trait)}
_OUTCOMES: Final[dict[str, SaOutcome]] = {outcome: outcome for outcome in get_args(SaOutcome)}
_READ: Final[dict[bool, Reading]] = {True: "with-key", False: "without-key"}


def save_snapshot(path: Path, snapshot: Snapshot, with_keys: bool = False) -> None:
    """Write *snapshot* to *path* atomically, with the M_Keys themselves if *with_keys* is true. Raises StoreError, also
    for a snapshot that was loaded from a file."""
    if not snapshot.about.has_keys or snapshot.fingerprints is None:
        raise StoreError(f"{path}: this snapshot was read from a file and cannot be written again: copy that file")
    write_snapshot(path, _contents(snapshot, with_keys))


def snapshot_image(snapshot: Snapshot) -> bytes:
    """Return the bytes of a file with *snapshot*, without M_Keys. *snapshot*: one that was just taken. Raises
    StoreError."""
    return image_of(_contents(snapshot, with_keys=False))


def _contents(snapshot: Snapshot, with_keys: bool) -> dict[str, Iterable[SqlRow]]:
    """Return the rows of *snapshot* by table."""
    fabric, fingerprints = snapshot.fabric, snapshot.fingerprints
    assert fingerprints is not None
    ports = [port for node in fabric.nodes for _, port in sorted(node.ports.items())]
    node_ids = {node: number for number, node in enumerate(fabric.nodes, 1)}
    port_ids = {port: number for number, port in enumerate(ports, 1)}
    rows, view = _PortRows(snapshot, with_keys, node_ids, port_ids), snapshot.sa_view or SaView()
    return {
        "about": _about_rows(snapshot.about, with_keys),
        "nodes": (_node_row(number, node) for node, number in node_ids.items()),
        "ports": (rows.row(port) for port in ports),
        "p_keys": (
            (port_ids[port], index, str(key), f"0x{key.partition:04x}", key.membership)
            for port in ports
            for index, key in port.occupied or ()
        ),
        "unread": (
            (port_ids[each.port], each.attribute, each.reading, each.error, common_of(each.error))
            for each in fabric.troubles
        ),
        "constraint_errors": (
            (port_ids[port], errors.received, errors.transmitted, errors.error)
            for port, errors in snapshot.constraint_errors.items()
        ),
        "sa_probes": ((question, probe.answer, probe.detail) for question, probe in snapshot.sa_probes.items()),
        "notes": ((note,) for note in fabric.notes),
        "sa_answers": ((record, answer.outcome, answer.detail) for record, answer in view.answers.items()),
        "sa_ports": ((port_ids[port], sa_port.port_info, sa_port.p_key_raw) for port, sa_port in view.ports.items()),
        "class_keys": class_key_rows(snapshot.class_keys or (), port_ids, fingerprints, with_keys),
        "imported_files": (
            (number, each.name, each.kind, each.written, int(each.is_sm), each.m_keys)
            for number, each in enumerate(snapshot.files, 1)
        ),
        "imported_values": (
            (port_ids[port], attribute, file + 1) for (port, attribute), file in snapshot.origins.items()
        ),
        "virtual_ports": (
            (port_ids[port], port.virtual_ports, port.virtualization_raw)
            for port in ports
            if port.can_have_virtual_ports
        ),
        "forwarding_tables": (
            (number, packed_blocks(node.forwarding)) for node, number in node_ids.items() if node.forwarding is not None
        ),
    }


def _about_rows(about: SnapshotOrigin, with_keys: bool) -> Iterator[SqlRow]:
    for name in SnapshotOrigin.__slots__:
        value = with_keys if name == "has_keys" else getattr(about, name)
        yield name, guid_text(value) if name == "port_guid" else str(int(value) if isinstance(value, bool) else value)


def _node_row(number: int, node: Node) -> SqlRow:
    info, switch = node.node_info, node.switch_info
    return (
        number,
        guid_text(node.guid),
        node.description,
        node.type_name,
        node.num_ports,
        guid_text(info.system_image_guid),
        info.partition_cap,
        switch.partition_enforcement_cap if switch is not None else None,
        switch.inbound_enforcement_cap if switch is not None else None,
        switch.outbound_enforcement_cap if switch is not None else None,
        _route_text(node.path),
        node.twin,
        node.info,
        node.description_raw,
        node.switch_info_raw,
    )


class _PortRows:
    """Makes the rows of the table of ports."""

    def __init__(
        self, snapshot: Snapshot, with_keys: bool, node_ids: dict[Node, int], port_ids: dict[Port, int]
    ) -> None:
        assert snapshot.fingerprints is not None
        self.with_keys = with_keys
        self.traits = snapshot.m_key_traits
        self.node_ids, self.port_ids = node_ids, port_ids
        self._of = snapshot.fingerprints.of
        self._known: dict[int, str] = {}
        self._origins = {key: snapshot.files[file].is_sm for key, file in snapshot.origins.items()}
        self._unread = {(trouble.port, trouble.attribute): trouble.reading for trouble in snapshot.fabric.troubles}

    def row(self, port: Port) -> SqlRow:
        info = port.info
        shown = PortInfo(info).m_key if info is not None and port.is_end_port else 0
        asked = port.end_port.m_key
        port_traits = self.traits.get(port)
        return (
            self.port_ids[port],
            self.node_ids[port.node],
            port.num,
            guid_text(port.port_guid) if port.port_guid else None,
            port.lid,
            _route_text(port.path) if port.path is not None else None,
            self.port_ids[port.peer] if port.peer is not None else None,
            *_values(_COLUMNS, info),
            port.m_key_state,
            f"0x{shown:016x}" if shown and self.with_keys else None,
            self._fingerprint(shown) if shown else None,
            " ".join(port_traits) if port_traits is not None else None,
            *_values(_M_KEY_COLUMNS, port.end_port.info),
            *_values(_KEY_COLUMNS, info),
            port.capacity,
            self._fingerprint(asked.reveal()) if not asked.is_zero else None,
            self._reading(port, "PortInfo", info is not None),
            self._reading(port, "P_KeyTable", port.p_key_raw is not None),
            info if info is None or self.with_keys else PortInfo(info).replace(m_key=0).raw,
            port.p_key_raw,
            port.guid_info,
            SMInfo(port.sm_info).replace(sm_key=0).raw if port.sm_info is not None else None,
        )

    def _fingerprint(self, key: int) -> str:
        text = self._known.get(key)
        if text is None:
            text = self._known[key] = fingerprint_text(self._of(MKey(key)))
        return text

    def _reading(self, port: Port, attribute: str, was_read: bool) -> Reading:
        from_sm = self._origins.get((port, attribute))
        if was_read and from_sm is not None:
            return "sm-word" if from_sm else "imported"
        if was_read:
            return _READ[not port.end_port.m_key.is_zero]
        return self._unread.get((port, attribute), "not-asked")


def _values(rows: Iterable[NumberRow], info: bytes | None) -> list[int | None]:
    """Return fields of a PortInfo, None for each where it was not read."""
    return [None if info is None else row.decode(info) for row in rows]


def _route_text(path: tuple[int, ...]) -> str:
    return ",".join(map(str, (0, *path)))


def load_snapshot(path: Path, secret: Callable[[], Fingerprints | None] = lambda: None, keys: bool = True) -> Snapshot:
    """Read the snapshot in *path*.

    *secret*: returns the user's own fingerprints, which the snapshot gets if its fingerprints are of the same secret.
    *keys*: false to get fingerprints even from a snapshot that was taken with its keys. Raises StoreError: no such
    file, no snapshot, a damaged one, a newer schema.
    """
    return _loaded(read_snapshot(path), str(path), secret, keys)


def load_snapshot_image(image: bytes, name: str) -> Snapshot:
    """Return the snapshot in the bytes of a snapshot file. *name*: the name of the file, for errors. Raises the errors
    of `load_snapshot`."""
    return _loaded(read_snapshot_image(image), name, lambda: None, keys=True)


def _loaded(
    tables: dict[str, Sequence[SqlRow]], path: str, secret: Callable[[], Fingerprints | None], keys: bool
) -> Snapshot:
    if not tables["nodes"]:
        raise StoreError(f"{path}: the snapshot has no node; take a new one")
    try:
        snapshot = _Loader(tables, keys).snapshot()
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise StoreError(f"{path}: the snapshot is damaged ({type(error).__name__}); use another one") from error
    fingerprints = secret()
    if fingerprints is not None and fingerprints.id == snapshot.about.fingerprints:
        snapshot.fingerprints = fingerprints
    return snapshot


class _Loader:
    def __init__(self, tables: dict[str, Sequence[SqlRow]], keys: bool) -> None:
        self.tables = tables
        self.about = _about(dict(tables["about"]))
        self.about = replace(self.about, has_keys=self.about.has_keys and keys)
        self.fabric = Topology(notes=[text for (text,) in tables["notes"]])
        self.ports: dict[int, Port] = {}

    def snapshot(self) -> Snapshot:
        nodes = {row[0]: self._node(row) for row in self.tables["nodes"]}
        self.fabric.nodes = list(nodes.values())
        found: dict[Port, tuple[Trait, ...]] = {}
        peers: list[tuple[Port, int]] = []
        for row in self.tables["ports"]:
            self._port(nodes, row, found, peers)
        for port, peer in peers:
            port.peer = self.ports[peer]
        if any(port.peer is None or port.peer.peer is not port for port, _ in peers):
            raise ValueError("a port has a peer that has another peer, or none")
        self.fabric.troubles = [
            Trouble(self.ports[port], PortText(error, common or error), attribute, _READINGS[reading])
            for port, attribute, reading, error, common in self.tables["unread"]
        ]
        for number, _, virtualization in self.tables["virtual_ports"]:
            if len(virtualization or b"") not in (0, VirtualizationInfo.size):
                raise ValueError("VirtualizationInfo of another length")
            self.ports[number].virtualization_raw = virtualization
        for number, blocks in self.tables["forwarding_tables"]:
            nodes[number].forwarding = unpacked_blocks(blocks)
        for trouble in self.fabric.troubles:
            if trouble.is_behind and trouble.reading == "not-in-file":
                trouble.port.says_peer = False
        errors = {self.ports[port]: ConstraintErrors(*rest) for port, *rest in self.tables["constraint_errors"]}
        probes = {question: SaProbe(answer, detail) for question, answer, detail in self.tables["sa_probes"]}
        class_keys = readings_of(self.tables["class_keys"], self.ports, self.about.has_keys)
        files = [
            ImportedFile(name, kind, _time(written), bool(is_sm), m_keys)
            for _, name, kind, written, is_sm, m_keys in self.tables["imported_files"]
        ]
        origins = {(self.ports[port], name): file - 1 for port, name, file in self.tables["imported_values"]}
        if any(not 0 <= file < len(files) for file in origins.values()):
            raise ValueError("a value refers to an imported file that is not listed")
        view = self._sa_view()
        return Snapshot(self.fabric, self.about, found, errors, probes, view, class_keys, files=files, origins=origins)

    def _sa_view(self) -> SaView | None:
        """Return the SA's records; None if it was not queried."""
        view = SaView({record: SaAnswer(_OUTCOMES[outcome], why) for record, outcome, why in self.tables["sa_answers"]})
        for number, info, table in self.tables["sa_ports"]:
            if len(table or b"") % _P_KEY_BYTES:
                raise ValueError(f"a P_Key table of the SA whose length is not a multiple of {_P_KEY_BYTES} bytes")
            view.ports[self.ports[number]] = SaPort(PortInfo(info).raw if info is not None else None, table)
        return view if view.answers else None

    def _node(self, row: SqlRow) -> Node:
        _, _, description, *_, path, twin, info, description_raw, switch_info = row
        if len(info) != NodeInfo.size or len(description_raw or bytes(_DESCRIPTION_BYTES)) != _DESCRIPTION_BYTES:
            raise ValueError("NodeInfo or NodeDescription of another length")
        node = Node(info, _route(path), twin)
        node.description, node.description_raw = description, description_raw
        if switch_info is not None:
            node.switch_info_raw = SwitchInfo(switch_info).raw
        return node

    def _port(
        self, nodes: dict[int, Node], row: SqlRow, found: dict[Port, tuple[Trait, ...]], peers: list[tuple[Port, int]]
    ) -> None:
        number, node, num, guid, lid, path, peer, *rest = row
        *_, capacity, asked, _, _, info, p_key_table, guid_info, sm_info = rest
        state, m_key, fingerprint, port_traits = rest[len(_COLUMNS) : len(_COLUMNS) + 4]
        if num > _MOST_PORTS:
            raise ValueError(f"a port number above {_MOST_PORTS}")
        if lid is not None and not 0 <= lid <= _MOST_LID:
            raise ValueError(f"a LID above {_MOST_LID}")
        port = self.ports[number] = nodes[node].port(num)
        if port.is_end_port and guid is not None:
            port.guid = guid_number(guid)
        port.path = _route(path) if path is not None else None
        if info is not None:
            text = m_key if m_key is not None and self.about.has_keys else fingerprint
            shown = int(text, 16) if text is not None else 0
            view = PortInfo(info)
            port.info = (view.replace(m_key=shown) if port.is_end_port else view).raw
            port.says_m_key = state != "unreadable" or not port.is_end_port
        elif port.is_end_port:
            port.stated_lid = lid
        if port.is_end_port and capacity is None:
            port.node.says_capacity = False
        for blob, unit in ((p_key_table, _P_KEY_BYTES), (guid_info, _GUID_BYTES)):
            if blob is not None and len(blob) % unit:
                raise ValueError(f"a P_Key table or GUIDInfo whose length is not a multiple of {unit} bytes")
        if sm_info is not None and len(sm_info) != SMInfo.size:
            raise ValueError("SMInfo of another length")
        port.p_key_raw, port.guid_info, port.sm_info = p_key_table, guid_info, sm_info
        if asked is not None and port.is_end_port:
            port.m_key = MKey(PortInfo(port.info).m_key) if asked == fingerprint and port.info else _OTHER_KEY
        if port_traits is not None:
            found[port] = tuple(_TRAITS[each] for each in port_traits.split())
        if peer is not None:
            peers.append((port, peer))


_OTHER_KEY: Final = MKey(1)
"""A key in place of one that was sent and differs from the key that the port shows."""


def _about(values: dict[str, Any]) -> SnapshotOrigin:
    texts = {name: values[name] for name in ("tool_version", "host", "ca_name", "fingerprints")}
    texts |= {name: _time(values[name]) for name in ("started", "finished")}
    others: dict[str, Any] = {name: int(values[name]) for name in ("port", "lid", "sm_lid")}
    others |= {name: values[name] == "1" for name in ("simulated", "has_keys")}
    return SnapshotOrigin(**texts, **others, port_guid=guid_number(values["port_guid"]))


def _time(text: Any) -> str:
    if not _TIME.allows(text):
        raise ValueError("an impossible time")
    return str(text)


def _route(text: str) -> tuple[int, ...]:
    route = tuple(int(part) for part in text.split(",")[1:])
    if len(route) > _MOST_HOPS or not all(0 <= port <= _MOST_PORTS for port in route):
        raise ValueError("an impossible directed route")
    return route

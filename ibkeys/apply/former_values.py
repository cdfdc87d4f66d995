"""The values that an operation overwrote, by the journal, and the values that its Sets may have put in their place: the
input of an undo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ibkeys.change.images import P_KEY_BLOCK
from ibkeys.errors import FileFormatError, UsageError
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.mad.attributes import VIOLATION_COUNTERS, PortInfo
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.plan.document_reader import loads
from ibkeys.store.journal import FileEntry, FileImage, Image, Journal, JournalEntry, OperationRecord, PlanRecord
from ibkeys.topology.enforcement import ENFORCEMENT_BITS, Enforcement
from ibkeys.topology.port_id import PortKey

KEPT_DRIFT: Final = "drifted"
"""The journal's name of the port GUIDs that differed from the SM's policy when an operation began."""
KEPT_FILES: Final = "found_files"
"""The journal's name of the SHA-256 of each file that the operation would replace, as it was found."""


@dataclass(slots=True)
class FormerTable:
    """The values that an operation overwrote in one P_Key table, and the values that it may have written there.

    Blocks are stored as their 64 bytes: an operation writes up to 80,000 tables, and a number for each entry would take
    ten times as much memory. ``blocks_before``: number of a block → its bytes before the first Set; ``blocks_set``:
    number of a block → for each Set of it, the bytes that were read and those that were sent. ``own_sets``: the same
    without the Sets of operations that undid this one, or that it undid; those of an undo that has not ended are
    included, because it may have put P_Keys elsewhere for a while.
    """

    blocks_before: dict[int, bytes] = field(default_factory=dict)
    blocks_set: dict[int, tuple[tuple[bytes, bytes], ...]] = field(default_factory=dict)
    own_sets: dict[int, tuple[tuple[bytes, bytes], ...]] = field(default_factory=dict)

    @property
    def values_before(self) -> dict[int, int]:
        """Index → value before the first Set; of an empty entry 0 or 0x8000."""
        return {
            index: value
            for number, block in self.blocks_before.items()
            for index, value in enumerate(P_KEY_BLOCK.unpack(block), number * P_KEYS_PER_BLOCK)
        }

    @property
    def overwritten_values(self) -> dict[int, int]:
        """Index → value that `own_sets` overwrote first. It may be another than in `values_before`: others may have
        changed the entry while the operation was open."""
        found: dict[int, int] = {}
        for index, had, _ in _changed_entries(self.own_sets):
            found.setdefault(index, had)
        return found

    @property
    def written_values(self) -> dict[int, frozenset[int]]:
        """Index → values that Sets may have written to the entry; 0 for an empty entry.

        A Set carries all 32 entries of a block. An entry that a Set did not change is left out: its value may come from
        another program or administrator.
        """
        found: dict[int, frozenset[int]] = {}
        for index, _, got in _changed_entries(self.blocks_set):
            found[index] = found.get(index, frozenset()) | {valid_or_0(got)}
        return found

    def note_set(self, image: Image, *, is_own: bool) -> None:
        """Note the block as it was read before a Set, and as the Set sent it. *is_own*: add it to `own_sets`, too."""
        number, values = image.attribute_modifier & 0xFFFF, (image.before, image.after)
        for sets in (self.blocks_set, self.own_sets) if is_own else (self.blocks_set,):
            sets[number] = tuple(dict.fromkeys((*sets.get(number, ()), values)))

    def note_own_set(self, image: Image) -> None:
        """Note a Set of the operation itself, and the bytes from before its first Set."""
        self.blocks_before.setdefault(image.attribute_modifier & 0xFFFF, image.before)
        self.note_set(image, is_own=True)


def _changed_entries(blocks: Mapping[int, Iterable[tuple[bytes, bytes]]]) -> Iterator[tuple[int, int, int]]:
    """Yield (index, value that was read, value that was sent) of each entry that a Set changed."""
    for number, sets in blocks.items():
        for read, sent in sets:
            entries = zip(P_KEY_BLOCK.unpack(read), P_KEY_BLOCK.unpack(sent), strict=True)
            for index, (had, got) in enumerate(entries, number * P_KEYS_PER_BLOCK):
                if had != got:
                    yield index, had, got


@dataclass(slots=True)
class FormerValues:
    """The values that *operation* overwrote, and the values that it may have written: P_Key tables and enforcement
    bits, by port.

    ``changed_bits``: the enforcement bits that its own Sets changed; ``written_bits``: these, and the bits that
    operations changed that undid this one, or that it undid. ``names``: the ports in words. ``files``: the files that
    it replaced, in that order. ``counters``: the number of ports whose counters it cleared. ``drifted``: the GUIDs of
    the end ports that differed from the SM's policy when it began; None if the journal does not have them.
    ``found_files``: the SHA-256 of the files that it would replace, as they were found.
    ``plan_record``: the plan that the operation follows, or that it undoes; None if there is none. ``makes_again``: the
    operation is an undo, so that undoing it makes the change again; not so for the undo of an undo.
    ``was_confirmed``: a user confirmed the operation, so that no guard on another host waits to roll it back.
    """

    operation: int
    tables: dict[PortKey, FormerTable] = field(default_factory=dict)
    bits: dict[PortKey, Enforcement] = field(default_factory=dict)
    changed_bits: dict[PortKey, frozenset[str]] = field(default_factory=dict)
    written_bits: dict[PortKey, frozenset[str]] = field(default_factory=dict)
    names: dict[PortKey, str] = field(default_factory=dict)
    files: list[FileImage] = field(default_factory=list)
    counters: int = 0
    drifted: frozenset[int] | None = None
    found_files: frozenset[str] = frozenset()
    plan_record: PlanRecord | None = None
    makes_again: bool = False
    was_confirmed: bool = False

    def peers(self) -> dict[PortKey, PortKey | None]:
        """Return the port that each port was linked to when the plan was made; {} without a plan. Reads the whole
        plan."""
        if self.plan_record is None:
            return {}
        try:
            return loads(self.plan_record.document, "the plan in the journal", bound=False).peers
        except FileFormatError:
            return {}  # an undo needs only the images; `ibkeys resume` reports that the plan is damaged

    @property
    def ports_of_tables(self) -> list[PortKey]:
        """The ports whose P_Keys can be restored."""
        return [key for key, table in self.tables.items() if table.blocks_before]

    @property
    def ports(self) -> list[PortKey]:
        """The ports whose P_Keys or enforcement bits can be restored."""
        return list(dict.fromkeys([*self.ports_of_tables, *self.bits]))

    def is_overwritten_by(self, entries: Iterable[JournalEntry], files: Iterable[FileEntry]) -> bool:
        """Return whether another operation, with these entries of the journal, wrote one of its files, its P_Key tables
        or its enforcement bits."""
        places = {image.key for image in self.files}
        return any(file.image.key in places for file in files) or any(
            (entry.image.node_guid, entry.image.port)
            in (self.tables if entry.image.attribute == "P_KeyTable" else self.bits if _bits_of(entry.image) else ())
            for entry in entries
        )

    @property
    def added_p_keys(self) -> set[tuple[PortKey, PKey]]:
        """The P_Keys that the operation added to tables that did not have them: an undo that removes them takes from
        the ports nothing that they had before."""
        found = set()
        for key, table in self.tables.items():
            had = {0, *table.values_before.values()}
            found |= {(key, PKey(value)) for values in table.written_values.values() for value in values - had}
        return found


def former_in(journal: Journal, record: OperationRecord) -> FormerValues:
    """Return, from the journal, the values from before the first Set of an operation, and the values that its Sets may
    have left. The Sets of operations that undid it, or that it undid, count too.

    Counters that were cleared cannot be restored, and are only counted. Raises UsageError for an operation that changed
    M_Keys, which other commands restore from the key store; StoreError.
    """
    former = FormerValues(record.id)
    for entry in journal.entries(record.id):
        image = entry.image
        key = (image.node_guid, image.port)
        former.names[key] = f"{image.node_desc!r} 0x{image.node_guid:016x} port {image.port}"
        if image.attribute == "P_KeyTable":
            former.tables.setdefault(key, FormerTable()).note_own_set(image)
        else:
            _note_bits(former, key, record.command, image)
    former.files = [entry.image for entry in journal.files(record.id) if entry.status != "failed"]
    former.plan_record = plan_record_of(journal, record)
    former.makes_again = _is_of_odd_undo(journal, record)
    former.was_confirmed = record.stage == "confirmed"
    # Damaged permissions among the options are reported when they are read.
    kept = journal.options_of(first_operation_of(journal, record).id)
    former.drifted = _drifted(kept)
    former.found_files = frozenset(map(str, kept.get(KEPT_FILES, ())))
    former.written_bits = dict(former.changed_bits)
    for relative in map(journal.find, journal.relatives(record.id)):
        is_open_undo = relative.undoes == record.id and relative.state in ("open", "failed")
        for entry in journal.entries(relative.id):
            key = (entry.image.node_guid, entry.image.port)
            if entry.image.attribute == "P_KeyTable":
                former.tables.setdefault(key, FormerTable()).note_set(entry.image, is_own=is_open_undo)
            else:
                _note_changed_bits(former.written_bits, key, entry.image)
    return former


def first_operation_of(journal: Journal, record: OperationRecord) -> OperationRecord:
    """Return the operation that *record* undoes; if that is an undo too, the one that it undoes, and so on. *record*
    itself if it is no undo."""
    while record.undoes is not None:
        record = journal.find(record.undoes)
    return record


def _is_of_odd_undo(journal: Journal, record: OperationRecord) -> bool:
    number = 0
    while record.undoes is not None:
        record, number = journal.find(record.undoes), number + 1
    return number % 2 == 1


def plan_record_of(journal: Journal, record: OperationRecord) -> PlanRecord | None:
    """Return the plan of an operation; for an undo that of the operation that it undoes. None if there is none."""
    return journal.plan_of(first_operation_of(journal, record).id)


def _drifted(options: Mapping[str, Any]) -> frozenset[int] | None:
    try:
        return frozenset(int(guid, 16) for guid in options[KEPT_DRIFT])
    except (LookupError, TypeError, ValueError):
        return None  # an earlier version, or another carrier, noted none


def valid_or_0(value: int) -> int:
    """Return the entry of a P_Key table, 0 for one without P_Key (0x0000 and 0x8000)."""
    return value if value & PARTITION_MASK else 0


def keys_in(block: bytes) -> set[int]:
    """Return the P_Keys in the 64 bytes of a block."""
    return {valid_or_0(value) for value in P_KEY_BLOCK.unpack(block)} - {0}


def _note_bits(former: FormerValues, key: PortKey, command: str, image: Image) -> None:
    before, after = PortInfo(image.before), PortInfo(image.after)
    earlier = former.changed_bits.get(key, frozenset())
    if _note_changed_bits(former.changed_bits, key, image) or key in former.bits:
        now = Enforcement.of(before)
        first = former.bits.get(key, now)
        new = former.changed_bits[key] - earlier  # others may have changed these bits since the first Set
        bits = zip(ENFORCEMENT_BITS, first.bits, now.bits, strict=True)
        former.bits[key] = Enforcement(*(later if name in new else early for name, early, later in bits))
    elif image.key_name is None and any(not row.decode(after.raw) for row in VIOLATION_COUNTERS):
        former.counters += 1
    else:
        raise UsageError(
            f"{command} changed M_Key, ProtectBits or lease of {former.names[key]}, which this undo does not restore: "
            "set them with `ibkeys mkey-set`, or undo the last M_Key run (`ibkeys undo ID`); the former key is in "
            "the key store"
        )


def _note_changed_bits(bits: dict[PortKey, frozenset[str]], key: PortKey, image: Image) -> bool:
    """Add to *bits* those that a Set of PortInfo changed, and return whether it changed any."""
    changed = _bits_of(image)
    bits[key] = bits.get(key, frozenset()) | changed
    return bool(changed)


def _bits_of(image: Image) -> frozenset[str]:
    """Return the enforcement bits that a Set of PortInfo changed."""
    before, after = PortInfo(image.before), PortInfo(image.after)
    return frozenset(name for name in ENFORCEMENT_BITS if getattr(before, name) != getattr(after, name))

"""Keys of other management classes in a snapshot's file: readings as rows of its table ``class_keys``, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, get_args

from ibkeys.classkeys.reading import STATES, ClassKeyReading, ClassKeyState, NotAskedKind
from ibkeys.keys.classkey import ClassKey
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.mad.classes.gmp import ClassName
from ibkeys.mad.classes.key_info import KeySettings
from ibkeys.store.snapshot import SqlRow
from ibkeys.topology.nodes import Port

_CLASSES: Final[dict[str, ClassName]] = {name: name for name in get_args(ClassName)}
_STATES: Final[dict[str, ClassKeyState]] = {state: state for state in STATES}
_KINDS: Final[dict[str | None, NotAskedKind | None]] = {None: None, **{kind: kind for kind in get_args(NotAskedKind)}}


def class_key_rows(
    readings: Iterable[ClassKeyReading],
    port_ids: Mapping[Port, int],
    fingerprints: Fingerprints,
    with_keys: bool,
) -> Iterator[SqlRow]:
    """Yield a row for each reading, with the fingerprint of its key. Without *with_keys* a row has no key, and KeyInfo
    has 0 in its place."""
    for each in readings:
        state = each.settings
        key = state.key if state is not None else 0
        info = each.info
        if state is not None and not with_keys:
            info = state.replace(key=0).raw
        yield (
            port_ids[each.port],
            each.of,
            each.state,
            f"0x{key:016x}" if key and with_keys else None,
            f"{fingerprints.of(ClassKey(key)):016x}" if key else None,
            state.protect_bit if state is not None else None,
            state.lease_period if state is not None else None,
            state.violations if state is not None else None,
            int(each.with_key),
            None if each.is_the_known_key is None else int(each.is_the_known_key),
            each.detail,
            info,
            each.not_asked,
        )


def readings_of(rows: Sequence[SqlRow], ports: Mapping[int, Port], has_keys: bool) -> list[ClassKeyReading] | None:
    """Return the readings of rows that `class_key_rows` made, None if no port was queried.

    The key in KeyInfo is a fingerprint unless the file *has_keys*. Raises KeyError, TypeError or ValueError for rows
    that `class_key_rows` cannot have made.
    """
    found = []
    for port, of, state, key, fingerprint, _, _, _, with_key, known, detail, info, not_asked in rows:
        text = key if key is not None and has_keys else fingerprint
        if info is not None and text is not None:
            shown = int(text, 16)
            info = KeySettings(_sized(info)).replace(key=shown).raw
        is_known = None if known is None else bool(known)
        whole = None if info is None else _sized(info)
        learned = (ports[port], _CLASSES[of], _STATES[state], detail, whole, bool(with_key), is_known)
        found.append(ClassKeyReading(*learned, _KINDS[not_asked]))
    return found or None


def _sized(info: bytes) -> bytes:
    if len(info) != KeySettings.size:
        raise ValueError("a KeyInfo of another length")
    return info

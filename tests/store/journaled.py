"""Operations of a journal and their images, for the tests of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from ibkeys.host.replacing.replace import RecordedImages
from ibkeys.store.journal import FileEntry, FileImage, Image, Journal, JournalEntry, RunningOperation
from ibkeys.store.sqlite import UtcClock

BEFORE, AFTER = bytes(range(64)), bytes(64)
DAY = "2026-11-20T09:00:00Z"


def image(**changes: Any) -> Image:
    values: dict[str, Any] = {
        "node_guid": 0x0002C90300A1B2C3,
        "port_guid": 0xFFFF_FFFF_FFFF_FFFE,
        "node_desc": "node-ü HCA-1",
        "node_type": "ca",
        "port": 1,
        "lid": 7,
        "attribute": "P_KeyTable",
        "attribute_modifier": 0xFFFF_0001,
        "before": BEFORE,
        "after": AFTER,
    }
    return Image(**(values | changes))


def record(operation: RunningOperation, **changes: Any) -> JournalEntry:
    [entry] = operation.record_all([image(**changes)])
    return entry


def recorded(entries: Iterable[FileEntry]) -> RecordedImages:
    """Return the images of *entries* by the paths of their files, as `clean_up` takes them."""
    images: dict[Path, list[FileImage]] = {}
    for entry in entries:
        images.setdefault(Path(entry.image.path), []).append(entry.image)
    return {path: partial(list, of_file) for path, of_file in images.items()}


def run_until(journal: Journal, error: BaseException) -> None:
    """An operation whose only entry is done when *error* comes."""
    with journal.operation("pkey-set") as operation:
        record(operation).done()
        raise error


def ticking() -> UtcClock:
    def times() -> Iterator[datetime]:
        now = datetime(2026, 11, 20, 9, 0, 0, tzinfo=UTC)
        while True:
            yield now
            now += timedelta(seconds=1)

    source = times()
    return lambda: next(source)

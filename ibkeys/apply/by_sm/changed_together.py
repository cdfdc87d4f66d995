"""Files of this host and places in the key store that change, and are rolled back, together with the policy.

A replaced adapter has its GUIDs in the node name map and the waivers too, and the key store knows its place. All of it
is one operation of the journal. Files are images of that operation, as the policy is. Places are among its options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from ibkeys.errors import FileChanged, StoreError
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, difference
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.site import ReachedHost
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.links import LinkRow
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import LinkEnd, Port

KEPT_TOGETHER: Final = "beside"
"""The journal's name of the option that has a `ChangedTogether`."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file of this host, with its contents before and after the change."""

    path: Path
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class PlaceChange:
    """A place in the key store that gets another port. ``near``: the near end of the link; ``former`` and ``new``: its
    far end before and after."""

    near: LinkEnd
    former: LinkEnd
    new: LinkEnd


@dataclass(frozen=True, slots=True)
class Places:
    """Changes of the key store. ``links``: the places; ``rows``: the rows of the former links, to be restored;
    ``settled``: the GUIDs of former ports with a key, for which no command waits from now on."""

    links: tuple[PlaceChange, ...] = ()
    rows: tuple[LinkRow, ...] = ()
    settled: tuple[int, ...] = ()

    @classmethod
    def of(cls, store: KeyStore, pairs: Iterable[tuple[int, Port]], found: Topology) -> Self:
        """Return the changes for *pairs* of a former port GUID and the port that took over. A place changes only if
        *found*, a sweep, has the new port there; every former port with a key is settled. Raises StoreError."""
        known, at = store.links(), {port.link_end: port for port in found.ports()}
        with_key = {row.port_guid for row in store.outline()} - store.settled()
        links, settled = [], []
        for former, new in pairs:
            for end, near in known.items():
                far = at[near].peer if near in at else None
                if end[0] == former and far is not None and far.link_end[0] == new.guid:
                    links.append(PlaceChange(near, end, far.link_end))
            settled += [former] if former in with_key else []
        ends = [end for each in links for end in (each.near, each.former)]
        return cls(tuple(links), tuple(store.link_rows(ends)), tuple(settled))

    def __bool__(self) -> bool:
        return bool(self.links or self.settled)

    def record(self, open_store: Callable[[], KeyStore]) -> None:
        """Store the new ports at their places, where the key store still has the former ones, and settle the former
        ones.

        *open_store*: called only if there is a change, because it creates a key store, or needs its passphrase. Raises
        StoreError.
        """
        if not self:
            return
        store = open_store()
        with store.in_one_transaction():
            known = store.links()
            store.put_links((*each.near, *each.new) for each in self.links if known.get(each.near) == each.former)
            store.settle(self.settled)

    def restore(self, open_store: Callable[[], KeyStore]) -> None:
        """Store the former ports at their places, where the key store still has the new ones, and let commands wait for
        them again; *open_store* as for `record`. Raises StoreError."""
        if not self:
            return
        store = open_store()
        with store.in_one_transaction():
            known = store.links()
            ends = {end for each in self.links if known.get(each.near) == each.new for end in (each.near, each.former)}
            store.put_back(row for row in self.rows if (row[0], row[1]) in ends)
            store.unsettle(self.settled)


@dataclass(frozen=True, slots=True)
class ChangedTogether:
    """The files and the places in the key store that change together with the policy; none by default."""

    files: tuple[LocalFile, ...] = ()
    places: Places = field(default_factory=Places)

    def __bool__(self) -> bool:
        return bool(self.files or self.places)

    def to_json(self) -> dict[str, Any]:
        """Return this for the journal."""
        return {
            "files": [[str(each.path), _text(each.before), _text(each.after)] for each in self.files],
            "links": [[*each.near, *each.former, *each.new] for each in self.places.links],
            "rows": [list(row) for row in self.places.rows],
            "settled": list(self.places.settled),
        }

    @classmethod
    def in_journal(cls, options: Mapping[str, Any]) -> Self:
        """Return the `ChangedTogether` in the *options* of an operation; an empty one if they have none. Raises
        StoreError."""
        kept = options.get(KEPT_TOGETHER)
        if kept is None:
            return cls()
        try:
            files = tuple(LocalFile(Path(path), _bytes(before), _bytes(after)) for path, before, after in kept["files"])
            links = tuple(
                PlaceChange((near, num), (former, former_num), (new, new_num))
                for near, num, former, former_num, new, new_num in _numbers(kept["links"])
            )
            rows = tuple((*_ints(row[:4]), str(row[4]), row[5]) for row in kept["rows"])
            return cls(files, Places(links, rows, tuple(_ints(kept["settled"]))))
        except (LookupError, TypeError, ValueError, AttributeError):
            raise StoreError("the journal is damaged: the files beside the policy cannot be read") from None


def open_local_files(files: Sequence[LocalFile], reached: Iterable[ReachedHost]) -> list[tuple[OpensmFile, bytes]]:
    """Return each of *files* as it is now, with its new contents; an empty list if this host, whose name is "", is not
    among *reached*.

    Raises FileChanged for a file with other contents than those before or after the change; FileError.
    """
    here = next((each.machine for each in reached if not each.machine.name), None)
    if here is None:
        return []  # this host was not reached
    found = []
    for each in files:
        file = OpensmFile.at(here, each.path)
        if file.seen.data not in (each.before, each.after):
            raise FileChanged(
                f"{file.name}: another user or program changed it in the meantime; it is left as it is",
                difference(each.before, file.seen.data, WITHOUT_KEYS),
            )
        found.append((file, each.after))
    return found


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _ints(values: Iterable[Any]) -> list[int]:
    found = list(values)
    if not all(type(each) is int and each >= 0 for each in found):
        raise ValueError("not a number")
    return found


def _numbers(rows: Iterable[Iterable[Any]]) -> list[list[int]]:
    return [_ints(row) for row in rows]

"""The key store's topology: links and LIDs that a sweep found, so that a key is sent only to the place of its port.

The end of a link is written as in OpenSM's ``neighbors``: the GUID of the switch, or of the port of a CA or router, and
the port number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ibkeys.store import columns
from ibkeys.store.sqlite import Store, guid_number, guid_text, timestamp

if TYPE_CHECKING:
    import sqlite3

StoredLink = tuple[int, int, int, int]
"""GUID, port, peer's GUID, peer's port."""

_MOST_LIDS: Final = 128
"""LIDs of one port at most: LMC 7."""
_SEEN: Final = columns.time(null=True)


class TopologyStore(Store):
    """The part of the key store that holds no keys."""

    def put_links(
        self,
        links: Iterable[StoredLink],
        seen: datetime | None = None,
        link_downed: Mapping[tuple[int, int], int] = MappingProxyType({}),
    ) -> None:
        """Store links that were found, each once; former links of their ends are replaced. *seen*: the time at which
        another source found them; a link is left out if one of its ends was found later. *link_downed*:
        LinkDownedCounter of an end, by (GUID, port), if it was read when the link was proven.
        """
        links = list(links)
        when = self._time(seen)
        with self.database.transaction() as connection:
            for node_guid, port, peer_guid, peer_port in links:
                near, far = (guid_text(node_guid), port), (guid_text(peer_guid), peer_port)
                if seen is not None and any(_seen_after(connection, end, when) for end in (near, far)):
                    continue
                for end in (near, far):
                    connection.execute("DELETE FROM links WHERE node_guid = ? AND port = ?", end)
                    connection.execute("DELETE FROM links WHERE peer_guid = ? AND peer_port = ?", end)
                for one, other in {(near, far), (far, near)}:
                    counter = link_downed.get((guid_number(one[0]), one[1]))
                    connection.execute("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?)", (*one, *other, when, counter))

    def links(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return the known links, each from both its ends: (GUID, port) to (GUID, port)."""
        rows = self.database.query("SELECT node_guid, port, peer_guid, peer_port FROM links", of="links")
        return {(guid_number(node), port): (guid_number(peer), peer_port) for node, port, peer, peer_port in rows}

    def link_downed(self) -> dict[tuple[int, int], int]:
        """Return, by (GUID, port), the LinkDownedCounter from when the link of that port was proven, if it was
        stored."""
        query = "SELECT node_guid, port, link_downed FROM links WHERE link_downed IS NOT NULL"
        rows = self.database.query(query, of="links")
        return {(guid_number(node), port): counter for node, port, counter in rows}

    def settle(self, port_guids: Iterable[int]) -> None:
        """Note that these ports are not to be waited for any more."""
        rows = [(guid_text(guid), self.now()) for guid in port_guids]
        self.database.execute_all("INSERT OR REPLACE INTO settled VALUES (?, ?)", rows)

    def unsettle(self, port_guids: Iterable[int]) -> None:
        """Wait for these ports again: they were found."""
        self.database.execute_all("DELETE FROM settled WHERE port_guid = ?", [(guid_text(g),) for g in port_guids])

    def settled(self) -> set[int]:
        """Return the GUIDs of the ports that are not to be waited for."""
        return {guid_number(guid) for (guid,) in self.database.query("SELECT port_guid FROM settled", of="settled")}

    def put_lids(self, lids: Mapping[int, tuple[int, int]], seen: datetime | None = None) -> None:
        """Store base and top LID of ports by port GUID. A LID belongs to one port, so it is removed from the port that
        had it before.

        *seen*: the time at which another source found them; a port that was found later than that is left out.
        """
        when = self._time(seen)
        with self.database.transaction() as connection:
            for port_guid, (base, top) in lids.items():
                where = (guid_text(port_guid),)
                known = connection.execute("SELECT seen FROM lids WHERE port_guid = ?", where).fetchone()
                if seen is not None and known is not None and known[0] > when:
                    continue
                connection.execute(
                    "DELETE FROM lids WHERE base_lid BETWEEN ? AND ? AND top_lid >= ?", (base - _MOST_LIDS, top, base)
                )
                connection.execute("INSERT OR REPLACE INTO lids VALUES (?, ?, ?, ?)", (*where, base, top, when))

    def lids(self) -> dict[int, tuple[int, int]]:
        """Return base and top LID by port GUID, as they were last found."""
        rows = self.database.query("SELECT port_guid, base_lid, top_lid FROM lids", of="lids")
        return {guid_number(guid): (base, top) for guid, base, top in rows}

    def topology_seen(self) -> tuple[str, str] | None:
        """Return the times at which the oldest and the newest link were found, as ISO 8601 in UTC; None if no link is
        known."""
        [(oldest, newest)] = self.database.query("SELECT min(seen), max(seen) FROM links")
        for each in (oldest, newest):
            if not _SEEN.allows(each):
                raise self.database.damage("seen has an impossible value")
        return None if oldest is None else (oldest, newest)

    def _time(self, seen: datetime | None) -> str:
        return self.now() if seen is None else timestamp(lambda: seen)


def _seen_after(connection: sqlite3.Connection, end: tuple[str, int], when: str) -> bool:
    row = connection.execute("SELECT seen FROM links WHERE node_guid = ? AND port = ?", end).fetchone()
    return row is not None and row[0] > when

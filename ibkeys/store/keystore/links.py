"""The topology in the key store: links and LIDs that a sweep found. They show whether a port is still at its place, so
that its key is sent nowhere else.

The end of a link is a GUID and a port number, as in OpenSM's file ``neighbors``. The GUID is that of the switch, or
that of the port of a CA or router.
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
"""(GUID, port number, GUID of the peer, port number of the peer)."""
LinkRow = tuple[int, int, int, int, str, int | None]
"""A link from one of its ends: as `StoredLink`, then the time at which it was found, and the LinkDownedCounter of that
end, None if it was not read."""

_MOST_LIDS: Final = 128
"""The largest number of LIDs of one port, with LMC 7."""
_SEEN: Final = columns.time(null=True)


class TopologyStore(Store):
    """The part of the key store without keys: links, LIDs, and the ports that the user declared gone or moved
    (settled).

    All methods raise StoreError.
    """

    def put_links(
        self,
        links: Iterable[StoredLink],
        seen: datetime | None = None,
        link_downed: Mapping[tuple[int, int], int] = MappingProxyType({}),
    ) -> None:
        """Store *links*, each of which may be passed from either end, in place of all former links of their ends.

        *seen*: the time at which another source found the links; None: they were found now. A link is left out if the
        store has a newer link of one of its ends. *link_downed*: the LinkDownedCounter of an end, by (GUID, port
        number), if it was read when the link was proven.
        """
        links = list(links)
        when = self._time(seen)
        with self.database.transaction() as connection:
            for node_guid, port, peer_guid, peer_port in links:
                near, far = (guid_text(node_guid), port), (guid_text(peer_guid), peer_port)
                if seen is not None and any(_was_seen_after(connection, end, when) for end in (near, far)):
                    continue
                for end in (near, far):
                    connection.execute("DELETE FROM links WHERE node_guid = ? AND port = ?", end)
                    connection.execute("DELETE FROM links WHERE peer_guid = ? AND peer_port = ?", end)
                for one, other in {(near, far), (far, near)}:
                    counter = link_downed.get((guid_number(one[0]), one[1]))
                    connection.execute("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?)", (*one, *other, when, counter))

    def links(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return the stored links as a mapping from (GUID, port number) of each end to that of the other end."""
        rows = self.database.query("SELECT node_guid, port, peer_guid, peer_port FROM links", of="links")
        return {(guid_number(node), port): (guid_number(peer), peer_port) for node, port, peer, peer_port in rows}

    def link_rows(self, ends: Iterable[tuple[int, int]]) -> list[LinkRow]:
        """Return the rows of the stored links of *ends*, for `put_back`."""
        query = "SELECT * FROM links WHERE node_guid = ? AND port = ?"
        rows = (row for guid, port in ends for row in self.database.query(query, (guid_text(guid), port), of="links"))
        return [(guid_number(node), port, guid_number(peer), far, *rest) for node, port, peer, far, *rest in rows]

    def put_back(self, rows: Iterable[LinkRow]) -> None:
        """Store links as `link_rows` returned them, in place of all present links of their ends."""
        found = [((guid_text(row[0]), row[1]), (guid_text(row[2]), row[3]), row[4:]) for row in rows]
        with self.database.transaction() as connection:
            for end in {end for near, far, _ in found for end in (near, far)}:
                connection.execute("DELETE FROM links WHERE node_guid = ? AND port = ?", end)
                connection.execute("DELETE FROM links WHERE peer_guid = ? AND peer_port = ?", end)
            for near, far, rest in found:
                connection.execute("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?)", (*near, *far, *rest))

    def link_downed(self) -> dict[tuple[int, int], int]:
        """Return the LinkDownedCounter of each port from the time when its link was proven, by (GUID, port number).
        Ports whose counter was not read are left out."""
        query = "SELECT node_guid, port, link_downed FROM links WHERE link_downed IS NOT NULL"
        rows = self.database.query(query, of="links")
        return {(guid_number(node), port): counter for node, port, counter in rows}

    def settle(self, port_guids: Iterable[int]) -> None:
        """Record that the user declared these ports gone or moved, so that no command waits for them any more."""
        rows = [(guid_text(guid), self.now()) for guid in port_guids]
        self.database.execute_all("INSERT OR REPLACE INTO settled VALUES (?, ?)", rows)

    def unsettle(self, port_guids: Iterable[int]) -> None:
        """Record that these ports were found, so that commands wait for them again."""
        self.database.execute_all("DELETE FROM settled WHERE port_guid = ?", [(guid_text(g),) for g in port_guids])

    def settled(self) -> set[int]:
        """Return the GUIDs of the ports that the user declared gone or moved."""
        return {guid_number(guid) for (guid,) in self.database.query("SELECT port_guid FROM settled", of="settled")}

    def put_lids(self, lids: Mapping[int, tuple[int, int]], seen: datetime | None = None) -> None:
        """Store (base LID, top LID) of ports, by port GUID. Other ports with one of these LIDs lose their stored LIDs.

        *seen*: the time at which another source found the LIDs; None: they were found now. A port is left out if the
        store has newer LIDs of it.
        """
        when = self._time(seen)
        with self.database.transaction() as connection:
            for port_guid, (base, top) in lids.items():
                guid = guid_text(port_guid)
                row = connection.execute("SELECT seen FROM lids WHERE port_guid = ?", (guid,)).fetchone()
                if seen is not None and row is not None and row[0] > when:
                    continue
                connection.execute(
                    "DELETE FROM lids WHERE base_lid BETWEEN ? AND ? AND top_lid >= ?", (base - _MOST_LIDS, top, base)
                )
                connection.execute("INSERT OR REPLACE INTO lids VALUES (?, ?, ?, ?)", (guid, base, top, when))

    def lids(self) -> dict[int, tuple[int, int]]:
        """Return the last known (base LID, top LID) of each port, by port GUID."""
        rows = self.database.query("SELECT port_guid, base_lid, top_lid FROM lids", of="lids")
        return {guid_number(guid): (base, top) for guid, base, top in rows}

    def topology_seen(self) -> tuple[str, str] | None:
        """Return the earliest and the latest time at which a stored link was found, as ISO 8601 in UTC; None if there
        are no links."""
        [(oldest, newest)] = self.database.query("SELECT min(seen), max(seen) FROM links")
        for each in (oldest, newest):
            if not _SEEN.allows(each):
                raise self.database.damage("seen has an impossible value")
        return None if oldest is None else (oldest, newest)

    def _time(self, seen: datetime | None) -> str:
        return self.now() if seen is None else timestamp(lambda: seen)


def _was_seen_after(connection: sqlite3.Connection, end: tuple[str, int], when: str) -> bool:
    row = connection.execute("SELECT seen FROM links WHERE node_guid = ? AND port = ?", end).fetchone()
    return row is not None and row[0] > when

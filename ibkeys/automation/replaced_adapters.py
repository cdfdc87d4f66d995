"""The edit that puts new adapters in place of those they replaced: in the policy, and in all that changes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ibkeys.apply.by_sm.changed_together import ChangedTogether, LocalFile, Places
from ibkeys.arguments import given
from ibkeys.audit.waiver_guids import with_other_guids as in_waivers
from ibkeys.automation.named_ports import PortsOfWords, by_guid, known_ports
from ibkeys.automation.partition_edits import RequestedEdit
from ibkeys.change.consent import Objection
from ibkeys.client.address import parse_guid
from ibkeys.errors import UsageError
from ibkeys.host.replacing.file_to_replace import look
from ibkeys.keys.guid import is_spelled_as_guid
from ibkeys.partitions.editing.changes import EditedPolicy
from ibkeys.partitions.editing.replacing import replace_guids
from ibkeys.partitions.model import Policy
from ibkeys.printable import clean
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.topology.directory import NoPortFound
from ibkeys.topology.model import Topology
from ibkeys.topology.names.node_names import with_other_guids as in_names
from ibkeys.topology.nodes import LinkEnd
from ibkeys.topology.replaced import (
    REPLACED_ADAPTER,
    FormerNode,
    PortInStore,
    ReplacedNode,
    find_new,
    former_in_snapshot,
    former_in_store,
    likely_pairs,
    new_ports,
    pair_of_move,
    replace_by,
)

COMMAND: Final = "replace"


@dataclass(slots=True)
class ReplacedAdapters:
    """The pairs of former and new nodes that a user names.

    ``old``, ``new``: the words for one pair. Without ``new`` the new node is found with ``baseline``, an earlier sweep;
    without both, all pairs are found with it. ``keystore``, ``node_name_map``, ``waivers``: further files that have the
    GUIDs of former nodes; None: no such file. ``sets_places``: whether the places in the key store change too.
    ``note``, ``warn``: called with each note and warning. ``found``: the pairs, known after `find`; if no pair was
    named, `edit` removes those whose new ports the policy names already.
    """

    old: str | None
    new: str | None
    baseline: Topology | None
    keystore: Path | None
    node_name_map: Path | None
    waivers: Path | None
    note: Callable[[str], None]
    warn: Callable[[str], None]
    sets_places: bool = True
    found: list[ReplacedNode] = field(default_factory=list)

    def requested(self) -> RequestedEdit:
        """Return the edit. Raises UsageError for NEW without OLD, and for neither NEW nor an earlier snapshot."""
        if self.baseline is None and self.new is None:
            snapshot = given("--baseline")
            raise UsageError(
                f"name OLD and NEW, or an earlier snapshot ({snapshot}) that shows what was replaced"
                if self.old is None
                else f"name NEW, too, or an earlier snapshot ({snapshot}) that shows the place of OLD"
            )
        if self.old is None and self.new is not None:
            raise UsageError("name OLD, too: NEW alone does not say from which adapter it takes over")
        words = [word for word in (self.old, self.new) if word is not None]
        return RequestedEdit(COMMAND, words, self.edit, None, find=self.find, changed_together=self.changed_together)

    def find(self, topology: Topology) -> PortsOfWords:
        """Find the pairs on a fabric, with a note about each, and return the ports of the fabric.

        Raises UsageError, AddressError, StoreError, and Refused for a former node that answers.
        """
        self.found = list(self._pairs(topology))
        objections = []
        for each in self.found:
            self.note(f"replaced: {each}")
            objections += [Objection(REPLACED_ADAPTER, doubt) for doubt in each.doubts]
        return PortsOfWords({}, known_ports(topology.end_ports()), by_guid(topology), tuple(objections))

    def edit(self, policy: Policy, ports: PortsOfWords) -> EditedPolicy:
        """Return the edit that gives the new ports the memberships of the former ones. If the user named no pair, pairs
        whose new ports the policy names already are left out. Raises the errors of `replace_guids`."""
        if self.old is None:
            self.found = [each for each in self.found if not self._is_member(policy, each)]
        guids: dict[int, int] = {}
        for each in self.found:
            guids |= each.port_guids
        return replace_guids(policy, guids, ports.known)

    def changed_together(self, topology: Topology) -> ChangedTogether:
        """Return the changes of the node name map, the waivers and the key store. Raises UsageError, FileError,
        StoreError."""
        guids: dict[int, int] = {}
        for each in self.found:
            guids |= each.guids
        files = []
        if self.node_name_map is not None:
            files.append(_changed_file(self.node_name_map, lambda text: in_names(text, guids)))
        if self.waivers is not None:
            path = str(self.waivers)
            files.append(_changed_file(self.waivers, lambda text: in_waivers(text, guids, path)))
        return ChangedTogether(tuple(filter(None, files)), self._places(topology) if self.sets_places else Places())

    def _places(self, topology: Topology) -> Places:
        """Return the changes of the key store: new ports that the sweep found at the known places of former ones."""
        store = self._open_keystore()
        if store is None:
            return Places()
        with store:
            places = Places.of(store, [pair for each in self.found for pair in each.pairs], topology)
        for each in places.links:
            self.note(
                f"key store: behind 0x{each.near[0]:016x} port {each.near[1]} is 0x{each.new[0]:016x} in place of "
                f"0x{each.former[0]:016x}"
            )
        return places

    def _is_member(self, policy: Policy, pair: ReplacedNode) -> bool:
        """Return whether the policy names a new port of *pair* already, so that nothing is taken over."""
        is_named = bool({*pair.port_guids.values()} & policy.named_guids)
        if is_named and {*pair.port_guids} & policy.named_guids:
            self.warn(f"left out: {pair}: the policy names both, so the second port is not new")
        return is_named

    def _pairs(self, topology: Topology) -> Iterator[ReplacedNode]:
        if self.old is None:
            assert self.baseline is not None  # `requested` checks it
            for move in likely_pairs(self.baseline, topology):
                yield pair_of_move(move, self.baseline, topology)
            return
        former = self._former(self.old)
        if self.new is not None:
            ports = new_ports(topology, self.new)
        else:
            assert self.baseline is not None  # `requested` checks it
            ports = find_new(former, topology, self.baseline)
        yield replace_by(former, ports, topology, self.baseline)

    def _former(self, word: str) -> FormerNode:
        """Return the former node, from the earlier snapshot, or by its GUID from the key store.

        Raises AddressError, also (NoPortFound) for a name without a snapshot; UsageError as `former_in_snapshot`;
        StoreError.
        """
        if self.baseline is not None:
            return former_in_snapshot(self.baseline, word)
        if not is_spelled_as_guid(word):
            raise NoPortFound(
                f"{clean(word)!r} is not a GUID, and a name is looked up only in an earlier snapshot: "
                f"{given('--baseline')}",
                (word,),
            )
        return former_in_store(parse_guid(word).guid, *self._stored())

    def _stored(self) -> tuple[Sequence[PortInStore], Mapping[LinkEnd, LinkEnd]]:
        """Return the ports and the links that the key store has; none without a key store. Raises StoreError."""
        store = self._open_keystore()
        if store is None:
            return [], {}
        with store:
            return [PortInStore(row.port_guid, row.node_guid, row.port) for row in store.outline()], store.links()

    def _open_keystore(self) -> KeyStore | None:
        """Return the key store, to be read; None if there is none. Raises StoreError."""
        if self.keystore is None or not self.keystore.exists():
            return None
        return KeyStore(self.keystore, create=False, upgrade=False)


def _changed_file(path: Path, edit: Callable[[str], str]) -> LocalFile | None:
    """Return a file with its text after *edit*; None if that is the same. Raises FileError, and as *edit*."""
    seen = look(path)
    before = seen.data or b""
    after = edit(before.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return LocalFile(seen.path, before, after) if after != before else None

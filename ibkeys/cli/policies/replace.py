"""The command `replace`: a replaced adapter takes over what a policy and other files have for the former one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.policies import REPLACE
from ibkeys.cli.help.command import command
from ibkeys.cli.policies.edit import carry_out
from ibkeys.cli.policies.edit_request import EditOptions, editing_options
from ibkeys.cli.tools.names import exempt_guids
from ibkeys.errors import UsageError
from ibkeys.printable import clean

if TYPE_CHECKING:
    from ibkeys.apply.by_sm.beside import Beside, LocalFile, Places
    from ibkeys.automation.named_ports import PortsOfWords
    from ibkeys.partitions.editing.changes import EditedPolicy
    from ibkeys.partitions.model import Policy
    from ibkeys.store.keystore.keystore import KeyStore
    from ibkeys.topology.model import Topology
    from ibkeys.topology.nodes import LinkEnd
    from ibkeys.topology.replaced import FormerNode, PortInStore, ReplacedNode


@command("replace")
@click.argument("old", required=False)
@click.argument("new", required=False)
@options.option(
    "--baseline", metavar="SNAPSHOT", help="An earlier snapshot, which has OLD; alone: all pairs that it shows."
)
@options.option("--waivers", metavar="FILE", help="The waivers of audits, whose GUIDs are replaced too.")
@editing_options
def replace(
    old: str | None, new: str | None, baseline: str | None, waivers: str | None, command_options: EditOptions
) -> int:
    """Give a new adapter the place of the former one.

    OLD is the former adapter, NEW the one that took its place: a node GUID, a port GUID or a name. With --baseline, OLD
    is looked up in an earlier snapshot; without NEW, it is the new adapter with OLD's name at OLD's place, and without
    both, all such pairs. Ports take over port by port. The policy in force and the fabric are changed together, through
    the subnet manager, and with them the node name map, the waivers, and the places in the key store; --policy FILE
    only edits files. Refused while OLD answers, and for a NEW that the policy names already.
    """
    from ibkeys.automation.partition_edits import RequestedEdit

    if old is None and baseline is None:
        raise UsageError("name OLD and NEW, or an earlier snapshot (--baseline) that shows what was replaced")
    if new is None and baseline is None:
        raise UsageError("name NEW, too, or an earlier snapshot (--baseline) that shows the place of OLD")
    words = [word for word in (old, new) if word is not None]
    exempt_guids(words)
    pairs = _Pairs(old, new, _load(baseline), waivers, command_options)
    requested = RequestedEdit(REPLACE.name, words, pairs.edit, None, find=pairs.find, beside=pairs.beside)
    return carry_out(requested, REPLACE, command_options)


def _load(baseline: str | None) -> Topology | None:
    from ibkeys.cli.opening import load

    return load(Path(baseline)).fabric if baseline is not None else None


@dataclass(slots=True)
class _Pairs:
    """The pairs of former and new nodes that the words of the command line name. ``found``: known after `find`."""

    old: str | None
    new: str | None
    baseline: Topology | None
    waivers: str | None
    command_options: EditOptions
    found: list[ReplacedNode] = field(default_factory=list)

    def find(self, topology: Topology) -> PortsOfWords:
        """Find the pairs on a fabric, and return its ports. Write a line about each pair to standard error.

        Raises UsageError, AddressError, and Refused for a former node that answers.
        """
        from ibkeys.automation.named_ports import PortsOfWords, by_guid, known_ports
        from ibkeys.change.consent import Objection
        from ibkeys.topology.replaced import REPLACED_ADAPTER

        self.found = list(self._pairs(topology))
        objections = []
        for each in self.found:
            exits.note(f"replaced: {each}")
            objections += [Objection(REPLACED_ADAPTER, doubt) for doubt in each.doubts]
        return PortsOfWords({}, known_ports(topology.end_ports()), by_guid(topology), tuple(objections))

    def edit(self, policy: Policy, ports: PortsOfWords) -> EditedPolicy:
        """Return the edit that gives the new ports the memberships of the former ones."""
        from ibkeys.partitions.editing.replacing import replace_guids

        if self.old is None:
            self.found = [each for each in self.found if not self._is_member(policy, each)]
        guids: dict[int, int] = {}
        for each in self.found:
            guids |= each.port_guids
        return replace_guids(policy, guids, ports.known)

    def beside(self, topology: Topology) -> Beside:
        """Return the changes of the node name map, the waivers and the key store. With ``--policy FILE`` only of files
        that are typed, too. Raises UsageError, FileError."""
        from ibkeys.apply.by_sm.beside import Beside, Places
        from ibkeys.cli.given import is_typed
        from ibkeys.cli.opening import name_map_of

        files = {"node_name_map": name_map_of(self.command_options.where), "waivers": self.waivers}
        is_file_only = self.command_options.editing.file is not None
        wanted = {
            name: path for name, path in files.items() if path is not None and (not is_file_only or is_typed(name))
        }
        changed = tuple(filter(None, (self._file(name, Path(path)) for name, path in wanted.items())))
        places = Places() if is_file_only else self._places(topology)
        return Beside(changed, places)

    def _file(self, name: str, path: Path) -> LocalFile | None:
        """Return a file with the new GUIDs; None if nothing changes. Raises UsageError, FileError."""
        from ibkeys.apply.by_sm.beside import LocalFile
        from ibkeys.audit.waiver_guids import with_other_guids as in_waivers
        from ibkeys.host.replacing.looked_up import look
        from ibkeys.topology.names.node_names import with_other_guids as in_names

        guids: dict[int, int] = {}
        for each in self.found:
            guids |= each.guids
        seen = look(path)
        before = seen.data or b""
        text = before.decode("utf-8", "surrogateescape")
        text = in_names(text, guids) if name == "node_name_map" else in_waivers(text, guids, str(path))
        after = text.encode("utf-8", "surrogateescape")
        return LocalFile(seen.path, before, after) if after != before else None

    def _places(self, topology: Topology) -> Places:
        """Return the changes of the key store: new ports that the sweep found at the known places of former ones."""
        from ibkeys.apply.by_sm.beside import Places

        store = self._keystore()
        if store is None:
            return Places()
        with store:
            places = Places.of(store, [pair for each in self.found for pair in each.pairs], topology)
        for each in places.links:
            exits.note(
                f"key store: behind 0x{each.near[0]:016x} port {each.near[1]} is 0x{each.new[0]:016x} in place of "
                f"0x{each.former[0]:016x}"
            )
        return places

    @staticmethod
    def _is_member(policy: Policy, pair: ReplacedNode) -> bool:
        """Return whether the policy names a new port of *pair* already; then write a warning: nothing is taken over."""
        is_named = bool({*pair.port_guids.values()} & policy.named_guids)
        if is_named and {*pair.port_guids} & policy.named_guids:
            exits.warn(f"left out: {pair}: the policy names both, so the new one is no new port")
        return is_named

    def _pairs(self, topology: Topology) -> Iterator[ReplacedNode]:
        from ibkeys.topology.replaced import find_new, likely_pairs, new_ports, pair_of_move, replace_by

        if self.old is None:
            assert self.baseline is not None  # one of them is given
            for move in likely_pairs(self.baseline, topology):
                yield pair_of_move(move, self.baseline, topology)
            return
        former = self._former(self.old)
        if self.new is not None:
            ports = new_ports(topology, self.new)
        else:
            assert self.baseline is not None  # one of them is given
            ports = find_new(former, topology, self.baseline)
        yield replace_by(former, ports, topology, self.baseline)

    def _former(self, word: str) -> FormerNode:
        """Return the former node, from the earlier snapshot, or by its GUID from the key store.

        Raises AddressError; UsageError for a name without a snapshot.
        """
        from ibkeys.client.address import parse_guid
        from ibkeys.keys.guid import is_spelled_as_guid
        from ibkeys.topology.replaced import former_in_snapshot, former_in_store

        if self.baseline is not None:
            return former_in_snapshot(self.baseline, word)
        if not is_spelled_as_guid(word):
            raise UsageError(
                f"{clean(word)!r} is not a GUID, and a name is looked up only in an earlier snapshot: --baseline"
            )
        return former_in_store(parse_guid(word).guid, *self._stored())

    def _stored(self) -> tuple[Sequence[PortInStore], Mapping[LinkEnd, LinkEnd]]:
        """Return the ports and the links that the key store has, [] and {} without one."""
        from ibkeys.topology.replaced import PortInStore

        store = self._keystore()
        if store is None:
            return [], {}
        with store:
            ports = [PortInStore(row.port_guid, row.node_guid, row.port) for row in store.outline()]
            return ports, store.links()

    def _keystore(self) -> KeyStore | None:
        """Return the key store, to be read; None if there is none. Raises StoreError."""
        from ibkeys.cli.opening import stores_of
        from ibkeys.store.keystore.keystore import KeyStore

        path = stores_of(self.command_options.where).keystore
        return KeyStore(path, create=False, upgrade=False) if path is not None and path.exists() else None

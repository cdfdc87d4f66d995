"""Deciding which far ends of links are queried if nothing shows which port is there: it may be a protected port.

A protected port counts each query without its key as a violation, and its lease starts. So such a far end waits until
all others were queried. Then, as long as a protected port may be there, its port is identified without SMPs to it. A
far end that still may be a protected port is not queried, but reported with the reason. With ``provokes`` all are
queried once, without a key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ibkeys.arguments import given
from ibkeys.client.smp import SmpClient, Task
from ibkeys.discovery.identity import FoundNodes
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.links.gmps import LinkGmps
from ibkeys.discovery.links.proof import LinkProof, LinkProver
from ibkeys.errors import IbkeysError
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.printable import counted
from ibkeys.topology.model import Trouble, UnqueriedPlace
from ibkeys.topology.nodes import LinkEnd, Port

AskFarEnd = Callable[[Port, LinkProof | None, int | None], Task]
"""A function that returns a task, which queries the far end of a link with the key for unidentified nodes.

Arguments: the near port of the link, the evidence that names the far end, and the attempts after the first (None: as
for any other query).
"""


@dataclass(eq=False, repr=False)
class UnprovenPlaces:
    """The ports of one sweep whose far end was not queried yet.

    ``provokes``: query a far end once, without a key, even if it may be a protected port. ``doubts``: near port → why
    the far end by the known links was not proven.
    """

    client: SmpClient
    ring: KeyRing
    nodes: FoundNodes
    prover: LinkProver
    gmps: LinkGmps
    ask_far_end: AskFarEnd
    provokes: bool
    doubts: dict[Port, str] = field(default_factory=dict)
    _waiting: list[Port] = field(default_factory=list)
    _unasked: dict[Port, LinkProof] = field(default_factory=dict)
    _open_ends: set[Port] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._protected = self.ring.protected() if self.ring.has_keys else set()

    def postpone(self, near: Port, doubt: str = "") -> None:
        """Delay the query of the far end of *near*. *doubt*: why the port by the known links was not proven there, ""
        if no port is known there."""
        if doubt:
            self.doubts[near] = doubt
        self._waiting.append(near)

    def query_waiting(self) -> None:
        """Query the far ends that were postponed. Call this after all far ends that could be proven were queried: by
        then most of the postponed ones were found from their other end, and are not queried.

        A postponed far end may be a protected port that was not found yet, or a port of a protected switch that was
        found. As long as that is possible, it is first identified without SMPs to it. A far end that is, or still may
        be, a protected port is not queried; any other is queried once. With ``provokes`` all are queried once.
        """
        before = None
        while True:
            waiting = [near for near in self._waiting if near.peer is None]
            self._waiting = []
            self._open_ends = self._find_open_ends() if waiting else set()
            if waiting and self.provokes and not self._all_found():
                self.client.run([self.ask_far_end(near, None, 0) for near in waiting])
            elif waiting:
                self.client.run([self._query_or_identify(near) for near in waiting])
            elif self._unasked and before != (before := self._progress()):
                self._waiting, self._unasked = list(self._unasked), {}
            else:
                break
        self._report_unasked()

    def _all_found(self) -> bool:
        """Return whether every protected port has answered at its known place."""
        return self._protected <= self.nodes.proven

    def _progress(self) -> tuple[int, int]:
        """Return a value that changes when it may be possible to query more of the places that were left unqueried."""
        return len(self.nodes.proven), sum(port.peer is None for port in self._unasked)

    def _query_or_identify(self, near: Port) -> Task:
        if self._all_found() and (self.provokes or not self._may_be_found_switch(near)):
            yield from self.ask_far_end(near, None, 0 if self.provokes else None)
        else:
            yield from self._identify(near)

    def _may_be_found_switch(self, near: Port) -> bool:
        """Return whether *near* may be linked with a protected switch that was found: whether another port than *near*
        is an open end."""
        return len(self._open_ends) > (near in self._open_ends)

    def _find_open_ends(self) -> set[Port]:
        """Return the open ends: ports of protected switches whose far end was not found, although they have a link or
        could not be read.

        Port 0 stands for the ports of a switch that were not read because of a limit.
        """
        ends = set()
        for node in self.nodes.topology.nodes:
            if node.is_switch and self.ring.is_protected(node.port(0).guid):
                for num in range(1, node.num_ports + 1):
                    port = node.ports.get(num)
                    if port is None or (port.peer is None and (port.info is None or port.is_linked)):
                        ends.add(port or node.port(0))
        return ends

    def _identify(self, near: Port) -> Task:
        """Task: identify the node behind *near* without SMPs to it, and query it once if it is not a protected port."""
        path = near.node.path if near.node.is_switch else ()
        try:
            near.info = yield self.client.gets_to(path, near.node, near.end_port.m_key).ask(PortInfo, near.num)
        except IbkeysError as error:
            self._unasked[near] = LinkProof(False, None, f"the port before it could not be read again: {error}")
            return
        # Before the far end is identified: --settle stores both, and the counter must not be the later value.
        yield from self.gmps.read_counter(near)
        proof: LinkProof = yield from self.prover.identify(near)
        if near.peer is not None or self._join(near, proof):
            return
        if proof.far_end is None:
            proven = self.nodes.proven
            may_query = self._protected <= proven | self.ring.settled and not self._may_be_found_switch(near)
        else:
            may_query = not self.ring.is_protected(proof.far_end[0])
        if may_query:
            yield from self.ask_far_end(near, proof, 0)
        else:
            self._unasked[near] = proof

    def _join(self, near: Port, proof: LinkProof) -> bool:
        """Link *near* with the port of a switch that was found, if the SA names this port as its far end.

        Then no query is needed. Returns whether they were linked.
        """
        switch = self.nodes.switch_named(proof)
        port = switch.ports.get(proof.far_end[1]) if switch is not None and proof.far_end is not None else None
        if port is None or port is near or port.peer is not None or not port.is_linked:
            return False
        near.peer, port.peer = port, near
        return True

    def _report_unasked(self) -> None:
        """Add the places that were not queried to the topology: a trouble with the reason and the remedy, and an
        `UnqueriedPlace` for each. Also set ``missing``: the protected ports that were not found."""
        topology, proven = self.nodes.topology, self.nodes.proven
        topology.missing = frozenset(self._protected - proven)
        missing = len(topology.missing - self.ring.settled)
        for near, proof in self._unasked.items():
            if near.peer is not None:
                continue
            known = self.ring.expected_behind(near.link_end)
            is_found = proof.far_end is not None and proof.far_end[0] in proven
            text = _why_not_asked(known, proof, self.doubts.get(near, ""), missing, is_found)
            topology.troubles.append(Trouble(near, text, NodeInfo.name, "not-asked"))
            topology.unasked.append(UnqueriedPlace(near, known, proof.far_end))
        self._unasked = {}


def _why_not_asked(known: LinkEnd | None, proof: LinkProof, doubt: str, missing: int, is_found: bool) -> str:
    """Return why a sweep did not query a place, and the remedy.

    *known*: the port there by the known links; *doubt*: why it was not proven. *proof*: the evidence that names the
    port. *missing*: the number of ports known as protected that were neither found nor settled. *is_found*: the port
    that *proof* names was found at another place.
    """
    expected = f"port GUID 0x{known[0]:016x} is known there, but {doubt or proof.reason}; " if known else ""
    if proof.far_end is not None:
        guid = proof.far_end[0]
        moved = "" if known is not None and known[0] == guid else ", so it moved"
        if is_found:
            moved = " and was found: this would be another link of it, or another port with its GUID"
        why = f"port GUID 0x{guid:016x}, {proof.reason}, is known as protected{moved}"
    elif missing:
        why = f"{counted(missing, 'port')} known as protected may be there: {proof.reason}"
    else:
        why = f"it may be another link of a protected switch that was found: {proof.reason}"
    trust = f"; {given('--trust-topology')} sends the key of the port that is known there" if known else ""
    once = given("--ask-unproven")
    return (
        f"the far end was not queried: {expected}{why}{trust}; `ibkeys keystore list --settle` records where ports are "
        f"now; {once} queries once without a key, which a protected port counts as an M_Key violation"
    )

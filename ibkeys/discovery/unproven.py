"""Places where a protected port may be and no evidence names the port: which of them are queried, and which are not.

A port that is protected counts each query without its key, and its lease starts. So such a place waits until all others
were queried; then it is identified without SMPs to it, or left alone and reported with the reason.
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
from ibkeys.topology.model import Trouble, Unasked
from ibkeys.topology.nodes import LinkEnd, Port

AskFarEnd = Callable[[Port, LinkProof | None, int | None], Task]
"""Task: query the port behind a port, with the key for unidentified nodes.

Arguments: the near port, the evidence that names its neighbour, and the attempts after the first (None: as for any
other query).
"""


@dataclass(eq=False, repr=False)
class UnprovenPlaces:
    """The ports of one sweep whose far end was not queried yet. ``doubts``: why the known end was not proven there.

    ``provokes``: query once, without a key, also where a protected port may be.
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
    _left: dict[Port, LinkProof] = field(default_factory=dict)
    _open_ends: set[Port] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._protected = self.ring.protected() if self.ring.has_keys else set()

    def put_off(self, near: Port, doubt: str = "") -> None:
        """Delay the query of the far end of *near*. *doubt*: why the port that is known there was not proven."""
        if doubt:
            self.doubts[near] = doubt
        self._waiting.append(near)

    def ask(self) -> None:
        """Query the waiting places, after all that could be proven. Most were joined from their other side.

        A protected port that has not been found may be at any of these, and so may another link of a protected switch
        that was found. While there is such a port, a place is first identified without SMPs to it: a protected port, or
        a place that cannot be identified, is not queried; another port is queried once.
        """
        before = None
        while True:
            waiting = [near for near in self._waiting if near.peer is None]
            self._waiting = []
            self._open_ends = self._find_open_ends() if waiting else set()
            if waiting and self.provokes and not self._all_found():
                self.client.run([self.ask_far_end(near, None, 0) for near in waiting])
            elif waiting:
                self.client.run([self._ask_or_identify(near) for near in waiting])
            elif self._left and before != (before := self._progress()):
                self._waiting, self._left = list(self._left), {}
            else:
                break
        self._name_left()

    def _all_found(self) -> bool:
        """Return whether each protected port was found at its known place."""
        return self._protected <= self.nodes.proven

    def _progress(self) -> tuple[int, int]:
        """Return a value that changes when places that were not queried are worth another look."""
        return len(self.nodes.proven), sum(port.peer is None for port in self._left)

    def _ask_or_identify(self, near: Port) -> Task:
        if self._all_found() and (self.provokes or not self._may_be_found_switch(near)):
            yield from self.ask_far_end(near, None, 0 if self.provokes else None)
        else:
            yield from self._identify(near)

    def _may_be_found_switch(self, near: Port) -> bool:
        """Return whether the link of *near* may end at a protected switch that was found, at another of its open
        ends."""
        return len(self._open_ends) > (near in self._open_ends)

    def _find_open_ends(self) -> set[Port]:
        """Return the ports of protected switches where another link may end: they have a link or could not be read, and
        no known far end.

        Port 0 stands for ports that were left out.
        """
        ends = set()
        for node in self.nodes.found.nodes:
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
            near.info = yield self.client.get_along(path, PortInfo, near.num, near.node, near.end_port.m_key)
        except IbkeysError as error:
            self._left[near] = LinkProof(False, None, f"the port before it could not be read again: {error}")
            return
        yield from self.gmps.read_counter(near)  # before the node is named: --settle keeps both
        proof: LinkProof = yield from self.prover.identify(near)
        if near.peer is not None or self._join(near, proof):
            return
        if proof.found is None:
            proven = self.nodes.proven
            may_ask = self._protected <= proven | self.ring.settled and not self._may_be_found_switch(near)
        else:
            may_ask = not self.ring.is_protected(proof.found[0])
        if may_ask:
            yield from self.ask_far_end(near, proof, 0)
        else:
            self._left[near] = proof

    def _join(self, near: Port, proof: LinkProof) -> bool:
        """Join *near* with the port of a protected switch that was found, if the SA has that port behind *near*.

        Then no query is needed. Returns whether they were joined.
        """
        switch = self.nodes.switch_named(proof)
        port = switch.ports.get(proof.found[1]) if switch is not None and proof.found is not None else None
        if port is None or port is near or port.peer is not None or not port.is_linked:
            return False
        near.peer, port.peer = port, near
        return True

    def _name_left(self) -> None:
        """Add a trouble for each place that was not queried, with the reason and the remedy."""
        found, proven = self.nodes.found, self.nodes.proven
        found.missing = frozenset(self._protected - proven)
        missing = len(found.missing - self.ring.settled)
        for near, proof in self._left.items():
            if near.peer is not None:
                continue
            known = self.ring.expected_behind(near.link_end)
            is_found = proof.found is not None and proof.found[0] in proven
            text = _why_not_asked(known, proof, self.doubts.get(near, ""), missing, is_found)
            found.troubles.append(Trouble(near, text, NodeInfo.name, "not-asked"))
            found.unasked.append(Unasked(near, known, proof.found))
        self._left = {}


def _why_not_asked(known: LinkEnd | None, proof: LinkProof, doubt: str, missing: int, is_found: bool) -> str:
    """Return why a sweep did not query a place, and the remedy.

    *known*: the end that the known links have there; *doubt*: why it was not proven; *missing*: ports known as
    protected that were not found and not settled; *is_found*: the port that *proof* names was found, at another place.
    """
    expected = f"port GUID 0x{known[0]:016x} is known there, but {doubt or proof.reason}; " if known else ""
    if proof.found is not None:
        guid = proof.found[0]
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

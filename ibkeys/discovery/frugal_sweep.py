"""A sweep of a subnet whose ports may have one of several keys: each port is queried with its keys one after the other,
once with each, until it answers.

A port at level 2 or 3 counts a violation for each wrong key, and its lease starts. So no query is repeated, and the
kind of key that most ports answered to is tried first. A switch with several links is queried over one of them, while
the other links wait for the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ibkeys.client.smp import Task
from ibkeys.discovery.links.proof import LinkProof
from ibkeys.discovery.sweep import Sweep
from ibkeys.errors import IbkeysError, NoReply, SendRefused
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.topology.model import Trouble
from ibkeys.topology.nodes import LinkEnd, Port

_ProvenLink = tuple[Port, LinkEnd, LinkProof]


@dataclass(eq=False, repr=False)
class FrugalSweep(Sweep):
    """One pass over the subnet with few queries.

    ``answered_keys``: port GUID → the key that the port answered to (at level 0 and 1 any key is answered). ``silent``:
    the GUIDs of ports that answered to none of their keys.

    ``kinds``: port GUID → each key of the port → the kind of the key, such as current or former. Two ports are compared
    only by keys of the same kind: many ports that have A as their current key are no evidence for a port whose former
    key is A.

    `ibkeys.discovery.discover.run_sweep` runs it to its end.
    """

    kinds: Mapping[int, Mapping[MKey, str]]
    probe_retries: int | None = field(default=0, init=False)
    answered_keys: dict[int, MKey] = field(default_factory=dict, init=False)
    silent: set[int] = field(default_factory=set, init=False)
    _kinds_answered: Counter[tuple[MKey, str]] = field(default_factory=Counter, init=False)
    _queued_links: dict[int, list[_ProvenLink]] = field(default_factory=dict, init=False)

    def _ask(self, path: tuple[int, ...], guid: int, key: MKey, retries: int | None = None) -> Task:
        """Task: get NodeInfo with the keys that the port *guid* may have, each once; return it and the key that was
        answered.

        A port that answered before is sent only the key that it answered to. *retries* is ignored. Raises the error of
        the last attempt if none is answered.
        """
        keys = [key, *self.ring.others_for(guid, key)]
        if guid in self.answered_keys:
            keys = [self.answered_keys[guid]]
        last: IbkeysError = NoReply("")
        for candidate in sorted(keys, key=lambda each: -self._kinds_answered[self._kind(guid, each)]):
            try:
                info: bytes = yield self._ask_once(path, candidate)
            except (NoReply, SendRefused) as error:
                last = error
                continue
            if guid:
                self.answered_keys[guid] = candidate
            return info, candidate
        if guid:
            self.silent.add(guid)
        raise last

    def _ask_proven(self, near: Port, far: LinkEnd, proof: LinkProof) -> Task:
        guid = far[0]
        if near.peer is not None:
            return
        if guid in self._queued_links:
            self._queued_links[guid].append((near, far, proof))
            return
        if guid in self.silent:
            text = f"what is behind it, port GUID 0x{guid:016x}, was queried over another link and did not answer"
            self.topology.troubles.append(Trouble(near, text, NodeInfo.name, "not-asked"))
            return
        self._queued_links[guid] = []
        yield from super()._ask_proven(near, far, proof)
        for link in self._queued_links.pop(guid):
            self.client.start(self._ask_proven(*link))

    def read_port(self, port: Port) -> Task:
        """Task: read a port as every sweep does. The key that an end port shows is counted: it decides the order of the
        keys in later queries."""
        yield from super().read_port(port)
        if port.is_end_port and port.info is not None and port.m_key_state == "set":
            self._kinds_answered[self._kind(port.guid, MKey(PortInfo(port.info).m_key))] += 1

    def _kind(self, guid: int, key: MKey) -> tuple[MKey, str]:
        return key, self.kinds.get(guid, {}).get(key, "")

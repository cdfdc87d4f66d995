"""The keys that a recovery found: they are put into the key store first, then the requested settings are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.links.check import CHECK_VALID_SECONDS
from ibkeys.errors import IbkeysError, Unreachable
from ibkeys.fabric.handle import PortHandle
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
from ibkeys.mkeys.recovery.result import RecoveryResult
from ibkeys.mkeys.recovery.waiting import WaitingPorts
from ibkeys.mkeys.set import plan_mkey_set
from ibkeys.mkeys.stored_links import remember_topology
from ibkeys.store.journal import RunningOperation
from ibkeys.topology.nodes import Port


class FoundKeys:
    """The keys that one recovery found. ``to_change``: the ports that opened and that are still to be changed."""

    def __init__(self, writer: ChangeWriter, waiting: WaitingPorts, options: RecoveryOptions) -> None:
        self.writer = writer
        self.options = options
        self.to_change: list[Port] = []
        self._waiting = waiting
        self._new: list[tuple[Port, bool]] = []

    def collect(self) -> None:
        """Collect the keys that the search has found since the last call."""
        self._new += self._waiting.take_opened()

    def count_new(self) -> int:
        """Return the number of ports that were found open, whose key is new or which were locked, and that are not
        stored yet."""
        return sum(self._is_new(port, locked) for port, locked in self._new)

    def _is_new(self, port: Port, was_locked: bool) -> bool:
        """Return whether a port that shows its key was locked, or has another key than the one in the key ring."""
        ring, state = self.writer.fabric.ring, port.m_key_state
        if state != "set":
            return was_locked
        info = port.port_info
        assert info is not None
        known = ring.for_all or ring.by_guid.get(port.guid) or ring.fallback
        return was_locked or MKey(info.m_key) != known

    def store_new(self) -> Iterator[RecoveryResult]:
        """Put the keys that were found into the key store in one transaction; then yield the results of their ports,
        except for the ports that are to be changed. Raises StoreError.
        """
        self.collect()
        opened, self._new = self._new, []
        new = [(port, locked) for port, locked in opened if self._is_new(port, locked)]
        with_key = [port for port, _ in new if port.m_key_state == "set"]
        if with_key:
            self._store(with_key)
        for port, locked in new:
            info = PortInfo(port.info or b"")
            if port not in with_key:
                reason = "it answers and has no M_Key: there is nothing to recover"
                yield RecoveryResult(port.identity(), "skipped", reason)
            elif self.options.sets_something:
                self.to_change.append(port)
            else:
                yield RecoveryResult(port.identity(), "done", _how_found(info, locked))

    def _store(self, ports: Sequence[Port]) -> None:
        store, ring = self.writer.keystore, self.writer.fabric.ring
        with store.in_one_transaction():
            for port in ports:
                key = MKey(PortInfo(port.info or b"").m_key)
                ref = store.put_imported(
                    port.guid, key, node_guid=port.node.guid, port=port.num, note="recovered: the port showed it"
                )
                store.promote(ref)
        for port in ports:
            port.m_key = MKey(PortInfo(port.info or b"").m_key)
            ring.by_guid[port.guid] = port.m_key
            ring.learn(port.guid, port.m_key)

    def store_links(self) -> None:
        """Store links and LIDs in the key store if keys were found, because a later command sends a key only over a
        known link. Raises StoreError."""
        if self.writer.fabric.ring.learned:
            remember_topology(self.writer.fabric, self.writer.keystore, self._waiting.found)

    def change(self, operation: RunningOperation) -> Iterator[RecoveryResult]:
        """Set the requested values on the ports that opened, the farthest first, the local port last, and yield the
        result of each. Waiting for leases took time, so the route to each port is checked again before the Set.
        """
        options, writer = self.options, self.writer
        if self.to_change:
            writer.fabric.adopt(self._waiting.found)
        self.to_change.sort(key=lambda port: -len(port.agent_path))
        while self.to_change:
            port = self.to_change[0]
            key = options.new_key or (MKey.generate() if options.set_new else None)
            try:
                handle = writer.fabric.handle(port)
                self._check_route(handle)
                plan = plan_mkey_set(writer, handle, key, options.protect, options.lease, links_are_stored=True)
                writer.apply_within(plan, operation)
            except IbkeysError as error:
                result = RecoveryResult(
                    port.identity(), "failed", f"its key is in the key store, but setting failed: {error}"
                )
            else:
                what = "; ".join(map(str, plan.changes)) or "nothing to change"
                result = RecoveryResult(port.identity(), "done", f"its key was found; {what}")
            self.to_change.remove(port)
            yield result

    def _check_route(self, handle: PortHandle) -> None:
        """Raise Unreachable if the route to a port changed since the port was found: neither its new key nor its old
        key may be sent to another port that was plugged in there in the meantime.
        """
        for why in self.writer.changed_links([handle.port], CHECK_VALID_SECONDS).values():
            raise Unreachable(f"{handle}: the route to it changed since it was found ({why}); nothing was sent to it")
        handle.judge_arrival(NodeInfo(handle.get(NodeInfo)))

    def results_of_unchanged(self) -> Iterator[RecoveryResult]:
        """Yield results for the ports that were still to be changed when the run was interrupted."""
        for port in self.to_change:
            reason = "its key is in the key store; the requested values were not set, because the run was interrupted"
            yield RecoveryResult(port.identity(), "failed", reason)


def _how_found(info: PortInfo, was_locked: bool) -> str:
    if not was_locked:
        return f"it shows its key to everybody (ProtectBits {info.m_key_protect_bits}); the key store has it now"
    if info.m_key_protect_bits:
        return "it answered to one of the keys that were tried; the key store has it as its current one"
    return "its lease ran out: ProtectBits are 0 and it shows its key to everybody; the key store has it now"

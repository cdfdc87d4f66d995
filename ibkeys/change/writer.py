"""The writer: the one way to change a port. Reads first, shows, checks, journals, sets, and proves by a fresh read.

A writer belongs to one changing command. It holds the lock on journal and key store, knows what the user consented to,
and knows the subnet manager. The kinds of change are in modules of their own, each a function (writer, port, what) → `Plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import Self

from ibkeys.change.consent import Consent, Objection
from ibkeys.change.plan import Plan
from ibkeys.change.subnet_manager import SubnetManager, find_subnet_manager
from ibkeys.errors import MKeyNeeded
from ibkeys.fabric.session import OpenFabric, PortHandle
from ibkeys.keys.mkey import MKey
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.store.journal import Entry, Journal, Operation
from ibkeys.store.keystore import KeyStore
from ibkeys.store.lock import exclusive


class Writer:
    """One changing command on one open fabric; use it as a context manager.

    With *dry_run* nothing is locked, created or sent but Gets. Raises StoreLocked when another command is changing.
    """

    def __init__(self, fabric: OpenFabric, command: str, consent: Consent | None = None, dry_run: bool = False) -> None:
        self.fabric = fabric
        self.command = command
        self.consent = consent or Consent()
        self.dry_run = dry_run
        self._stack = ExitStack()
        self._operation: Operation | None = None

    def __enter__(self) -> Self:
        stores = self.fabric.stores
        if not self.dry_run:
            self._stack.enter_context(exclusive(stores.journal, stores.keystore, command=self.command))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @cached_property
    def subnet_manager(self) -> SubnetManager:
        """The master SM as seen at the beginning of the command."""
        return find_subnet_manager(self.fabric)

    @cached_property
    def keystore(self) -> KeyStore:
        """The key store, made when it is first needed."""
        return self._stack.enter_context(KeyStore(self.fabric.stores.keystore))

    # --- kinds of change -----------------------------------------------------------------------------------------

    def pkey_set(self, port: PortHandle, entries: dict[int, PKey]) -> Plan:
        """Plan to write P_Keys by index; an empty key (0) clears. See `ibkeys.change.pkeys`."""
        from ibkeys.change.pkeys import plan_set

        return plan_set(self, port, entries)

    def pkey_add(self, port: PortHandle, keys: Sequence[PKey]) -> Plan:
        """Plan to put P_Keys into free entries. See `ibkeys.change.pkeys`."""
        from ibkeys.change.pkeys import plan_add

        return plan_add(self, port, keys)

    def pkey_remove(self, port: PortHandle, keys: Sequence[PKey]) -> Plan:
        """Plan to clear P_Keys where they are. See `ibkeys.change.pkeys`."""
        from ibkeys.change.pkeys import plan_remove

        return plan_remove(self, port, keys)

    def enforce_set(self, port: PortHandle, inbound: bool | None, outbound: bool | None) -> Plan:
        """Plan to switch partition enforcement of a switch port; None leaves a direction. See `ibkeys.change.enforce`."""
        from ibkeys.change.enforce import plan_enforce

        return plan_enforce(self, port, inbound, outbound)

    def counters_clear(self, ports: Sequence[PortHandle]) -> Plan:
        """Plan to clear the violation counters of ports. See `ibkeys.change.counters`."""
        from ibkeys.change.counters import plan_clear

        return plan_clear(self, ports)

    # --- checking and applying -----------------------------------------------------------------------------------

    def objection_to_active_sm(self, what: str) -> list[Objection]:
        """Return the objection of ``active-sm`` when an SM is or may be master, as a list of none or one."""
        manager = self.subnet_manager
        if not manager.may_be_master:
            return []
        return [Objection("active-sm", f"{manager.evidence}; {what}")]

    def check(self, plan: Plan) -> None:
        """Raise Refused for the first interlock that *plan* sets off and the user has not overridden."""
        for objection in self.uncovered(plan):
            raise objection.refusal()

    def uncovered(self, plan: Plan) -> list[Objection]:
        """Return the objections that the user has not overridden."""
        return [objection for objection in plan.objections if not self.consent.covers(objection.interlock)]

    def apply(self, plan: Plan) -> None:
        """Make the change: journal, Set, verify. Raises Refused, NotStored, NoReply, MadStatusError, StoreError.

        What was overwritten is in the journal before each Set, whatever happens afterwards.
        """
        self.check(plan)
        if not plan.pending:
            return
        with Journal(self.fabric.stores.journal) as journal, journal.operation(self.command) as operation:
            self._operation = operation
            try:
                plan.perform()
            finally:
                self._operation = None

    def record(
        self, port: PortHandle, attribute: str, modifier: int, before: bytes, after: bytes, key_ref: int | None = None
    ) -> Entry:
        """Put what a Set overwrites into the journal; it is on disk when this returns."""
        assert self._operation is not None, "record() belongs inside apply()"
        node = port.port.node
        return self._operation.record(
            node_guid=node.guid,
            port_guid=port.port.port_guid,
            node_desc=node.description or "",
            node_type=node.type_name,
            port=port.port.num,
            lid=port.port.lid or 0,
            attribute=attribute,
            attribute_modifier=modifier,
            before=before,
            after=after,
            key_ref=key_ref,
        )

    def key_for_set(self, port: PortHandle, end_port_info: PortInfo) -> MKey:
        """Return the M_Key that a Set on this port needs, judged by PortInfo of its end port.

        A key that the port itself shows is the key (OpenSM does the same), a zero too unless the port is at level 1,
        where it shows zero to those who do not send its key. Raises MKeyNeeded when the port hides its key and none is
        known: the Set would be dropped and count a violation.
        """
        shown = MKey(end_port_info.m_key)
        if not shown.is_zero or end_port_info.m_key_protect_bits != 1:
            return shown
        if port.m_key.is_zero:
            raise MKeyNeeded(
                f"{port}: the port is at protection level 1 and hides its M_Key, and none is known for it; a Set without it "
                "would be dropped and counted as a violation: give the key with -y, --keystore or --security-keys"
            )
        return port.m_key

"""Planning to set M_Key, ProtectBits and lease of one port (IBA 14.2.4). `ibkeys.mkeys.key_edit` has the Set and its
proof."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.change.consent import Objection
from ibkeys.change.engine import Engine
from ibkeys.change.interlocks.m_keys import (
    LEVEL_BESIDE_SM,
    first_keys_at_level_0,
    known_guids,
    objections_to_key,
    objections_to_key_under_sm,
    objections_to_lease,
    objections_to_link_of,
    objections_to_opensm,
)
from ibkeys.change.pending_set import PendingSet
from ibkeys.change.plan import Change, Plan
from ibkeys.change.target import PortTarget, key_for_set
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import LINKS
from ibkeys.errors import Unreachable, UsageError
from ibkeys.fabric.handle import PortHandle
from ibkeys.fabric.live import LiveFabric
from ibkeys.keys.key_setting import KeySetting, check_level_and_lease
from ibkeys.keys.mkey import NO_MKEY, MKey, notes_on_levels
from ibkeys.managers.opensm.on_this_host import known_sweep_interval
from ibkeys.mkeys.key_edit import KeyEdit
from ibkeys.mkeys.key_keeper import KeyKeeper
from ibkeys.mkeys.stored_links import remember_topology
from ibkeys.store.journal import Journal, RunningOperation
from ibkeys.store.keystore.keystore import KeyRow, KeyStore
from ibkeys.store.private_files import is_there
from ibkeys.topology.nodes import Port


def plan_mkey_set(
    writer: ChangeWriter,
    port: PortHandle,
    new_key: MKey | None = None,
    protect: int | None = None,
    lease: int | None = None,
    *,
    links_are_stored: bool = False,
    row: int | None = None,
) -> Plan:
    """Plan to set the M_Key, ProtectBits (0 to 3) and lease (seconds, 0 to 65535) of an end port; None leaves a value.
    *links_are_stored*: whether the key store already has the links that a sweep of this command found. *row*: the
    number of the key store's row that has *new_key* already, None for a key that is still to be stored.

    Raises UsageError for an external port of a switch (its M_Key is that of port 0) and for values out of range;
    Unreachable if it is doubtful that the port is the one that was named; MKeyNeeded if the port hides a key that is
    not known; and the errors of reading PortInfo.
    """
    if port.port.is_external:
        raise UsageError(
            f"{port}: external ports of a switch have no M_Key of their own; that of port 0 protects the "
            "whole switch: address port 0"
        )
    check_level_and_lease(protect, lease)
    if doubt := port.fabric.doubt_of(port.port):
        raise Unreachable(f"{port}: {doubt}; its M_Key is not changed")
    shown = port.read_port_info()
    writer.note_master_sm_lid(port)
    old_key = key_for_set(port)
    had = KeySetting(old_key, shown.m_key_protect_bits, shown.m_key_lease_period)
    wanted = had.with_values(new_key, protect, lease)
    plan = KeyPlan(writer.command, completes=[port.port], links_are_stored=links_are_stored, wanted_key=wanted.key)
    writer.sends_keys = True
    plan.changes = changes_of(port.port, had, wanted)
    if not plan.pending:
        return plan
    plan.notes = _notes(wanted)
    plan.objections = _objections(writer, port, had, wanted)
    if had.key.is_zero and not wanted.key.is_zero and not wanted.protect and protect is None:
        plan.questions = [first_keys_at_level_0(f"{port.port} gets its first M_Key")]
    edit = KeyEdit(PortTarget(port, old_key), shown, had, wanted)
    edit.ref = row
    edit.takes_over, edit.error_prefix = writer.consent.covers("stale"), f"{port}: "
    plan.stages = [[PendingSet(edit)]]
    return plan


@dataclass(slots=True)
class KeyPlan(Plan):
    """A change of one port's M_Key, level or lease. ``links_are_stored``: whether the key store has the links to the
    port; ``wanted_key``: the port's M_Key after the change."""

    links_are_stored: bool = False
    wanted_key: MKey = NO_MKEY

    def perform(self, writer: ChangeWriter, operation: RunningOperation) -> None:
        """Store the links to the port, because a later command sends the key only over a known link; then make the Set.

        Raises the error of the Set: Refused (``stale``), NotStored, NoReply, MadStatusError, SendRefused, Unreachable,
        MKeyNeeded, StoreError; and the errors of `Fabric.sweep` if the links have to be found first.
        """
        [[single]] = self.stages
        edit, store = single.edit, writer.keystore
        assert isinstance(edit, KeyEdit)
        if not edit.wanted.key.is_zero and not self.links_are_stored:
            _remember_links(writer.fabric, store, edit.port)
        edit.advice = (
            f"both are kept in the key store ({store.path or 'in memory'}): query the port again later with "
            "that key store: both are tried"
        )
        keeper = KeyKeeper(store, writer.fabric.ring)
        self.make_sets(Engine(writer, operation, keeper, checks_arrival=False), operation)
        self.close_cut_off(writer, operation.journal, operation.id)

    def close_if_complete(self, writer: ChangeWriter) -> None:
        """Close complete operations as every plan does. A pending key of the port that no operation in the journal
        names, because the journal was lost after the Set, becomes current if the port has it. Raises StoreError."""
        Plan.close_if_complete(self, writer)
        stores = writer.fabric.stores
        if self.pending or writer.dry_run or stores.keystore is None or not is_there(stores.keystore, "key store"):
            return
        with Journal.read(stores.journal) as journal:
            named = journal.key_names()
        store = writer.keystore
        for row in self._pending_keys(store):
            # A journal of an early version has the number of a key in place of its name.
            is_named = not named.isdisjoint({store.name_of(row.ref), str(row.ref)})
            if not is_named and store.get(row.ref).m_key == self.wanted_key:
                store.promote(row.ref)

    def _pending_keys(self, store: KeyStore) -> list[KeyRow]:
        [port] = self.completes
        return [row for row in store.outline() if row.port_guid == port.port_guid and row.state == "pending"]

    def close_cut_off(self, writer: ChangeWriter, journal: Journal, but: int | None = None) -> list[int]:
        """Close interrupted operations as every plan does, and return their numbers. A key that such an operation left
        pending becomes current if the port has it, and is given up otherwise: the port has shown its key."""
        with journal.in_one_transaction():  # committed after the transactions of the key store
            closed = Plan.close_cut_off(self, writer, journal, but)
            if closed:
                store = writer.keystore
                for row in self._pending_keys(store):
                    if store.get(row.ref).m_key == self.wanted_key:
                        store.promote(row.ref)
                    else:
                        store.abandon(row.ref, "its Set did not take effect")
        return closed


def changes_of(port: Port, old: KeySetting, wanted: KeySetting) -> list[Change]:
    """Return the changes from the present setting of a port to the wanted one. Keys are given as zero, set or
    changed."""
    changes = []
    if wanted.key != old.key:
        before = "zero" if old.key.is_zero else "set"
        after = "zero" if wanted.key.is_zero else "set" if old.key.is_zero else "changed"
        changes.append(Change(port, "m_key", None, before, after))
    had = old.fields()
    for attr, value in wanted.fields().items():
        if value != had[attr]:
            changes.append(Change(port, attr, None, had[attr], value))
    return changes


def _notes(wanted: KeySetting) -> list[str]:
    if wanted.key.is_zero:
        return ["ProtectBits have no effect while M_Key is 0: the port accepts every SMP"] if wanted.protect else []
    return notes_on_levels([wanted.protect])


def _objections(writer: ChangeWriter, port: PortHandle, had: KeySetting, wanted: KeySetting) -> list[Objection]:
    manager, is_new = writer.ask_subnet_manager(), wanted.key != had.key
    found = objections_to_key_under_sm(writer, port) if is_new else writer.objection_to_active_sm(LEVEL_BESIDE_SM)
    if is_new and not wanted.key.is_zero:
        guids = known_guids(writer.fabric) | {port.port.guid, port.port.node.guid}
        found += objections_to_key(writer, wanted.key, guids)
        found += objections_to_opensm(writer.fabric, wanted.key, None, generated=False)
    found += objections_to_link_of(port, had, wanted)
    return found + objections_to_lease(str(port), wanted, known_sweep_interval(writer.fabric, manager))


def _remember_links(fabric: LiveFabric, store: KeyStore, port: Port) -> None:
    """Sweep, and store the links and LIDs of the fabric, because a later command sends the port's key over a known link
    only. There is no sweep for the local port, which needs no link, and for a port of a CA whose link is known. A
    switch is swept for always, because any of its links may lead to it.
    """
    guid = port.port_guid
    is_known = not port.node.is_switch and any(near[0] == guid for near in store.links())
    if guid != fabric.own_guid and not is_known:
        remember_topology(fabric, store, fabric.sweep(wanted=LINKS))

"""Setting M_Key, ProtectBits and lease of one port, so that no key is ever lost (IBA 14.2.4).

The order is the point of this module:

1. the links go into the key store: a later run sends the key only over a link that it knows;
2. PortInfo is read again, and must be what was shown;
3. the new key goes into the key store, and the old one stays there; both are on disk;
4. the journal gets what is overwritten, without keys;
5. one Set is sent, once, with the old key in its header;
6. its effect is proven by a Get with the new key. Silence is followed by that Get, and then by one with the old key, so
   that a lost reply never counts a violation at a port that has taken the new key.

Wherever this stops, the store holds every key that the port can have.
"""

from __future__ import annotations

from functools import partial

from ibkeys.change.consent import Objection
from ibkeys.change.edits import wrong_fields
from ibkeys.change.plan import Change, Plan
from ibkeys.change.portinfo import set_image, without_key
from ibkeys.change.portinfo_write import fresh_port_info, send_port_info, settle
from ibkeys.change.target import key_for_set
from ibkeys.change.writer import Writer
from ibkeys.discovery.sweep import LINKS
from ibkeys.errors import NoReply, NotStored, Unreachable, UsageError
from ibkeys.fabric.handle import PortHandle
from ibkeys.fabric.live import Fabric
from ibkeys.host.opensm_here import known_sweep_interval
from ibkeys.keys.mkey import PROTECTION_TEXT, MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mkeys.interlocks import (
    first_keys_at_level_0,
    known_guids,
    objections_to_key,
    objections_to_link_of,
    objections_to_opensm,
)
from ibkeys.mkeys.key_setting import Answer, KeySetting, who_answers
from ibkeys.mkeys.stored_links import remember_topology
from ibkeys.store.journal import Entry
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.topology.model import Port

OPENSM_PROCEDURE = (
    "let the SM do it: put m_key, m_key_protection_level and m_key_lease_period into opensm.conf, "
    "signal OpenSM (SIGHUP), and verify with `ibkeys mkey-show --all`"
)


def plan_mkey_set(
    writer: Writer,
    port: PortHandle,
    new_key: MKey | None = None,
    protect: int | None = None,
    lease: int | None = None,
    *,
    links_are_stored: bool = False,
) -> Plan:
    """Plan to set the M_Key, ProtectBits (0 to 3) and lease (seconds, 0 to 65535) of an end port; None leaves a value.
    *links_are_stored*: the key store has what a sweep of this run found.

    Raises UsageError for an external port of a switch (its M_Key is that of port 0) and values out of range,
    MKeyNeeded when the port hides a key that is not known.
    """
    if port.port.is_external:
        raise UsageError(
            f"{port}: external ports of a switch have no M_Key of their own; that of port 0 guards the whole "
            "switch: address port 0"
        )
    if protect is not None and not 0 <= protect <= 3:
        raise UsageError(f"ProtectBits {protect} is not in 0..3")
    if lease is not None and not 0 <= lease <= 0xFFFF:
        raise UsageError(f"lease {lease} s is not in 0..65535")
    if doubt := port.fabric.doubt_of(port.port):
        raise Unreachable(f"{port}: {doubt}; its M_Key is not changed")
    shown = port.read_port_info()
    writer.note_master_sm_lid(port)
    old_key = key_for_set(port)
    wanted = KeySetting(
        old_key if new_key is None else new_key,
        shown.m_key_protect_bits if protect is None else protect,
        shown.m_key_lease_period if lease is None else lease,
    )
    plan = Plan(writer.command)
    writer.sends_keys = True
    had = KeySetting(old_key, shown.m_key_protect_bits, shown.m_key_lease_period)
    plan.changes = changes_of(port.port, had, wanted)
    if not plan.pending:
        return plan
    plan.notes = _notes(wanted)
    plan.objections = _objections(writer, port, had, wanted)
    if had.key.is_zero and not wanted.key.is_zero and not wanted.protect and protect is None:
        plan.questions = [first_keys_at_level_0(f"{port.port} gets its first M_Key")]
    plan.perform = partial(_perform, writer, port, shown, old_key, wanted, links_are_stored)
    return plan


def changes_of(port: Port, old: KeySetting, wanted: KeySetting) -> list[Change]:
    """Return what differs between what a port has and what it shall have, the key in words."""
    changes = []
    if wanted.key != old.key:
        before = "zero" if old.key.is_zero else "set"
        after = "zero" if wanted.key.is_zero else "set" if old.key.is_zero else "set to another key"
        changes.append(Change(port, "m_key", None, before, after))
    had = old.fields()
    for attr, value in wanted.fields().items():
        if value != had[attr]:
            changes.append(Change(port, attr, None, str(had[attr]), str(value)))
    return changes


def _notes(wanted: KeySetting) -> list[str]:
    if wanted.key.is_zero:
        return ["ProtectBits have no effect while M_Key is 0: the port accepts every SMP"] if wanted.protect else []
    return [f"level {wanted.protect}: {PROTECTION_TEXT[wanted.protect]}"]


def _objections(writer: Writer, port: PortHandle, had: KeySetting, wanted: KeySetting) -> list[Objection]:
    found = []
    manager = writer.subnet_manager
    if wanted.key != had.key:
        if manager.may_be_master:
            found.append(
                Objection(
                    "mkey-under-sm",
                    f"{manager.evidence}; an SM that does not know the new M_Key drops {port} and all behind "
                    "it, and OpenSM reads "
                    f"its key files only when it starts; {OPENSM_PROCEDURE}",
                )
            )
    else:
        found += writer.objection_to_active_sm(
            "OpenSM sets ProtectBits and lease as its own configuration says at every sweep"
        )
    if wanted.key != had.key and not wanted.key.is_zero:
        found += objections_to_key(
            writer, wanted.key, known_guids(writer.fabric) | {port.port.guid, port.port.node.guid}
        )
        found += objections_to_opensm(writer.fabric, wanted.key, None, generated=False)
    found += objections_to_link_of(port, had, wanted)
    interval = known_sweep_interval(writer.fabric, manager)
    return found + objections_to_lease(str(port), wanted, interval)


def objections_to_lease(who: str, wanted: KeySetting, sweep_interval: int | None) -> list[Objection]:
    """Return what ``lease-0`` says of *wanted* for *who*: a port, or how many of them. *sweep_interval* in seconds."""
    if wanted.key.is_zero:
        return []  # no level has an effect then, and no lease runs
    found = []
    if wanted.protect >= 2 and wanted.lease == 0:
        found.append(
            Objection(
                "lease-0",
                f"{who} at level {wanted.protect} with lease 0 never opens by itself: if the key is lost, only "
                "a reset helps",
            )
        )
    if wanted.lease and sweep_interval is not None and wanted.lease <= sweep_interval:
        found.append(
            Objection(
                "lease-0",
                f"lease {wanted.lease} s is not above the SM's sweep interval of {sweep_interval} s: "
                "the port can open between sweeps",
            )
        )
    return found


# --- making the change -------------------------------------------------------------------------------------------


def _perform(
    writer: Writer, port: PortHandle, shown: PortInfo, old_key: MKey, wanted: KeySetting, links_are_stored: bool
) -> None:
    store = writer.keystore
    if not wanted.key.is_zero and not links_are_stored:
        _remember_links(writer.fabric, store, port.port)
    now = fresh_port_info(writer, port, shown)
    ref = _keep(store, port, now, old_key, wanted)
    try:
        _set_and_prove(writer, port, now, old_key, wanted, store, ref)
    except NotStored:
        if ref is not None and store.get(ref).state != "current":
            store.abandon(ref, "the port did not store it")
        raise


def _keep(store: KeyStore, port: PortHandle, now: PortInfo, old_key: MKey, wanted: KeySetting) -> int | None:
    """Put the keys on disk: the new one as pending, whose row is returned, and the one that the port has.

    Also a key that stays is kept, for what was readable before may not be readable afterwards.
    """
    node, port_guid, number = port.port.node.guid, port.port.port_guid, port.port.num
    before = now.m_key_protect_bits, now.m_key_lease_period
    if wanted.key != old_key:
        return store.put_pending(
            node,
            port_guid,
            number,
            wanted.key,
            wanted.protect,
            wanted.lease,
            None if old_key.is_zero else old_key,
            old_protect_bits=before[0],
            old_lease_period=before[1],
        )
    if not old_key.is_zero and store.current().get(port_guid) != old_key:
        store.promote(store.put_pending(node, port_guid, number, old_key, *before, None))
    return None


def _remember_links(fabric: Fabric, store: KeyStore, port: Port) -> None:
    """Store links and LIDs as a sweep finds them: a later run sends the port's key over a known link only.

    A port of a CA has one link, and one that is known is enough; of a switch all count, for any may lead to it. The own
    port needs none.
    """
    guid = port.port_guid
    is_known = not port.node.is_switch and any(near[0] == guid for near in store.links())
    if guid != fabric.local().port_guid and not is_known:
        remember_topology(fabric, store, fabric.sweep(wanted=LINKS))


def _set_and_prove(
    writer: Writer, port: PortHandle, now: PortInfo, old_key: MKey, wanted: KeySetting, store: KeyStore, ref: int | None
) -> None:
    image = set_image(now, wanted.key, **wanted.fields())
    entries: list[Entry] = []

    def record(sent: PortInfo) -> None:
        entries.append(writer.record(port, "PortInfo", port.port.num, without_key(now), without_key(sent), ref))

    def took_effect() -> bool:
        return _is_as_wanted(_who_answers(port, old_key, wanted.key, replied=False), wanted)

    problem = send_port_info(port, image, old_key, record, took_effect)
    found = _who_answers(port, old_key, wanted.key, replied=problem is None)
    if found is None:
        _fail(entries)
        raise NoReply(
            f"{port}: the port answers neither to the new nor to the old M_Key after the Set"
            f"{f' ({problem})' if problem else ''}; both are kept in the key store ({store.path or 'in memory'}): "
            "ask it again later with --keystore, it takes either"
        )
    wrong = wrong_fields(found.info, wanted.fields())
    if found.key == wanted.key:
        if ref is not None:
            store.promote(ref)
        port.port.end_port.m_key = wanted.key
        port.fabric.ring.learn(port.port.port_guid, wanted.key)
    if found.key != wanted.key or wrong:
        _fail(entries)
        if problem is not None and not isinstance(problem, NoReply):
            raise NotStored(f"{problem}; the port still has its old M_Key") from problem
        if problem:
            raise NotStored(f"{port}: Set(PortInfo) was lost on its way, the port still has its old M_Key; try again")
        missing = "; ".join(filter(None, ("M_Key is not the new one" if found.key != wanted.key else "", wrong)))
        raise NotStored(f"{port}: Set(PortInfo) was accepted but not stored: {missing}")
    settle(entries)


def _fail(entries: list[Entry]) -> None:
    for entry in entries:
        entry.failed()


def _is_as_wanted(found: Answer | None, wanted: KeySetting) -> bool:
    return found is not None and found.key == wanted.key and not wrong_fields(found.info, wanted.fields())


def _who_answers(port: PortHandle, old_key: MKey, new_key: MKey, replied: bool) -> Answer | None:
    client = port.fabric.client
    answer: Answer | None = client.call(who_answers(client, port.route, port.port.num, old_key, new_key, replied, []))
    return answer

"""The command `keystore list`: the contents of the key store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits, options
from ibkeys.cli.documents.keystore import KEYSTORE_LIST, STORED_KEY
from ibkeys.cli.exits import write
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import journal_of, open_keystore
from ibkeys.cli.options import Where
from ibkeys.cli.render import write_columns, write_document
from ibkeys.cli.showing import values_of
from ibkeys.errors import StoreError, StoreSealed
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.printable import counted, named

if TYPE_CHECKING:
    from ibkeys.store.keystore.keystore import KeyRow, KeyStore
    from ibkeys.store.keystore.sm_keys import SmKeyRow


@command("list")
@options.flag("--settle", help="Find ports that moved or vanished, and record where they are now.")
@options.flag("--yes", help="With --settle: do not ask for confirmation.")
@options.format
@options.fabric
def list_keys(where: Where, settle: bool, yes: bool, format: str) -> int:
    """List the keys of the key store with port, state and time.

    'current': verified by a Get. 'pending': its Set was not confirmed yet. 'former': the port had it before.
    'imported': from OpenSM's files. -K prints the keys. If the store is encrypted, everything except the keys is listed
    without the passphrase. --settle sweeps the fabric and records the places of ports that moved: such a port is not
    queried with its key before that.
    """
    if settle:
        from ibkeys.cli.keystore.settle import settle as settle_places

        return settle_places(where, yes, format)
    from ibkeys.store.keystore.class_keys import ClassKeyStore
    from ibkeys.store.keystore.sm_keys import SmKeys

    with open_keystore(where, "keystore list") as keys:
        shown = _shown_keys(keys, where) if where.show_keys else None
        rows = [_row(row, shown and shown[0].get(row.ref)) for row in keys.outline()]
        subnet_keys = [
            {"m_key": shown[1][at] if shown else None, "since": since, "note": note or None}
            for at, (since, note) in enumerate(keys.subnet_key_outline())
        ]
        rows_of_sms, names = SmKeys(keys).outline(), SmKeys(keys).names()
        subnets = _subnets(where) if rows_of_sms else {}
        sm_keys = [_sm_key(row, shown and shown[2].get(row.ref), subnets.get(names[row.ref])) for row in rows_of_sms]
        dates = keys.topology_seen()
        document = {
            "keys": rows,
            "subnet_keys": subnet_keys,
            "sm_keys": sm_keys,
            "class_keys": ClassKeyStore(keys).count(),
            "encrypted": keys.is_encrypted,
            "links": len(keys.links()) // 2,
            "links_seen": {"oldest": dates[0], "newest": dates[1]} if dates else None,
            "lids": len(keys.lids()),
        }
    if not write_document(format, KEYSTORE_LIST, lambda: document, rows):
        _write_list(document, shown is not None)
    return exits.DONE


def _shown_keys(keys: KeyStore, where: Where) -> tuple[dict[int, str], list[str], dict[int, str]] | None:
    """Return the keys of ports, of the subnet and of SMs; the first and last are mappings from a key's row to the key.

    If the store is encrypted and there is neither a passphrase option nor a terminal to ask on, returns None and writes
    a warning. Raises StoreSealed for a wrong passphrase.
    """
    from ibkeys.store.keystore.sm_keys import SmKeys

    try:
        by_ref = {row.ref: row.m_key.hex() for row in keys.rows()}
        sm_keys = {row.ref: row.sm_key.hex() for row in SmKeys(keys).rows()}
        return by_ref, [key.hex() for key in keys.subnet_keys()], sm_keys
    except StoreSealed as error:
        if where.keystore_passphrase is not None or sys.stdin.isatty():
            raise
        exits.warn(f"keys are not shown: {error}")
        return None


def _row(row: KeyRow, key: str | None) -> dict[str, Any]:
    return {
        "node_guid": None if row.node_guid is None else f"0x{row.node_guid:016x}",
        "port_guid": f"0x{row.port_guid:016x}",
        **values_of(row, ("port", "state")),
        "m_key": key,
        **values_of(row, ("m_key_protect_bits", "m_key_lease_period", "since")),
        "note": row.note or None,
    }


def _subnets(where: Where) -> dict[str, list[str]]:
    """Return the subnets of the SM keys, as `subnets_of_keys` does.

    If the journal cannot be read, return an empty mapping and write a warning.
    """
    from ibkeys.smkeys.recorded_changes import subnets_of_keys
    from ibkeys.store.journal import Journal

    try:
        with Journal.read(journal_of(where)) as journal:
            return subnets_of_keys(journal)
    except StoreError as error:
        exits.warn(f"the subnets of the subnet managers' keys are not known: {error}")
        return {}


def _sm_key(row: SmKeyRow, key: str | None, subnet: list[str] | None) -> dict[str, Any]:
    fields = {"kind": row.kind, "key": key, "state": row.state, "since": row.since, "note": row.note or None}
    return {**fields, "subnet": subnet or None}


def _write_list(document: dict[str, Any], with_keys: bool) -> None:
    rows = document["keys"]
    if rows:
        write_columns([field for field in STORED_KEY if field.name != "m_key" or with_keys], rows)
    for each in document["subnet_keys"]:
        key = f" {each['m_key']}" if each["m_key"] else ""
        remarks = ", ".join(filter(None, (each["note"], each["since"])))
        write(f"key of the whole subnet:{key} {remarks}")
    for each in document["sm_keys"]:
        what = "another key from an opensm.conf" if each["kind"] == "other" else each["kind"]
        subnet = f"of the subnet with port GUID {named(each['subnet'])}" if each["subnet"] else ""
        remarks = ", ".join(filter(None, (each["state"], each["note"], each["since"], subnet)))
        write(f"{what}:{' ' + each['key'] if each['key'] else ''} {remarks}")
    for name, count in document["class_keys"].items():
        write(counted(count, KEY_CLASSES[name].key_name))
    ports = len({row["port_guid"] for row in rows})
    dates = document["links_seen"]
    links = counted(document["links"], "link") + (
        f", last seen {dates['oldest']} to {dates['newest']}" if dates else ""
    )
    sealed = "; encrypted" if document["encrypted"] else ""
    write(
        f"{counted(len(rows), 'key')} of {counted(ports, 'port')}, {links}, {counted(document['lids'], 'LID')}{sealed}"
    )

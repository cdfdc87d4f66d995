"""The key store: list it, encrypt it, OpenSM's files in and out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.exits import write
from ibkeys.cli.help.command import command
from ibkeys.cli.mkeys import key_options
from ibkeys.cli.opening import is_simulated, journal_of, keystore_path, open_fabric, open_keystore
from ibkeys.cli.options import Store, Where
from ibkeys.cli.render import NOTHING, Column, write_columns, write_data
from ibkeys.cli.secrets import check_passphrase_option, read_passphrase
from ibkeys.cli.showing import errors_of, finish, sweep, values_of
from ibkeys.errors import StoreError, StoreSealed, UsageError
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.printable import counted, first_lines, named

if TYPE_CHECKING:
    from ibkeys.host.key_files import Exported, Imported
    from ibkeys.host.opensm_export import CheckedConf
    from ibkeys.store.keys.keystore import KeyRow, KeyStore
    from ibkeys.store.keys.sm_keys import SmKeyRow
    from ibkeys.topology.model import Topology

_COLUMNS: Final = (
    Column("node_guid", "Node GUID", empty=NOTHING),
    Column("port_guid", "Port GUID"),
    Column("port", "Port", empty=NOTHING),
    Column("state", "State"),
    Column("m_key", "M_Key", empty=NOTHING),
    Column("m_key_protect_bits", "ProtectBits", empty=NOTHING),
    Column("m_key_lease_period", "Lease (s)", empty=NOTHING),
    Column("since", "Since"),
    Column("note", "Note", empty=""),
)
_LISTED: Final = 10
_RESULT_TEXT: Final = {
    "new": "no key was known before",
    "known": "the key store has the same key",
    "changed": "the key store had a different key, proven before these "
    "files were written: the key of the files is now tried first, the other one is kept",
    "older": "the key store has a different key, proven after these files were written: it is still tried first",
}


@command("mkey-list")
@options.flag("--settle", help="Find ports that moved or vanished, and record where they are now.")
@options.flag("--yes", help="With --settle: do not ask for confirmation.")
@options.format
@options.fabric
def mkey_list(where: Where, settle: bool, yes: bool, format: str) -> int:
    """List the keys of the key store with port, state and time.

    'current': verified by a Get. 'pending': its Set was not confirmed yet. 'former': the port had it before.
    'imported': from OpenSM's files. -K prints the keys. If the store is encrypted, everything except the keys is listed
    without the passphrase. --settle sweeps the fabric and records the places of ports that moved: such a port is not
    queried with its key before that.
    """
    if settle:
        from ibkeys.cli.mkeys.settle import settle as settle_places

        return settle_places(where, yes, format)
    from ibkeys.store.keys.class_keys import ClassKeyStore
    from ibkeys.store.keys.sm_keys import SmKeys

    with open_keystore(where, "mkey-list") as keys:
        shown = _shown_keys(keys, where) if where.show_keys else None
        rows = [_row(row, shown and shown[0].get(row.ref)) for row in keys.outline()]
        subnet_keys = [
            {"m_key": shown[1][at] if shown else None, "since": since, "note": note or None}
            for at, (since, note) in enumerate(keys.subnet_key_outline())
        ]
        rows_of_sms, names = SmKeys(keys).outline(), SmKeys(keys).names()
        subnets = _subnets(where) if rows_of_sms else {}
        sm_keys = [_sm_key(row, shown and shown[2].get(row.ref), subnets.get(names[row.ref])) for row in rows_of_sms]
        seen = keys.topology_seen()
        document = {
            "keys": rows,
            "subnet_keys": subnet_keys,
            "sm_keys": sm_keys,
            "class_keys": ClassKeyStore(keys).count(),
            "encrypted": keys.is_encrypted,
            "links": len(keys.links()) // 2,
            "links_seen": {"oldest": seen[0], "newest": seen[1]} if seen else None,
            "lids": len(keys.lids()),
        }
    if not write_data(format, "mkey-list", lambda: document, [column.key for column in _COLUMNS], rows):
        _write_list(document, shown is not None)
    return exits.DONE


def _shown_keys(keys: KeyStore, where: Where) -> tuple[dict[int, str], list[str], dict[int, str]] | None:
    """Return the keys of ports, of the subnet and of SMs; None where the store is encrypted and nobody can be asked."""
    from ibkeys.store.keys.sm_keys import SmKeys

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
    """Return the subnets of the keys of SMs as `subnets_of_keys` does; none where the journal cannot be read."""
    from ibkeys.smkeys.begun import subnets_of_keys
    from ibkeys.store.journal import Journal

    try:
        with Journal.read(journal_of(where)) as journal:
            return subnets_of_keys(journal)
    except StoreError as error:
        exits.warn(f"of which subnet the keys of subnet managers are is not known: {error}")
        return {}


def _sm_key(row: SmKeyRow, key: str | None, subnet: list[str] | None) -> dict[str, Any]:
    known = {"kind": row.kind, "key": key, "state": row.state, "since": row.since, "note": row.note or None}
    return {**known, "subnet": subnet or None}


def _write_list(document: dict[str, Any], with_keys: bool) -> None:
    rows = document["keys"]
    if rows:
        write_columns([column for column in _COLUMNS if column.key != "m_key" or with_keys], rows)
    for each in document["subnet_keys"]:
        key = f" {each['m_key']}" if each["m_key"] else ""
        said = ", ".join(filter(None, (each["note"], each["since"])))
        write(f"key of the whole subnet:{key} {said}")
    for each in document["sm_keys"]:
        what = "another key from an opensm.conf" if each["kind"] == "other" else each["kind"]
        subnet = f"of the subnet with port GUID {named(each['subnet'])}" if each["subnet"] else ""
        said = ", ".join(filter(None, (each["state"], each["note"], each["since"], subnet)))
        write(f"{what}:{' ' + each['key'] if each['key'] else ''} {said}")
    for name, count in document["class_keys"].items():
        write(counted(count, KEY_CLASSES[name].key_name))
    ports = len({row["port_guid"] for row in rows})
    seen = document["links_seen"]
    links = counted(document["links"], "link") + (f", last seen {seen['oldest']} to {seen['newest']}" if seen else "")
    sealed = "; encrypted" if document["encrypted"] else ""
    write(
        f"{counted(len(rows), 'key')} of {counted(ports, 'port')}, {links}, {counted(document['lids'], 'LID')}{sealed}"
    )


@command("mkey-encrypt")
@click.option("--new-passphrase", metavar="@FILE|-", help="The new passphrase: '-' asks for it, @FILE reads it.")
@options.flag("--decrypt", help="Store the keys in clear again.")
@options.store
def mkey_encrypt(store: Store, new_passphrase: str | None, decrypt: bool) -> int:
    """Encrypt the key store with a passphrase, or change it.

    Every key is encrypted, also keys that are added later. If the passphrase is lost, the keys are lost: keep the
    passphrase, or an export of the keys, where you can reach it without this fabric.
    """
    from ibkeys.store.private_files import is_there

    if decrypt and new_passphrase is not None:
        raise UsageError("--decrypt and --new-passphrase exclude each other")
    check_passphrase_option(new_passphrase, "--new-passphrase")
    path = keystore_path(store)
    if path is None or not is_there(path, "key store"):
        raise UsageError(f"{path or 'in memory'}: there is no key store to encrypt")
    with open_keystore(store, "mkey-encrypt", changing=True) as keys:
        if decrypt and not keys.is_encrypted:
            write(f"{keys.path}: is not encrypted")
            return exits.DONE
        count = len(keys.outline()) if not keys.is_encrypted else len(keys.rows())  # the old passphrase comes first
        if decrypt:
            keys.decrypt()
            write(f"{keys.path}: {counted(count, 'key')}, in clear")
        else:
            from ibkeys.store.keys.sealing import Passphrase

            phrase = read_passphrase(new_passphrase or "-", "--new-passphrase", confirm=True)
            keys.encrypt(Passphrase(lambda: phrase))
            write(f"{keys.path}: {counted(count, 'key')}, encrypted")
    return exits.DONE


@command("mkey-import")
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@options.opensm_conf("Import the m_key of an opensm.conf.")
@options.format
@options.store
def mkey_import(store: Store, directory: Path | None, opensm_conf: Path | None, format: str) -> int:
    """Import OpenSM's key files from DIR into the key store.

    The files are guid2mkey, neighbors and guid2lid; guid2vskey, guid2cckey and guid2_m2n_key of NVIDIA's OpenSM are
    imported too if they are there. No key of the store is lost. If an M_Key in the files differs from the one in the
    store, the newer one is tried first. The m_key of an opensm.conf is used for every port without a key of its own, as
    OpenSM does.
    """
    from ibkeys.host.key_files import Imported, import_key_files, import_opensm_config

    if directory is None and opensm_conf is None:
        raise UsageError("nothing to import: give DIR, --opensm-conf FILE, or both")
    with open_keystore(store, "mkey-import", changing=True) as keys:
        done = import_key_files(keys, directory) if directory is not None else Imported()
        found_key = import_opensm_config(keys, opensm_conf) if opensm_conf is not None else None
    exits.warn_each(done.warnings)
    document: dict[str, Any] = {
        "ports": [{"port_guid": f"0x{guid:016x}", "result": result} for guid, result in done.results.items()],
        "one_key_for_changed": done.one_key_for_changed,
        "links": done.links,
        "lids": done.lids,
        "class_keys": done.class_keys,
        "subnet_key": found_key,
        "warnings": done.warnings,
    }
    if not write_data(format, "mkey-import", lambda: document, ("port_guid", "result"), document["ports"]):
        _write_import(done, found_key, directory is not None)
    return exits.DONE


def _write_import(done: Imported, found_key: bool | None, has_files: bool) -> None:
    for result, text in _RESULT_TEXT.items():
        ports = done.ports(result)  # type: ignore[arg-type]
        if ports:
            write(f"{counted(len(ports), 'port')}: {text}")
        if result in ("changed", "older"):
            guids = [f"0x{guid:016x}" for guid in ports]
            for line in first_lines(guids, _LISTED, "and {} more (all of them: -f json)".format):
                write(f"  {line}")
    if done.one_key_for_changed:
        write("the ports with a different key all have the same one: a subnet manager has set its own key on them")
    if has_files:
        write(f"{counted(len(done.results), 'key')}, {counted(done.links, 'link')}, {counted(done.lids, 'LID')} read")
    for name, count in done.class_keys.items():
        write(f"{counted(count, KEY_CLASSES[name].key_name)} read")
    if found_key is not None:
        write("m_key of opensm.conf: " + ("kept for ports without a key of their own" if found_key else "0, not set"))


@dataclass(frozen=True, slots=True)
class Conf:
    """The opensm.conf that the options of mkey-export name, and what it shall say."""

    opensm_conf: Path | None = options.taken(
        options.opensm_conf("Check that an opensm.conf keeps the keys; exit 1 when it does not.")
    )
    write_opensm_conf: Path | None = options.field(
        "--write-opensm-conf",
        env=False,
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Write m_key, level and lease into an opensm.conf.",
    )
    protect: int | None = options.taken(key_options.protect("Level to write into the opensm.conf."))
    lease: int | None = options.taken(key_options.lease("Lease to write into the opensm.conf."))


@command("mkey-export")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@options.flag("--guid2lid", help="Read the LIDs of the fabric now, and write them too.")
@options.group("conf", Conf)
@options.format
@options.fabric
def mkey_export(where: Where, directory: Path, guid2lid: bool, conf: Conf, format: str) -> int:
    """Export the key store to DIR as OpenSM's key files.

    An OpenSM that starts with guid2mkey and neighbors of DIR can query every port whose key is in the store. It keeps
    the keys only if its opensm.conf has the same key (--opensm-conf, --write-opensm-conf). Each file is written
    completely or not at all, with mode 0600. Refused if a running OpenSM has its files in DIR, or if a guid2mkey there
    has keys that are not in the store. Only --guid2lid talks to the fabric.
    """
    from ibkeys.store.keys.keystore import KeyStore

    _check_conf_options(conf)
    if guid2lid:
        with open_fabric(where) as fabric:
            found = sweep(fabric, where)
            stores = fabric.stores
            with KeyStore(stores.keystore, create=False, upgrade=False, passphrase=stores.passphrase) as keys:
                done, checked = _export(keys, directory, found, conf, where)
        errors = errors_of(found)
    else:
        with open_keystore(where, "mkey-export") as keys:
            (done, checked), errors = _export(keys, directory, None, conf, where), []
    exits.warn_each(done.notes, "note")
    document = {"directory": str(directory), "keys": done.keys, "links": done.links, "lids": done.lids}
    more = {"opensm_conf": checked and _conf_document(checked), "errors": errors}
    if not write_data(format, "mkey-export", lambda: {**document, **more}, list(document), [document]):
        lids = "" if done.lids is None else f", {counted(done.lids, 'LID')}"
        write(f"{directory}: {counted(done.keys, 'key')}, {counted(done.links, 'link')}{lids}")
        if checked is not None and not checked.problems:
            write(f"{checked.path}: {'written' if checked.was_written else 'has the lines that keep the keys'}")
    code = finish(errors, format)
    if checked is None or not checked.problems:
        return code
    exits.warn_each((f"{checked.path}: {problem}" for problem in checked.problems), "keys would be lost")
    exits.warn(
        f"{checked.path} would lose the keys: do not start OpenSM with it (--write-opensm-conf corrects it)", "error"
    )
    return code or exits.SAYS_NO


def _check_conf_options(conf: Conf) -> None:
    if conf.opensm_conf is not None and conf.write_opensm_conf is not None:
        raise UsageError("--write-opensm-conf checks what it wrote: omit --opensm-conf")
    named = conf.opensm_conf or conf.write_opensm_conf
    if named is None and (conf.protect is not None or conf.lease is not None):
        raise UsageError("--protect and --lease are for an opensm.conf: name one with --write-opensm-conf")


def _export(
    keys: KeyStore, directory: Path, found: Topology | None, conf: Conf, where: Where
) -> tuple[Exported, CheckedConf | None]:
    """Write the key files, and check or write the opensm.conf; nothing is written where one of them is refused."""
    from ibkeys.host.key_files import export_key_files
    from ibkeys.host.opensm_export import check_conf, check_found, lines_to_write, write_conf
    from ibkeys.host.opensm_process import opensm_processes

    said = conf.protect, conf.lease
    named = conf.opensm_conf or conf.write_opensm_conf
    checked = check_conf(keys, conf.opensm_conf, *said) if conf.opensm_conf is not None else None
    to_write = lines_to_write(keys, conf.write_opensm_conf, *said) if conf.write_opensm_conf is not None else None
    done = export_key_files(keys, directory, found, opensm_processes())
    if to_write is not None and conf.write_opensm_conf is not None:
        checked = write_conf(conf.write_opensm_conf, to_write)
    for other in [] if is_simulated(where) else check_found(keys, named):
        done.notes += [f"{other.path} on this host: {problem}" for problem in other.problems]
    return done, checked


def _conf_document(checked: CheckedConf) -> dict[str, Any]:
    return {"file": str(checked.path), "written": checked.was_written, "problems": checked.problems}

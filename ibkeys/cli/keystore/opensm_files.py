"""The commands `keystore import` and `keystore export`: OpenSM's key files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.keystore import KEYSTORE_EXPORT, KEYSTORE_IMPORT
from ibkeys.cli.exits import write
from ibkeys.cli.help.command import command
from ibkeys.cli.mkeys import key_options
from ibkeys.cli.opening import is_simulated, open_fabric, open_keystore
from ibkeys.cli.options import StoreOptions, Where
from ibkeys.cli.render import write_document
from ibkeys.cli.showing import errors_of, finish, sweep
from ibkeys.errors import UsageError
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.printable import counted, first_lines

if TYPE_CHECKING:
    from ibkeys.managers.key_files import ExportSummary, ImportSummary
    from ibkeys.managers.opensm.export import CheckedConf
    from ibkeys.store.keystore.keystore import KeyStore
    from ibkeys.topology.model import Topology

_LISTED: Final = 10
_RESULT_TEXT: Final = {
    "new": "no key was known before",
    "known": "the key store has the same key",
    "changed": "the key store had a different key, imported earlier or proven before these files were written: the key "
    "of the files is now tried first, the other one is kept",
    "older": "the key store has a different key, proven after these files were written, or the files have key 0: the "
    "key of the store is still tried first",
}


@command("import")
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@options.opensm_conf("Import the m_key of an opensm.conf.")
@options.format
@options.store
def import_files(store: StoreOptions, directory: Path | None, opensm_conf: Path | None, format: str) -> int:
    """Import OpenSM's key files from DIR into the key store.

    The files are guid2mkey, neighbors and guid2lid; guid2vskey, guid2cckey and guid2_m2n_key of NVIDIA's OpenSM are
    imported too if they are there. No key of the store is lost. If an M_Key in the files differs from the one in the
    store, the newer one is tried first. The m_key of an opensm.conf is used for every port without a key of its own, as
    OpenSM does.
    """
    from ibkeys.managers.key_files import ImportSummary, import_key_files, import_opensm_config

    if directory is None and opensm_conf is None:
        raise UsageError("nothing to import: give DIR, --opensm-conf FILE, or both")
    with open_keystore(store, "keystore import", changing=True) as keys:
        imported = import_key_files(keys, directory) if directory is not None else ImportSummary()
        subnet_key = import_opensm_config(keys, opensm_conf) if opensm_conf is not None else None
    exits.warn_each(imported.warnings)
    document: dict[str, Any] = {
        "ports": [{"port_guid": f"0x{guid:016x}", "result": result} for guid, result in imported.results.items()],
        "one_key_for_changed": imported.one_key_for_changed,
        "links": imported.links,
        "lids": imported.lids,
        "class_keys": imported.class_keys,
        "subnet_key": subnet_key,
        "warnings": imported.warnings,
    }
    if not write_document(format, KEYSTORE_IMPORT, lambda: document, document["ports"]):
        _write_import(imported, subnet_key, directory is not None)
    return exits.DONE


def _write_import(imported: ImportSummary, subnet_key: bool | None, has_files: bool) -> None:
    for result, text in _RESULT_TEXT.items():
        ports = imported.ports(result)  # type: ignore[arg-type]
        if ports:
            write(f"{counted(len(ports), 'port')}: {text}")
        if result in ("changed", "older"):
            guids = [f"0x{guid:016x}" for guid in ports]
            for line in first_lines(guids, _LISTED, "and {} more (all of them: -f json)".format):
                write(f"  {line}")
    if imported.one_key_for_changed:
        write("the ports with a different key all have the same one: a subnet manager has set its own key on them")
    if has_files:
        keys, links, lids = len(imported.results), imported.links, imported.lids
        write(f"{counted(keys, 'key')}, {counted(links, 'link')}, {counted(lids, 'LID')} read")
    for name, count in imported.class_keys.items():
        write(f"{counted(count, KEY_CLASSES[name].key_name)} read")
    if subnet_key is not None:
        write("m_key of opensm.conf: " + ("kept for ports without a key of their own" if subnet_key else "0, not set"))


@dataclass(frozen=True, slots=True)
class Conf:
    """The options of `keystore export` for an opensm.conf: the file to check or write, and its level and lease."""

    opensm_conf: Path | None = options.field_of(
        options.opensm_conf("Check that an opensm.conf keeps the keys; exit 1 when it does not.")
    )
    write_opensm_conf: Path | None = options.field(
        "--write-opensm-conf",
        env=False,
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Write m_key, level and lease into an opensm.conf.",
    )
    protect: int | None = options.field_of(key_options.protect("Level to write into the opensm.conf."))
    lease: int | None = options.field_of(key_options.lease("Lease to write into the opensm.conf."))


@command("export")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@options.flag("--guid2lid", help="Read the LIDs of the fabric now, and write them too.")
@options.group("conf", Conf)
@options.format
@options.fabric
def export_files(where: Where, directory: Path, guid2lid: bool, conf: Conf, format: str) -> int:
    """Export the key store to DIR as OpenSM's key files.

    An OpenSM that starts with guid2mkey and neighbors of DIR can query every port whose key is in the store. It keeps
    the keys only if its opensm.conf has the same key (--opensm-conf, --write-opensm-conf). Each file is written
    completely or not at all, with mode 0600. Refused if a running OpenSM has its files in DIR, or if a guid2mkey there
    has keys that are not in the store. Only --guid2lid talks to the fabric.
    """
    from ibkeys.store.keystore.keystore import KeyStore

    _check_conf_options(conf)
    if guid2lid:
        with open_fabric(where) as fabric:
            fabric_now = sweep(fabric, where)
            stores = fabric.stores
            with KeyStore(stores.keystore, create=False, upgrade=False, passphrase=stores.passphrase) as keys:
                exported, checked = _export(keys, directory, fabric_now, conf, where)
        errors = errors_of(fabric_now)
    else:
        with open_keystore(where, "keystore export") as keys:
            (exported, checked), errors = _export(keys, directory, None, conf, where), []
    exits.warn_each(exported.notes, "note")
    document = {"directory": str(directory), "keys": exported.keys, "links": exported.links, "lids": exported.lids}
    more = {"opensm_conf": checked and _conf_document(checked), "errors": errors}
    if not write_document(format, KEYSTORE_EXPORT, lambda: {**document, **more}, [document]):
        lids = "" if exported.lids is None else f", {counted(exported.lids, 'LID')}"
        write(f"{directory}: {counted(exported.keys, 'key')}, {counted(exported.links, 'link')}{lids}")
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
    conf_file = conf.opensm_conf or conf.write_opensm_conf
    if conf_file is None and (conf.protect is not None or conf.lease is not None):
        raise UsageError("--protect and --lease are for an opensm.conf: name one with --write-opensm-conf")


def _export(
    keys: KeyStore, directory: Path, fabric_now: Topology | None, conf: Conf, where: Where
) -> tuple[ExportSummary, CheckedConf | None]:
    """Write the key files, and check or write the opensm.conf. Return both results.

    *fabric_now*: the sweep for guid2lid; None: guid2lid is not written. The result for an opensm.conf is None if the
    user named none. The opensm.conf is checked before anything is written.
    """
    from ibkeys.managers.key_files import export_key_files
    from ibkeys.managers.opensm.export import check_conf, check_found, lines_to_write, write_conf
    from ibkeys.managers.opensm.process import opensm_processes

    keys.prove_passphrase()
    settings = conf.protect, conf.lease
    conf_file = conf.opensm_conf or conf.write_opensm_conf
    checked = check_conf(keys, conf.opensm_conf, *settings) if conf.opensm_conf is not None else None
    to_write = lines_to_write(keys, conf.write_opensm_conf, *settings) if conf.write_opensm_conf is not None else None
    exported = export_key_files(keys, directory, fabric_now, opensm_processes())
    if to_write is not None and conf.write_opensm_conf is not None:
        checked = write_conf(conf.write_opensm_conf, to_write)
    for other in [] if is_simulated(where) else check_found(keys, conf_file):
        exported.notes += [f"{other.path} on this host: {problem}" for problem in other.problems]
    return exported, checked


def _conf_document(checked: CheckedConf) -> dict[str, Any]:
    return {"file": str(checked.path), "written": checked.was_written, "problems": checked.problems}

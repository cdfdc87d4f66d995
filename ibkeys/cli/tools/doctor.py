"""Check the local InfiniBand stack and suggest fixes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits, typed
from ibkeys.cli.config import Config
from ibkeys.cli.documents.doctor import DOCTOR
from ibkeys.cli.exits import write
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import config_of, is_simulated, journal_of, open_fabric, stores_of, what_host_knows
from ibkeys.cli.options import Where
from ibkeys.cli.render import write_document
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.tools.doctor_settings import check_site, lines_of, settings_in_force
from ibkeys.cli.tools.hardware import ReportOptions, made_report, report_options
from ibkeys.errors import FileFormatError, IbkeysError, StoreError
from ibkeys.printable import counted, named

if TYPE_CHECKING:
    from ibkeys.fabric.live import Fabric
    from ibkeys.sm.report import HostReport
    from ibkeys.store.journal import Journal, OperationRecord
    from ibkeys.store.keys.keystore import KeyStore
    from ibkeys.store.keys.sealing import Passphrase
    from ibkeys.store.paths import StorePaths
    from ibkeys.umad.probe import Check

_MISSING: Final = "does not exist yet: a changing command creates it"


@command("doctor", reports_site=True)
@report_options
def doctor(wanted: ReportOptions) -> int:
    """Check the local InfiniBand stack and suggest fixes.

    Checks the library, the kernel module, device files, channel adapters and their ports. Checks that the local port
    can be opened and answers, and that its subnet manager answers. Checks key files, stores and the site file, and
    shows where values of options come from. Exits 1 when there is a problem. With --report FILE it also compares this
    fabric with what ibkeys assumes, and writes an archive without keys that can be sent to the developers. Changes
    nothing, except with --write-loopback.
    """
    wanted.check()
    checks = [_without_keys(check) for check in _checks(wanted.where)]
    problems = sum(check.ok is False for check in checks)
    rows = [
        {"name": check.name, "ok": check.ok, "detail": check.detail, "advice": check.advice or None} for check in checks
    ]
    reported = made_report(wanted, rows) if wanted.report is not None else None
    settings = settings_in_force(_config(wanted.where))
    document = {
        "checks": rows,
        "problems": problems,
        "settings": settings,
        "report": reported.to_json() if reported else None,
    }
    all_rows = [*rows, *(reported.as_checks() if reported else ())]
    if not write_document(wanted.format, DOCTOR, lambda: document, all_rows):
        _write_text(checks, settings, problems)
        if reported is not None:
            reported.write_text(whole=wanted.where.verbose > 0)
    code = exits.SAYS_NO if problems else exits.DONE
    return reported.exit_code(code) if reported is not None else code


def _without_keys(check: Check) -> Check:
    """A check quotes errors, which may quote what was typed."""
    return replace(check, detail=typed.without_keys(check.detail), advice=typed.without_keys(check.advice))


def _config(where: Where) -> Config:
    """Return what ibdiag.conf says; nothing where it has a mistake, which the check of the local port names."""
    try:
        return config_of(where)
    except FileFormatError:
        return Config()


def _write_text(checks: list[Check], settings: list[dict[str, Any]], problems: int) -> None:
    words = {True: ("ok", "good"), False: ("PROBLEM", "bad"), None: ("note", "doubtful")}
    width = max(len(check.name) for check in checks)
    for check in checks:
        word, role = words[check.ok]
        write(f"{paint(word, role)}{'':<{7 - len(word)}}  " + exits.clean(f"{check.name:<{width}}  {check.detail}"))
        if check.advice and not check.ok:
            write(exits.clean(f"{'':<7}  {'':<{width}}  -> {check.advice}"))
    for line in lines_of(settings):
        write(exits.clean(typed.without_keys(f"{'set':<7}  {line}")))
    write(paint(counted(problems, "problem"), "bad") if problems else paint("no problem found", "good"))


def _checks(where: Where) -> Iterator[Check]:
    from ibkeys.umad.probe import Check, probe

    if is_simulated(where):
        yield Check("backend", True, f"a simulated subnet ({where.backend}); devices of this host are not examined")
    else:
        yield from probe()
    yield from check_site()
    yield from _security_keys(where)
    folders = [Path(where.security_keys)] if where.security_keys else []
    yield from _host(where, folders)
    try:
        with open_fabric(where) as fabric:
            yield from _local_port(fabric, where)
            yield from _stores(fabric.stores, folders)
    except IbkeysError as error:
        if isinstance(error, StoreError):
            yield Check("local port", None, "not checked: a file that is needed cannot be used")
        else:
            yield Check("local port", False, str(error))
        if is_simulated(where):
            if isinstance(error, StoreError):
                yield Check("store", False, str(error))
        else:
            yield from _stores(stores_of(where), folders)


def _local_port(fabric: Fabric, where: Where) -> Iterator[Check]:
    from ibkeys.umad.probe import Check

    local = fabric.local()
    port = f"{local.ca_name} port {local.port}"
    try:
        info = fabric.find_port().read_port_info()
    except IbkeysError as error:
        advice = "; ".join([_own_key_advice(fabric), *([] if fabric.is_simulated else what_host_knows(where))])
        yield Check("local port", False, f"{port} opens, but does not answer: {error}", advice)
        return
    yield Check("local port", True, f"{port} opens and answers; LID {info.lid}, port GUID 0x{local.port_guid:016x}")
    yield from _subnet_manager(fabric, info.master_sm_lid)


def _own_key_advice(fabric: Fabric) -> str:
    if fabric.ring.key_of(fabric.own_guid).is_zero:
        return "if its M_Key is set, give it: --keystore, --security-keys, or -y"
    return (
        "it was queried with the available M_Key, so it probably has a different one: ibkeys mkey-import of the "
        "subnet manager's files, or ibkeys mkey-recover"
    )


def _subnet_manager(fabric: Fabric, lid: int) -> Iterator[Check]:
    from ibkeys.mad.attributes import SMInfo
    from ibkeys.mad.const import SMState
    from ibkeys.topology.subnet_manager import sm_state_name
    from ibkeys.umad.probe import Check

    missing = None if fabric.is_simulated else False  # a simulated subnet needs none
    if not lid:
        advice = "start one, such as OpenSM; LIDs need it, but -D works without it"
        yield Check("subnet manager", missing, "none has configured this port (MasterSMLID 0)", advice)
        return
    try:
        info = SMInfo(fabric.find_port(lid).get(SMInfo))
    except IbkeysError as error:
        advice = "check that it is running (sminfo), and read its log"
        yield Check("subnet manager", missing, f"LID {lid} does not answer as a subnet manager: {error}", advice)
        return
    text = f"LID {lid}, GUID 0x{info.guid:016x}, {sm_state_name(info.sm_state)}, priority {info.priority}"
    ok = info.sm_state == SMState.MASTER
    yield Check("subnet manager", ok, text, "" if ok else "the LID of the master is stale: no master has swept since")


def _security_keys(where: Where) -> Iterator[Check]:
    from ibkeys.store.opensm import read_key_files
    from ibkeys.umad.probe import Check

    if not where.security_keys:
        return
    folder = Path(where.security_keys)
    try:
        files = read_key_files(folder)
    except IbkeysError as error:
        yield Check("security keys", False, str(error))
        return
    yield Check(
        "security keys",
        not files.warnings,
        f"{folder}: {counted(len(files.m_keys), 'M_Key')}, {counted(len(files.neighbors), 'link end')}, "
        f"{counted(len(files.lids), 'LID')}"
        + (f"; {len(files.warnings)} lines left out, the first: {files.warnings[0]}" if files.warnings else ""),
    )


def _host(where: Where, folders: list[Path]) -> Iterator[Check]:
    """Key files, configurations and devices of this host; of a simulated subnet only the key files that are named."""
    from ibkeys.host.check import check_host, check_key_files
    from ibkeys.host.facts import host_facts, key_files_in
    from ibkeys.host.host_files import THIS_HOST
    from ibkeys.host.opensm_here import own_socket
    from ibkeys.sm.lock_checks import check_locks
    from ibkeys.sm.policy_checks import check_policy
    from ibkeys.sm.report import look_at_host, with_ports
    from ibkeys.store.opensm import MKEY_FILE

    if is_simulated(where):
        yield from check_key_files(key_files_in(folders))
        return
    facts = host_facts(security_keys=folders)
    yield from check_host(facts)
    here = with_ports(look_at_host(THIS_HOST, socket=own_socket()), {})
    yield from map(check_policy, here.instances)
    yield from check_locks(here)
    yield from _managers_elsewhere(where, here)
    folders[:] = [file.file.path.parent for file in facts.key_files if file.kind == MKEY_FILE]


def _managers_elsewhere(where: Where, here: HostReport) -> Iterator[Check]:
    from ibkeys.apply.opensm.former_managers import check_managers_elsewhere
    from ibkeys.store.journal import Journal

    with suppress(StoreError), Journal.read(journal_of(where)) as journal:  # the check of that store names it
        yield from check_managers_elsewhere(here, journal)


def _stores(paths: StorePaths, folders: list[Path]) -> Iterator[Check]:
    yield from _store("key store", paths.keystore, partial(_key_store, paths.passphrase, folders))
    yield from _store("journal", paths.journal, _journal)
    if paths.keystore is not None and paths.journal is not None:
        yield from _backup(paths)


def _store(name: str, path: Path | None, checks_of: Callable[[Path], Iterator[Check]]) -> Iterator[Check]:
    """Yield what *checks_of* says about a store that has a file; what it raises is a problem of the store."""
    from ibkeys.umad.probe import Check

    if path is None:
        yield Check(name, None, "in memory: lost when the command ends (state= in the backend keeps it)")
        return
    try:
        yield from checks_of(path)
    except IbkeysError as error:
        yield Check(name, False, str(error))


def _key_store(passphrase: Passphrase | None, folders: list[Path], path: Path) -> Iterator[Check]:
    from ibkeys.host.check import check_run_to_move, check_steps
    from ibkeys.store.keys.keystore import KeyStore
    from ibkeys.store.opensm import MKEY_FILE

    with KeyStore(path, create=False, upgrade=False) as store:
        detail = _keys_in(store) if path.exists() else _MISSING
    yield _written_check("key store", path, detail)
    if path.exists():
        with KeyStore(path, create=False, upgrade=False, passphrase=passphrase) as store:
            yield from check_run_to_move(store)
            yield from check_steps(store, [folder for folder in folders if (folder / MKEY_FILE).exists()])


def _keys_in(store: KeyStore) -> str:
    rows = store.outline()
    pending = sum(row.state == "pending" for row in rows)
    return (
        f"{counted(len(rows), 'key')} of {counted(len({row.port_guid for row in rows}), 'port')}"
        + (f", {pending} of them with a change that was never confirmed" if pending else "")
        + (", encrypted" if store.is_encrypted else "")
    )


def _journal(path: Path) -> Iterator[Check]:
    from ibkeys.host.check import check_run
    from ibkeys.store.journal import Journal

    with Journal.read(path) as journal:
        yield _written_check("journal", path, _operations_in(journal) if path.exists() else _MISSING)
        yield from check_run(journal)
    if path.exists():
        yield from open_operations(path)
        yield from _left_by_a_report(path)


def _operations_in(journal: Journal) -> str:
    operations = journal.list_operations()
    unfinished = sum(operation.state == "open" for operation in operations)
    return counted(len(operations), "operation") + (f", {unfinished} of them unfinished" if unfinished else "")


def open_operations(path: Path) -> Iterator[Check]:
    """Yield a check for each operation that was interrupted, but for those of M_Keys, and for each that waits
    to be confirmed."""
    from ibkeys.change.next_commands import next_commands_of
    from ibkeys.hardware.loopback.putting_back import COMMAND as REPORT
    from ibkeys.store.journal import Journal
    from ibkeys.umad.probe import Check

    with Journal.read(path) as journal:
        records = journal.list_operations()
    for record in records:
        is_waiting = record.awaits_confirmation or record.is_going_back
        if is_waiting or (record.is_unfinished and record.command != REPORT and not record.is_of_keys):
            detail = f"operation {record.id} of the journal ({record.command}, begun {record.started}) {_state(record)}"
            # None: it may wait on purpose
            is_ok = False if record.unproven or record.awaits_confirmation or record.rollback else None
            yield Check("operation", is_ok, detail, str(next_commands_of(record)))


def _state(record: OperationRecord) -> str:
    from ibkeys.change.next_commands import ROLLBACKS

    if record.awaits_confirmation:
        return "waits to be confirmed"
    return "is not finished" if record.rollback is None else f"was not confirmed, and {ROLLBACKS[record.rollback]}"


def _left_by_a_report(path: Path) -> Iterator[Check]:
    """Writes of --write-loopback that were cut off and not put back."""
    from ibkeys.hardware.loopback.putting_back import not_put_back
    from ibkeys.store.journal import Journal
    from ibkeys.umad.probe import Check

    with Journal.read(path) as journal:
        left = not_put_back(journal)
    if left:
        numbers = ", ".join(str(written.record.id) for written in left)
        advice = "run doctor --report with --write-loopback and the same two ports: it puts them back first"
        yield Check("loopback writes", False, f"operation {numbers} of the journal was not put back", advice)


def _backup(paths: StorePaths) -> Iterator[Check]:
    """The last backup, where there are keys: an old one is a note, because the next change makes every one old."""
    from ibkeys.store.backup import last_backup
    from ibkeys.umad.probe import Check

    try:
        last, is_new = last_backup(paths)
    except StoreError:  # the check of that store has named it
        return
    advice = "save both: ibkeys keystore backup FILE, and keep a copy on another host"
    if last is not None:
        what = f"{last.made}, {last.file}: {counted(last.keys, 'key')}, {counted(last.operations, 'operation')}"
        gone = [
            str(path)
            for path, saved in ((paths.keystore, last.keys), (paths.journal, last.operations))
            if saved and path is not None and not path.exists()
        ]
        if gone:
            what, advice = f"{what}; {named(gone)} is not there", f"if it was lost: ibkeys keystore restore {last.file}"
            yield Check("backup", None, what, advice)
        elif is_new:
            yield Check("backup", True, what)
        else:
            yield Check("backup", None, f"older than the last change: {what}", advice)
    elif not is_new:
        yield Check("backup", None, "there is no backup of key store and journal", advice)


def _written_check(name: str, path: Path, detail: str) -> Check:
    """Return what is to be said about a store that can be read: ok only where changing commands can write or
    create it too."""
    from ibkeys.umad.probe import Check

    # else what it would be created in, or the first of its folders that is missing
    needed = (path, path.parent) if path.exists() else (next(folder for folder in path.parents if folder.exists()),)
    closed = [each for each in needed if not os.access(each, os.W_OK)]
    if not closed:
        return Check(name, True, f"{path}: {detail}")
    what = f"{path}: {detail}, but this user may not write {closed[0]}"
    return Check(name, False, what, "changing commands need it: run them as its owner, or as root")

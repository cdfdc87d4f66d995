"""The command `sm-repair`: OpenSM's key files after a crash during a change of M_Keys."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.changing import confirm, say_would_be_refused, writer_of
from ibkeys.cli.documents.key_runs import ANSWER, REPAIRED_PORT, SM_REPAIR
from ibkeys.cli.exits import clean, say, write
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.causes import say_by_cause
from ibkeys.cli.opening import is_simulated, keystore_path, open_fabric
from ibkeys.cli.options import ChangeOptions, Where
from ibkeys.cli.render import write_columns, write_document
from ibkeys.cli.showing import progress_bar
from ibkeys.errors import UsageError
from ibkeys.grouping import grouped
from ibkeys.printable import counted, named

if TYPE_CHECKING:
    from ibkeys.change.writer import ChangeWriter
    from ibkeys.managers.opensm.process import OpensmConfig
    from ibkeys.mkeys.repair.outlook import RepairOutlook
    from ibkeys.mkeys.repair.repair import Repair
    from ibkeys.mkeys.repair.result import RepairResult
    from ibkeys.mkeys.repair.start_advice import ConfAdvice

_COMMAND = "sm-repair"
_MOST_NAMED: Final = 8
"""Most ports without an answer that a line names; with -v it names all."""
_CACHE_VARIABLE: Final = "OSM_CACHE_DIR"


@command(_COMMAND)
@options.option(
    "--cache-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="OpenSM's cache folder.  [default: OSM_CACHE_DIR, else /var/cache/opensm]",
)
@options.opensm_conf("The opensm.conf that it will start with.  [default: those found on this host]")
@options.change
def sm_repair(command_options: ChangeOptions, cache_dir: Path | None, opensm_conf: Path | None) -> int:
    """Rebuild OpenSM's key files after a crash during a change.

    Run it on the host of the SM, while no OpenSM runs. First shows how many violations this may add. Then queries each
    port once with each key that the key store has for it, the local port first, and writes guid2mkey and neighbors from
    the answers. A port that does not answer keeps the first key of the key store in these files, and is named. At the
    end it shows how to start OpenSM. No port is changed.
    """
    from ibkeys.managers.opensm.process import OPENSM_CACHE, opensm_processes
    from ibkeys.mkeys.repair.repair import plan_repair
    from ibkeys.mkeys.repair.start_advice import advise
    from ibkeys.store.journal import Journal
    from ibkeys.store.journal.runs import Runs

    where, consent, format = command_options.where, command_options.consent, command_options.format
    _check_options(where, cache_dir)
    directory = cache_dir or Path(os.environ.get(_CACHE_VARIABLE) or OPENSM_CACHE)
    with open_fabric(where, changing=True) as fabric, writer_of(fabric, _COMMAND, consent) as writer:
        config_files = _config_files(where, opensm_conf)
        repair = plan_repair(writer, directory, opensm_processes)
        outlook = repair.outlook(conf.m_key_lease_period for _, conf in config_files if conf is not None)
        if consent.dry_run:
            return _dry_run(writer, repair, outlook, format)
        for line in _in_words(outlook):
            (write if format == "table" else say)(line)
        repair.check()
        exits.require_stdout()
        confirm(consent, question=f"Query these ports, and write guid2mkey and neighbors in {directory}?")
        with progress_bar(where) as progress:
            repaired = repair.run(progress)
        with Journal.read(fabric.stores.journal) as journal:
            last = Runs(journal).last({fabric.own_guid, *(each.port_guid for each in repaired.answers)})
        removes = last is not None and last.removes_keys
        advice = [advise(repaired, repair.candidates, removes, *conf) for conf in config_files]
        return _report(where, repair, repaired, advice, format)


def _check_options(where: Where, cache_dir: Path | None) -> None:
    if where.m_key is not None or where.security_keys is not None:
        raise UsageError(
            "sm-repair queries each port with its keys of the key store: omit -y and --security-keys (ibkeys "
            "keystore import DIR imports OpenSM's files into the key store)"
        )
    if is_simulated(where) and cache_dir is None:
        raise UsageError("a simulated subnet has no OpenSM on this host: name its cache folder with --cache-dir")
    path = keystore_path(where)
    if path is not None and not path.exists():
        raise UsageError(f"{path}: no key store, so no key to query with (ibkeys keystore import makes one)")


def _config_files(where: Where, own_file: Path | None) -> list[tuple[Path, OpensmConfig | None]]:
    """Return each opensm.conf that OpenSM may start with, and its contents.

    *own_file*: the file of --opensm-conf; None: the files on this host. The contents of a file that was found on this
    host and cannot be read are None. Raises FileFormatError if *own_file* cannot be read.
    """
    from ibkeys.managers.opensm.on_this_host import configs_here
    from ibkeys.managers.opensm.process import read_given_config, read_opensm_config

    if own_file is not None:
        return [(own_file, read_given_config(own_file))]
    return [] if is_simulated(where) else [(path, read_opensm_config(path)) for path in configs_here()]


# --- before -----------------------------------------------------------------------------------------------------------


def _in_words(outlook: RepairOutlook) -> Iterator[str]:
    yield (
        f"{counted(outlook.ports, 'port')} to query, local port first, each once with each of its keys, until it "
        "answers:"
    )
    for keys, count in outlook.orders.items():
        yield f"  {counted(count, 'port')}: {', '.join(keys)}"
    yield "once the key that most ports have is known, the others are queried with that key first"
    if not outlook.protected:
        yield "all were given their keys at level 0 or 1, where probing adds no violation and starts no lease"
        return
    yield (
        f"{counted(outlook.protected, 'port')} may be at level 2 or 3: probing adds at most {outlook.violations} M_Key "
        "violations there, one for each key that is not the port's own"
    )
    yield "a port that answers stops its lease; the lease of a port that answers to none of its keys starts to run:"
    if outlook.leases:
        leases = ", ".join(map(str, outlook.leases))
        yield f"  it opens after at most {outlook.leases[-1]} s (leases in key store and opensm.conf: {leases} s)"
    if outlook.never_open:
        yield f"  {counted(outlook.never_open, 'port')} with lease 0: never"
    if outlook.unknown_leases:
        yield (
            f"  the key store does not know the lease of {counted(outlook.unknown_leases, 'port')} (the longest "
            "possible is 18 hours)"
        )


def _dry_run(writer: ChangeWriter, repair: Repair, outlook: RepairOutlook, format: str) -> int:
    refused = [each for each in repair.objections() if not writer.consent.covers(each.interlock)]
    say_would_be_refused(refused)
    fields = outlook.to_json()
    more = {"cache_dir": str(repair.directory), "interlocks": [each.interlock for each in refused]}
    row = fields | {"leases": " ".join(map(str, outlook.leases))}
    declared = SM_REPAIR._replace(rows=SM_REPAIR.other_rows)
    if not write_document(format, declared, lambda: {"dry_run": True, **fields, **more}, [row]):
        for line in _in_words(outlook):
            write(line)
        write(f"dry run: no port was queried, nothing was written in {repair.directory}")
    return exits.REFUSED if refused else exits.SAYS_NO


# --- after ------------------------------------------------------------------------------------------------------------


def _report(where: Where, repair: Repair, repaired: RepairResult, confs: list[ConfAdvice], format: str) -> int:
    exits.warn_each(repaired.notes, "note")
    rows = _rows(repaired, where.show_keys)
    errors = [{**each.port.identity(), "error": each.error} for each in repaired.troubles]
    document = {
        "dry_run": False,
        "cache_dir": str(repair.directory),
        "ports": rows,
        "keys": repaired.exported.keys,
        "links": repaired.exported.links,
        "opensm_conf": [each.to_json() for each in confs],
        "errors": errors,
    }
    if not write_document(format, SM_REPAIR, lambda: document, rows):
        _write_table(rows, where.show_keys)
        keys, links = counted(repaired.exported.keys, "key"), counted(repaired.exported.links, "link")
        files = f"guid2mkey with {keys}, neighbors with {links}"
        write(
            f"{repair.directory}: {files}: "
            f"{counted(len(repaired.answers), 'port')} with the key that each showed, "
            f"{len(repaired.kept)} with the first key of the key store because their own could not be read"
        )
        for line in _how_to_start(confs, repair.directory):
            write(clean(line))
    return _finish(repaired, confs, errors, format)


def _rows(repaired: RepairResult, show_keys: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            **each.port,
            "result": "answered",
            "key": each.key,
            "m_key": each.m_key.hex() if show_keys else None,
            "m_key_protect_bits": each.m_key_protect_bits,
            "m_key_lease_period": each.m_key_lease_period,
            "m_key_violations": each.violations,
            "reason": "",
        }
        for each in repaired.answers
    ]
    empty = {field.name: None for field in ANSWER}
    rows += [{**each.port, **empty, "result": "kept", "reason": each.reason} for each in repaired.kept]
    return rows


def _write_table(rows: list[dict[str, Any]], show_keys: bool) -> None:
    shown = [field for field in ANSWER if show_keys or field.name != "m_key"]
    write_columns([*REPAIRED_PORT, *shown], rows)


def _how_to_start(confs: list[ConfAdvice], directory: Path) -> Iterator[str]:
    yield "to start OpenSM:"
    if not confs:
        yield "  no opensm.conf was found (--opensm-conf FILE): its m_key must be the key that all ports should have"
    for each in confs:
        if each.problems:
            yield f"  {each.path}: not yet: see below"
        elif each.ports:
            own = "the local port among them" if each.own_has_it else "not the local port"
            yield f"  {each.path}: its m_key is on {each.holds} of {counted(each.ports, 'port')}, {own}"
            if each.holds < each.ports:
                most = "the key that most ports have" if each.is_most else "not the key that most ports have"
                yield (
                    f"    it is {most}; OpenSM sets it on all ports in its first sweep: this is correct only "
                    "if it is the new key"
                )
    yield "  1. the master on this host: now, with this cache folder, before anything else changes a key"
    yield (
        "  2. when every port shows that key (ibkeys mkey-show --all), import its files: "
        f"ibkeys keystore import {shlex.quote(str(directory))}"
    )
    yield (
        "  3. the standbys, one by one: the same m_key, level and lease, copies of guid2mkey and neighbors (0600); "
        "each has to say STANDBY for a minute (ibkeys sm-show)"
    )


def _write_unanswered(repaired: RepairResult) -> None:
    """Write why ports did not answer, so that guid2mkey has the key that the key store has first: each reason once.

    Ports are named by node, or by port GUID if the node is not known.
    """
    for reason, unanswered in grouped(repaired.kept, lambda each: each.reason).items():
        ports = [each.port["node_desc"] or f"port GUID {each.port['port_guid']}" for each in unanswered]
        who = ports[0] if len(ports) == 1 else counted(len(ports), "port")
        whose = "its key in guid2mkey is" if len(ports) == 1 else "their keys in guid2mkey are"
        which = "" if len(ports) == 1 else f": {named(ports, _MOST_NAMED)}"
        exits.warn(exits.clean(f"{who}: {reason}; {whose} the store's{which}"), "not answered")


def _finish(repaired: RepairResult, confs: list[ConfAdvice], errors: list[dict[str, Any]], format: str) -> int:
    _write_unanswered(repaired)
    say_by_cause([(error, error["error"]) for error in errors], "not read", format)
    problems = [f"{conf.path}: {problem}" for conf in confs for problem in conf.problems]
    exits.warn_each(problems, "keys would be lost")
    if repaired.missing or errors:
        exits.warn(
            f"{counted(len(repaired.missing), 'port')} did not answer, {len(errors)} other places could not be read: "
            "OpenSM may not reach them",
            "error",
        )
        return exits.NOT_COMPLETED
    if problems:
        exits.warn("do not start an OpenSM with the files named above", "error")
        return exits.SAYS_NO
    return exits.DONE

"""The command `sm-show`: subnet managers, and the files and options of each OpenSM that matter here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits, options
from ibkeys.cli.documents.field import NOTHING
from ibkeys.cli.documents.managers import SM_SHOW
from ibkeys.cli.exits import clean, write
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import open_source, stores_of
from ibkeys.cli.options import SmHosts, Where
from ibkeys.cli.render import UNREADABLE, heading_of, write_details, write_json, write_table
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.showing import errors_of, finish, sweep
from ibkeys.cli.sm.hosts import hosts_of, write_dry_run
from ibkeys.errors import AddressError, EncodeError, FileFormatError, IbkeysError, UsageError
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.managers.dangers.danger import FoundDanger
    from ibkeys.managers.hosts import SmHost
    from ibkeys.managers.instance import Instance, InstanceFile
    from ibkeys.managers.opensm.effective_options import EffectiveOption
    from ibkeys.managers.report import SmReport
    from ibkeys.topology.model import Topology


_WRONG_USAGE = (UsageError, AddressError, EncodeError, FileFormatError)


@command("sm-show")
@options.format_of(["table", "json"], "Form of the output.  [default: table]")
@options.sm_hosts
@options.flag("--dry-run", help="Show what would be queried where, and query nothing.")
@options.reading
def sm_show(where: Where, sm_hosts: SmHosts, dry_run: bool, format: str) -> int:
    """Show master and standby SMs, their files and dangers.

    The master and every standby are found on the fabric (SMInfo), each OpenSM of this host among its processes, and
    those of other hosts by ssh (--sm-host). Data that cannot be read is reported as such, never guessed. Changes
    nothing. Keys are shown only as zero, default or set.
    """
    from ibkeys.managers.dangers.catalogue import all_dangers
    from ibkeys.managers.document import to_json
    from ibkeys.managers.journaled_policy import with_operations

    hosts = hosts_of(where, sm_hosts)
    if dry_run:
        write_dry_run(where, hosts)
        return exits.DONE
    report, topology = _read_report(where, hosts)
    report = replace(report, hosts=tuple(with_operations(report.hosts, stores_of(where).journal)))
    dangers = list(all_dangers(report))
    errors = errors_of(topology) if topology is not None else []
    if format == "json":
        unreached = topology.unreached if topology is not None else None
        write_json(SM_SHOW, {**to_json(report, dangers), "errors": errors, "unreached": unreached})
    else:
        write_words(report, dangers)
    return _finish(report, finish(errors, format))


def _read_report(where: Where, hosts: Sequence[SmHost]) -> tuple[SmReport, Topology | None]:
    """Read the fabric and the hosts. Return the report, and the topology; None if the fabric could not be read.

    The hosts are read even if the fabric could not be. Raises only errors of wrong usage.
    """
    from ibkeys.discovery.wanted import Wanted
    from ibkeys.managers.hosts import report_on_hosts
    from ibkeys.managers.opensm.on_this_host import own_socket
    from ibkeys.managers.report import join_reports
    from ibkeys.managers.subnet_managers import managers_of

    topology, error = None, ""
    try:
        with open_source(where) as source:
            topology = sweep(source, where, wanted=Wanted(sm_info=True))
    except IbkeysError as failure:
        if isinstance(failure, _WRONG_USAGE):
            raise
        error = str(failure)
    host_reports = report_on_hosts(hosts, socket=own_socket())
    if topology is None:
        return join_reports(None, host_reports, [], error), None
    own = next((port.guid for port in topology.end_ports() if port.path == ()), 0)
    return join_reports(managers_of(topology), host_reports, [own] if own else [], error), topology


def _finish(report: SmReport, code: int) -> int:
    """Write everything that could not be read to standard error, and return the exit code.

    *code*: the exit code so far, from the sweep.
    """
    problems = [f"the fabric: {report.error}"] if report.error else []
    problems += [f"{host.name}: {host.error}" for host in report.hosts if host.error]
    problems += [f"{each.name}: {unknown}" for each in report.instances() for unknown in each.unknowns()]
    exits.warn_each(problems, "not read")
    return exits.NOT_COMPLETED if problems else code


def write_words(report: SmReport, dangers: Sequence[FoundDanger]) -> None:
    """Write the subnet managers of the fabric, each OpenSM with its files and options, and the dangers."""
    _write_managers(report)
    for host in report.hosts:
        write("")
        if host.error:
            write(clean(f"host {host.name}: not examined: {host.error}"))
        elif not host.instances:
            sees_all = not host.name and os.geteuid() == 0
            sure = "" if sees_all else " (run as root to be certain)"
            write(clean(f"no OpenSM was found on {host.name or 'this host'}{sure}"))
        for instance in host.instances:
            _write_instance(instance)
    write("")
    write(paint(counted(len(dangers), "danger"), "bad") if dangers else _no_danger(report))
    for danger in dangers:
        write(clean(f"{danger.danger}: {danger.subject}: {danger.seen}"))
        write(clean(f"  {danger.means}"))
        write(clean(f"  -> {danger.remedy}"))


def _no_danger(report: SmReport) -> str:
    """Return the sentence for a report without dangers; it names the parts that were not examined."""
    instances = list(report.instances())
    not_examined = [] if report.managers is not None else ["the fabric"]
    not_examined += [] if instances else ["the files and options of any OpenSM"]
    not_examined += (
        ["parts of an OpenSM that could not be read"] if any(any(each.unknowns()) for each in instances) else []
    )
    if report.managers is None and not instances:
        return f"dangers were not checked: not examined: {', '.join(not_examined)}"
    return "no danger seen" + (f"; not examined: {', '.join(not_examined)}" if not_examined else "")


def _write_managers(report: SmReport) -> None:
    if report.managers is None:
        write("the fabric was not read, so its subnet managers are not known")
        return
    if not report.managers:
        write("no port of the fabric says that a subnet manager runs there")
    instances_by_guid = {each.port_guid: each for each in report.instances() if each.port_guid is not None}
    for manager in report.managers:
        instance = instances_by_guid.get(manager.guid)
        state = manager.state or "no answer to SMInfo"
        priority = f", priority {manager.priority}" if manager.priority is not None else ""
        runs = f"; {instance.name}" if instance is not None else ""
        write(clean(f"{state}: {heading_of(manager.port.identity())}, GUID 0x{manager.guid:016x}{priority}{runs}"))


def _write_instance(instance: Instance) -> None:
    from ibkeys.managers.document import guid_text, time_text
    from ibkeys.managers.instance import PROGRAM_UNKNOWN
    from ibkeys.managers.policy_checks import policy_in_words

    process = instance.process
    arguments = " ".join(map(str, process.command.given))
    environment = process.environment
    settings = " ".join(f"{name}={value}" for name, value in (environment or {}).items())
    pairs: list[tuple[str, Any]] = [
        *([] if process.program_known else [("Program", PROGRAM_UNKNOWN)]),
        ("State", instance.state or "not known: its own port cannot be determined"),
        ("Port GUID", guid_text(instance.port_guid)),
        ("Started", time_text(process.started)),
        ("Arguments", arguments or "none"),
        ("Directory", process.cwd),
        ("Environment", None if environment is None else settings or "nothing that OpenSM reads"),
        ("Policy", policy_in_words(instance)),
        ("Last heavy sweep without errors", time_text(instance.last_sweep) or "not known"),
    ]
    write_details(clean(instance.name), pairs)
    write_table(("File", "Path", "Named by", "Mode", "Remarks"), map(_file_cells, instance.files.values()))
    write_table(("Option", "Value", "From", "Remarks"), map(_setting_cells, instance.options.shown()))


def _file_cells(file: InstanceFile) -> list[Any]:
    mode = f"{file.fact.mode:04o}" if file.fact is not None else NOTHING if file.is_there is False else UNREADABLE
    if file.path is None:
        mode = NOTHING
    return [file.role, file.path or NOTHING, file.source, mode, list(_file_remarks(file)) or [""]]


def _file_remarks(file: InstanceFile) -> Iterator[str]:
    from ibkeys.managers.reading import ABSENT

    if file.problem and file.reading not in ABSENT:
        yield file.problem
    if file.reading != "not-judged" and not (file.problem and file.reading == "unknown"):
        yield file.reading_in_words
    if not file.is_certain and file.path is not None:
        yield file.doubt or "may have been a different file when OpenSM started"
    if file.fact is not None and file.fact.others_can_write:
        yield "others can write it"
    elif file.fact is not None and file.fact.others_can_read:
        yield "others can read it"


def _setting_cells(setting: EffectiveOption) -> list[Any]:
    remarks = [] if setting.is_certain else ["not certain"]
    if setting.needs_restart:
        remarks.append("a change needs a restart")
    value = setting.shown
    if setting.source == "not known":
        value = UNREADABLE
    elif isinstance(value, bool):
        value = str(value).upper()
    return [setting.name, NOTHING if value is None else value, setting.source, ", ".join(remarks)]

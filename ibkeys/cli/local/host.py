"""The command `host-show`: this host's P_Keys as its kernel shows them, and the index or value that a job needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibkeys.cli import exits, options
from ibkeys.cli.documents.host import HOST_SHOW
from ibkeys.cli.exits import clean, write_exact
from ibkeys.cli.help.command import command
from ibkeys.cli.local.document import document_of, rows_of
from ibkeys.cli.local.text import write_text
from ibkeys.cli.options import Folding
from ibkeys.cli.render import write_document
from ibkeys.cli.types import NumberType, parse_p_key
from ibkeys.errors import NoDevice
from ibkeys.printable import first_lines

if TYPE_CHECKING:
    from ibkeys.host.kernel.ports import KernelPort
    from ibkeys.host.kernel.programs import JobScriptLine
    from ibkeys.host.kernel.view import HostView


LISTED: Final = 10
"""Most unread things in a table; further ones are only counted. JSON lists all."""


@command("host-show")
@options.option(
    "--partition",
    env=False,
    metavar="P_KEY",
    help="Show which P_Key index programs would use for a job in this partition.",
)
@options.option("--sysfs", metavar="DIR", help="A copy of a host's /sys to read instead of this host's.")
@options.folding
@options.format_of(
    ["table", "json", "csv", "env"], "Format of the output; env: lines for a job script.  [default: table]"
)
@options.option("-C", "--Ca", "ca", metavar="NAME", help="Only this channel adapter.  [default: all]")
@options.option("-P", "--Port", "port", type=NumberType(1, 254), metavar="N", help="Only ports with this number.")
@options.common
def host_show(
    ca: str | None, port: int | None, partition: str | None, sysfs: str | None, folding: Folding, format: str
) -> int:
    """Show this host's keys from its kernel, without root.

    Shows each port's P_Keys by index, and which of them NCCL, UCX, Open MPI, MVAPICH2, GASNet, NVSHMEM and Mooncake
    use. Also shows each IPoIB interface and its P_Key, counters, virtual functions, and whether SELinux restricts
    access. Reads sysfs: no MAD is sent. With --partition or -f env, the exit status is 1 if a program finds
    no P_Key for the job.
    """
    from ibkeys.host.kernel.ports import chosen_ports, job_ports
    from ibkeys.host.kernel.programs import job_script_lines
    from ibkeys.host.kernel.sysfs import SYSFS, Sysfs
    from ibkeys.host.kernel.view import read_host

    base = parse_p_key(partition).partition if partition is not None else None
    folded = folding.is_folded(format)
    view = read_host(Sysfs(Path(sysfs) if sysfs is not None else SYSFS))
    ports = chosen_ports(view.ports, ca, port)
    if not ports and not view.troubles:
        raise _no_port(view, ca, port)
    job_lines = job_script_lines(job_ports(ports), base)
    if format == "env":
        _write_job_script(job_lines, job_ports(ports), base)
    elif not write_document(
        format, HOST_SHOW, lambda: document_of(view, ports, job_lines, base), rows_of(ports, view.selinux)
    ):
        write_text(view, ports, job_lines, base, folded)
    if _say_unread(view, format):
        return exits.NOT_COMPLETED
    is_for_job = format == "env" or base is not None
    lacking = any(each.value is None and each.program.can_name(base) for each in job_lines)
    return exits.SAYS_NO if is_for_job and lacking else exits.DONE


def _no_port(view: HostView, ca: str | None, port: int | None) -> NoDevice:
    """Return the error for a host that has no port of the device *ca* and number *port* (None: any)."""
    from ibkeys.similar_names import did_you_mean

    if not view.ports:
        return NoDevice(
            "the kernel shows no RDMA device: check that there is an HCA and its driver is loaded (ibkeys doctor); in "
            "a container, check that the device belongs to its network namespace (rdma system show)"
        )
    named_port = (ca or "any device") + (f" port {port}" if port is not None else "")
    devices = dict.fromkeys(each.device for each in view.ports)
    hint = did_you_mean(ca, devices) if ca is not None and ca not in devices else ""
    return NoDevice(f"no {named_port}: there is {', '.join(map(str, view.ports))}{hint}")


def _say_unread(view: HostView, format: str) -> bool:
    """Write the files that could not be read to standard error; return whether there are any."""
    troubles = view.troubles
    most = LISTED if format == "table" else len(troubles)
    lines = first_lines([*map(str, troubles)], most, "and {} more (all of them: -f json)".format)
    exits.warn_each(lines, "not read")
    return bool(troubles)


def _write_job_script(settings: Sequence[JobScriptLine], ports: Sequence[KernelPort], partition: int | None) -> None:
    """Write lines for a job script, a Slurm TaskProlog or ``eval``: exports of variables, and comments.

    Each program has one export, or a comment that says why its variable is not set. A value is always a number, never a
    device's name, because a name may hold any character.
    """
    job = "what programs take by default" if partition is None else f"partition 0x{partition:04x}"
    write_exact(_comment(f"{job}, on {', '.join(map(str, ports)) or 'no active InfiniBand port'}"))
    taken = {choice.p_key.partition for setting in settings for _, choice in setting.choices if choice.p_key}
    if len(taken) > 1:
        bases = ", ".join(f"0x{base:04x}" for base in sorted(taken))
        write_exact(_comment(f"programs take different partitions ({bases}): --partition chooses one for all"))
    for setting in settings:
        name, variable = setting.program.name, setting.program.variable
        if setting.value is None:
            unset = f"{variable} is not set: " if setting.program.can_name(partition) else ""
            write_exact(_comment(f"{name}: {unset}{setting.reason}"))
            continue
        write_exact(_comment(f"{name}: {_taken_entries(setting)}"))
        write_exact(f"export {variable}={setting.value}")


def _taken_entries(setting: JobScriptLine) -> str:
    entries = dict.fromkeys(f"{choice.p_key} at index {choice.index}" for _, choice in setting.choices)
    older = f"; {setting.older_versions}" if setting.older_versions is not None else ""
    return f"the {setting.program.takes}, for {' and '.join(entries)}{older}"


def _comment(text: str) -> str:
    return f"# {clean(text)}"

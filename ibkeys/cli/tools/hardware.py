"""``doctor --report``: what a real fabric answers beside what ibkeys assumes, as lines and as an archive."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ibkeys
from ibkeys.cli import exits, options, typed
from ibkeys.cli.changing import confirm, writer_of
from ibkeys.cli.exits import write
from ibkeys.cli.opening import open_fabric, sm_key_of
from ibkeys.cli.options import Changing, Where
from ibkeys.cli.screen.lines import width_of
from ibkeys.errors import IbkeysError, Refused, UsageError

if TYPE_CHECKING:
    from ibkeys.fabric.handle import PortHandle
    from ibkeys.fabric.live import Fabric
    from ibkeys.hardware.check import Finding
    from ibkeys.hardware.look import Look
    from ibkeys.umad.port import LocalCa, LocalPort, UmadPort

_OF_HOST: Final = (
    *("libibumad", "RDMA devices", "kernel module", "device files", "channel adapter", "port "),
    *("local port", "subnet manager"),
)
"""How the names of those checks of doctor begin that are put into the archive; the others name files of this host."""
_PROGRAMS: Final = ("smpquery.", "saquery.", "ibnetdiscover.", "perfquery.")
"""How the ids of checks begin in which another program reads the same: a difference there is a problem."""
_CUT: Final = "..."
_WHAT: Final = "a P_Key, an M_Key at level 0, and a reset of violation counters"


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Whether a report is made, and how."""

    report: str | None
    hash_guids: bool
    write_loopback: str | None

    def check(self, consent: Changing) -> None:
        """Raise UsageError for options that mean nothing together."""
        changes = consent.yes or consent.force or consent.override or consent.dry_run
        if self.report is None and (self.hash_guids or self.write_loopback):
            raise UsageError("--hash-guids and --write-loopback belong to a report: give --report FILE too")
        if changes and not self.write_loopback:
            raise UsageError("--yes, --dry-run, --force and --override belong to --write-loopback: nothing else writes")


report_options: Final = options.group(
    "wanted",
    ReportOptions,
    options.option(
        "--report", env=False, metavar="FILE", help="Compare the fabric with what ibkeys assumes; write an archive."
    ),
    options.option("--hash-guids", env=False, is_flag=True, help="Hash GUIDs, LIDs and names in the report."),
    options.option(
        "--write-loopback",
        env=False,
        metavar="CA/PORT,CA/PORT",
        help="Also write to the second of two ports of this host, and restore it.",
    ),
)


@dataclass(slots=True)
class Reported:
    """A report that was written to ``path``. ``rows``: the findings, masked. ``refusals``: writes that an interlock
    refused; ``stands``: a write that could not be put back."""

    path: Path
    rows: list[dict[str, Any]]
    summary: Mapping[str, int]
    refusals: int = 0
    stands: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the report for the document of doctor."""
        return {"file": str(self.path), "summary": dict(self.summary), "findings": self.rows}

    def as_checks(self) -> Iterator[dict[str, Any]]:
        """Yield the findings as rows of doctor."""
        for row in self.rows:
            ok = {"same": True, "differs": False}.get(row["outcome"])
            yield {"name": row["id"], "ok": ok, "detail": row["said"], "advice": row["assumed"]}

    def write_text(self, whole: bool) -> None:
        """Write one line for each check, and where the archive is. *whole*: no line is cut where a terminal ends."""
        from ibkeys.hardware.report import lines_of

        width = None if whole else width_of(sys.stdout)
        for line in lines_of(self.rows):
            is_cut = width is not None and len(line) > width
            write(exits.clean(line[: (width or 0) - len(_CUT)] + _CUT if is_cut else line))
        counts = self.summary
        write(
            f"{counts['same']} as assumed, {counts['differs']} differ, {counts['seen']} recorded, "
            f"{counts['not-checked']} not checked; all of it is in {exits.clean(str(self.path))}"
        )

    def exit_code(self, code: int) -> int:
        """Return the exit code of doctor; *code*: what it is without the report."""
        if self.stands:
            return exits.NOT_COMPLETED
        if self.refusals:
            return exits.REFUSED
        differs = any(row["outcome"] == "differs" and row["id"].startswith(_PROGRAMS) for row in self.rows)
        return exits.SAYS_NO if differs else code


def made_report(where: Where, consent: Changing, wanted: ReportOptions, host: Sequence[Mapping[str, Any]]) -> Reported:
    """Look at the fabric, write the archive, and return what is in it. *host*: what doctor says of this host.

    Raises FileError where the archive cannot be written, before anything is asked; Refused for ports that may not be
    written and where nobody said yes.
    """
    from ibkeys.hardware.archive.packing import check_place
    from ibkeys.hardware.catalogue import none_made
    from ibkeys.hardware.report import Report

    assert wanted.report is not None
    path = Path(wanted.report)
    check_place(path)
    said = [row for row in host if row["name"].startswith(_OF_HOST)]
    if wanted.write_loopback:
        ca, _, number = wanted.write_loopback.partition(",")[0].strip().rpartition("/")
        where = replace(where, ca=ca or where.ca, port=int(number) if number.isdecimal() else where.port)
    try:
        with open_fabric(where, changing=wanted.write_loopback is not None) as fabric:
            return _look_at(fabric, where, consent, wanted, said)
    except (UsageError, Refused):
        raise
    except IbkeysError as error:
        if any(row["name"] == "local port" and row["ok"] for row in host):
            raise
        report = Report(None, none_made(f"the local port was not opened: {typed.without_keys(str(error))}"), said)
    report.hashed = wanted.hash_guids
    mask = report.mask()
    report.write(path, mask)
    return Reported(path, report.masked_findings(mask), report.summary())


def _look_at(
    fabric: Fabric, where: Where, consent: Changing, wanted: ReportOptions, host: Sequence[Mapping[str, Any]]
) -> Reported:
    from ibkeys.hardware.catalogue import all_findings
    from ibkeys.hardware.look import Look
    from ibkeys.hardware.report import Report

    assert wanted.report is not None
    look = Look(fabric, _cas_of(fabric), sm_key_of(where))
    far = _asked_for(look, consent, wanted.write_loopback) if wanted.write_loopback else None
    findings = list(all_findings(look))
    refusals, stands = 0, False
    if far is not None:
        written, refusals, stands = _written(look, far, consent)
        findings += written
    report = Report(look, findings, host, wanted.hash_guids)
    mask = report.mask()
    report.write(Path(wanted.report), mask)
    return Reported(Path(wanted.report), report.masked_findings(mask), report.summary(), refusals, stands)


def _cas_of(fabric: Fabric) -> Callable[[], Sequence[LocalCa]]:
    """Return what asks for the adapters of this host; on a simulated subnet those of the node that we are on."""
    if not fabric.is_simulated:
        from ibkeys.umad.devices import list_cas

        return list_cas
    port = _simulated_port(fabric)
    return lambda: (port.local_ca(),)


def _opens(fabric: Fabric) -> Callable[[LocalPort], UmadPort]:
    """Return what opens another port of this host."""
    if not fabric.is_simulated:
        return lambda port: ibkeys.open_port("umad", ibkeys.Local(port.ca_name, port.port))
    own = _simulated_port(fabric)
    return lambda port: ibkeys.open_port(own.subnet, ibkeys.Local(port.ca_name, port.port, own.home.node.guid))


def _simulated_port(fabric: Fabric) -> Any:
    """Return the simulated port under what watches it."""
    port: Any = fabric.umad
    while (inner := getattr(port, "inner", None)) is not None:
        port = inner
    return port


def _asked_for(look: Look, consent: Changing, text: str) -> PortHandle:
    """Return the port that is written to, once it is proven to be this host's own and the user agreed."""
    from ibkeys.hardware.loopback.ports import far_port, named_ports

    near, far = named_ports(text, look.cas())
    handle = far_port(look, near, far, _opens(look.fabric))
    if not consent.dry_run:
        exits.require_stdout()
        confirm(consent, question=f"Write to {far.ca_name}/{far.port} of this host ({_WHAT}), and restore it?")
    return handle


def _written(look: Look, far: PortHandle, consent: Changing) -> tuple[list[Finding], int, bool]:
    """Make the writes; return the findings, how many were refused, and whether one could not be put back."""
    from ibkeys.hardware.check import Finding, not_checked
    from ibkeys.hardware.loopback.putting_back import COMMAND
    from ibkeys.hardware.loopback.writes import Loopback

    if consent.dry_run:
        why = not_checked(f"dry run: it would be {_WHAT}")
        return [Finding("write.all", "standard", "each write is read back and restored", why)], 0, False
    with writer_of(look.fabric, COMMAND, consent) as writer:
        own = frozenset({look.local.port_guid, far.port.port_guid})
        loopback = Loopback(look, writer, far, own)
        findings = list(loopback.findings())
    if loopback.stands:
        exits.warn(
            "a write could not be put back: run the same command again, which puts it back first; `ibkeys journal` has "
            "what was there"
        )
    return findings, loopback.refusals, loopback.stands

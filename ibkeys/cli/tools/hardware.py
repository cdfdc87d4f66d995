"""The work of `doctor --report`: comparing the answers of a real fabric with the assumptions of ibkeys."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ibkeys
from ibkeys.cli import exits, options, typed
from ibkeys.cli.changing import confirm, writer_of
from ibkeys.cli.exits import write
from ibkeys.cli.opening import open_fabric, sm_key_of
from ibkeys.cli.options import ChangeOptions, ConsentOptions, Where
from ibkeys.cli.screen.lines import columns, width_of
from ibkeys.errors import IbkeysError, Refused, UsageError

if TYPE_CHECKING:
    from ibkeys.fabric.handle import PortHandle
    from ibkeys.fabric.live import LiveFabric
    from ibkeys.hardware.check import Finding
    from ibkeys.hardware.reading import FabricReading
    from ibkeys.hardware.report import HardwareReport
    from ibkeys.umad.port import LocalCa, LocalPort, UmadPort
    from ibkeys.umad.simulated import SimulatedPort

_LOCAL_PORT: Final = "local port"
_CHECKS_OF_HOST: Final = (
    *("libibumad", "RDMA devices", "kernel module", "device files", "channel adapter", "port "),
    *(_LOCAL_PORT, "subnet manager"),
)
"""How the names of doctor's checks begin that the archive contains; other checks name files of this host."""
_CUT: Final = "..."
_WRITES_IN_WORDS: Final = "a P_Key, an M_Key at level 0, and a reset of violation counters"


@dataclass(frozen=True, slots=True)
class ReportOptions(ChangeOptions):
    """The options of `doctor`: the report to make, and the user's consent to its writes."""

    report: str | None = options.field(
        "--report", env=False, metavar="FILE", help="Compare the fabric with what ibkeys assumes; write an archive."
    )
    hash_guids: bool = options.flag_field("--hash-guids", help="Hash GUIDs, LIDs and names in the report.")
    write_loopback: str | None = options.field(
        "--write-loopback",
        env=False,
        metavar="CA/PORT,CA/PORT",
        help="Also write to the second of two ports of this host, and restore it.",
    )

    def check(self) -> None:
        """Raise UsageError for options that do not go together."""
        if self.report in {"", "-"}:
            raise UsageError("--report writes an archive, which is not for standard output: name a file")
        consent = self.consent
        changes = consent.yes or consent.force or consent.override or consent.dry_run
        if self.report is None and (self.hash_guids or self.write_loopback):
            raise UsageError("--hash-guids and --write-loopback belong to a report: give --report FILE too")
        if changes and not self.write_loopback:
            raise UsageError("--yes, --dry-run, --force and --override belong to --write-loopback: nothing else writes")


report_options: Final = options.group(
    "report_settings", ReportOptions, options.changing, options.format, options.fabric
)


@dataclass(frozen=True, slots=True)
class LoopbackResult:
    """The result of the writes to a port of this host. ``refusals``: how many of them were refused.

    ``is_unrestored``: whether a value could not be restored.
    """

    findings: Sequence[Finding] = ()
    refusals: int = 0
    is_unrestored: bool = False


NOT_WRITTEN: Final = LoopbackResult()


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report that was written to ``path``. ``rows``: the findings, with keys masked."""

    path: Path
    rows: list[dict[str, Any]]
    summary: Mapping[str, int]
    writes: LoopbackResult

    def to_json(self) -> dict[str, Any]:
        """Return the report for the document of doctor."""
        return {"file": str(self.path), "summary": dict(self.summary), "findings": self.rows}

    def as_checks(self) -> Iterator[dict[str, Any]]:
        """Yield the findings as rows of doctor."""
        for row in self.rows:
            ok = {"same": True, "differs": False}.get(row["outcome"])
            yield {"name": row["id"], "ok": ok, "detail": row["said"], "advice": row["assumed"]}

    def write_text(self, whole: bool) -> None:
        """Write one line for each check, the assumption if it differs, and the path of the archive.

        On a terminal a line is cut at its width unless it is about a difference. Assumptions that no reading can show
        have no line there, because they are the same in all reports. If no check could be made, all for the same
        reason, one line says so. *whole*: whether to cut and leave out nothing.
        """
        from ibkeys.hardware.checks import left_out
        from ibkeys.hardware.report import WORDS, lines_of

        width = None if whole else width_of(sys.stdout)
        always_not_checked = {each.id for each in left_out.CHECKS} if width is not None else set()
        is_cut = False
        write("")
        reasons = {row["said"] for row in self.rows}
        counts = self.summary
        if counts["not-checked"] == len(self.rows) and len(reasons) == 1 and not whole:
            write(f"none of the {len(self.rows)} checks was made: {exits.clean(reasons.pop())}")
            write(f"No fabric was read: {exits.clean(str(self.path))} has what is said above, and what this host is.")
            write("Look through it before you send it.")
            return
        for line in map(exits.clean, lines_of([row for row in self.rows if row["id"] not in always_not_checked])):
            if width is None or columns(line) <= width or line.startswith((WORDS["differs"], " ")):
                write(line)
            else:
                write(line[: width - len(_CUT)] + _CUT)
                is_cut = True
        write("")
        write(
            f"{counts['same']} as assumed, {counts['differs']} different, {counts['seen']} recorded, "
            f"{counts['not-checked']} not checked"
        )
        write(f"All of it is in {exits.clean(str(self.path))}: look through it before you send it.")
        if is_cut:
            write(f"Lines that end in {_CUT} are whole in report.txt there, and with -v.")
        if always_not_checked:
            write(f"{len(always_not_checked)} assumptions that no reading can show have their lines there too.")

    def exit_code(self, code: int) -> int:
        """Return the exit code of doctor; *code*: the exit code without the report."""
        if self.writes.is_unrestored:
            return exits.NOT_COMPLETED
        if self.writes.refusals:
            return exits.REFUSED
        return exits.SAYS_NO if self._differs_beside_programs() else code

    def _differs_beside_programs(self) -> bool:
        """Return whether another program reads a value differently from ibkeys.

        That is a problem, unlike a device that behaves differently from an assumption.
        """
        from ibkeys.hardware.checks import infiniband_diags

        ids = {each.id for each in infiniband_diags.CHECKS}
        return any(row["outcome"] == "differs" and row["id"] in ids for row in self.rows)


def make_report(report_settings: ReportOptions, host: Sequence[Mapping[str, Any]]) -> WrittenReport:
    """Read the fabric, write the archive, and return its report. *host*: doctor's checks of this host.

    With --write-loopback the fabric is opened at the first of the two ports. If the local port cannot be opened, the
    report says so. Raises FileError if the archive cannot be written, before the fabric is read; UsageError for an
    invalid --write-loopback; Refused for ports that may not be written, and if the user does not confirm.
    """
    from ibkeys.hardware.archive.packing import check_place
    from ibkeys.hardware.catalogue import none_checked
    from ibkeys.hardware.report import HardwareReport

    assert report_settings.report is not None
    path = Path(report_settings.report)
    check_place(path)
    host_rows = [row for row in host if row["name"].startswith(_CHECKS_OF_HOST)]
    where = (
        _at_first_port(report_settings.where, report_settings.write_loopback)
        if report_settings.write_loopback
        else report_settings.where
    )
    try:
        with open_fabric(where, changing=report_settings.write_loopback is not None) as fabric:
            return _write_report(path, *_make_checks(fabric, report_settings, host_rows))
    except (UsageError, Refused):
        raise
    except IbkeysError as error:
        if any(row["name"] == _LOCAL_PORT and row["ok"] for row in host):
            raise
        findings = none_checked(f"the local port was not opened: {typed.without_keys(str(error))}")
    return _write_report(path, HardwareReport(None, findings, host_rows, report_settings.hash_guids))


def _at_first_port(where: Where, ports: str) -> Where:
    """Return *where* with the first of the two ports in ``CA/PORT,CA/PORT``.

    If the text names no port, *where* is returned unchanged; the text is refused when the ports of this host are known.
    """
    from ibkeys.hardware.loopback.ports import names_in

    ca, number = names_in(ports)[0]
    return replace(where, ca=ca or where.ca, port=int(number) if number.isdecimal() else where.port)


def _write_report(path: Path, report: HardwareReport, writes: LoopbackResult = NOT_WRITTEN) -> WrittenReport:
    """Write the archive, and return its report. Raises FileError."""
    report.write(path)
    return WrittenReport(path, report.rows, report.summary(), writes)


def _make_checks(
    fabric: LiveFabric, report_settings: ReportOptions, host: Sequence[Mapping[str, Any]]
) -> tuple[HardwareReport, LoopbackResult]:
    """Make all checks, and the writes of --write-loopback, for which the user is asked first. Return the results.

    *host*: the checks of this host that the archive contains.
    """
    from ibkeys.hardware.catalogue import all_findings
    from ibkeys.hardware.reading import FabricReading
    from ibkeys.hardware.report import HardwareReport

    reading = FabricReading(fabric, _lister_of_adapters(fabric), sm_key_of(report_settings.where))
    if (
        not report_settings.write_loopback
    ):  # with --write-loopback another port may be open than the one that doctor has checked
        reading.is_silent = any(row["name"] == _LOCAL_PORT and row["ok"] is False for row in host)
    prove_far = (
        _agree_on_writes(reading, report_settings.consent, report_settings.write_loopback)
        if report_settings.write_loopback
        else None
    )
    findings = list(all_findings(reading))
    writes = _make_writes(reading, prove_far, report_settings.consent) if prove_far is not None else NOT_WRITTEN
    return HardwareReport(reading, [*findings, *writes.findings], host, report_settings.hash_guids), writes


def _lister_of_adapters(fabric: LiveFabric) -> Callable[[], Sequence[LocalCa]]:
    """Return a function that lists the adapters of this host, or of the simulated node where ibkeys runs."""
    if not fabric.is_simulated:
        from ibkeys.umad.devices import list_cas

        return list_cas
    port = _simulated_port(fabric)
    return lambda: (port.local_ca(),)


def _port_opener(fabric: LiveFabric) -> Callable[[LocalPort], UmadPort]:
    """Return a function that opens another port of this host, or of the same node on a simulated subnet."""
    if not fabric.is_simulated:
        return lambda port: ibkeys.open_port("umad", ibkeys.Local(port.ca_name, port.port))
    own = _simulated_port(fabric)
    return lambda port: ibkeys.open_port(own.subnet, ibkeys.Local(port.ca_name, port.port, own.home.node.guid))


def _simulated_port(fabric: LiveFabric) -> SimulatedPort:
    from ibkeys.umad.port import innermost
    from ibkeys.umad.simulated import SimulatedPort

    port = innermost(fabric.umad)
    assert isinstance(port, SimulatedPort)
    return port


def _agree_on_writes(reading: FabricReading, consent: ConsentOptions, text: str) -> Callable[[], PortHandle]:
    """Prove that the second port in *text* belongs to this host, and ask the user, except in a dry run.

    Returns the proof as a function, because each write repeats it. Raises UsageError and Refused.
    """
    from ibkeys.hardware.loopback.ports import named_ports, prove_far_port

    near, far = named_ports(text, reading.cas())
    prove_far = partial(prove_far_port, reading, near, far, _port_opener(reading.fabric))
    prove_far()
    if not consent.dry_run:
        exits.require_stdout()
        confirm(
            consent, question=f"Write to {far.ca_name}/{far.port} of this host ({_WRITES_IN_WORDS}), and restore it?"
        )
    return prove_far


def _make_writes(
    reading: FabricReading, prove_far: Callable[[], PortHandle], consent: ConsentOptions
) -> LoopbackResult:
    """Make the writes, and return their result; in a dry run nothing is written. Warn if a value was not restored."""
    from ibkeys.hardware.check import Finding, not_checked
    from ibkeys.hardware.loopback.putting_back import COMMAND
    from ibkeys.hardware.loopback.writes import Loopback

    if consent.dry_run:
        why = not_checked(f"dry run: it would be {_WRITES_IN_WORDS}")
        return LoopbackResult([Finding("write.all", "standard", "each write is read back and restored", why)])
    own = frozenset({reading.local.port_guid, prove_far().port.port_guid})
    with writer_of(reading.fabric, COMMAND, consent) as writer:
        loopback = Loopback(reading, writer, prove_far, own)
        findings = list(loopback.findings())
    if loopback.is_unrestored:
        exits.warn(
            "a value could not be restored: run the same command again, which restores it first; `ibkeys journal` has "
            "the former value"
        )
    return LoopbackResult(findings, loopback.refusals, loopback.is_unrestored)

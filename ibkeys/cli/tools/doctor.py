"""The command `doctor`: checks of the local InfiniBand stack, with suggested fixes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits, typed
from ibkeys.cli.config import Config
from ibkeys.cli.documents.doctor import DOCTOR
from ibkeys.cli.exits import write
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import config_of, is_simulated, open_fabric, stores_of, what_host_knows
from ibkeys.cli.options import Where
from ibkeys.cli.render import write_document
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.tools.doctor_settings import check_site, lines_of, settings_in_force
from ibkeys.cli.tools.hardware import ReportOptions, make_report, report_options
from ibkeys.errors import FileFormatError
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.umad.probe import ProbeResult


@command("doctor", reports_site=True)
@report_options
def doctor(report_settings: ReportOptions) -> int:
    """Check the local InfiniBand stack and suggest fixes.

    Checks the library, the kernel module, device files, channel adapters and their ports. Checks that the local port
    can be opened and answers, and that its subnet manager answers. Checks key files, stores and the site file, and
    shows where values of options come from. Exits 1 when there is a problem. With --report FILE it also compares this
    fabric with what ibkeys assumes, and writes an archive without keys that can be sent to the developers. Changes
    nothing, except with --write-loopback.
    """
    report_settings.check()
    checks = [_without_keys(check) for check in _checks(report_settings.where)]
    problems = sum(check.ok is False for check in checks)
    rows = [
        {"name": check.name, "ok": check.ok, "detail": check.detail, "advice": check.advice or None} for check in checks
    ]
    written_report = make_report(report_settings, rows) if report_settings.report is not None else None
    settings = settings_in_force(_config(report_settings.where))
    document = {
        "checks": rows,
        "problems": problems,
        "settings": settings,
        "report": written_report.to_json() if written_report else None,
    }
    all_rows = [*rows, *(written_report.as_checks() if written_report else ())]
    if not write_document(report_settings.format, DOCTOR, lambda: document, all_rows):
        _write_text(checks, settings, problems)
        if written_report is not None:
            written_report.write_text(whole=report_settings.where.verbose > 0)
    code = exits.SAYS_NO if problems else exits.DONE
    return written_report.exit_code(code) if written_report is not None else code


def _without_keys(check: ProbeResult) -> ProbeResult:
    """Return *check* without words that may be a key: a check quotes errors, and they may quote the command line."""
    return replace(check, detail=typed.without_keys(check.detail), advice=typed.without_keys(check.advice))


def _config(where: Where) -> Config:
    """Return the ibdiag.conf; an empty one if it has a mistake, which the check of the local port reports."""
    try:
        return config_of(where)
    except FileFormatError:
        return Config()


def _write_text(checks: list[ProbeResult], settings: list[dict[str, Any]], problems: int) -> None:
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


def _checks(where: Where) -> Iterator[ProbeResult]:
    from ibkeys.doctor.checks import DoctorSubjects, check_devices, check_subnet

    examined = DoctorSubjects(
        where.backend if is_simulated(where) else "",
        Path(where.security_keys) if where.security_keys else None,
        partial(open_fabric, where),
        partial(stores_of, where),
        partial(what_host_knows, where),
    )
    yield from check_devices(examined)
    yield from check_site()
    yield from check_subnet(examined)

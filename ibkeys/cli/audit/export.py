"""The command `export`: metrics of the fabric's keys for Prometheus."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibkeys.audit.findings import Profile
from ibkeys.cli import exits, options
from ibkeys.cli.audit.compared import ComparedSources, compare
from ibkeys.cli.audit.shared_options import PROFILE, WAIVERS
from ibkeys.cli.help.command import command
from ibkeys.cli.options import Where
from ibkeys.cli.secrets import read_token
from ibkeys.cli.sm.policy import refuse_with_a_file
from ibkeys.cli.types import DURATION
from ibkeys.errors import IbkeysError, UsageError

if TYPE_CHECKING:
    from ibkeys.cli.audit.exporting import Publisher, Reader
    from ibkeys.export.latest_page import CurrentPage

_DEFAULT_INTERVAL: Final = timedelta(minutes=5)
_STALE_AFTER: Final = 3
"""The endpoint stops showing the numbers of the last reading after so many intervals."""
_LEAST_PAUSE: Final = 1.0
"""Shortest pause between two readings, in seconds, also if a reading takes longer than the interval."""


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """The options of `export`: where the metrics go, how often, who may read them, and which metrics a port has."""

    textfile: str | None = options.field(
        "--textfile", metavar="FILE", help="Write the metrics to a file for node_exporter's textfile collector."
    )
    listen: str | None = options.field(
        "--listen", metavar="[ADDR:]PORT", help="Serve the metrics by HTTP; without ADDR, on loopback only."
    )
    interval: timedelta | None = options.field(
        "--interval", type=DURATION, metavar="TIME", help="Time between two readings.  [--listen: 5m]"
    )
    max_age: timedelta | None = options.field(
        "--max-age", type=DURATION, metavar="TIME", help="With --from: treat an older snapshot as a failed sweep."
    )
    tls_cert: str | None = options.field(
        "--tls-cert", metavar="FILE", help="Certificate of the endpoint (PEM), with its chain."
    )
    tls_key: str | None = options.field("--tls-key", metavar="FILE", help="Key of the certificate (PEM).")
    token_file: str | None = options.field(
        "--token-file", metavar="FILE", help="File with the bearer token that each scrape must send."
    )
    all_ports: bool = options.field(
        "--all-ports", is_flag=True, help="Violation counters of each port, also those that are 0."
    )
    port_info: bool = options.field("--port-info", is_flag=True, help="Export a metric with the name of each port.")

    @property
    def period(self) -> float | None:
        """Return the seconds from one reading to the next; None for a single reading."""
        chosen = self.interval or (_DEFAULT_INTERVAL if self.listen is not None else None)
        return chosen.total_seconds() if chosen is not None else None


@command("export")
@options.group("target", ExportTarget)
@compare
@PROFILE
@WAIVERS
@options.reading
def export(where: Where, target: ExportTarget, compared: ComparedSources, profile: Profile, waivers: str | None) -> int:
    """Write metrics of the fabric's keys for Prometheus.

    The metrics come from one sweep and one audit. They go to standard output, with --textfile to a file, or with
    --listen to an HTTP endpoint. With --from the numbers come from a snapshot, or from the newest snapshot of a folder.
    A sweep that failed or is partial shows as ibkeys_sweep_success 0; for data that was not read there is no metric.
    """
    from ibkeys.cli.audit.exporting import Publisher, Reader
    from ibkeys.export.latest_page import CurrentPage
    from ibkeys.export.page import MetricChoice

    _check_options(where, target, compared)
    reader = Reader(where, compared, profile, waivers, MetricChoice(target.all_ports, target.port_info), target.max_age)
    latest = CurrentPage(target.period * _STALE_AFTER if target.period is not None else None)
    textfile = Path(target.textfile) if target.textfile is not None else None
    publisher = Publisher(latest, textfile, to_stdout=target.listen is None)
    with _interrupt_at_sigterm() as received, ExitStack() as stack:
        try:
            if target.listen is not None:
                stack.enter_context(_endpoint(target, target.listen, latest))
            return _run(reader, publisher, target.period)
        except KeyboardInterrupt:
            if not received:
                raise
    return exits.DONE


def _check_options(where: Where, target: ExportTarget, compared: ComparedSources) -> None:
    """Raise UsageError or FileError for options that cannot work, before the fabric is read."""
    from ibkeys.export.textfile import check_textfile

    if where.snapshot is not None:
        refuse_with_a_file(compared.policy, "probe_sa")
    elif target.max_age is not None:
        raise UsageError("--max-age is for --from only: a sweep is always current")
    if target.interval is not None and target.textfile is None and target.listen is None:
        raise UsageError("--interval requires --textfile or --listen: standard output is written once")
    if target.listen is None and (target.tls_cert or target.tls_key or target.token_file):
        raise UsageError("--tls-cert, --tls-key and --token-file are for an endpoint: --listen is missing")
    if (target.tls_cert is None) != (target.tls_key is None):
        raise UsageError("--tls-cert and --tls-key must be given together")
    if target.period is not None:
        for option, text in (("-y", where.m_key), ("--keystore-passphrase", where.keystore_passphrase)):
            if text is not None and not text.startswith("@"):
                raise UsageError(
                    f"{option}: it is needed for every read of the fabric, and there is no terminal for a prompt: "
                    "give @FILE"
                )
    if target.textfile is not None:
        check_textfile(Path(target.textfile))


def _run(reader: Reader, publisher: Publisher, period: float | None) -> int:
    """Read and publish once, or every *period* seconds until this process is ended; return the exit code.

    Raises the error of the first reading if its cause is a wrong option, and any error of its publication. Later errors
    are only reported.
    """
    first = True
    while True:
        begun = time.monotonic()
        reading = reader.read()
        if first and reading.failure is not None and exits.exit_code(reading.failure) == exits.WRONG_USAGE:
            raise reading.failure
        try:
            code = publisher.publish(reading)
        except IbkeysError as error:
            if first:
                raise
            publisher.report_failure(error)
        if period is None:
            return code
        first = False
        time.sleep(max(_LEAST_PAUSE, begun + period - time.monotonic()))


@contextmanager
def _endpoint(target: ExportTarget, listen: str, latest: CurrentPage) -> Iterator[None]:
    from ibkeys.export.endpoint import PATH, Guard, make_tls, parse_listen, serving

    place = parse_listen(listen)
    tls = make_tls(target.tls_cert, target.tls_key) if target.tls_cert and target.tls_key else None
    token = read_token(target.token_file, "--token-file") if target.token_file is not None else None
    with serving(place, Guard(tls, token), latest.page) as port:
        host = f"[{place.host}]" if ":" in place.host else place.host
        exits.note(f"metrics at {'https' if tls else 'http'}://{host}:{port}{PATH}")
        yield


@contextmanager
def _interrupt_at_sigterm() -> Iterator[list[int]]:
    """Turn a SIGTERM into a KeyboardInterrupt while the context is open.

    Yields a list. It is empty at first, and holds the number of the signal after the signal came.
    """
    from ibkeys.__main__ import Interrupt

    received: list[int] = []
    interrupt = Interrupt()

    def handle(number: int, frame: Any) -> None:
        if not received:  # a second SIGTERM must not interrupt the orderly end that the first one began
            received.append(number)
            interrupt(number, frame)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, before)

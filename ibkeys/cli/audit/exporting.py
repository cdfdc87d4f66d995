"""Reading the fabric, or its newest snapshot, as metrics, and publishing them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits
from ibkeys.cli.audit.compared import ComparedSources, input_of, read_comparisons, recorded_input, waivers_of
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import Where
from ibkeys.cli.showing import errors_of, finish
from ibkeys.errors import IbkeysError, StoreError
from ibkeys.export.latest_page import CurrentPage, MetricsPage
from ibkeys.export.of_sweep import SweepAttempt
from ibkeys.export.page import MetricChoice, fabric_families
from ibkeys.export.textfile import write_textfile
from ibkeys.fabric.snapshot_folder import newest_snapshot

if TYPE_CHECKING:
    from ibkeys.audit.findings import Profile
    from ibkeys.audit.inputs import AuditInput
    from ibkeys.export.family import Family

_CLOCKS_APART: Final = 300.0
"""Seconds by which the time of a snapshot from another host may be ahead of this host's clock."""


@dataclass(slots=True)
class MetricsReading:
    """One reading: the metrics about the sweep and about the fabric, and the errors of the ports that were not read.

    ``failure``: the error that left the reading without metrics of the fabric; None if it has these metrics.
    """

    sweep: SweepAttempt
    families: list[Family] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    failure: Exception | None = None


@dataclass(slots=True)
class Reader:
    """Reads the fabric or snapshot that the options name, again and again.

    ``waivers``: the file of waivers, or None. ``max_age``: an older snapshot is a failed reading; None: no limit.
    ``last_success``: when the last complete reading ended, in seconds since 1970; None before that.
    """

    where: Where
    compared: ComparedSources
    profile: Profile
    waivers: str | None
    choice: MetricChoice
    max_age: timedelta | None
    last_success: float | None = None

    def read(self) -> MetricsReading:
        """Return the current metrics.

        After a failure, return a reading with the error and without metrics of the fabric.
        """
        try:
            return self._read()
        except (IbkeysError, OSError) as error:
            return MetricsReading(SweepAttempt(time.time(), False, self.last_success), failure=error)

    def _read(self) -> MetricsReading:
        from ibkeys.audit.engine import audit

        given = read_comparisons(self.compared)
        waivers = waivers_of(self.waivers)
        data, source, sweep = self._live(given) if self.where.snapshot is None else self._recorded(given)
        report = audit(data, self.profile, waivers=waivers, source=source)
        complete = report.coverage.is_complete
        if complete:
            self.last_success = sweep.run
        sweep = replace(sweep, success=complete, last_success=self.last_success)
        return MetricsReading(sweep, fabric_families(data, report, self.choice), errors_of(data.fabric))

    def _live(self, given: dict[str, Any]) -> tuple[AuditInput, str, SweepAttempt]:
        """Sweep the fabric, and return an audit's input, the name of its source, and the facts about the sweep.

        Opens the fabric each time, so that a device that went away and came back is found.
        """
        begun = time.monotonic()
        with open_fabric(self.where) as fabric:
            data, source = input_of(fabric, self.where, given, self.compared)
            counts = fabric.client.statistics
        duration = time.monotonic() - begun
        sweep = SweepAttempt(time.time(), False, duration=duration, answered=counts.replies, lost=counts.timeouts)
        return data, source, sweep

    def _recorded(self, given: dict[str, Any]) -> tuple[AuditInput, str, SweepAttempt]:
        assert self.where.snapshot is not None
        path = newest_snapshot(Path(self.where.snapshot))
        data = recorded_input(replace(self.where, snapshot=str(path)), given)
        about = data.snapshot.about
        started, finished = (datetime.fromisoformat(each).timestamp() for each in (about.started, about.finished))
        age = time.time() - finished
        if age < -_CLOCKS_APART:
            raise StoreError(
                f"{path}: its time {about.finished} is in the future, so a clock was wrong: move the file elsewhere"
            ).explained("Until that time it would count as the newest snapshot.")
        if self.max_age is not None and age > self.max_age.total_seconds():
            raise StoreError(
                f"{path}: was taken {age / 3600:.1f} hours ago, at {about.finished}, and --max-age is "
                f"{self.max_age.total_seconds() / 3600:.1f} hours: the job that takes the snapshots has stopped"
            )
        return data, str(path), SweepAttempt(finished, False, duration=finished - started)


@dataclass(slots=True)
class Publisher:
    """Publishes readings: at the endpoint, and in the text file or on standard output.

    ``textfile``: None if there is none. ``to_stdout``: whether a reading without a text file goes to standard output.
    An error is written to standard error only if it differs from the last error.
    """

    latest: CurrentPage
    textfile: Path | None
    to_stdout: bool
    last_error: object = None

    def publish(self, reading: MetricsReading) -> int:
        """Publish a reading, and return its exit code. Raises FileError if the text file cannot be written."""
        page = MetricsPage.of(reading.sweep, reading.families)
        try:
            if self.textfile is not None:
                write_textfile(self.textfile, page.text)
            elif self.to_stdout:
                exits.write_as_is(page.text.decode())
            return self._write_errors(reading)
        finally:  # the page comes after the error was written: a program that reads the page may end this process
            self.latest.publish(page)

    def _write_errors(self, reading: MetricsReading) -> int:
        """Write the errors of a reading to standard error, and return its exit code."""
        if reading.failure is not None:
            return self.report_failure(reading.failure)
        errors = reading.errors
        self._write_once([error["error"] for error in errors], lambda: finish(errors, "table"))
        return exits.NOT_COMPLETED if errors else exits.DONE

    def report_failure(self, failure: Exception) -> int:
        """Write *failure* to standard error unless it was the last error written. Return its exit code."""
        text = exits.message_of(failure) or type(failure).__name__
        self._write_once(text, lambda: exits.warn(text, "error"))
        return exits.exit_code(failure)

    def _write_once(self, error: object, write_error: Callable[[], object]) -> None:
        if error != self.last_error:
            self.last_error = error
            write_error()

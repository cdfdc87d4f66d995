"""One reading of the fabric, or of its newest snapshot, as metrics; and where they go."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits
from ibkeys.cli.audit.compared import Compare, input_of, read_given, recorded_input, waivers_of
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import Where
from ibkeys.cli.showing import errors_of, finish
from ibkeys.errors import IbkeysError, StoreError
from ibkeys.export.latest import Latest, Page
from ibkeys.export.of_sweep import Sweep
from ibkeys.export.page import Choice, fabric_families
from ibkeys.export.textfile import write_textfile
from ibkeys.fabric.snapshot_folder import newest_snapshot

if TYPE_CHECKING:
    from ibkeys.audit.findings import Profile
    from ibkeys.audit.inputs import AuditInput
    from ibkeys.export.family import Family

_CLOCKS_APART: Final = 300.0
"""Seconds by which a snapshot of another host may be ahead."""


@dataclass(frozen=True, slots=True)
class Audited:
    """How the audit runs whose report is exported: `audit` has the same options."""

    compared: Compare
    profile: Profile
    waivers: str | None


@dataclass(slots=True)
class Reading:
    """One reading: the metrics, about itself and about the fabric, and what could not be read. ``failure``: why there
    is nothing of the fabric."""

    sweep: Sweep
    families: list[Family] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    failure: Exception | None = None


class Reader:
    """Reads the fabric that the options mean, again and again. *max_age*: an older snapshot is not a reading."""

    def __init__(self, where: Where, audited: Audited, choice: Choice, max_age: timedelta | None) -> None:
        self._where = where
        self._audited = audited
        self._choice = choice
        self._max_age = max_age
        self._last_success: float | None = None

    def read(self) -> Reading:
        """Return the metrics of now. A failure is a reading too: it says so, and has no number of the fabric."""
        try:
            return self._read()
        except (IbkeysError, OSError) as error:
            return Reading(Sweep(time.time(), False, self._last_success), failure=error)

    def _read(self) -> Reading:
        from ibkeys.audit.engine import audit

        given = read_given(self._audited.compared)
        waivers = waivers_of(self._audited.waivers)
        data, source, sweep = self._live(given) if self._where.snapshot is None else self._recorded(given)
        report = audit(data, self._audited.profile, waivers=waivers, source=source)
        complete = report.coverage.is_complete
        if complete:
            self._last_success = sweep.run
        sweep = replace(sweep, success=complete, last_success=self._last_success)
        return Reading(sweep, fabric_families(data, report, self._choice), errors_of(data.fabric))

    def _live(self, given: dict[str, Any]) -> tuple[AuditInput, str, Sweep]:
        """Sweep; the fabric is opened again each time, so that a device that went away and came back is found."""
        begun = time.monotonic()
        with open_fabric(self._where) as fabric:
            data, source = input_of(fabric, self._where, given, self._audited.compared)
            counts = fabric.client.statistics
        duration = time.monotonic() - begun
        sweep = Sweep(time.time(), False, duration=duration, answered=counts.replies, lost=counts.timeouts)
        return data, source, sweep

    def _recorded(self, given: dict[str, Any]) -> tuple[AuditInput, str, Sweep]:
        assert self._where.snapshot is not None
        path = newest_snapshot(Path(self._where.snapshot))
        data = recorded_input(replace(self._where, snapshot=str(path)), given)
        about = data.snapshot.about
        started, finished = (datetime.fromisoformat(each).timestamp() for each in (about.started, about.finished))
        age = time.time() - finished
        if age < -_CLOCKS_APART:
            raise StoreError(
                f"{path}: its time {about.finished} is in the future, so a clock was wrong: move the file elsewhere"
            ).explained("Until that time it would count as the newest snapshot.")
        if self._max_age is not None and age > self._max_age.total_seconds():
            raise StoreError(
                f"{path}: was taken {age / 3600:.1f} hours ago, at {about.finished}, and --max-age is "
                f"{self._max_age.total_seconds() / 3600:.1f} hours: the job that takes the snapshots has stopped"
            )
        return data, str(path), Sweep(finished, False, duration=finished - started)


class Publisher:
    """Hands readings on: to the endpoint, to the text file, to standard output where neither is wanted.

    An error is written to standard error, and again only when it is a different one.
    """

    def __init__(self, latest: Latest, textfile: Path | None, to_stdout: bool) -> None:
        self._latest = latest
        self._textfile = textfile
        self._to_stdout = to_stdout
        self._said: object = None

    def publish(self, reading: Reading) -> int:
        """Hand a reading on, and return the exit code that it is worth. Raises FileError for the text file."""
        page = Page.of(reading.sweep, reading.families)
        try:
            if self._textfile is not None:
                write_textfile(self._textfile, page.text)
            elif self._to_stdout:
                exits.write_as_is(page.text.decode())
        finally:
            self._latest.publish(page)
        if reading.failure is not None:
            return self._failed(reading.failure)
        return self._partial(reading.errors)

    def told(self, error: IbkeysError) -> None:
        """Say what went wrong, unless that was said last."""
        self._once(str(error), lambda: exits.warn(str(error), "error"))

    def _failed(self, failure: Exception) -> int:
        text = exits.message_of(failure) or type(failure).__name__
        self._once(text, lambda: exits.warn(text, "error"))
        return exits.exit_code(failure)

    def _partial(self, errors: Sequence[dict[str, Any]]) -> int:
        self._once([error["error"] for error in errors], lambda: finish(errors, "table"))
        return exits.NOT_COMPLETED if errors else exits.DONE

    def _once(self, what: object, say: Callable[[], object]) -> None:
        if what != self._said:
            self._said = what
            say()

"""How long numbers are shown: an old one never as if it were new."""

from __future__ import annotations

from ibkeys.export.family import of_one
from ibkeys.export.latest_page import CurrentPage, MetricsPage
from ibkeys.export.of_sweep import SweepAttempt
from tests.export.exposition import parse, value


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


NODES = of_one("ibkeys_partitions", "Partitions.", 3)


def test_before_the_first_reading_there_is_no_page() -> None:
    assert CurrentPage(10).page() is None


def test_the_numbers_of_a_reading_that_is_overdue_go_and_its_times_stay() -> None:
    clock = Clock()
    latest = CurrentPage(10, clock)
    page = MetricsPage.of(SweepAttempt(1000.0, True, 1000.0, 0.5, 7, 0), [NODES])
    latest.publish(page)
    clock.now += 10
    assert latest.page() == page.text
    clock.now += 0.1
    late = latest.page()
    assert late is not None
    found = parse(late.decode())
    assert sorted(name.removeprefix("ibkeys_") for name in found) == [
        "build_info",
        "sweep_last_run_timestamp_seconds",
        "sweep_last_success_timestamp_seconds",
        "sweep_success",
    ]
    assert value(found, "ibkeys_sweep_success") == 0
    assert value(found, "ibkeys_sweep_last_success_timestamp_seconds") == 1000
    latest.publish(MetricsPage.of(SweepAttempt(1100.0, True, 1100.0), [NODES]))
    assert b"ibkeys_partitions 3" in (latest.page() or b"")


def test_without_patience_a_page_stays() -> None:
    clock = Clock()
    latest = CurrentPage(None, clock)
    latest.publish(MetricsPage.of(SweepAttempt(1000.0, True), [NODES]))
    clock.now += 1e9
    assert b"ibkeys_partitions 3" in (latest.page() or b"")

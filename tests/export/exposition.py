"""Prometheus' text format as prometheus-client reads it: series by metric and labels."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

Series = dict[tuple[tuple[str, str], ...], float]


def parse(text: str) -> dict[str, Series]:
    """Return metric → labels (sorted pairs) → value. An AssertionError for a metric or a series that is there twice."""
    found: dict[str, Series] = {}
    for family in text_string_to_metric_families(text):
        assert family.name not in found, family.name
        assert family.type == "gauge", family.name
        series: Series = {}
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert sample.name == family.name
            assert labels not in series, (family.name, labels)
            assert sample.timestamp is None
            series[labels] = sample.value
        found[family.name] = series
    return found


def value(page: dict[str, Series], name: str, **labels: str) -> float | None:
    """Return the value of one series; None where it is not there."""
    return page.get(name, {}).get(tuple(sorted(labels.items())))


def total(page: dict[str, Series], name: str, **labels: str) -> float:
    """Return the sum of the series that have these labels among theirs."""
    wanted = labels.items()
    return sum(value for each, value in page[name].items() if wanted <= dict(each).items())

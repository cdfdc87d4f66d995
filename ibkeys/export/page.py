"""All metrics of one reading, and their text for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ibkeys.audit.findings import Report
from ibkeys.audit.inputs import AuditInput
from ibkeys.export.family import Family
from ibkeys.export.of_audit import coverage, partitions, rules
from ibkeys.export.of_ports import enforcement, m_keys, p_key_tables, port_info, violations
from ibkeys.lazily import import_optional

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class MetricChoice:
    """Which metrics of single ports are included. ``all_ports``: violation counters that are 0 too. ``port_info``: the
    names of ports.
    """

    all_ports: bool = False
    port_info: bool = False


def fabric_families(data: AuditInput, report: Report, choice: MetricChoice) -> list[Family]:
    """Return the metrics of one reading of a fabric, from *data* and from *report*, the audit of *data*.

    A metric without a series is left out. No metric contains an M_Key, nor a fingerprint of one.
    """
    found = [
        *coverage(data, report),
        *m_keys(data),
        *partitions(data, report),
        *p_key_tables(data),
        *enforcement(data),
        *violations(data, choice.all_ports),
        *rules(report),
    ]
    if choice.port_info:
        found.append(port_info(data.fabric.ports()))
    return [family for family in found if family]


def render(families: Iterable[Family]) -> bytes:
    """Return *families* in Prometheus' text format, version 0.0.4. Raises UsageError without prometheus-client."""
    client = import_optional("prometheus_client", "metrics need")
    from prometheus_client.core import GaugeMetricFamily

    registry = client.CollectorRegistry()
    registry.register(_Collected(list(families), GaugeMetricFamily))
    text: bytes = client.generate_latest(registry)
    return text


class _Collected:
    """A collector for prometheus-client."""

    def __init__(self, families: Sequence[Family], metric: Callable[..., Any]) -> None:
        names = [family.name for family in families]
        assert len(set(names)) == len(names), names
        self._families = families
        self._metric = metric

    def collect(self) -> Iterator[Any]:
        for family in self._families:
            metric = self._metric(family.name, family.help, labels=family.labels)
            for labels, value in family.series():
                metric.add_metric(labels, value)
            yield metric

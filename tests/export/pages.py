"""A page of metrics with every metric on it."""

from __future__ import annotations

from collections.abc import Callable

from ibkeys.audit.engine import audit
from ibkeys.audit.inputs import AuditInput
from ibkeys.export.page import MetricChoice, fabric_families, render
from ibkeys.sim.subnet import Subnet
from tests.audit.looking import look
from tests.export.exposition import Series, parse
from tests.fabricsim import subnet

PLAIN = MetricChoice()


EVERYTHING = MetricChoice(all_ports=True, port_info=True)


def page_of(data: AuditInput, choice: MetricChoice = PLAIN) -> dict[str, Series]:
    text = render(fabric_families(data, audit(data), choice)).decode()
    return parse(text)


def page(
    *steps: Callable[[Subnet], object], name: str = "two-switch", choice: MetricChoice = PLAIN, key: int | None = None
) -> dict[str, Series]:
    net = subnet(name)
    for step in steps:
        step(net)
    return page_of(look(net, key), choice)

"""Circles of ports that wait for each other, with the names of the ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ibkeys.apply.by_sm.steps import Prediction
from ibkeys.plan.courses import WaitCycle
from ibkeys.plan.model import Break, BreakKind
from ibkeys.topology.port_id import PortId


def breaks_of(circles: Iterable[WaitCycle[int]], prediction: Prediction) -> tuple[Break, ...]:
    """Return the circles with the names of their ports: a circle of policies knows port GUIDs only."""
    ports = {port.guid: port.id for port in prediction.survey.end_ports}
    breaks = []
    for circle in circles:
        shown = WaitCycle(
            circle.partition,
            _with_names(circle.leaving, ports),
            _with_names(circle.entering, ports),
            tuple((ports[one], ports[other]) for one, other in circle.pairs),
            tuple(
                (_with_names(leaving, ports), base, _with_names(entering, ports))
                for leaving, base, entering in circle.waits
            ),
        )
        kind: BreakKind = "circle" if circle.entering else "no-room"
        breaks.append(Break(circle.partition, (*shown.leaving, *shown.entering), circle.pairs, shown.message, kind))
    return tuple(breaks)


def _with_names(guids: Sequence[int], ports: Mapping[int, PortId]) -> tuple[PortId, ...]:
    return tuple(ports[guid] for guid in guids)

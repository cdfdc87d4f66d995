"""Violation counters against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ibkeys.audit.inputs import number
from ibkeys.audit.rule import RuleVerdict
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.fields import NumberRow
from ibkeys.topology.nodes import Port

SATURATED: Final = 0xFFFF
"""The highest value of the violation counters of PortInfo, at which they stop."""


def judge_counters(verdict: RuleVerdict, port: Port, rows: Sequence[NumberRow]) -> None:
    """Compare violation counters of a port, whose PortInfo was read, with the baseline's.

    A counter of 0 passes with and without a baseline. A counter that is lower than in the baseline was cleared since
    then, so all its violations are new.
    """
    before = verdict.data.before(port)
    rose, unclear = [], []
    evidence: dict[str, Any] = {}
    for row in rows:
        now = number(port, row)
        if now == 0:
            continue
        evidence[row.attr] = now
        if before is None or before.info is None:
            unclear.append(f"{row.name} is {now}; when it rose is not known, because no baseline has this port")
            continue
        was = number(before, row)
        if now == was == SATURATED:
            unclear.append(f"{row.name} is saturated at {SATURATED}, in the baseline too: clear it to see new ones")
        elif now != was:
            rose.append(f"{row.name} rose by {now - was if now > was else now}, to {now}")
    if rose:
        verdict.fail(port, "; ".join(rose), {PortInfo.name: evidence})
    elif unclear:
        verdict.unknown(port, "; ".join(unclear), {PortInfo.name: evidence})
    else:
        verdict.passed += 1

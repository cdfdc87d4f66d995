"""Every rule: what trips it, what does not, and when it cannot tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.audit.catalogue import CATALOGUE
from ibkeys.audit.inputs import Thresholds
from tests.audit.cases import CASES, KEY, protected
from tests.audit.looking import from_file, look, result_of

EACH = [pytest.param(rule, what, id=f"{rule} {what}") for rule in CASES for what in ("trips", "passes", "unknown")]
EXPECTED = {"trips": "fail", "passes": "pass", "unknown": "unknown"}


def test_no_rule_is_without_its_three_fabrics() -> None:
    assert list(CASES) == [rule.id for rule in CATALOGUE]


@pytest.mark.parametrize(
    ("lease", "sweep", "says"),
    [
        (10, 10, "is not above the SM's sweep interval"),
        (11, 10, "is below 3 sweep intervals"),
        (29, 10, "is below 3 sweep intervals"),
        (30, 10, None),
        (60, 30, "is below 3 sweep intervals"),
        (11, None, None),
    ],
)
def test_a_lease_has_to_outlast_a_sweep_that_is_lost(lease: int, sweep: int | None, says: str | None) -> None:
    data = look(protected(2, lease=lease), KEY, thresholds=Thresholds(sweep_interval=sweep))
    result = result_of("MK005", data)
    assert result.result == ("pass" if says is None else "fail")
    assert all(says is not None and says in each.message for each in result.subjects)


@pytest.mark.parametrize(("rule", "what"), EACH)
def test_rule(rule: str, what: str, tmp_path: Path) -> None:
    data = getattr(CASES[rule], what)()
    result = result_of(rule, data)
    assert result.result == EXPECTED[what], result
    again = result_of(rule, from_file(data, tmp_path))
    assert (again.result, again.passed, len(again.subjects)) == (result.result, result.passed, len(result.subjects))
    assert [each.message for each in again.subjects] == [each.message for each in result.subjects]


@pytest.mark.parametrize("rule", ["MK001", "MK002", "MK004", "MK007", "MK010"])
def test_an_m_key_that_the_file_does_not_have_is_unknown(rule: str) -> None:
    """smpquery without -K, and an SA that does not trust the asker, give all of PortInfo but the M_Key."""
    data = CASES[rule].trips()
    for port in data.end_ports:
        assert port.info is not None
        port.info, port.says_m_key = bytes(8) + port.info[8:], False
    result = result_of(rule, data)
    assert (result.result, result.passed) == ("unknown", 0)
    assert {each.message for each in result.subjects} == {"PortInfo is from a file that does not have the M_Key"}

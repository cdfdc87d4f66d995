"""Every rule: what trips it, what does not, and when it cannot tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.audit.catalogue import CATALOGUE
from tests.audit.cases import CASES
from tests.audit.looking import from_file, result_of

EACH = [pytest.param(rule, what, id=f"{rule} {what}") for rule in CASES for what in ("trips", "passes", "unknown")]
EXPECTED = {"trips": "fail", "passes": "pass", "unknown": "unknown"}


def test_no_rule_is_without_its_three_fabrics() -> None:
    assert list(CASES) == [rule.id for rule in CATALOGUE]
    assert len(CASES) == 47


@pytest.mark.parametrize(("rule", "what"), EACH)
def test_rule(rule: str, what: str, tmp_path: Path) -> None:
    data = getattr(CASES[rule], what)()
    result = result_of(rule, data)
    assert result.result == EXPECTED[what], result
    again = result_of(rule, from_file(data, tmp_path))
    assert (again.result, again.passed, len(again.subjects)) == (result.result, result.passed, len(result.subjects))
    assert [each.message for each in again.subjects] == [each.message for each in result.subjects]

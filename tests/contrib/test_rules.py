"""The alert rules: promtool reads them, and each fires when it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.sim.subnet import Subnet
from tests.audit.looking import KEY, protect
from tests.contrib.shipped import METRIC, RULES, promtool, rule_expressions
from tests.export.pages import EVERYTHING, page
from tests.sample import in_soak

CASES = Path(__file__).parent / "ibkeys.rules.test.yml"
ALERTS = [
    "IbkeysStale",
    "IbkeysAbsent",
    "IbkeysSweepFailed",
    "IbkeysCoverageLow",
    "IbkeysMkeyZero",
    "IbkeysLeaseNone",
    "IbkeysViolationsRising",
    "IbkeysViolationsSaturated",
    "IbkeysEnforcementOff",
    "IbkeysPkeyTableFull",
    "IbkeysAuditFailed",
]
OF_THE_SWEEP = {"ibkeys_sweep_last_run_timestamp_seconds", "ibkeys_sweep_success"}


def test_promtool_finds_nothing_to_say() -> None:
    checked = promtool("check", "rules", RULES)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "SUCCESS: 11 rules found" in checked.stdout


def test_each_alert_fires_when_it_should_and_only_then() -> None:
    tested = promtool("test", "rules", CASES)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert CASES.read_text().count("alertname: ") > len(ALERTS)
    assert all(CASES.read_text().count(f"alertname: {name}") >= 2 for name in ALERTS)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        in_soak("> 900", "> 9000"),
        in_soak("absent(ibkeys_sweep_last_run_timestamp_seconds)", "ibkeys_sweep_last_run_timestamp_seconds > 1e9"),
        in_soak("ibkeys_sweep_success == 0", "ibkeys_sweep_success == 1"),
        in_soak("> 0.01", "> 0.2"),
        (" unless ibkeys_port_violations offset 1h", ""),
        ("and on (instance, job) (ibkeys_sweep_success offset 1h == 1)", ""),
        in_soak('rule="SE001"', 'rule="SE002"'),
        ('severity=~"critical|high"', 'severity=~"low"'),
    ],
)
def test_the_cases_notice_a_rule_that_is_wrong(tmp_path: Path, right: str, wrong: str) -> None:
    text = RULES.read_text()
    assert right in text
    (tmp_path / "rules.yml").write_text(text.replace(right, wrong))
    cases = CASES.read_text().replace("../../contrib/prometheus/ibkeys.rules.yml", "rules.yml")
    (tmp_path / "cases.yml").write_text(cases)
    assert promtool("test", "rules", tmp_path / "cases.yml").returncode == 1


def test_the_alerts_are_those_that_are_promised_and_ask_for_metrics_that_there_are() -> None:
    expressions = rule_expressions()
    assert list(expressions) == ALERTS

    def count(net: Subnet) -> None:
        protect(net, 2, 60)
        net.port("node02 mlx4_0", 1).p_key_violations = 3

    there = page(count, choice=EVERYTHING, key=KEY).keys() | OF_THE_SWEEP
    assert {name for text in expressions.values() for name in METRIC.findall(text)} <= there

"""Prometheus itself, and promtool, on what `ibkeys export` writes."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self

import pytest

from tests.audit.looking import taken
from tests.audit.reports import NASTY
from tests.cli.conftest import TWO_SWITCH, run
from tests.cli.exported import a_bit_of_everything, saved
from tests.contrib.dashboard import queries
from tests.contrib.shipped import DASHBOARD, RULES, program, promtool, rule_expressions, selectors
from tests.export.running import Exporter, certificate
from tests.fabricsim import subnet

DEADLINE: Final = 60.0
TOKEN: Final = "a-token-of-a-test-0123456789"
NOT_NOW: Final = {"IbkeysViolationsRising", "IbkeysAbsent"}
"""Alerts that compare with an hour ago, which a Prometheus that was started just now does not know; and the one that
fires when there is no exporter. The cases of `promtool test rules` have both."""


class Prometheus:
    """A Prometheus with a configuration, on a port of loopback that was free just now."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.log = (folder / "prometheus.log").open("w+")
        command = [
            program("prometheus", "prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self.address}",
        ]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, cwd=folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(DEADLINE)
        self.log.close()

    def ask(self, path: str, **values: str) -> Any:
        """Return the data of an answer of its API."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(values)}"
        with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
            document = json.load(answer)
        assert document["status"] == "success", document
        return document["data"]

    def series(self, query: str) -> list[dict[str, Any]]:
        """Return the series that a query gives now."""
        found: list[dict[str, Any]] = self.ask("query", query=query)["result"]
        return found

    def wait_for(self, query: str, number: int) -> None:
        """Ask until a query gives *number* series; an AssertionError with what Prometheus logged after the deadline."""
        until = time.monotonic() + DEADLINE
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if len(self.series(query)) == number:
                    return
            except OSError:
                continue  # it does not listen yet
        self.log.seek(0)
        raise AssertionError(f"{query}: not {number} series within {DEADLINE:g} s\n{self.log.read()[-3000:]}")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that has scraped two exporters: one of a fabric, and by TLS and token one of a bad snapshot."""
    folder = tmp_path_factory.mktemp("prometheus")
    cert, key = certificate(folder)
    token = folder / "token"
    token.touch(0o600)
    token.write_text(f"{TOKEN}\n")
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    net = a_bit_of_everything()
    net.node("node03 mlx4_0").description_bytes = NASTY.encode()[:64]
    net.port("node01 mlx4_0", 1).p_keys = [0xFFFF, *range(1, len(net.port("node01 mlx4_0", 1).p_keys))]
    closed = net.port("node01 mlx4_0", 1)
    closed.protect_bits, closed.lease_period = 1, 0
    enforcing = next(port for node in net.nodes if node.is_switch for port in node.ports[1:] if port.peer)
    enforcing.inbound_enforcement = 0
    bad = saved(taken(net), folder / "bad.db", finished=hour_ago, started=hour_ago)
    guarded = ("--tls-cert", cert, "--tls-key", key, "--token-file", token, "--port-info", "--from", bad)
    with ExitStack() as stack:
        live, recorded = Exporter("--backend", TWO_SWITCH, "--interval", "1h"), Exporter(*guarded)
        stack.callback(live.end)
        stack.callback(recorded.end)
        live.page()
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {"job_name": "live", "static_configs": [{"targets": [f"127.0.0.1:{live.port}"]}]},
                {
                    "job_name": "recorded",
                    "scheme": "https",
                    "tls_config": {"ca_file": str(cert)},
                    "authorization": {"credentials_file": str(token)},
                    "static_configs": [{"targets": [f"localhost:{recorded.port}"]}],
                },
            ],
        }
        server = stack.enter_context(Prometheus(folder, config))
        server.wait_for("ibkeys_nodes > 0 and on (instance) ibkeys_build_info", 4)
        yield server


def test_every_query_of_the_dashboard_returns_series(prometheus: Prometheus) -> None:
    found = {
        title: len(prometheus.series(expression.replace("$instance", ".*")))
        for title, expression in queries(json.loads(DASHBOARD.read_text()))
    }
    assert found
    assert not [title for title, number in found.items() if not number]


def test_every_alert_fires_on_a_bad_fabric_and_its_metrics_are_there(prometheus: Prometheus) -> None:
    for alert, expression in rule_expressions().items():
        for selector in selectors(expression):
            assert prometheus.series(selector), (alert, selector)
        if alert not in NOT_NOW:
            assert prometheus.series(expression), alert


def test_prometheus_takes_the_rules_as_they_are_and_evaluates_them(prometheus: Prometheus) -> None:
    prometheus.wait_for("ALERTS{alertname='IbkeysMkeyZero'}", 2)
    (group,) = prometheus.ask("rules")["groups"]
    assert {rule["name"]: rule["health"] for rule in group["rules"]} == dict.fromkeys(rule_expressions(), "ok")


def test_a_name_of_quotes_escapes_and_newlines_is_one_label(prometheus: Prometheus) -> None:
    (named,) = prometheus.series('ibkeys_port_info{node_desc=~".*script.*"}')
    assert named["metric"]["node_desc"].startswith('<script>alert("x")</script>')
    assert named["metric"]["node_desc"].isprintable()
    assert len(prometheus.series("ibkeys_port_info")) == len(prometheus.series('ibkeys_port_info{guid=~"0x.{16}"}'))


def test_both_exporters_are_up(prometheus: Prometheus) -> None:
    targets = prometheus.ask("targets")["activeTargets"]
    assert {each["scrapePool"]: (each["health"], each["lastError"]) for each in targets} == {
        "live": ("up", ""),
        "recorded": ("up", ""),
    }


@pytest.mark.parametrize("options", [[], ["--all-ports", "--port-info"]])
def test_promtool_finds_nothing_to_say_of_the_metrics(tmp_path: Path, options: list[str]) -> None:
    hostile = subnet("two-switch")
    for number, name in enumerate(
        [NASTY.encode()[:64], bytes(range(64)), b"\xff" * 64, b'"}\n# HELP \\', b'\\\\n"\\'], 1
    ):
        hostile.node(f"node0{number} mlx4_0").description_bytes = name
    pages = [
        run("export", "--backend", TWO_SWITCH, *options),
        run("export", "--from", saved(taken(hostile), tmp_path / "hostile.db"), *options),
        run("export", "--from", saved(taken(a_bit_of_everything()), tmp_path / "bad.db"), *options),
        run("export", "--from", tmp_path / "nowhere.db", *options),
    ]
    assert [each.code for each in pages] == [0, 0, 3, 3]
    for each in pages:
        checked = promtool("check", "metrics", stdin=each.out)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, ""), each.out

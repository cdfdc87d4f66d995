"""The M_Key rules, through real SMPs: every row of the decision table and every scenario, on CAs and on switches.

Oracle: the vectors (tests/data/README.md), derived from the opensm manual and the Linux qib and hfi1 SMAs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import AttributeID, Method
from ibkeys.mad.smp import build_smp
from ibkeys.sim.deliveries import Delivery
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA, files, label, load, number

TABLES = files("vectors/mkey_decision_table.json")
SCENARIOS = files("vectors/mkey_scenarios.json")
METHODS = {"Get": Method.GET, "Set": Method.SET, "TrapRepress": Method.TRAP_REPRESS}
ATTRIBUTES = {
    "Notice": AttributeID.NOTICE,
    "NodeDescription": AttributeID.NODE_DESCRIPTION,
    "NodeInfo": AttributeID.NODE_INFO,
    "SwitchInfo": AttributeID.SWITCH_INFO,
    "PortInfo": AttributeID.PORT_INFO,
    "P_KeyTable": AttributeID.P_KEY_TABLE,
}
FIELDS = {
    "m_key": "m_key",
    "protect": "m_key_protect_bits",
    "lease": "m_key_lease_period",
    "violations": "m_key_violations",
}
#          path from node01's port 1, whose key decides
TARGETS = {"own port": ((), "node01 mlx4_0", 1), "switch": ((1,), "MF0;switch-a:IS5023/U1", 0), "CA": ((1, 2), "", 1)}


class Bench:
    """One subnet and one port on it, with an SM so that traps have somewhere to go."""

    def __init__(self, target: str) -> None:
        self.subnet = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
        self.subnet.set_sm("node01 mlx4_0")
        self.path, name, number = TARGETS[target]
        peer = self.subnet.port("MF0;switch-a:IS5023/U1", 2).peer
        assert peer is not None
        self.port: SimPort = self.subnet.port(name, number) if name else peer
        self.traps: list[bytes] = []
        self.subnet.attach(self.subnet.port("node01 mlx4_0", 1), self._arrived)

    def _arrived(self, delivery: Delivery) -> None:
        if delivery.mad[3] == Method.TRAP:
            self.traps.append(delivery.mad)

    def ask(self, method: Method, attribute: AttributeID, m_key: int, data: bytes = bytes(64)) -> bytes | None:
        request = build_smp(method, attribute, path=self.path, m_key=m_key, data=data)
        replies = self.subnet.process(request, "node01 mlx4_0", 1)
        return replies[0].mad if replies else None

    def port_info(self, **values: int) -> bytes:
        """What a tool writes back: the port's own values, no state changes, counters kept."""
        kept = {"m_key_violations": 0xFFFF, "p_key_violations": 0xFFFF, "q_key_violations": 0xFFFF}
        info = PortInfo(bytes(self.port.info)).replace(port_state=0, port_physical_state=0, **kept)
        return info.replace(**values).raw

    def events(self, *kinds: str) -> list[str]:
        return [event.kind for event in self.subnet.events if event.kind in kinds]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("file", TABLES, ids=label)
def test_every_row_of_the_decision_table(file: Path, target: str) -> None:
    for row in load(file)["rows"]:
        check_row(row, target)


def check_row(row: dict[str, Any], target: str) -> None:
    bench = Bench(target)
    port = bench.port
    port.m_key, port.protect_bits = number(row["port_m_key"]), row["protect_bits"]
    port.lease_period = row["lease_period"]
    before = port.m_key_violations
    attribute = ATTRIBUTES[row["attribute"]]
    data = bench.port_info() if attribute == AttributeID.PORT_INFO else bytes(64)
    reply = bench.ask(METHODS[row["method"]], attribute, number(row["request_m_key"]), data)
    assert (reply is not None) == row["reply_sent"], row["id"]
    if row["m_key_in_reply"] is not None and reply is not None:
        assert PortInfo(reply[64:128]).m_key == number(row["m_key_in_reply"]), row["id"]
    assert port.m_key_violations - before == row["violation_counted"], row["id"]
    assert len(bench.traps) == row["trap_256"], row["id"]
    assert (port.lease_deadline is not None) == row["lease_timer_started"], row["id"]


def scenarios() -> list[Any]:
    found = [(file, scenario) for file in SCENARIOS for scenario in load(file)["scenarios"]]
    return [pytest.param(scenario, id=f"{label(file)}-{scenario['id']}") for file, scenario in found]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scenario", scenarios())
def test_scenario(scenario: dict[str, Any], target: str) -> None:
    bench = Bench(target)
    port, initial = bench.port, scenario["initial"]
    port.m_key, port.protect_bits = number(initial["m_key"]), initial["protect"]
    port.lease_period, port.m_key_violations = initial["lease_period"], initial["m_key_violations"]
    for step in scenario["steps"]:
        bench.subnet.advance(step["t"] - bench.subnet.now)
        bench.subnet.events.clear()
        bench.traps.clear()
        port.last_trap = None  # the vectors know no spacing of traps
        expect, violations = step["expect"], port.m_key_violations
        changes = {FIELDS[name]: number(value) for name, value in step.get("set", {}).items()}
        attribute = ATTRIBUTES[step["attribute"]]
        data = bench.port_info(**changes) if attribute == AttributeID.PORT_INFO else bytes(64)
        reply = bench.ask(METHODS[step["method"]], attribute, number(step["request_m_key"]), data)
        where = f"{scenario['id']} at {step['t']}"
        assert (reply is not None) == expect["reply_sent"], where
        if expect["m_key_in_reply"] is not None and reply is not None:
            assert PortInfo(reply[64:128]).m_key == number(expect["m_key_in_reply"]), where
        assert bench.events("lease-expired", "lease-stopped") == expect["events"], where
        assert bool(bench.events("lease-started")) == expect["lease_timer_started"], where
        assert bool(bench.events("m-key-violation")) == expect["violation_counted"], where
        counted = port.m_key_violations != violations or violations == 0xFFFF
        assert counted or not expect["violation_counted"], where
        assert bool(bench.traps) == expect["trap_256"], where
        after = expect["state_after"]
        assert port.m_key == number(after["m_key"]), where
        assert port.protect_bits == after["protect"], where
        assert port.lease_period == after["lease_period"], where
        assert port.m_key_violations == after["m_key_violations"], where
        assert port.lease_deadline == after["lease_deadline"], where

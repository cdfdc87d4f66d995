"""Virtual ports: named, and unknown where a rule needs tables that cannot be read. What is seen still fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.audit.engine import audit
from ibkeys.audit.inputs import AuditInput
from ibkeys.sim.subnet import Subnet
from tests.audit.cases import planes
from tests.audit.looking import apply_clean_policy, from_file, look, policy, result_of
from tests.fabricsim import subnet, tool, virtualize
from tests.spy import spy

NAME = "node02 mlx4_0"
LIMITED = "Default=0x7fff: ALL=limited, SELF=full;\n"
NEED_TABLES = ("PK001", "PK002", "PK003", "PK004", "PK005", "PK006", "PK008", "PK009", "PK011", "PK012")


def virtual(enabled: bool | None = True) -> Subnet:
    net = subnet("two-switch")
    apply_clean_policy(net)
    virtualize(net, NAME, enabled)
    return net


def names(result_subjects: object, kind: str) -> list[str]:
    return [each.identity["node_desc"] for each in result_subjects if each.result == kind]  # type: ignore[attr-defined]


def test_hy005_names_the_port_and_how_many_it_may_have() -> None:
    result = result_of("HY005", look(virtual()))
    assert (result.result, result.severity, names(result.subjects, "fail")) == ("fail", "info", [NAME])
    (subject,) = result.subjects
    assert subject.evidence == {"VirtualizationInfo": {"vport_cap": 127, "vport_index_top": 3}}
    assert "up to 127, highest index 3" in subject.message


@pytest.mark.parametrize("enabled", [False, None])
def test_a_port_without_virtual_ports_is_like_any_other(enabled: bool | None) -> None:
    data = look(virtual(enabled), policy=policy(LIMITED))
    assert result_of("HY005", data).result == "pass"
    assert all(names(result_of(rule, data).subjects, "unknown") == [] for rule in ("PK001", "PK006"))
    port = data.fabric.find_name(NAME)[0].ports[1]
    assert port.virtual_ports == "off"


@pytest.mark.parametrize("rule", NEED_TABLES)
def test_rules_that_need_the_tables_never_pass_such_a_port(rule: str, tmp_path: Path) -> None:
    data = look(virtual(), policy=policy(LIMITED), registry={})
    for each in (data, from_file(data, tmp_path)):
        result = result_of(rule, each)
        assert result.result in ("unknown", "n/a"), rule
        if rule not in ("PK004", "PK002", "PK003"):
            assert NAME in names(result.subjects, "unknown")


def test_planes_whose_virtual_ports_are_hidden_are_alike_as_far_as_is_known() -> None:
    alike, apart = planes([0x7FFF, 0x8010], [0x7FFF, 0x8010]), planes([0x7FFF, 0x8010], [0x7FFF])
    assert result_of("PK013", look(alike)).result == "pass"
    for net in (alike, apart):
        virtualize(net, "db02 mlx5_0")
    result = result_of("PK013", look(alike))
    assert (result.result, result.passed) == ("unknown", 0)
    assert names(result.subjects, "unknown") == ["db02 mlx5_0"]
    assert result_of("PK013", look(apart)).result == "fail"


def test_what_is_seen_in_the_physical_table_still_fails() -> None:
    net = virtual()
    net.port(NAME, 1).p_keys = [0xFFFF, 0x8010, 0x8010]
    data = look(net)
    assert NAME in names(result_of("PK001", data).subjects, "fail")
    assert NAME in names(result_of("PK007", data).subjects, "fail")


def test_a_pair_that_cannot_talk_is_not_known_and_one_that_can_is() -> None:
    net = virtual()
    net.port(NAME, 1).p_keys = [0x7FFF, 0x8010]
    net.port("node03 mlx4_0", 1).p_keys = [0x7FFF, 0x8010]
    data = look(net)
    at = {node.description: node.ports[1] for node in data.fabric.nodes if not node.is_switch}
    assert data.reach.why(at[NAME], at["node03 mlx4_0"]).can_talk is True
    verdict = data.reach.why(at[NAME], at["node04 mlx4_0"])
    assert (verdict.can_talk, verdict.virtualized) == (None, (at[NAME],))
    assert data.reach.why(at["node05 mlx4_0"], at["node04 mlx4_0"]).can_talk is False
    assert data.reach.virtualized == [at[NAME]]


def test_no_answer_is_unknown_and_named() -> None:
    data = look(virtual())
    port = data.fabric.find_name(NAME)[0].ports[1]
    port.virtualization_raw = None
    assert port.virtual_ports == "unknown"
    fresh = AuditInput(data.snapshot)
    assert names(result_of("HY005", fresh).subjects, "unknown") == [NAME]
    assert NAME in names(result_of("PK006", fresh).subjects, "unknown")


def test_only_such_ports_are_asked_and_only_with_modifier_0() -> None:
    net = virtual()
    virtualize(net, "node03 mlx4_0", None)
    with tool(net) as fabric:
        sent = spy(fabric)
        fabric.sweep(p_keys=True)
        assert [mad[20:24] for mad in sent if mad[16:18] == b"\xff\xb0"] == [bytes(4)] * 2
        fabric.sweep()
        assert sum(mad[16] == 0xFF for mad in sent) == 2


def test_the_whole_catalogue_survives_such_a_port(tmp_path: Path) -> None:
    data = look(virtual(), policy=policy(LIMITED), registry={})
    report = audit(data)
    again = audit(from_file(data, tmp_path))
    assert [each.result for each in again.results] == [each.result for each in report.results]

"""HY004, and what a report says that moved since the baseline."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ibkeys.audit.engine import audit
from ibkeys.audit.findings import RuleResult
from ibkeys.audit.formats.html import render_html
from ibkeys.audit.inputs import AuditInput
from ibkeys.mad.const import AttributeID
from ibkeys.sim.subnet import Subnet
from tests.audit.cases import SWITCH, after, recable, ruled, with_table
from tests.audit.looking import KEY, look, protect, result_of, taken
from tests.fabricsim import move_cable, replace_hca, subnet, swap_cables

HOST, OTHER = "node02 mlx4_0", "node05 mlx4_0"
B = "Infiniscale-IV Mellanox Technologies"


def swap(net: Subnet) -> None:
    swap_cables(net.port(HOST, 1), net.port(OTHER, 1), net)


def hy004(data: AuditInput) -> RuleResult:
    return result_of("HY004", data)


def said(result: RuleResult) -> list[tuple[object, str]]:
    return [(each.identity["node_desc"], each.result) for each in result.subjects]


def test_a_partitioned_port_says_both_places_and_what_it_has_to_lose() -> None:
    result = hy004(after(recable, with_table([0x7FFF, 0x8010, 0x0011])))
    (subject,) = result.subjects
    assert (result.result, result.severity, result.passed) == ("fail", "medium", 0)
    assert subject.message == (
        f"at '{SWITCH}' 0x0002c90200401000 port 6 now, at '{SWITCH}' 0x0002c90200401000 port 2 in the baseline; it has "
        "partitions 0x0010, 0x0011"
    )
    assert subject.evidence == {
        "link": {"baseline": "0x0002c90200401000 port 2", "now": "0x0002c90200401000 port 6"},
    }


def test_a_swap_names_the_other_and_only_who_has_something_to_lose_fails() -> None:
    result = hy004(after(swap, with_table([0x7FFF, 0x8010], HOST)))
    assert said(result) == [(HOST, "fail")]
    assert f"swapped with '{OTHER}' 0x0002c903000a1050 port 1; it has partition 0x0010" in result.subjects[0].message


@pytest.mark.parametrize("bits", [0, 1, 2])
def test_a_protected_port_counts_at_every_level_and_its_key_is_not_said(bits: int) -> None:
    net = ruled()
    protect(net, bits)
    baseline = taken(net, KEY)
    recable(net)
    result = hy004(look(net, KEY, baseline=baseline))
    assert said(result) == [(HOST, "fail")]
    assert ("an M_Key" if bits == 0 else f"ProtectBits {bits}") in result.subjects[0].message
    assert f"{KEY:x}" not in json.dumps(result.to_json())


def test_a_port_that_lost_its_protection_on_the_way_counts() -> None:
    def change(net: Subnet) -> None:
        recable(net)
        net.port(HOST, 1).p_keys = [0x7FFF]

    assert said(hy004(after(change, with_table([0x7FFF, 0x8010])))) == [(HOST, "fail")]


def test_a_port_with_the_default_partition_alone_may_be_plugged_anywhere() -> None:
    result = hy004(after(recable, ruled()))
    assert (result.result, result.passed, said(result)) == ("n/a", 0, [])


def test_what_a_port_has_to_lose_was_not_read_so_it_is_unknown() -> None:
    def change(net: Subnet) -> None:
        recable(net)
        net.faults.lose_next("request", node=net.node(HOST), attribute=AttributeID.P_KEY_TABLE, count=1000)

    result = hy004(after(change, ruled()))
    assert said(result) == [(HOST, "unknown")]
    assert "it is not known whether it is protected" in result.subjects[0].message


def test_a_port_that_is_new_where_the_baseline_was_blind_is_unknown() -> None:
    net = with_table([0x7FFF, 0x8010])
    move_cable(net.port(HOST, 1), net.port(B, 6), net)
    net.silence(HOST)
    baseline = taken(net)
    net.silence(HOST, False)
    recable(net)
    result = hy004(look(net, baseline=baseline))
    assert (HOST, "unknown") in said(result)
    assert "in the first snapshot it may be behind a port whose far end was not read" in result.subjects[-1].message


def test_a_port_that_is_new_and_could_not_be_hidden_before_is_no_finding() -> None:
    net = with_table([0x7FFF, 0x8010])
    baseline = taken(net)
    replace_hca(net.node(HOST))
    result = hy004(look(net, baseline=baseline))
    assert result.result == "n/a"


# --- the report ------------------------------------------------------------------------------------------------------


def of_change(change: Callable[[Subnet], object]) -> AuditInput:
    return after(change, subnet("two-switch"))


def test_the_report_has_what_moved_and_null_without_a_baseline() -> None:
    report = audit(of_change(swap))
    (moved,) = report.to_json()["moved"]
    assert (moved["kind"], moved["node_desc"], moved["with"]["node_desc"]) == ("swapped", HOST, OTHER)
    assert audit(of_change(lambda net: None)).to_json()["moved"] == []
    assert audit(look(subnet("two-switch"))).to_json()["moved"] is None


def test_the_page_has_it_and_no_name_makes_markup() -> None:
    page = render_html(audit(of_change(lambda net: net.set_description(HOST, "<script>alert(1)</script>"))))
    assert "Moved since the baseline" in page
    assert "renamed: &#39;node02 mlx4_0&#39; -&gt; &#39;&lt;script&gt;" in page
    assert "<script>alert" not in page
    assert "Moved since the baseline" not in render_html(audit(of_change(lambda net: None)))

"""The audit as a whole: what one rule's subjects make of it, severities, coverage, and that no key gets out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ibkeys.audit.catalogue import CATALOGUE, rule_named, select
from ibkeys.audit.engine import audit
from ibkeys.audit.findings import PROFILES, Profile, Severity
from ibkeys.audit.formats.html import render_html
from ibkeys.audit.formats.junit import render_junit
from ibkeys.audit.formats.sarif import render_sarif
from ibkeys.audit.gather import look_at_store, report_on_host
from ibkeys.audit.inputs import StoreView
from ibkeys.audit.rule import SOURCES, Rule, RuleVerdict
from ibkeys.errors import UsageError
from ibkeys.fabric.snapshot import SaProbe
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import NewRunPort, RunOptions, Runs
from ibkeys.store.keystore.keystore import KeyStore
from tests.audit.cases import CASES, LAST, half_rolled_out, protected, ruled, silent, stored, two_switch
from tests.audit.looking import KEY, by_id, enforce, host, key_file, look, policy, protect, result_of
from tests.fabricsim import set_enforcement_caps, subnet

NEEDS_NO_NODE = {"KF001", "QK003", "HY001", "SM002", "SM003", "SM004", "PK014"}
"""Rules that a silent node keeps nothing from: they ask the host, the SA or the policy."""
SILENT_IS_THE_FINDING = {"MK011", "HY003"}


def test_one_silent_node_and_one_at_level_2_are_named_and_no_rule_that_needs_them_passes() -> None:
    net = silent(ruled(enforced=True))
    locked = net.port("node05 mlx4_0", 1)
    locked.m_key, locked.protect_bits = KEY, 2
    report = audit(look(net, policy=policy(), inventory=frozenset(port.guid for n in net.nodes for port in n.ports)))
    named = {(trouble["node_desc"], trouble["port"]) for trouble in report.coverage.troubles}
    assert named == {("Infiniscale-IV Mellanox Technologies", 2), ("Infiniscale-IV Mellanox Technologies", 3)}
    assert (report.coverage.silent, report.coverage.unreadable, report.coverage.is_complete) == (2, 0, False)
    for result in report.results:
        if result.rule in NEEDS_NO_NODE:
            continue
        assert result.result != "pass", result.rule
        if result.rule not in SILENT_IS_THE_FINDING and result.subjects:
            unknown = {each.identity["port"] for each in result.subjects if each.result == "unknown"}
            assert {2, 3} <= unknown, result.rule


def test_the_worst_that_is_said_of_a_subject_is_said_of_the_rule() -> None:
    net = protected(1)
    net.port("node02 mlx4_0", 1).m_key = 0
    net.port("node02 mlx4_0", 1).protect_bits = 0
    result = result_of("MK001", look(net))
    assert result.result == "fail"
    assert [each.result for each in result.subjects].count("unknown") == 7


def test_a_zero_at_level_1_proves_nothing_and_at_level_2_everything() -> None:
    net = two_switch()
    protect(net, bits=2, key=0)
    assert result_of("MK001", look(net)).result == "fail"
    protect(net, bits=1, key=0)
    assert result_of("MK001", look(net)).result == "unknown"


def test_a_wrong_stored_key_at_level_1_shows_in_what_is_still_hidden() -> None:

    data = look(protected(1), key=KEY + 2, store=stored(two_switch(), KEY + 2))
    result = result_of("MK010", data)
    assert result.result == "fail"
    assert "still hides" in result.subjects[0].message


@pytest.mark.parametrize(
    ("rule", "severities"),
    [
        ("MK001", ("medium", "critical", "critical", "critical")),
        ("MK002", ("low", "medium", "high", "high")),
        ("MK003", ("info", "low", "low", "medium")),
        ("MK004", ("low", "medium", "medium", "high")),
        ("MK005", ("info", "low", "medium", "medium")),
        ("KF002", ("info", "low", "low", "medium")),
        ("SM003", ("info", "low", "low", "medium")),
        ("PK007", ("info", "low", "low", "low")),
        ("HY003", ("info", "info", "info", "info")),
    ],
)
def test_severity_in_each_profile(rule: str, severities: tuple[Severity, ...]) -> None:
    assert tuple(rule_named(rule).severity_in(profile) for profile in PROFILES) == severities


def test_the_lowest_severity_is_not_lowered() -> None:
    facts = {"id": "HY900", "title": "t", "evidence": "e", "why": "w", "remedy": "r", "false_positives": "f"}
    own = Rule(**facts, severity="info", sources=(), lower_in_cloud=True, check=RuleVerdict)  # type: ignore[arg-type]
    assert own.severity_in("cloud") == "info"


@pytest.mark.parametrize(("profile", "severity"), [("cloud-secured", "medium"), ("hpc", "low"), ("lab", "info")])
def test_enforcement_one_way_weighs_less(profile: Profile, severity: Severity) -> None:
    net = ruled()
    enforce(net, outbound=False)
    result = result_of("SE001", look(net), profile=profile)
    assert (result.result, result.severity) == ("fail", severity)
    net.port("MF0;switch-a:IS5023/U1", 1).inbound_enforcement = 0
    result = result_of("SE001", look(net))
    assert result.severity == "high"
    assert {each.severity for each in result.subjects} == {None, "medium"}


def test_a_switch_that_cannot_enforce_is_no_finding() -> None:
    net = ruled()
    for node in net.nodes:
        if node.is_switch:
            set_enforcement_caps(node, False, False)
    assert result_of("SE001", look(net)).result == "n/a"
    set_enforcement_caps(net.node("MF0;switch-a:IS5023/U1"), True, False)
    enforce(net, outbound=False)
    result = result_of("SE001", look(net))
    assert (result.result, result.passed) == ("pass", 3)


def test_four_keys_of_random_holes_among_few_are_low_and_among_many_are_chance() -> None:
    net = protected(0, key=None)
    ends = [port for node in net.nodes for port in node.end_ports]
    for port in ends[:4]:
        port.m_key = port.m_key & ~(1 << 15 | 1 << 31 | 1 << 47 | 1 << 63)
    result = result_of("MK007", look(net))
    assert (result.result, result.severity, len(result.subjects)) == ("fail", "low", 4)
    ends[0].m_key = ends[0].m_key | 1 << 63
    assert result_of("MK007", look(net)).result == "pass"


def test_among_many_ports_more_of_them_may_be_chance() -> None:
    """Of 50 good keys 9 or more have that shape in one of 300 fabrics, 12 or more in one of 20,000."""
    net = subnet("dualport64")
    protect(net, 0, key=None)
    ends = [port for node in net.nodes for port in node.end_ports]
    for port in ends[50:]:
        port.m_key = ends[49].m_key
    for count, result in ((9, "pass"), (11, "pass"), (12, "fail")):
        for port in ends[:count]:
            port.m_key = port.m_key & ~(1 << 15 | 1 << 31 | 1 << 47 | 1 << 63)
        found = result_of("MK007", look(net))
        assert (found.result, found.severity if found.subjects else "low") == (result, "low")


def test_the_exit_code_depends_on_the_worst_failure_only() -> None:
    report = audit(look(protected(1)))  # MK003 medium, PK001 and SE001 high
    assert report.fails_at("high")
    assert not report.fails_at("critical")


def test_no_key_is_in_any_report() -> None:
    for case in CASES.values():
        for build in (case.trips, case.passes, case.unknown):
            text = json.dumps(audit(build()).to_json()).lower()
            for key in (KEY, 0xDEADBEEFDEADBEEF):
                assert f"{key:x}" not in text
                assert str(key) not in text


def test_every_subject_has_what_the_contract_promises() -> None:
    for rule, case in CASES.items():
        for subject in result_of(rule, case.trips()).subjects:
            document = subject.to_json()
            assert {"node_guid", "port_guid", "node_desc", "node_type", "port", "lid"} <= document.keys()
            assert subject.evidence or rule == "PK005"
            assert subject.time
            assert subject.message == subject.message.strip()
            assert "\n" not in subject.message


def test_the_catalogue_is_complete() -> None:
    for rule in CATALOGUE:
        for text in (rule.title, rule.evidence, rule.why, rule.remedy, rule.false_positives):
            assert text.strip()
            assert "  " not in text
        assert rule.sources
        assert set(rule.sources) <= SOURCES.keys()
        explanation = rule.explanation()
        assert set(explanation["severity"]) == set(PROFILES)


def test_selection() -> None:
    assert [rule.id for rule in select(["mk001", "SE001"])] == ["MK001", "SE001"]
    assert [rule.id for rule in select(groups=["kf"])] == ["KF001", "KF002"]
    assert [rule.id for rule in select(["MK001"], ["KF"], ["KF002"])] == ["MK001", "KF001"]
    assert len(select(skip=["MK001"])) == len(CATALOGUE) - 1
    for wrong in ({"check": ["MK999"]}, {"groups": ["XX"]}, {"check": ["MK001"], "skip": ["MK001"]}):
        with pytest.raises(UsageError):
            select(**wrong)


def test_a_report_reads_the_same_from_a_snapshot_with_keys() -> None:
    data = look(protected(0))
    results = by_id(audit(data))
    assert results["MK004"].subjects[0].evidence["PortInfo"]["m_key"].startswith("fingerprint ")
    assert data.snapshot.number_of(MKey(KEY)) == KEY
    assert results["MK002"].subjects[0].m_key_used is False
    assert LAST not in json.dumps(results["MK001"].to_json())


def test_a_question_to_the_sa_that_went_wrong_makes_the_audit_incomplete_in_every_form() -> None:
    data = look(two_switch())
    assert audit(data).coverage.is_complete
    data.snapshot.sa_probes = {"sm_key": SaProbe("failed", "no such device")}
    report = audit(data)
    (trouble,) = report.coverage.troubles
    assert trouble["error"] == "the SA could not be queried (sm_key): no such device"
    assert report.coverage.unreadable == 0
    assert "<strong>Failed, and incomplete</strong>" in render_html(report)
    assert 'type="incomplete"' in render_junit(report)
    assert '"executionSuccessful": false' in render_sarif(report, version="1.2.3", exit_code=3)


def test_an_unfinished_rotation_is_named_where_protection_differs() -> None:
    net = half_rolled_out()
    changing = frozenset({net.port("node03 mlx4_0", 1).guid})
    (subject,) = result_of("MK008", look(net, store=StoreView({}, changing))).subjects
    assert subject.message.endswith("an unfinished M_Key run includes this port")
    (subject,) = result_of("MK008", look(net, store=StoreView({}))).subjects
    assert "mkey" not in subject.message


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (protected(0), "and the M_Key is exposed: its lease ran out, or a user who has the key lowered it"),
        (protected(0, lease=0), "a user who has the key lowered it: no lease could expire"),
        (
            two_switch(),
            "and no M_Key: a reset removed both, or a subnet manager whose m_key is not set (no lease does that)",
        ),
    ],
)
def test_lost_protection_is_not_blamed_on_a_lease_that_cannot_have_done_it(net: Subnet, words: str) -> None:
    result = result_of("MK009", look(net, store=stored(net, KEY)))
    assert result.result == "fail"
    assert all(words in subject.message for subject in result.subjects)


def test_what_the_key_store_says_comes_in_the_order_in_which_keys_are_tried(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with KeyStore(path) as store:
        store.promote(store.put_pending(1, 2, 3, KeySetting(MKey(KEY), 2, 60), KeySetting(MKey(7), 2, 60)))
        store.put_pending(1, 2, 3, KeySetting(MKey(9), 1, 60), KeySetting(MKey(KEY), 1, 60))
    with Journal(tmp_path / "journal.db") as journal:
        run = journal.operation("mkey-rotate").put_on_disk()
        Runs(journal).begin(run, RunOptions(), [NewRunPort(1, 2, 3), NewRunPort(1, 4, 1, "no key")])
    view = look_at_store(path, tmp_path / "journal.db")
    assert view is not None
    assert view.ports[2].protect_bits == 2
    assert view.ports[2].keys == [("current", MKey(KEY)), ("pending", MKey(9)), ("former", MKey(7))]
    assert view.changing == {2}
    with Journal(tmp_path / "journal.db") as journal:
        journal.set_state(run, "done")
    assert look_at_store(path, tmp_path / "journal.db") == StoreView(view.ports)
    assert look_at_store(tmp_path / "missing.db", None) is None


@pytest.mark.parametrize(
    ("mode", "message"),
    [(0o644, "its mode 0644 lets others read it"), (0o640, "its mode 0640 lets others read it")],
)
def test_a_key_file_that_others_may_read(mode: int, message: str) -> None:
    result = result_of("KF001", look(two_switch(), host=host(files=[key_file(mode), key_file(0o644, holds_key=False)])))
    assert [each.message for each in result.subjects] == [f"/var/cache/guid2mkey: {message}"]


@pytest.mark.parametrize(("folder", "is_found"), [(0o700, False), (0o711, True), (0o750, True)])
def test_a_key_file_below_a_closed_folder_is_not_readable(folder: int, is_found: bool) -> None:
    """OpenSM makes guid2mkey again with 0644 after each change of keys, in a folder that is closed."""
    file = key_file(0o644)
    above = ((Path("/var/cache/opensm"), folder, 0), (Path("/"), 0o755, 0))
    file = replace(file, file=replace(file.file, parents=above))
    assert bool(result_of("KF001", look(two_switch(), host=host(files=[file]))).subjects) is is_found


def test_guids_of_key_files_are_read_from_them(tmp_path: Path) -> None:
    (tmp_path / "guid2mkey").write_text("0x0002c903000a1021 0x0000000000000042\n\n")
    view = report_on_host(None, [tmp_path])
    assert view.guid2mkey[tmp_path / "guid2mkey"] == {0x2C903000A1021}
    (tmp_path / "guid2mkey").write_text(" nonsense\n")
    assert report_on_host(None, [tmp_path]).guid2mkey[tmp_path / "guid2mkey"] is None

"""CK rules: n/a without the class, unknown where not queried, without exit status 3, and no key in the report."""

from __future__ import annotations

import json

from ibkeys.audit.engine import audit
from ibkeys.audit.rule import Rule
from ibkeys.audit.rules import class_keys
from ibkeys.keys.classkey import ClassKey
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.sim.agents.class_keys import place
from ibkeys.sim.subnet import Subnet
from tests.audit.looking import KEY, by_id, end_ports, look, result_of, with_class_keys
from tests.fabricsim import subnet

RULES = [each for each in vars(class_keys).values() if isinstance(each, Rule)]


def without_classes() -> Subnet:
    net = subnet("two-switch")
    for rules in net.carrier.class_rules.values():
        rules.absent = "status"
    return net


def test_they_do_not_apply_where_no_port_has_these_classes() -> None:
    report = audit(with_class_keys(without_classes()), rules=RULES)
    assert {each.result for each in report.results} == {"n/a"}
    assert report.coverage.is_complete


def test_what_was_not_asked_is_unknown_and_the_audit_complete() -> None:
    for data in (look(without_classes()), with_class_keys(without_classes(), ask_unkeyed=False)):
        report = audit(data, rules=RULES)
        assert {each.result for each in report.results} == {"unknown"}
        assert report.coverage.is_complete
    assert by_id(audit(look(without_classes()), rules=RULES))["CK001"].note == class_keys.NOT_QUERIED


def test_a_silent_class_is_unknown_not_a_pass() -> None:
    net = without_classes()
    net.carrier.class_rules[0x21].absent = "silence"
    result = result_of("CK001", with_class_keys(net))
    assert result.result == "unknown"
    assert {each.message.partition(":")[0] for each in result.subjects} == {"CC_Key is unknown (silent)"}
    assert len(result.subjects) == 8


def test_a_key_that_was_read_with_itself_and_is_protected_is_not_readable() -> None:
    net = without_classes()
    port = net.port("node03 mlx4_0", 1)
    place(port, KEY_CLASSES["cc"], key=KEY, protect_bit=1, lease_period=60)
    data = with_class_keys(net, {"cc": {port.guid: ClassKey(KEY)}}, ask_unkeyed=True)
    result = result_of("CK002", data)
    assert (result.result, result.passed) == ("pass", 1)


def test_severities_are_those_of_the_profile() -> None:
    severities = {each.id: (each.severity_in("cloud-secured"), each.severity_in("cloud")) for each in RULES}
    assert severities == {
        "CK001": ("high", "medium"),
        "CK002": ("high", "medium"),
        "CK003": ("medium", "low"),
        "CK004": ("medium", "low"),
    }


def test_no_key_is_in_the_report() -> None:
    net = without_classes()
    for port in end_ports(net):
        for of in KEY_CLASSES.values():
            place(port, of, key=KEY, violations=3)
    report = audit(with_class_keys(net), rules=RULES)
    assert {each.result for each in report.results} == {"pass", "fail"}
    assert f"{KEY:016x}" not in json.dumps(report.to_json())
    assert str(KEY) not in json.dumps(report.to_json())


def test_one_violation_is_one() -> None:
    net = without_classes()
    for name, count in (("node03 mlx4_0", 1), ("node04 mlx4_0", 2)):
        place(net.port(name, 1), KEY_CLASSES["cc"], key=KEY, violations=count)
    messages = [each.message for each in result_of("CK004", with_class_keys(net)).subjects]
    assert [text.partition("violation")[2] for text in messages] == ["", "s"], messages

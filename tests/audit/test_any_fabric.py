"""Nothing that a fabric can answer makes a rule raise, and nothing that it keeps to itself makes one pass."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.audit.catalogue import CATALOGUE
from ibkeys.audit.engine import audit
from ibkeys.audit.findings import RESULTS
from ibkeys.audit.inputs import AuditInput, StoredPort, StoreView
from ibkeys.keys.mkey import MKey
from ibkeys.sim.subnet import Subnet
from tests.audit.looking import KEY, end_ports, from_file, host, key_file, look, policy, protect, taken, umad
from tests.corpus import fabrics
from tests.fabricsim import subnet


def everything(net: Subnet) -> AuditInput:
    """Look at *net* with all that can be given."""
    guids = frozenset(port.guid for port in end_ports(net))
    return look(
        net,
        policy=policy("P=0x10, defmember=full : ALL_CAS ;"),
        baseline=taken(net),
        store=StoreView({guid: StoredPort(2, [("current", MKey(KEY))]) for guid in guids}),
        host=host(files=[key_file(0o600)], devices=[umad(0o660)], guid2mkey={Path("/guid2mkey"): guids}),
        registry={0x10: "tenant"},
        inventory=guids,
        sm_guids=guids,
    )


@pytest.mark.parametrize("file", fabrics(200_000))
def test_every_fabric_of_the_corpora_can_be_audited(file: Path, tmp_path: Path) -> None:
    net = Subnet.from_file(file)
    net.set_sm(next(node for node in net.nodes if not node.is_switch))
    report = audit(everything(net))
    assert sum(report.summary.values()) == len(report.results) == len(CATALOGUE)
    assert set(report.summary) == set(RESULTS)
    again = audit(from_file(everything(net), tmp_path))
    assert [(each.rule, each.result) for each in again.results] == [(each.rule, each.result) for each in report.results]


@pytest.mark.parametrize("seed", range(8))
def test_more_that_is_not_read_never_makes_a_rule_pass(seed: int) -> None:
    """Whatever is taken from an audit, a rule that did not pass before does not pass afterwards."""
    chance = random.Random(seed)
    net = subnet("dual-home")
    net.set_sm("db01 mlx5_0")
    protect(net, bits=chance.choice([0, 1]), key=chance.choice([0, KEY]))
    before = {each.rule: each.result for each in audit(everything(net)).results}
    for node in chance.sample([node for node in net.nodes if node.description != "db01 mlx5_0"], 3):
        if chance.random() < 0.5:
            net.silence(node)
        else:
            for port in node.end_ports:
                port.m_key, port.protect_bits = KEY, 2
    for each in audit(look_again(net)).results:
        if each.result == "pass":
            assert before[each.rule] == "pass", each.rule
            assert not each.subjects


def look_again(net: Subnet) -> AuditInput:
    data = everything(net)
    assert data.fabric.troubles
    return data


@given(st.data())
def test_no_answer_makes_a_rule_raise(data: st.DataObject) -> None:
    net = subnet("dual-home")
    looked = everything(net)
    for port in looked.fabric.ports():
        if data.draw(st.booleans()):
            port.info = data.draw(st.none() | st.binary(min_size=64, max_size=64))
            capacity = data.draw(st.integers(0, 40))
            port.p_key_raw = data.draw(st.none() | st.binary(min_size=2 * capacity, max_size=2 * capacity))
            port.sm_info = data.draw(st.none() | st.binary(min_size=64, max_size=64))
        if data.draw(st.integers(0, 9)) == 0:
            port.node.switch_info_raw = None
            port.guid = 0
    report = audit(AuditInput(**{name: getattr(looked, name) for name in AuditInput.__dataclass_fields__}))
    assert len(report.results) == len(CATALOGUE)
    report.to_json()

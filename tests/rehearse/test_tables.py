"""What a rehearsal compares: the tables of the copy, and in what two moments differ."""

from __future__ import annotations

from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.keys.pkey import PKey
from ibkeys.managers.opensm.options_file import OptionsFile, read_options
from ibkeys.plan.model import FabricState, PartitionPlan, PolicySource
from ibkeys.rehearse.causes import causes_of
from ibkeys.rehearse.tables import ValueDifference, differences, identities, planned_tables, put_back, tables_of
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.port_id import PortId
from tests.fabricsim import subnet

NODE = "node02 mlx4_0"


def test_equal_moments_have_no_difference() -> None:
    net = subnet("two-switch")
    assert differences(tables_of(net), tables_of(net)) == []


def test_every_kind_of_value_is_compared_and_no_key_is_shown() -> None:
    net = subnet("two-switch")
    before = tables_of(net)
    port = net.port(NODE, 1)
    port.p_keys = [0xFFFF, 0x8010, *[0] * 62]
    port.m_key = 0x1234_5678
    port.protect_bits = 2
    port.lid = 99
    leaf = port.peer
    assert leaf is not None
    leaf.inbound_enforcement = True
    found = {(each.kind, each.index): (each.before, each.after) for each in differences(before, tables_of(net))}
    assert found == {
        ("pkey", 1): (None, "0x8010"),
        ("m_key", None): ("zero", "another"),
        ("m_key_protect_bits", None): (0, 2),
        ("lid", None): (2, 99),
        ("partition_enforcement_inbound", None): (False, True),
    }


def test_what_is_put_back_is_tables_and_enforcement_only() -> None:
    net = subnet("two-switch")
    before = tables_of(net)
    port = net.port(NODE, 1)
    port.p_keys = [0xFFFF, 0x8010, *[0] * 62]
    port.m_key = 5
    put_back(net, before)
    assert [each.kind for each in differences(before, tables_of(net))] == ["m_key"]


def plan_of(table: TableChange, *enforcement: EnforcementChange) -> PartitionPlan:
    return PartitionPlan(FabricState(""), PolicySource("p", ""), (table,), enforcement)


def test_a_plan_says_what_the_tables_should_be() -> None:
    net = subnet("two-switch")
    before = tables_of(net)
    port = net.port(NODE, 1)
    leaf = port.peer
    assert leaf is not None
    names = identities(net)
    table = TableChange(
        names[port.node.guid, 1], {0: PKey(0xFFFF)}, {0: PKey(0xFFFF), 3: PKey(0x8010)}, len(port.p_keys)
    )
    enforcing = EnforcementChange(
        names[leaf.node.guid, leaf.number], Enforcement(False, False), Enforcement(True, False)
    )
    wanted = planned_tables(plan_of(table, enforcing), before)
    port.p_keys = [0xFFFF, 0, 0, 0x8010, *[0] * 60]
    leaf.inbound_enforcement = True
    assert differences(wanted, tables_of(net)) == []
    leaf.outbound_enforcement = True
    key = leaf.node.guid, leaf.number
    assert differences(wanted, tables_of(net)) == [
        ValueDifference(key, "partition_enforcement_outbound", None, False, True)
    ]


def test_a_port_of_the_plan_that_the_copy_lacks_is_left_out() -> None:
    net = subnet("two-switch")
    missing = PortId(0x77, 0x77, "gone", "ca", 1, 3)
    before = tables_of(net)
    assert planned_tables(plan_of(TableChange(missing, {}, {0: PKey(0xFFFF)}, 64)), before) == before


def causes(entries: list[int], options: bytes = b"", has_policy: bool = True) -> set[str]:
    net = subnet("two-switch")
    net.port(NODE, 1).p_keys = [0xFFFF, 0x8010, 0x8011, *[0] * 61]
    before = tables_of(net)
    net.port(NODE, 1).p_keys = [*entries, *[0] * (64 - len(entries))]
    found: OptionsFile = read_options(options)
    return set(causes_of(before, tables_of(net), found, has_policy).values())


def test_the_likely_cause_of_a_changed_table() -> None:
    assert causes([0xFFFF, 0x8010]) == {"policy"}
    assert causes([0xFFFF, 0x8010], has_policy=False) == {"no-policy"}
    assert causes([0xFFFF, 0x8011, 0x8010]) == {"moved"}
    assert causes([0xFFFF, 0x8011, 0x8010], b"keep_pkey_indexes FALSE\n") == {"packed"}

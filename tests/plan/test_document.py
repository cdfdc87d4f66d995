"""The plan document: what is written is read back the same, and what no fabric could take is refused with its place."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys import files
from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.errors import FileFormatError, UsageError
from ibkeys.keys.pkey import PKey
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.document import dumps, to_json, write_plan
from ibkeys.plan.document_reader import loads, read_plan
from ibkeys.plan.model import (
    Break,
    FabricState,
    IndexMove,
    PartitionChanges,
    PartitionPlan,
    PlanOptions,
    PlanProblem,
    PolicySource,
    SmOptions,
)
from ibkeys.reach.count import ReachCounts
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.port_id import PortId

GUIDS = st.integers(0, 2**64 - 1)
PKEYS = st.integers(0, 0xFFFF).filter(lambda key: key & 0x7FFF).map(PKey)
PARTITIONS = st.integers(1, 0x7FFF)


def ports(node_type: str | None = None, first: int = 0) -> st.SearchStrategy[PortId]:
    return st.builds(
        PortId,
        GUIDS,
        st.none() | GUIDS,
        st.none() | st.text(max_size=20),
        st.just(node_type) if node_type else st.sampled_from(["ca", "switch", "router"]),
        st.integers(first, 255),
        st.none() | st.integers(0, 0xFFFF),
    )


PEERS = st.none() | st.tuples(GUIDS, st.integers(0, 255))


@st.composite
def tables(draw: st.DrawFn) -> TableChange:
    capacity = draw(st.integers(1, 0xFFFF))
    entries = st.dictionaries(st.integers(0, capacity - 1), PKEYS, max_size=5)
    return TableChange(draw(ports()), draw(entries), draw(entries), capacity, draw(PEERS))


def policy_source(text: bytes) -> PolicySource:
    return PolicySource("p.conf", hashlib.sha256(text).hexdigest(), text)


BITS = st.builds(Enforcement, st.booleans(), st.booleans())
PLANS = st.builds(
    PartitionPlan,
    st.builds(FabricState, st.text(max_size=9), st.none() | GUIDS, st.none() | st.text(max_size=9)),
    st.builds(PolicySource, st.text(max_size=9), st.text(max_size=9))
    | st.builds(policy_source, st.text(max_size=9).map(str.encode) | st.binary(max_size=9)),
    st.lists(tables(), max_size=3, unique_by=lambda table: table.port.key).map(tuple),
    st.lists(
        st.builds(EnforcementChange, ports("switch", 1), BITS, BITS, PEERS),
        max_size=3,
        unique_by=lambda change: change.port.key,
    ).map(tuple),
    st.lists(st.builds(PlanProblem, st.none() | ports(), st.text(max_size=9), st.text(max_size=9)), max_size=2).map(
        tuple
    ),
    st.builds(
        PartitionChanges, st.lists(PARTITIONS, max_size=2).map(tuple), st.lists(PARTITIONS, max_size=2).map(tuple)
    ),
    st.builds(ReachCounts, st.integers(0, 2**40), st.integers(0, 2**40)),
    st.builds(
        PlanOptions,
        st.sampled_from(["both", "in", "out", "off"]),
        st.booleans(),
        st.booleans(),
        st.lists(PARTITIONS, max_size=2).map(tuple),
    ),
    st.lists(st.builds(IndexMove, ports(), PKEYS, st.integers(0, 9), st.integers(0, 9)), max_size=2).map(tuple),
    st.lists(
        st.builds(
            Break,
            PARTITIONS,
            st.lists(ports(), max_size=2).map(tuple),
            st.lists(st.tuples(GUIDS, GUIDS), max_size=2).map(tuple),
            st.text(max_size=9),
        ),
        max_size=2,
    ).map(tuple),
)


def port(number: int = 1, **other: Any) -> PortId:
    return PortId(
        **{
            "node_guid": 0x10,
            "port_guid": 0x11,
            "node_desc": "n1",
            "node_type": "ca",
            "port": number,
            "lid": 1,
            **other,
        }
    )


def plan(**other: Any) -> PartitionPlan:
    table = TableChange(port(), {0: PKey(0xFFFF)}, {0: PKey(0xFFFF), 1: PKey(0x8001)}, 64, (0x20, 3))
    return PartitionPlan(FabricState("d"), policy_source(b"X=5 : ALL ;"), **{"tables": (table,), **other})


@given(PLANS)
def test_what_is_written_is_read_back_the_same(original: PartitionPlan) -> None:
    assert loads(dumps(original)) == original


def test_the_document_has_the_shape_of_the_contract() -> None:
    document = json.loads(dumps(plan()))
    assert list(document)[:3] == ["schema", "fabric", "policy"]
    assert document["schema"] == "ibkeys.plan/2"
    [table] = document["tables"]
    assert table["before"] == {"0": "0xffff"}
    assert table["after"] == {"0": "0xffff", "1": "0x8001"}
    assert table["node_guid"] == "0x0000000000000010"
    assert (document["reach"], document["partitions"]) == (
        {"gained": 0, "lost": 0, "unknown": 0},
        {"born": [], "dying": []},
    )


def test_a_file_is_written_whole_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_plan(plan(), path)
    assert read_plan(path) == plan()
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


def test_the_file_may_be_named_by_text(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    write_plan(plan(), path)
    assert read_plan(path) == plan()


def test_a_plan_replaces_a_plan_also_behind_a_symbolic_link(tmp_path: Path) -> None:
    path, link = tmp_path / "plan.json", tmp_path / "link.json"
    path.write_text(json.dumps({**to_json(plan()), "tables": []}, indent=2))
    link.symlink_to(path)
    write_plan(plan(), link)
    assert link.is_symlink()
    assert read_plan(path) == plan()


def test_what_is_no_plan_is_not_replaced_by_one(tmp_path: Path) -> None:
    path, pipe = tmp_path / "partitions.conf", tmp_path / "pipe"
    path.write_text("X=5 : ALL ;")
    os.mkfifo(pipe)
    for place in (path, pipe, tmp_path):
        with pytest.raises(UsageError, match="not a plan, so it is not replaced"):
            write_plan(plan(), place)
    assert path.read_text() == "X=5 : ALL ;"
    assert pipe.is_fifo()


def test_a_plan_that_cannot_be_written_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory") as caught:
        write_plan(plan(), tmp_path / "nowhere" / "plan.json")
    assert caught.value.filename == str(tmp_path / "nowhere" / "plan.json")


@pytest.mark.parametrize(
    ("text", "encoding", "shown"),
    [
        (b"X=5 : ALL ;\r\n# \xe2\x82\xac\n", "utf-8", "X=5 : ALL ;\r\n# \u20ac\n"),
        (b"", "utf-8", ""),
        (b"# caf\xe9", "base64", "IyBjYWbp"),
    ],
)
def test_the_policy_is_in_the_document_byte_for_byte(text: bytes, encoding: str, shown: str) -> None:
    original = replace(plan(), policy=policy_source(text))
    document = json.loads(dumps(original))
    assert (document["policy"]["encoding"], document["policy"]["text"]) == (encoding, shown)
    assert loads(json.dumps(document)).policy.require_text() == text


def test_a_policy_that_is_larger_than_any_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE", files.MIB)
    original = replace(plan(), policy=policy_source(b"#" * (files.MIB + 1)))
    with pytest.raises(FileFormatError, match=r"^policy.text: more than 1 MiB, the limit for a policy$"):
        loads(dumps(original))


def first_version(original: PartitionPlan) -> dict[str, Any]:
    """The document as version 1 had it."""
    document = to_json(original)
    del document["sm_options"], document["policy"]["encoding"], document["policy"]["text"]
    return {**document, "schema": "ibkeys.plan/1"}


def test_a_plan_of_version_1_is_read_and_has_no_text_for_a_subnet_manager() -> None:
    original = plan(sm_options=SmOptions())
    found = loads(json.dumps(first_version(original)))
    assert found == replace(original, policy=replace(original.policy, text=None), sm_options=None)
    assert plan_digest(found) == plan_digest(original)
    with pytest.raises(
        FileFormatError, match=r"does not have the text of its policy \(p.conf\).* earlier version .*; plan again$"
    ):
        found.policy.require_text()


def test_the_digest_of_a_plan_is_what_version_1_wrote() -> None:
    assert plan_digest(plan()) == "c288ef05f2374c883e151e8db21b8350b850998aa3fe968643cff7a40504ed62"


@given(PLANS, st.binary(max_size=9))
def test_the_text_of_the_policy_and_the_options_of_the_sm_are_not_in_the_digest(
    one: PartitionPlan, text: bytes
) -> None:
    sm_options = SmOptions.of(one.options)
    assert plan_digest(replace(one, policy=policy_source(text), sm_options=sm_options)) == plan_digest(one)


@pytest.mark.parametrize(
    ("sm", "enforce"),
    [
        (SmOptions(), "both"),
        (SmOptions(part_enforce="in"), "in"),
        (SmOptions(part_enforce="in", no_partition_enforcement=True), "off"),
        (SmOptions(part_enforce="off"), "off"),
    ],
)
def test_the_older_word_for_no_enforcement_is_the_stronger_one(sm: SmOptions, enforce: Any) -> None:
    assert sm.enforce == enforce
    original = plan(sm_options=sm, options=PlanOptions(enforce))
    assert loads(dumps(original)) == original


def test_fields_of_a_later_version_are_passed_over() -> None:
    document = {**to_json(plan()), "later": [1]}
    assert loads(json.dumps(document)) == plan()


def edited(original: PartitionPlan | None = None, **changes: Any) -> dict[str, Any]:
    """The document of `plan` with values at dotted places changed; ``...`` removes."""
    document: Any = json.loads(dumps(original or plan(sm_options=SmOptions())))
    for place, value in changes.items():
        at = document
        *way, last = place.split("__")
        for part in way:
            at = at[int(part) if isinstance(at, list) else part]
        last = int(last) if isinstance(at, list) else last
        if value is ...:
            del at[last]
        else:
            at[last] = value
    return document  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "ibkeys.plan/3"}, "schema: 'ibkeys.plan/3' is not ibkeys.plan/2; is this"),
        ({"policy__text": ...}, "policy: 'text' is missing"),
        ({"policy__text": 5}, "policy.text: 5 is not a text"),
        ({"policy__text": "X=6 : ALL ;"}, "policy.text: is not the text whose SHA-256 is policy.digest; plan again"),
        ({"policy__digest": "e"}, "policy.text: is not the text whose SHA-256 is policy.digest; plan again"),
        ({"policy__encoding": "latin-1"}, 'policy.encoding: "latin-1" is not one of utf-8, base64'),
        ({"policy__text": "\ud800"}, 'policy.text: "\\ud800" is not text in utf-8'),
        ({"policy__encoding": "base64"}, 'policy.text: "X=5 : ALL ;" is not text in base64'),
        (
            {"policy": {"file": "", "digest": "", "encoding": "base64", "text": "\u20ac"}},
            'policy.text: "\\u20ac" is not',
        ),
        ({"sm_options": ...}, "the document: 'sm_options' is missing"),
        ({"sm_options__part_enforce": "yes"}, 'sm_options.part_enforce: "yes" is not one of both, in, out, off'),
        ({"sm_options__keep_pkey_indexes": 1}, "sm_options.keep_pkey_indexes: 1 is not true or false"),
        ({"sm_options__part_enforce": "in"}, "sm_options: do not have the effect of the plan's options (options)"),
        ({"sm_options__no_partition_enforcement": True}, "sm_options: do not have the effect of the plan's options"),
        ({"sm_options__allow_both_pkeys": True}, "sm_options: do not have the effect of the plan's options"),
        ({"schema": ...}, "the document: 'schema' is missing"),
        ({"tables": ...}, "the document: 'tables' is missing"),
        ({"tables": {}}, "tables: {} is not a list"),
        ({"tables__0": 5}, "tables[0]: 5 is not an object"),
        ({"tables__0__after": [1]}, "tables[0].after: [1] is not an object of index and P_Key"),
        ({"tables__0__after__1": "0x18001"}, 'tables[0].after["1"]: "0x18001" is not a P_Key'),
        ({"tables__0__after__1": 32769}, 'tables[0].after["1"]: 32769 is not a P_Key (0x and 4 digits)'),
        ({"tables__0__after__1": "0x8000"}, "tables[0].after: 0x8000 at index 1 is not a valid P_Key"),
        ({"tables__0__after": {"64": "0x8001"}}, "tables[0].after: index 64 is past the table of 'n1' 0x"),
        ({"tables__0__after": {"-1": "0x8001"}}, 'tables[0].after["-1"]: the name is not an index'),
        ({"tables__0__after": {"01": "0x8001"}}, 'tables[0].after["01"]: the name is not an index'),
        ({"tables__0__capacity": True}, "tables[0].capacity: true is not a number from 0 to 65535"),
        ({"tables__0__capacity": ...}, "tables[0]: 'capacity' is missing"),
        ({"tables__0__node_guid": "0x10"}, 'tables[0].node_guid: "0x10" is not a GUID (0x and 16 digits)'),
        ({"tables__0__node_type": "hca"}, 'tables[0].node_type: "hca" is not one of ca, switch, router'),
        ({"tables__0__port": 256}, "tables[0].port: 256 is not a number from 0 to 255"),
        ({"options__enforce": "yes"}, 'options.enforce: "yes" is not one of both, in, out, off'),
        ({"fabric__sm_guid": 7}, "fabric.sm_guid: 7 is not a GUID"),
        ({"partitions__born": ["0x8001"]}, 'partitions.born[0]: "0x8001" is not a partition from 0x0001 to 0x7fff'),
        ({"reach__lost": -1}, "reach.lost: -1 is not a number"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FileFormatError) as raised:
        loads(json.dumps(edited(**changes)), "plan.json")
    assert str(raised.value).startswith(f"plan.json: {message}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"tables__0__after__1": "0x8002"},
        {"tables__0__after": {}},
        {"tables__0__before": {}},
        {"tables__0__before__1": "0x8001"},  # as if nothing changed
        {"tables__0__node_type": "switch"},
        {"tables__0__peer__port": 4},
        {"tables": []},
        {"enforcement__0__after__inbound": False},
        {"enforcement": []},
        {"options__disconnect_unconfigured": True},
        {"breaks": []},
        {"digest": "0" * 64},
    ],
)
def test_an_edited_plan_is_refused(changes: dict[str, Any]) -> None:
    leaf = port(3, node_type="switch", node_guid=0x20)
    original = plan(
        enforcement=(EnforcementChange(leaf, Enforcement(False, False), Enforcement(True, True), (0x10, 1)),),
        breaks=(
            Break(1, (port(),), ((0x11, 0x12),), "cut"),
            Break(2, (port(),), ((0x11, 0x13),), "circle", "circle"),
        ),
    )
    assert loads(json.dumps(edited(original))) == original
    document = json.dumps(edited(original, **changes))
    with pytest.raises(FileFormatError, match=r"^plan.json: was edited after it was made: .*; plan again$"):
        loads(document, "plan.json")
    assert loads(document, "plan.json", bound=False) != original or "digest" in changes


def test_a_break_of_an_earlier_version_has_no_kind_and_is_one_of_full_tables() -> None:
    original = plan(breaks=(Break(1, (port(),), ((0x11, 0x12),), "cut"),))
    document = edited(original)
    del document["breaks"][0]["kind"]
    assert loads(json.dumps(document)) == original
    document["breaks"][0]["kind"] = "no-such"
    with pytest.raises(FileFormatError, match=r'^breaks\[0\].kind: "no-such" is not one of no-room, circle$'):
        loads(json.dumps(document))


def test_a_plan_without_a_digest_is_refused() -> None:
    document = json.dumps(edited(digest=...))
    with pytest.raises(FileFormatError, match=r"^plan.json: has no digest .* an earlier version .*; plan again$"):
        loads(document, "plan.json")
    assert loads(document, bound=False) == plan(sm_options=SmOptions())


@given(PLANS, PLANS)
def test_plans_that_do_the_same_have_one_digest_and_others_have_not(one: PartitionPlan, other: PartitionPlan) -> None:
    free = next(number for number in range(200, 254) if number not in {table.port.port for table in one.tables})
    stays = TableChange(port(free), {}, {}, 1)
    notes = replace(one, problems=(), tables=(stays, *reversed(one.tables)))
    assert plan_digest(notes) == plan_digest(one)
    assert (plan_digest(one) == plan_digest(other)) == (deciding(one) == deciding(other))


def deciding(plan: PartitionPlan) -> object:
    """What an apply does, compared in another way than by digest."""
    return (
        {(t.port.key, t.port.node_type): (t.before, t.after, t.capacity, t.peer) for t in plan.tables if t.differs},
        {c.port.key: (c.before, c.after, c.peer) for c in plan.enforcement if c.before != c.after},
        replace(plan.options, allow_index_moves=tuple(sorted(plan.options.allow_index_moves))),
        sorted((b.partition, [port.key for port in b.ports], b.pairs) for b in plan.breaks),
    )


def test_a_port_that_stands_twice_is_refused() -> None:
    document = edited()
    document["tables"] *= 2
    with pytest.raises(FileFormatError, match=r"tables\[1\]: 'n1' 0x0000000000000010 port 1 appears twice"):
        loads(json.dumps(document))


def test_enforcement_of_an_end_port_is_refused() -> None:
    with pytest.raises(FileFormatError, match=r"enforcement\[0\]: .* is not an external port of a switch"):
        plan(enforcement=(EnforcementChange(port(), Enforcement(False, False), Enforcement(True, True)),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "p:1:2: is not JSON"),
        ("", "p:1:1: is not JSON"),
        ("[" * 100_000, "p: is nested too deeply"),
        ('{"schema": 1, "schema": 2}', "p: the name 'schema' appears twice in one object"),
        ('{"schema": NaN}', "p: NaN is not a number of JSON"),
        ('{"schema": ' + "9" * 5000 + "}", "p: a number has more than"),
        ("[]", "p: the document: [] is not an object"),
    ],
)
def test_what_is_no_plan_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(FileFormatError) as raised:
        loads(text, "p")
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner)).map(json.dumps))
def test_any_text_is_a_plan_or_one_documented_error(text: str) -> None:
    with pytest.raises(FileFormatError):
        loads(text)


@pytest.mark.parametrize("text", [b"Default=0x7fff : ALL ;\n", b"\xff", None])
def test_the_policy_that_the_master_had_is_read_back_and_bound_by_the_digest(text: bytes | None) -> None:
    digest = "" if text is None else hashlib.sha256(text).hexdigest()
    original = plan(sm_options=SmOptions(), live_policy=PolicySource("/etc/p", digest, text))
    assert loads(dumps(original)) == original
    assert plan_digest(original) != plan_digest(replace(original, live_policy=None))
    document = json.loads(dumps(original))
    document["live_policy"]["digest"] = "0" * 64
    with pytest.raises(FileFormatError, match=r"live_policy\.text"):
        loads(json.dumps(document))

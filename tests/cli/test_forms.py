"""What holds for the JSON and the CSV of every command: one spelling, one kind of value, whole records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ibkeys.cli import COMMANDS
from tests.cli.forms import Form, every_form
from tests.documents import SCHEMAS

SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
GUID = re.compile(r"0x[0-9a-f]{16}")
P_KEY = re.compile(r"0x[0-9a-f]{4}")
P_KEYS = {"pkey", "a_pkey", "b_pkey", "planned_pkey", "found_pkey", "partition"}
OF_THE_STANDARD = {
    *("p_keys", "p_key_violations", "is_p_key_nvram"),
    "multicast_p_key_trap_suppression_enabled",
}
"""Fields that have the name of their IBA component in every document (field-names.json, CapabilityMask)."""
YES_OR_NO = {
    *("partition_enforcement_inbound", "partition_enforcement_outbound"),
    *("inbound_enforcement_cap", "outbound_enforcement_cap"),
    *("can_talk", "dry_run", "applied", "stopped_here", "encrypted", "broadcast", "ipoib", "has_keys"),
    *("m_key_used", "unconfirmed", "gone_back", "accepted", "pending", "written", "complete", "sm_word"),
}
OF_ITS_OWN = {
    *("audit explain", "compare ipoib", "discover names"),
    *("keystore list", "keystore generate", "keystore import", "keystore export"),
}
"""Uses of a command whose document is not that of the command."""
MAPS = {"evidence", "before", "after", "causes", "summary", "severity", "sa"}
"""What holds names of the standard, words of the contract or indexes, and no keys of ibkeys' own."""
WITHOUT = {
    "a document": {"export", "report", "completion", "help", "sim", "confirm"},
    "a document of its own": {"resume"},
    "an end": {"watch"},
    "an OpenSM": {"harden", "smkey-rotate", "sm-repair", "rehearse", "partition-spread"},
}
"""Commands that `every_form` leaves out, by what they have not, or need."""


@dataclass(frozen=True)
class Found:
    """A value of a document: its key, and where it is."""

    key: str
    value: Any
    place: str


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[Form]:
    return list(every_form(tmp_path_factory.mktemp("json"), "json"))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Form]:
    return list(every_form(tmp_path_factory.mktemp("csv"), "csv"))


def values(value: Any, place: str, in_map: bool = False) -> Iterator[Found]:
    """Yield each value below *value* that has a key of ibkeys' own."""
    if isinstance(value, dict):
        for key, each in value.items():
            if not in_map:
                yield Found(key, each, place)
            yield from values(each, f"{place}.{key}", in_map or key in MAPS)
    elif isinstance(value, list):
        for each in value:
            yield from values(each, place, in_map)


def found_in(documents: list[Form]) -> Iterator[Found]:
    for form in documents:
        for document in form.documents:
            yield from values(document, form.name)


def test_every_command_is_asked(documents: list[Form]) -> None:
    asked = {form.name.split()[0] for form in documents}
    assert asked == COMMANDS.keys() - set().union(*WITHOUT.values())


def test_a_document_names_its_command_and_shape(documents: list[Form]) -> None:
    for form in documents:
        said = [each["schema"] for each in form.documents if "schema" in each]
        words = form.name.split()
        command = "-".join(words[: 2 if " ".join(words[:2]) in OF_ITS_OWN else 1])
        assert len(said) == 1, form.name
        assert re.fullmatch(rf"ibkeys\.{command}/[1-9]", said[0]), form.name


def test_keys_are_snake_case_and_a_p_key_has_one_name(documents: list[Form], tables: list[Form]) -> None:
    keys = {(each.key, each.place) for each in found_in(documents)}
    keys |= {(column, form.name) for form in tables for column in form.header}
    for key, place in keys:
        assert SNAKE.fullmatch(key), (key, place)
        assert "p_key" not in key or key in OF_THE_STANDARD, (key, place)


def test_keys_of_ports_and_partitions_have_one_form(documents: list[Form], tables: list[Form]) -> None:
    for each in found_in(documents):
        if each.key in P_KEYS and each.value is not None:
            assert P_KEY.fullmatch(each.value), each
        if each.key.endswith("guid") and each.value is not None:
            assert GUID.fullmatch(each.value), each
    for form in tables:
        for row in form.rows:
            for column, cell in row.items():
                if column in P_KEYS and cell:
                    assert P_KEY.fullmatch(cell), (form.name, column, cell)
                if column.endswith("guid") and cell:
                    assert GUID.fullmatch(cell), (form.name, column, cell)


OF_EACH_KIND = ("before", "after", "reliable_datagram")
"""What a change has of any value; and of a kind of packets pkey-explain says the rule, why whether they pass."""


def test_what_is_yes_or_no_is_so_everywhere(documents: list[Form], tables: list[Form]) -> None:
    kinds: dict[str, set[type]] = {}
    for each in found_in(documents):
        if not isinstance(each.value, dict | list) and each.value is not None:
            kinds.setdefault(each.key, set()).add(type(each.value))
    for key, types in kinds.items():
        assert types == {bool} or bool not in types or key in OF_EACH_KIND, (key, types)
        assert key not in YES_OR_NO or types == {bool}, (key, types)
    yes_or_no = {key for key, types in kinds.items() if types == {bool}}
    for form in tables:
        for row in form.rows:
            for column in yes_or_no & row.keys():
                assert row[column] in ("", "0", "1"), (form.name, column)


def test_nothing_is_null_and_no_other_word(documents: list[Form]) -> None:
    for each in found_in(documents):
        if each.key not in ("diff",):  # a text of lines, which has none where nothing changes
            assert each.value not in ("", "-", "?", "None", "n/a") or each.key == "result", each


def lists(value: Any, place: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from lists(each, f"{place}.{key}")
    elif isinstance(value, list):
        if value and all(isinstance(each, dict) for each in value):
            yield place, value
        for each in value:
            yield from lists(each, place)


def test_each_record_of_a_list_has_the_same_keys(documents: list[Form]) -> None:
    for form in documents:
        for document in form.documents:
            for place, records in lists(document, form.name):
                assert len({tuple(each) for each in records}) == 1, place
        lines = [each for each in form.documents if "schema" not in each]
        assert len({tuple(each) for each in lines}) <= 1, form.name


FLAT = {
    **{f"{name}-show": "ports" for name in ("mkey", "port")},
    **{"keystore list": "keys", "history": "events", "doctor": "checks", "journal one": "changes", "diff": "changes"},
    **dict.fromkeys(("pkey-check", "pkey-explain", "qkey-explain", "audit explain")),
}
"""Where -f json has the records of a table that has nothing nested; None: the document is one."""


@pytest.mark.parametrize("name", FLAT)
def test_a_flat_table_has_the_keys_of_the_document(documents: list[Form], tables: list[Form], name: str) -> None:
    (document,) = next(form for form in documents if form.name == name).documents
    table = next(form for form in tables if form.name == name)
    where = FLAT[name]
    records = document[where] if where is not None else [document]
    assert len(table.rows) == len(records) > 0
    assert set(table.header) == flat(records, table.header) - {"schema"}


def flat(records: Sequence[dict[str, Any]], header: Sequence[str]) -> set[str]:
    """The keys of records; what is nested is one cell, or its keys have its name before them: ``peer_port``."""
    nested = {key for record in records for key, value in record.items() if isinstance(value, dict)} - {*header}
    inner = {f"{key}_{each}" for record in records for key in nested if record[key] for each in record[key]}
    return records[0].keys() - nested | inner


def test_the_manual_says_what_is_new_in_each_shape() -> None:
    manual = (Path(__file__).parents[2] / "man" / "ibkeys-output.7").read_text().replace("\\-", "-")
    titles = [json.loads(path.read_text())["title"] for path in SCHEMAS.glob("*.json")]
    shapes = [title.removeprefix("ibkeys.") for title in titles if re.search("/([2-9]|[0-9]{2,})$", title)]
    assert "mkey-show/2" in shapes
    for shape in shapes:
        assert f"\\fB{shape}\\fR" in manual

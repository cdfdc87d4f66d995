"""The attributes of virtual ports against the vectors, both ways, and as `decode` shows them."""

from __future__ import annotations

from typing import Any

import pytest

from ibkeys.errors import EncodeError
from ibkeys.mad.decode import decode
from ibkeys.mad.virtualization import VIRTUAL_ATTRIBUTES, VPortState
from tests.corpus import files, load, number

BY_NAME = {cls.name.lower(): cls for cls in VIRTUAL_ATTRIBUTES}


def vectors() -> list[tuple[str, str, dict[str, Any]]]:
    documents = [each for file in files("vectors/classkeys.json") for each in load(file)["documents"]]
    return [
        (document["attribute"], vector["hex"], {name: number(value) for name, value in vector["fields"].items()})
        for document in documents
        if document["attribute"] in BY_NAME
        for vector in document["vectors"]
    ]


def test_every_attribute_has_vectors() -> None:
    assert {attribute for attribute, _, _ in vectors()} == set(BY_NAME)


def test_vectors_both_ways() -> None:
    for attribute, text, fields in vectors():
        layout, raw = BY_NAME[attribute], bytes.fromhex(text)
        rows = {row.name: row for row in layout.rows.values()}
        assert rows.keys() == fields.keys()
        found = {name: row.decode(raw) for name, row in rows.items()}
        assert found == fields
        values = {rows[name].attr: value for name, value in found.items()}
        assert layout(raw).replace(**values).raw == raw


def test_decode_knows_them_by_name_and_in_an_smp() -> None:
    for cls in VIRTUAL_ATTRIBUTES:
        raw = bytes(range(64))
        fields = decode(raw, cls.name)["fields"]
        assert list(fields) == [row.attr for row in cls.rows.values()]
        mad = bytearray(256)
        mad[:4] = bytes((1, 0x01, 1, 0x81))
        mad[16:18] = int(cls.attribute_id).to_bytes(2)
        mad[64:128] = raw
        document = decode(bytes(mad))
        assert (document["attribute"], document["fields"]) == (cls.name, fields)


def test_states_of_128_virtual_ports() -> None:
    states = [4, 1, *([0] * 126)]
    made = VPortState.new(vport_states=states)
    assert made.raw[0] == 0x41
    assert list(made.vport_states) == states
    with pytest.raises(EncodeError, match="128"):
        VPortState.new(vport_states=[1])
    with pytest.raises(EncodeError, match="does not fit"):
        VPortState.new(vport_states=[16] * 128)


def test_names_are_those_of_the_standard_spelling() -> None:
    assert {cls.name: f"0x{cls.attribute_id:04x}" for cls in VIRTUAL_ATTRIBUTES} == {
        "VirtualizationInfo": "0xffb0",
        "VPortInfo": "0xffb1",
        "VNodeInfo": "0xffb2",
        "VPortState": "0xffb3",
    }

"""Every golden vector, decoded and encoded back. The oracles: libibmad, opensm's structures (tests/data/README.md)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ibkeys.errors import MalformedMad
from ibkeys.mad.decode import ATTRIBUTES_BY_NAME, CLASS_ATTRIBUTES, decode
from ibkeys.mad.fields import ArrayRow, FieldRow, Layout
from ibkeys.mad.notice import DATA_DETAILS, Notice
from ibkeys.mad.smp import DirectedRouteSmp, LidRoutedSmp, build_smp, parse
from ibkeys.mad.virtualization import VIRTUAL_ATTRIBUTES
from tests.corpus import DATA, files, label, load, number

LAYOUTS = {name.lower().replace("_", ""): layout for name, layout in ATTRIBUTES_BY_NAME.items()}
FIELD_FILES = files("vectors/fields_*.json")
MAD_FILES = files("vectors/mads_*.json")


def rows_of(layout: type[Layout]) -> dict[str, FieldRow]:
    return {row.name: row for row in layout.rows.values()}


def find(layout: type[Layout], iba_name: str) -> tuple[type[Layout], FieldRow, int | None]:
    """Return the layout, row and index that an IBA name of the vectors means: ``LID``, ``GUIDBlock[3]``,
    ``DataDetails144.LIDADDR``.
    """
    if match := re.fullmatch(r"DataDetails(\d+)\.(\w+)", iba_name):
        details = DATA_DETAILS[int(match[1])]
        return details, rows_of(details)[match[2]], None
    if match := re.fullmatch(r"(\w+)\[(\d+)\]", iba_name):
        return layout, rows_of(layout)[match[1]], int(match[2])
    return layout, rows_of(layout)[iba_name], None


def expected_of(attribute: str, document: dict[str, Any], vector: dict[str, Any]) -> dict[str, Any]:
    """Return a vector's fields by their IBA names."""
    if attribute == "pkeytable":
        return {"P_KeyBlock": number(vector["pkeys"])}
    if attribute == "nodedescription":
        return {"NodeString": vector["text"]}
    if attribute == "notice-details":
        return {name: number(value) for name, value in vector["expect"].items() if name != "details"}
    names = document["iba_names"]
    return {names[name]: number(value) for name, value in vector["fields"].items()}


def check(layout: type[Layout], raw: bytes, expected: dict[str, Any], where: str) -> None:
    """Compare decoding with *expected*, and encoding with *raw* - over zeros, over *raw* and over its complement."""
    values: dict[type[Layout], dict[str, Any]] = {}
    for iba_name, value in expected.items():
        owner, row, index = find(layout, iba_name)
        found = row.decode(raw)
        assert (found if index is None else found[index]) == value, f"{where}: {iba_name}"
        assert getattr(owner(raw), row.attr) == found
        values.setdefault(owner, {})[row.attr] = found
    for owner, fields in values.items():
        if layout is not ATTRIBUTES_BY_NAME["NodeDescription"]:  # its text does not tell what follows the NUL
            mask = bits_of(owner, fields)
            raw_number = int.from_bytes(raw)
            assert int.from_bytes(owner.new(**fields).raw) == raw_number & mask, where
            inverted = owner(bytes(byte ^ 0xFF for byte in raw))
            assert int.from_bytes(inverted.replace(**fields).raw) ^ raw_number == full(owner) & ~mask, where
            assert owner(raw).replace(**fields).raw == raw, where


def full(layout: type[Layout]) -> int:
    return (1 << 8 * layout.size) - 1


def bits_of(layout: type[Layout], attrs: Any) -> int:
    """All bits of some rows, in the number that the whole structure forms."""
    mask = 0
    for attr in attrs:
        row = layout.rows[attr]
        mask |= row.bits << 8 * (layout.size - row.stop)
    return mask


@pytest.mark.parametrize("file", FIELD_FILES, ids=label)
def test_attribute_vectors_in_both_directions(file: Path) -> None:
    document = load(file)
    attribute = document["attribute"]
    layout = Notice if attribute == "notice-details" else LAYOUTS[attribute]
    assert document["vectors"]
    assert layout.size == document["payload_bytes"]
    for vector in document["vectors"]:
        raw = bytes.fromhex(vector["hex"])
        check(layout, raw, expected_of(attribute, document, vector), vector["id"])
        name = next(name for name, known in ATTRIBUTES_BY_NAME.items() if known is layout)
        assert decode(raw, name)["fields"].keys() >= {row.attr for row in layout.rows.values()}


@pytest.mark.parametrize("file", FIELD_FILES, ids=label)
def test_every_row_of_a_table_is_in_the_vectors(file: Path) -> None:
    document = load(file)
    if document["attribute"] in LAYOUTS and "iba_names" in document:
        layout = LAYOUTS[document["attribute"]]
        named = {find(layout, name)[1].name for name in document["iba_names"].values()}
        assert named >= set(rows_of(layout))


@pytest.mark.parametrize("file", [f for f in FIELD_FILES if load(f)["attribute"] == "nodedescription"], ids=label)
def test_node_descriptions_are_written_padded_with_nul(file: Path) -> None:
    layout = ATTRIBUTES_BY_NAME["NodeDescription"]
    for vector in load(file)["vectors"]:
        raw = bytes.fromhex(vector["hex"])
        written = layout.new(node_description=vector["text"])
        assert written.raw == raw.partition(b"\0")[0].ljust(64, b"\0"), vector["id"]


@pytest.mark.parametrize("file", [f for f in FIELD_FILES if load(f)["attribute"] == "notice-details"], ids=label)
def test_details_of_traps_in_both_directions(file: Path) -> None:
    seen = set()
    for vector in load(file)["vectors"]:
        notice = Notice(bytes.fromhex(vector["hex"]))
        details = notice.details
        assert details is not None
        seen.add(notice.trap_number)
        expected = {name: number(value) for name, value in vector["expect"]["details"].items()}
        assert set(expected) == set(rows_of(type(details))), vector["id"]
        fields = {rows_of(type(details))[name].attr: value for name, value in expected.items()}
        assert {attr: getattr(details, attr) for attr in fields} == fields, vector["id"]
        head = {attr: getattr(notice, attr) for attr in Notice.rows}
        rebuilt = Notice.new(**head).with_details(type(details).new(**fields))
        mask = bits_of(type(details), fields) | bits_of(Notice, Notice.rows)
        assert int.from_bytes(rebuilt.raw) == int.from_bytes(notice.raw) & mask, vector["id"]
        assert notice.to_json(True)["data_details"].keys() == fields.keys()
    assert seen >= set(DATA_DETAILS) - set(range(64, 68)), "but for the SM's own traps"


def test_json_names_are_the_contracts() -> None:
    contract = load(DATA / "field-names.json")
    known = {name: layout for name, layout in ATTRIBUTES_BY_NAME.items() if layout not in VIRTUAL_ATTRIBUTES}
    details = {row.name: row.attr for layout in DATA_DETAILS.values() for row in layout.rows.values()}
    assert details == contract.pop("Notice.DataDetails")
    tables = {name: {row.name: row.attr for row in layout.rows.values()} for name, layout in known.items()}
    inner = {
        "NodeRecord": "NodeInfo",
        "PortInfoRecord": "PortInfo",
        "P_KeyTableRecord": None,
        "InformInfoRecord": "InformInfo",
        "ReportNotice": "Notice",
    }
    for record, attribute in inner.items():
        names = tables.pop(record)
        assert attribute is None or names.items() >= contract[attribute].items(), "a record has its attribute's names"
    attributes = {name: rows for name, rows in tables.items() if name not in CLASS_ATTRIBUTES}
    assert attributes == contract, "tests/data/field-names.json has the names that documents give each field"


def mads(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return (vector id, part, MAD) of every MAD in a file."""
    return [
        (vector["id"], part, vector[part])
        for vector in document["vectors"]
        for part in ("request", "response", "mad")
        if vector.get(part) and len(vector[part]["hex"]) == 512
    ]


@pytest.mark.parametrize("file", MAD_FILES, ids=label)
def test_headers_of_real_mads(file: Path) -> None:
    for where, part, captured in mads(load(file)):
        header = captured["header"]
        raw = bytes.fromhex(captured["hex"])
        document = decode(raw, show_keys=True)
        shown = document["mad"]
        expected = {
            "base_version": header["base_version"],
            "mgmt_class": int(header["mgmt_class"], 0),
            "class_version": header["class_version"],
            "method": int(header["method"], 0),
            "status": int(header["status"], 0),
            "transaction_id": f"0x{int(header['tid'], 0):016x}",
            "attribute_id": int(header["attr_id"], 0),
            "attribute_modifier": int(header["attr_mod"], 0),
            "m_key": header.get("m_key"),
            "d": header.get("d_bit"),
            "hop_pointer": header.get("hop_ptr"),
            "hop_count": header.get("hop_cnt"),
            "dr_slid": header.get("dr_slid"),
            "dr_dlid": header.get("dr_dlid"),
            "initial_path": header.get("initial_path"),
            "return_path": header.get("return_path"),
        }
        assert shown == expected, (where, part)
        if header["attr_name"] in ATTRIBUTES_BY_NAME:
            assert document["attribute"] == header["attr_name"], (where, part)


@pytest.mark.parametrize("file", MAD_FILES, ids=label)
def test_attributes_of_real_mads(file: Path) -> None:
    names = {load(f)["attribute"]: load(f) for f in FIELD_FILES}
    checked = 0
    for where, _, captured in mads(load(file)):
        header, data = captured["header"], captured.get("data")
        raw = bytes.fromhex(captured["hex"])
        mad = parse(raw)
        if data is None or not isinstance(mad, LidRoutedSmp | DirectedRouteSmp):
            continue
        attribute = header["attr_name"].lower().replace("_", "")
        if attribute == "notice":
            notice = Notice(mad.data)
            details = {name: number(value) for name, value in data["details"].items()}
            assert notice.details is not None
            table = rows_of(type(notice.details))
            assert {name: table[name].decode(mad.data) for name in details} == details, where
            expected = {name: number(value) for name, value in data.items() if name != "details"}
        elif attribute in ("pkeytable", "nodedescription"):
            expected = expected_of(attribute, {}, data)
        else:
            expected = expected_of(attribute, names[attribute], {"fields": data})
        check(LAYOUTS[attribute], mad.data, expected, where)
        checked += 1
    assert checked > 100


@pytest.mark.parametrize("file", MAD_FILES, ids=label)
def test_real_requests_are_rebuilt_byte_for_byte(file: Path) -> None:
    rebuilt = 0
    for vector in load(file)["vectors"]:
        if vector["kind"] == "one-way":
            continue
        raw = bytes.fromhex(vector["request"]["hex"])
        mad = parse(raw)
        path = None
        if isinstance(mad, DirectedRouteSmp):
            if (mad.dr_slid, mad.dr_dlid, mad.hop_pointer, mad.d) != (0xFFFF, 0xFFFF, 0, 0):
                continue
            path = mad.initial_path[1:]
            # opensm leaves an old path behind the last hop; nobody reads it.
            raw = raw[: 129 + mad.hop_count] + bytes(63 - mad.hop_count) + raw[192:]
        elif not isinstance(mad, LidRoutedSmp):
            continue
        built = build_smp(
            mad.method,
            mad.attribute_id,
            mad.attribute_modifier,
            path=path,
            data=mad.data,
            m_key=mad.m_key,
            transaction_id=mad.transaction_id,
        )
        assert built == raw, vector["id"]
        rebuilt += 1
    assert rebuilt > 100


def test_arrays_are_whole_structures() -> None:
    """The vectors give array elements one by one; the rows must hold them all."""
    for layout in ATTRIBUTES_BY_NAME.values():
        for row in layout.rows.values():
            if isinstance(row, ArrayRow):
                assert row.width * row.count == 8 * (layout.size - row.byte)


def test_sa_mads_that_their_sender_cut_are_decoded() -> None:
    """libibmad and OpenSM hand fewer than 256 bytes to the umad layer where the SA data ends."""
    short = [
        mad
        for file in files("vectors/mads_ibsim.json")
        for vector in load(file)["vectors"]
        for mad in (vector.get("request"), vector.get("response"), vector.get("mad"))
        if mad and "hex" in mad and len(mad["hex"]) < 512
    ]
    assert short
    for mad in short:
        document = decode(bytes.fromhex(mad["hex"]))
        assert document["mad"]["transaction_id"] == mad["header"]["tid"]
        assert document["mad"]["method"] == number(mad["header"]["method"])
    with pytest.raises(MalformedMad):
        decode(bytes.fromhex(short[0]["hex"])[:55])

"""The classes with keys of their own against their vectors, both ways and as whole MADs, and their keys hidden.

The oracles stand in the file: libibmad 5, and the structures of opensm, opa-ff and NVIDIA, compiled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.mad.attributes import ClassPortInfo
from ibkeys.mad.classes.gmp import KEY_CLASS_OF, KEY_CLASSES, ClassKeyHeader, KeyClass, build_class_mad
from ibkeys.mad.classes.key_info import KeyInfo, KeySettings, NeighborsInfo
from ibkeys.mad.classes.notices import details_of
from ibkeys.mad.const import Method
from ibkeys.mad.decode import CLASS_ATTRIBUTES, attribute_of, decode, summary
from ibkeys.mad.fields import Layout
from ibkeys.mad.masking import masked
from ibkeys.mad.notice import Notice, ReportedKeyDetails
from ibkeys.mad.smp import parse
from tests.corpus import files, load, number

DOCUMENTS = [(file, each) for file in files("vectors/classkeys.json") for each in load(file)["documents"]]
BY_NAME = {name.lower(): layout for name, layout in CLASS_ATTRIBUTES.items()}
KEY = 0xA1A2A3A4A5A6A7A8


def snake(iba_name: str) -> str:
    """The rule of the contract: M_KeyProtectBits is m_key_protect_bits, LID is lid."""
    return {"NodeType": "node_type", "CongestionInfo": "congestion_info", "ControlTableCap": "control_table_cap"}.get(
        iba_name,
        iba_name.replace("ProtectBit", "_protect_bit")
        .replace("LeasePeriod", "_lease_period")
        .replace("KeyViolations", "Key_violations")
        .replace("MgrKey", "Mgr_key")
        .replace("NodeKey", "node_key")
        .lower(),
    )


def of_kind(kind: str) -> list[tuple[Path, dict[str, Any]]]:
    return [(file, each) for file, each in DOCUMENTS if each["attribute"] == kind]


@pytest.mark.parametrize("attribute", sorted(set(BY_NAME) - {"neighborsinfo"}))
def test_attributes_in_both_directions(attribute: str) -> None:
    layout, found = BY_NAME[attribute], of_kind(attribute)
    assert found
    for _, document in found:
        assert layout.size == document["payload_bytes"]
        assert getattr(layout, "attribute_id", None) == int(document["attribute_id"], 0)
        names = {row.name: row for row in layout.rows.values()}
        assert set(names) == set(document["iba_names"].values())
        for vector in document["vectors"]:
            raw = bytes.fromhex(vector["hex"])
            fields = {
                names[document["iba_names"][name]].attr: number(value) for name, value in vector["fields"].items()
            }
            assert {row.attr: value for row, value in layout(raw).items()} == fields, vector["id"]
            assert layout(raw).replace(**fields).raw == raw, vector["id"]
            kept = layout(bytes(byte ^ 0xFF for byte in raw)).replace(**fields)
            assert {row.attr: value for row, value in kept.items()} == fields, vector["id"]
            written = int.from_bytes(layout.new(**fields).raw)
            assert written & ~int.from_bytes(raw) == 0, vector["id"]
            shown = decode(raw, layout.name, show_keys=True)["fields"]  # type: ignore[attr-defined]
            assert {name: number(value) for name, value in shown.items()} == fields


@pytest.mark.parametrize(
    "layout", [each for each in CLASS_ATTRIBUTES.values() if each.rows], ids=lambda each: each.name
)
def test_json_names_are_the_standards_in_snake_case(layout: type[Layout]) -> None:
    assert {row.attr for row in layout.rows.values()} == {snake(row.name) for row in layout.rows.values()}


@pytest.mark.parametrize("layout", [each for each in CLASS_ATTRIBUTES.values() if issubclass(each, KeyInfo)])
def test_the_common_names_are_the_same_bits(layout: type[KeyInfo]) -> None:
    rows = list(layout.rows.values())[:4]
    common = list(KeySettings.rows.values())
    assert [(row.byte, row.bit, row.width) for row in rows] == [(row.byte, row.bit, row.width) for row in common]


def test_whole_congestion_mads_are_decoded_and_rebuilt() -> None:
    for _, document in of_kind("cc-mad"):
        for vector in document["vectors"]:
            raw, fields = bytes.fromhex(vector["hex"]), {name: number(each) for name, each in vector["fields"].items()}
            shown = decode(raw, show_keys=True)
            mad = shown["mad"]
            assert shown["attribute"] == "CongestionKeyInfo"
            header = (
                mad["method"] & 0x7F,
                mad["class_version"],
                mad["mgmt_class"],
                mad["status"],
                mad["attribute_modifier"],
            )
            names = ("Method", "ClassVersion", "MgmtClass", "Status", "AttributeModifier")
            assert header == tuple(fields[name] for name in names), vector["id"]  # libibmad leaves the R bit out
            assert int(mad["class_key"], 16) == fields["HeaderCC_Key"]
            info = attribute_of(parse(raw))
            assert info is not None
            assert {row.name: value for row, value in info.items()} == {
                name: fields[name] for name in document["iba_names"] if name.startswith("CC_Key")
            }
            if not fields["Status"]:
                of, key = KEY_CLASSES["cc"], fields["HeaderCC_Key"]
                built = build_class_mad(of, mad["method"], 0x12, key=key, data=info.raw)
                assert built[:8] + raw[8:16] + built[16:] == raw, vector["id"]


@pytest.mark.parametrize("of", KEY_CLASSES.values(), ids=lambda of: of.name)
def test_key_infos_as_whole_mads_of_every_class(of: KeyClass) -> None:
    """The vectors of the payload at the offset that the sheet gives each class."""
    for _, document in of_kind(of.key_info.name.lower()):
        assert int(document["mgmt_class"], 0) == of.mgmt_class
        assert (document["class_version"], document["data_offset"]) == (of.class_version, of.data_offset)
        for vector in document["vectors"]:
            raw = bytes.fromhex(vector["hex"])
            mad = build_class_mad(of, Method.GET, of.key_info.attribute_id, key=KEY, data=raw)
            assert attribute_of(parse(mad)) == of.key_info(raw)
            assert mad[24:32] == KEY.to_bytes(8)
            shown = decode(mad)
            assert shown["attribute"] == of.key_info.name
            assert (shown["mad"]["class_key"], shown["mad"]["class_key_masked"]) == (None, True)
            assert f"{KEY:016x}" not in str(shown) + summary(mad)


def test_details_of_traps_in_both_directions() -> None:
    seen = set()
    for _, document in of_kind("classkey-notice-details"):
        for vector in document["vectors"]:
            mgmt_class, expect = int(vector["mgmt_class"], 0), vector["expect"]
            if mgmt_class not in KEY_CLASS_OF:
                continue  # those of virtual ports
            notice = Notice(bytes.fromhex(vector["hex"]))
            assert (notice.is_generic, notice.number) == (expect["IsGeneric"], expect["TrapNumber"])
            details = details_of(notice, mgmt_class)
            assert details is not None
            seen.add((mgmt_class, expect["TrapNumber"]))
            assert {row.name: value for row, value in details.items()} == {
                name: number(value) for name, value in expect["details"].items()
            }
            fields = {row.attr: value for row, value in details.items()}
            assert details.replace(**fields) == details
    assert seen == {(0x21, 0), (0x05, 259), (0x0A, 0)}


def test_details_of_traps_of_virtual_ports_in_both_directions() -> None:
    seen = set()
    for _, document in of_kind("classkey-notice-details"):
        for vector in document["vectors"]:
            expect = vector["expect"]
            if int(vector["mgmt_class"], 0) in KEY_CLASS_OF:
                continue
            notice = Notice(bytes.fromhex(vector["hex"]))
            details = notice.details
            assert details is not None
            assert (notice.is_generic, notice.number) == (expect["IsGeneric"], expect["TrapNumber"])
            seen.add(notice.number)
            fields = {row: value for row, value in details.items() if row.name in expect["details"]}
            assert {row.name: value for row, value in fields.items()} == {
                name: number(value) for name, value in expect["details"].items()
            }
            made = type(details)(bytes(64)).replace(**{row.attr: value for row, value in fields.items()})
            assert {row: value for row, value in made.items() if row in fields} == fields
            assert details.replace(**{row.attr: value for row, value in fields.items()}) == details
            assert notice.to_json()["data_details"]["vport_index"] == expect["details"]["VPortIndex"]
            if notice.number == 1257:
                assert int(notice.to_json()["data_details"]["p_key"], 16) == number(expect["details"]["KEY"]) & 0xFFFF
    assert seen == {1257, 1258}


def test_neighbors_are_14_records_of_which_no_key_is_shown() -> None:
    record = KEY_CLASSES["n2n"]
    raw = b"".join(bytes([1 << 5, 0, 0, lid]) + bytes(4) + KEY.to_bytes(8) for lid in range(14))
    info = NeighborsInfo(raw)
    assert [each.lid for each in info.neighbors] == list(range(14))
    assert {each.n2n_key for each in info.neighbors} == {KEY}
    mad = build_class_mad(record, Method.GET_RESP, NeighborsInfo.attribute_id, data=raw)
    assert leaks(masked(mad)) == []
    assert "a1a2a3" not in str(decode(mad))
    assert str(decode(mad, show_keys=True)).count(f"{KEY:016x}") == 14


def leaks(raw: bytes) -> list[int]:
    """Where bytes of the key stand. All its bytes are unlike any other in these MADs."""
    return [at for at, byte in enumerate(raw) if byte in KEY.to_bytes(8)]


@pytest.mark.parametrize("of", KEY_CLASSES.values(), ids=lambda of: of.name)
def test_what_stands_behind_an_attribute_is_not_shown(of: KeyClass) -> None:
    """Nobody has seen these MADs of a device: a newer one may have keys where no table has a field."""
    behind = of.key_info.size
    mad = build_class_mad(of, Method.GET_RESP, of.key_info.attribute_id, data=bytes(behind) + KEY.to_bytes(8) * 4)
    assert leaks(masked(mad)) == []
    assert len(masked(mad)) == len(mad)


@pytest.mark.parametrize("of", KEY_CLASSES.values(), ids=lambda of: of.name)
def test_a_masked_mad_holds_no_byte_of_a_key(of: KeyClass) -> None:
    info = of.key_info(KEY.to_bytes(8) + bytes.fromhex("8000003c00070000"))
    mad = build_class_mad(of, Method.SET, of.key_info.attribute_id, key=KEY, data=info.raw)
    hidden = masked(mad)
    assert leaks(hidden) == []
    assert attribute_of(parse(hidden)) == of.key_info(bytes(8) + info.raw[8:])
    plain = build_class_mad(of, Method.GET, 1, key=KEY, data=ClassPortInfo.new(capability_mask=0x100).raw)
    assert masked(plain) == build_class_mad(of, Method.GET, 1, data=ClassPortInfo.new(capability_mask=0x100).raw)


@pytest.mark.parametrize("of", KEY_CLASSES.values(), ids=lambda of: of.name)
@pytest.mark.parametrize("trap", [0, 1, 259, 7])
@pytest.mark.parametrize("is_generic", [0, 1])
def test_no_trap_shows_the_key_of_the_offender(of: KeyClass, trap: int, is_generic: int) -> None:
    """Also of one whose details are not known: all of them are hidden."""
    raw = bytearray(Notice.new(is_generic=is_generic, type=2, trap_number=trap, issuer_lid=5).raw[:10])
    raw += KEY.to_bytes(8) * 6
    raw = raw.ljust(64, b"\0")
    raw[62:64] = trap.to_bytes(2)
    key_at = {0x21: 26}.get(of.mgmt_class, 24)
    details = details_of(Notice(bytes(raw)), of.mgmt_class)
    if details is not None:
        raw[10:62] = bytes(52)
        raw[key_at : key_at + 8] = KEY.to_bytes(8)
    mad = build_class_mad(of, Method.TRAP, 2, data=bytes(raw))
    assert leaks(mad)
    assert leaks(masked(mad)) == []
    assert "a1a2a3" not in str(decode(mad))


def test_the_key_in_nvidias_report_of_a_wrong_key_is_hidden() -> None:
    raw = bytearray(Notice.new(is_generic=0, type=2, producer_type=0x2C9, trap_number=0xCF22).raw)
    raw[40:48], raw[62:64] = KEY.to_bytes(8), (1600).to_bytes(2)
    notice = Notice(bytes(raw))
    assert isinstance(notice.details, ReportedKeyDetails)
    assert leaks(notice.masked().raw) == []
    assert "a1a2a3" not in str(notice.to_json())


@given(raw=st.binary(max_size=300), mgmt_class=st.sampled_from(sorted(KEY_CLASS_OF)))
def test_masking_is_total_and_keeps_the_length(raw: bytes, mgmt_class: int) -> None:
    mad = raw[:1] + bytes([mgmt_class]) + raw[2:]
    hidden = masked(mad)
    assert len(hidden) == len(mad)
    assert masked(hidden) == hidden
    row = ClassKeyHeader.class_key
    if len(mad) >= 24:
        assert not any(hidden[row.span])

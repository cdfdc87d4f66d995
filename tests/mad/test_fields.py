"""The machinery of the attribute tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import EncodeError, MalformedMad
from ibkeys.mad.attributes import NodeDescription, NodeInfo, PKeyTable, PortInfo, SMInfo
from ibkeys.mad.decode import ATTRIBUTES_BY_NAME
from ibkeys.mad.fields import ArrayRow, BytesRow, FieldRow, Layout, TextRow, array, field, octets, text
from ibkeys.mad.notice import DATA_DETAILS
from ibkeys.mad.smp import DirectedRouteSmp, LidRoutedSmp, MadHeader

LAYOUTS: list[type[Layout]] = [
    *ATTRIBUTES_BY_NAME.values(),
    *set(DATA_DETAILS.values()),
    MadHeader,
    LidRoutedSmp,
    DirectedRouteSmp,
]
ROWS = [(layout, row) for layout in LAYOUTS for row in layout.rows.values()]


def make(**rows: Any) -> type[Layout]:
    return type("Made", (Layout,), {"size": 4, "__slots__": (), **rows})


def value_of(row: FieldRow) -> st.SearchStrategy[Any]:
    if isinstance(row, TextRow):
        return st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=16)
    if isinstance(row, BytesRow):
        size = row.stop - row.byte
        return st.binary(min_size=size, max_size=size)
    if isinstance(row, ArrayRow):
        return st.tuples(*[st.integers(0, row.max)] * row.count)
    return st.integers(0, row.max)


@pytest.mark.parametrize(
    "rows",
    [
        {"a": field("A", 0, 16), "b": field("B", 1, 8)},
        {"a": field("A", 0, 8), "b": field("B", 0, 1, bit=7)},
        {"a": field("A", 0, 32), "b": field("B", 3, 1, bit=7)},
        {"a": field("A", 0, 16), "b": array("B", 1, 8, 2)},
        {"a": text("A", 0, 3), "b": octets("B", 2, 2)},
    ],
)
def test_overlapping_rows_are_refused_when_the_class_is_made(rows: dict[str, FieldRow]) -> None:
    with pytest.raises(TypeError, match="overlaps"):
        make(**rows)


@pytest.mark.parametrize("row", [field("A", 3, 9), field("A", 4, 1), array("A", 0, 8, 5), octets("A", 2, 3)])
def test_row_past_the_end_is_refused_when_the_class_is_made(row: FieldRow) -> None:
    with pytest.raises(TypeError, match="the structure has 4"):
        make(a=row)


def test_overlap_with_a_row_of_the_base_class_is_refused() -> None:
    with pytest.raises(TypeError, match="overlaps"):
        type("Made", (PortInfo,), {"__slots__": (), "extra": field("Extra", 56, 16)})


def test_part_of_another_row_is_the_only_overlap_allowed() -> None:
    made = make(whole=field("Whole", 0, 16), part=field("Part", 1, 4, bit=2, part_of="Whole"))
    assert made.new(part=0xF).whole == 0x003C  # type: ignore[attr-defined]
    for whole, byte in (("Whole", 1), ("Nothing", 0)):
        with pytest.raises(TypeError, match="is not a part of"):
            make(whole=field("Whole", 0, 8), part=field("Part", byte, 8, part_of=whole))


def test_rows_side_by_side_in_one_byte_are_fine() -> None:
    made = make(a=field("A", 0, 3), b=field("B", 0, 5, bit=3), c=field("C", 1, 12), d=field("D", 2, 4, bit=4))
    assert made.new(a=5, b=9, c=0xABC, d=0xD).raw == bytes([0b10101001, 0xAB, 0xCD, 0])


@given(data=st.data(), place=st.sampled_from(ROWS))
def test_replace_touches_only_its_own_bits(data: st.DataObject, place: tuple[type[Layout], FieldRow]) -> None:
    layout, row = place
    raw = data.draw(st.binary(min_size=layout.size, max_size=layout.size))
    value = data.draw(value_of(row))
    changed = layout(raw).replace(**{row.attr: value})
    own = row.bits << 8 * (layout.size - row.stop)
    assert (int.from_bytes(raw) ^ int.from_bytes(changed.raw)) & ~own == 0
    if not isinstance(row, TextRow):
        assert row.decode(changed.raw) == value
        assert getattr(changed, row.attr) == value


@given(data=st.data(), place=st.sampled_from(ROWS))
def test_copy_takes_its_own_bits_of_the_source_and_no_others(
    data: st.DataObject, place: tuple[type[Layout], FieldRow]
) -> None:
    layout, row = place
    source, before = (data.draw(st.binary(min_size=layout.size, max_size=layout.size)) for _ in range(2))
    buffer = bytearray(before)
    row.copy(source, buffer)
    own = row.bits << 8 * (layout.size - row.stop)
    expected = int.from_bytes(before) & ~own | int.from_bytes(source) & own
    assert int.from_bytes(buffer) == expected


@given(data=st.data(), layout=st.sampled_from(LAYOUTS))
def test_writing_back_what_was_read_changes_nothing(data: st.DataObject, layout: type[Layout]) -> None:
    view = layout(data.draw(st.binary(min_size=layout.size, max_size=layout.size)))
    values = {row.attr: value for row, value in view.items() if not isinstance(row, TextRow)}
    assert view.replace(**values) == view


@given(value=value_of(NodeDescription.node_description))
def test_text_is_read_back(value: str) -> None:
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in value)
    assert NodeDescription.new(node_description=value).node_description == shown


@pytest.mark.parametrize("size", [0, 63, 65, 256])
def test_wrong_number_of_bytes_is_malformed(size: int) -> None:
    with pytest.raises(MalformedMad, match=f"{size} given"):
        PortInfo(bytes(size))


@pytest.mark.parametrize(
    ("layout", "values"),
    [
        (PortInfo, {"lmc": 8}),
        (PortInfo, {"lmc": -1}),
        (PortInfo, {"lid": 1.0}),
        (PortInfo, {"lid": "1"}),
        (PortInfo, {"lid": None}),
        (PortInfo, {"no_such_field": 1}),
        (PKeyTable, {"p_keys": [0] * 31}),
        (PKeyTable, {"p_keys": [0] * 31 + [0x10000]}),
        (PKeyTable, {"p_keys": 5}),
        (NodeDescription, {"node_description": "x" * 65}),
        (NodeDescription, {"node_description": "ü" * 33}),
        (NodeDescription, {"node_description": b"bytes"}),
        (LidRoutedSmp, {"data": bytes(63)}),
        (LidRoutedSmp, {"data": "x" * 64}),
        (LidRoutedSmp, {"data": 64}),
    ],
)
def test_value_that_does_not_fit_is_an_encode_error(layout: type[Layout], values: dict[str, Any]) -> None:
    with pytest.raises(EncodeError):
        layout().replace(**values)


def test_error_about_a_secret_field_does_not_show_the_value() -> None:
    for value in (0x1_DEAD_BEEF_DEAD_BEEF, "0xdeadbeef", -0xDEADBEEF):
        for layout, name in ((PortInfo, "m_key"), (SMInfo, "sm_key"), (DirectedRouteSmp, "m_key")):
            with pytest.raises(EncodeError) as error:
                layout().replace(**{name: value})
            assert "dead" not in str(error.value)


def test_views_are_equal_when_class_and_bytes_are() -> None:
    assert NodeInfo(bytes(64)) == NodeInfo()
    assert NodeInfo() != PortInfo()
    assert NodeInfo() != NodeInfo.new(num_ports=1)
    assert len({NodeInfo(), NodeInfo(bytes(64)), PortInfo()}) == 2
    assert NodeInfo() != bytes(64)


def test_view_keeps_its_own_copy_of_a_buffer() -> None:
    buffer = bytearray(64)
    view = NodeInfo(buffer)  # type: ignore[arg-type]
    buffer[3] = 9
    assert view.num_ports == 0


def test_row_on_the_class_tells_where_the_field_is() -> None:
    row = PortInfo.m_key_protect_bits
    assert (row.name, row.byte, row.width, row.bit, row.max) == ("M_KeyProtectBits", 34, 2, 0, 3)


def test_secret_fields_are_null_in_json_unless_asked_for() -> None:
    info = PortInfo.new(m_key=0x1122334455667788, lid=5)
    assert info.to_json()["m_key"] is None
    assert info.to_json()["m_key_masked"] is True
    assert info.to_json(show_keys=True)["m_key"] == "0x1122334455667788"
    assert "m_key_masked" not in info.to_json(show_keys=True)
    assert info.to_json()["lid"] == 5


def test_repr_names_what_is_set_but_no_key_and_no_data() -> None:
    assert repr(PortInfo.new(m_key=0x1122334455667788, lid=5)) == "PortInfo(m_key=<masked>, lid=5)"
    smp = LidRoutedSmp.new(data=PortInfo.new(m_key=0x1122334455667788).raw)
    assert repr(smp) == "LidRoutedSmp(data=<64 bytes>)"

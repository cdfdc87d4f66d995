"""Subscriptions and Reports. Oracle: MADs captured between OpenSM 3.3.23 and a small client (tests/data/README.md)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import binary, data, integers, sampled_from

from ibkeys.errors import EncodeError
from ibkeys.mad.const import Method, TrapNumber
from ibkeys.mad.decode import decode
from ibkeys.mad.inform import ALL_TRAPS, InformInfo, InformInfoRecord, ReportNotice, inform_info
from ibkeys.mad.masking import masked
from ibkeys.mad.notice import BadMKeyDetails, GidDetails, Notice
from ibkeys.mad.sa import SA_HEADER_SIZE, build_sa
from tests.corpus import DATA, load, number

VECTORS: list[dict[str, Any]] = load(DATA / "vectors" / "mads_ibsim.json")["vectors"]
REPORTS = [
    vector
    for vector in VECTORS
    if vector["kind"] == "one-way" and vector["mad"]["header"]["method_name"] in ("Report", "ReportResp")
]


def request(index: int) -> bytes:
    return bytes.fromhex(VECTORS[index]["request"]["hex"])


@pytest.mark.parametrize(("index", "trap", "subscribe"), [(102, 256, 1), (105, ALL_TRAPS, 1), (176, ALL_TRAPS, 0)])
def test_subscriptions_that_opensm_took_are_rebuilt_byte_for_byte(index: int, trap: int, subscribe: int) -> None:
    raw = request(index)
    made = inform_info(trap, bool(subscribe)).replace(resp_time_value=18)
    built = build_sa(
        Method.SET,
        InformInfo.attribute_id,
        data=made.raw,
        sm_key=int.from_bytes(raw[36:44]),
        transaction_id=int.from_bytes(raw[8:16]),
    )
    assert built == raw
    fields = decode(raw)["fields"]
    assert (fields["trap_number"], fields["subscribe"], fields["qpn"]) == (trap, subscribe, 1)
    assert fields["producer_type"] == 0xFFFFFF
    assert fields["resp_time_value"] == 18


def test_the_record_of_a_subscription_as_opensm_gives_it() -> None:
    raw = bytes.fromhex(VECTORS[161]["response"]["hex"])[SA_HEADER_SIZE:]
    record = InformInfoRecord(raw[: InformInfoRecord.size])
    assert record.subscriber_gid == 0xFE80_0000_0000_0000_0000_0000_0020_0021
    assert (record.trap_number, record.qpn, record.lid_range_begin, record.type) == (0xFFFF, 1, 0xFFFF, 0xFFFF)


def test_every_captured_report_in_both_directions() -> None:
    traps = set()
    for vector in REPORTS:
        raw, expected = bytes.fromhex(vector["mad"]["hex"]), dict(vector["mad"]["data"])
        report = ReportNotice(raw[SA_HEADER_SIZE : SA_HEADER_SIZE + ReportNotice.size])
        traps.add(report.trap_number)
        details = report.notice.details
        assert details is not None, vector["id"]
        wanted = {name: number(value) for name, value in expected.pop("details").items()}
        rows = {row.name: row for row in type(details).rows.values()}
        assert {name: rows[name].decode(details.raw) for name in wanted} == wanted, vector["id"]
        head = {row.name: row.decode(report.raw) for row in ReportNotice.rows.values()}
        assert head == {name: number(value) for name, value in expected.items()}, vector["id"]
        fields = {attr: getattr(report, attr) for attr in ReportNotice.rows}
        assert report.replace(**fields).raw == report.raw
        assert ReportNotice(report.notice.raw + bytes(16)).replace(issuer_gid=report.issuer_gid) == report
        document = decode(raw, show_keys=True)
        assert document["attribute"] == "Notice"
        assert document["fields"]["issuer_gid"] == f"0x{report.issuer_gid:032x}"
    assert traps == {256, 257, 258, 259, 144, 145}


def test_an_offered_m_key_is_in_no_form_of_a_report_but_its_bytes() -> None:
    offered = 0x9DD8_904F_0748_9671
    raw = next(
        bytes.fromhex(each["mad"]["hex"]) for each in REPORTS if number(each["mad"]["data"]["TrapNumber"]) == 256
    )
    assert offered.to_bytes(8) in raw
    report = ReportNotice(raw[SA_HEADER_SIZE : SA_HEADER_SIZE + ReportNotice.size])
    assert offered.to_bytes(8) not in masked(raw)
    assert offered.to_bytes(8) not in report.masked().raw
    assert report.masked().issuer_gid == report.issuer_gid
    for text in (repr(report), repr(report.notice.details), str(report.to_json()), str(decode(raw))):
        assert f"{offered:x}" not in text
        assert str(offered) not in text


def test_the_sms_own_traps_name_a_gid() -> None:
    notice = Notice.new(is_generic=1, type=4, producer_type=4, trap_number=TrapNumber.GID_IN_SERVICE)
    gid = 0xFE80 << 112 | 0x11
    filled = notice.with_details(GidDetails.new(gid_addr=gid))
    assert filled.raw[16:32] == gid.to_bytes(16)
    assert isinstance(filled.details, GidDetails)
    assert filled.details.gid_addr == gid


@given(raw=binary(min_size=36, max_size=36), row=sampled_from(list(InformInfo.rows.values())), drawn=data())
def test_a_field_of_inform_info_changes_only_its_own_bits(raw: bytes, row: Any, drawn: Any) -> None:
    value = drawn.draw(integers(0, (1 << row.width) - 1))
    changed = InformInfo(raw).replace(**{row.attr: value})
    assert getattr(changed, row.attr) == value
    difference = int.from_bytes(changed.raw) ^ int.from_bytes(raw)
    assert difference & ~(row.bits << 8 * (InformInfo.size - row.stop)) == 0


@given(raw=binary(min_size=80, max_size=80), trap=sampled_from([256, 257, 64, 9999]))
def test_masking_a_report_takes_the_offered_key_and_nothing_else(raw: bytes, trap: int) -> None:
    report = ReportNotice(raw).replace(is_generic=1, trap_number=trap)
    masked_report = report.masked()
    if trap == TrapNumber.BAD_M_KEY:
        assert masked_report.raw[24:32] == bytes(8)
        key = BadMKeyDetails(report.raw[:64]).m_key
        assert ReportNotice(masked_report.raw[:24] + key.to_bytes(8) + masked_report.raw[32:]) == report
    else:
        assert masked_report == report


@given(trap=integers(0, 0xFFFF), subscribe=sampled_from([True, False]))
def test_what_ends_a_subscription_differs_in_one_byte(trap: int, subscribe: bool) -> None:
    made, other = inform_info(trap, subscribe), inform_info(trap, not subscribe)
    assert made.replace(subscribe=int(not subscribe)) == other
    assert (made.trap_number, made.gid, made.is_generic, made.lid_range_begin) == (trap, 0, 1, 0xFFFF)


def test_a_trap_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(EncodeError):
        inform_info(0x1_0000, True)

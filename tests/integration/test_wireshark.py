"""What --pcap writes is dissected by Debian's tshark, and what it finds is what we find: every attribute and method.

tshark is one more independent decoder. Where a field of ours lacks or differs there, a table below names it with the
reason; an entry that is not needed fails the test too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ibkeys.mad import performance
from ibkeys.mad.attributes import ClassPortInfo, NodeDescription
from ibkeys.mad.const import METHOD_NAMES, Method, MgmtClass, TrapNumber
from ibkeys.mad.decode import SA_ATTRIBUTES, SMP_ATTRIBUTES, attribute_name, attribute_of
from ibkeys.mad.fields import ArrayRow, FieldRow, Layout, TextRow
from ibkeys.mad.notice import DATA_DETAILS, BadMKeyDetails, Notice
from ibkeys.mad.records import NodeRecord, PortInfoRecord
from ibkeys.mad.sa import ACTIVE, SA_HEADER_SIZE, RmppType, SaHeader, build_sa, with_rmpp
from ibkeys.mad.smp import DATA_OFFSET, DirectedRouteSmp, LidRoutedSmp, Mad, build_smp, parse
from ibkeys.mad.virtualization import VIRTUAL_ATTRIBUTES
from ibkeys.umad.pcap import MAD_SIZE
from tests.corpus import files, load
from tests.integration.wireshark import LOCAL_LID, MAD_OFFSET, REMOTE_LID, Dissected, Field, dissect
from tests.segments import split_segments

KEY = 0x1A2B3C4D5E6F7081
SMP_CLASSES = (MgmtClass.SUBN_LID_ROUTED, MgmtClass.SUBN_DIRECTED_ROUTE)
PERF_ATTRIBUTES: dict[int, type[Layout]] = {
    performance.CLASS_PORT_INFO: ClassPortInfo,
    performance.PORT_COUNTERS: performance.PortCounters,
    performance.PORT_COUNTERS_EXTENDED: performance.PortCountersExtended,
}
KNOWN_ATTRIBUTES = {number: each for number, each in SMP_ATTRIBUTES.items() if each not in VIRTUAL_ATTRIBUTES}
"""Attributes of SMPs that tshark knows: those of virtual ports came with a later release of the standard."""
SMP_METHODS = (Method.GET, Method.SET, Method.GET_RESP, Method.TRAP, Method.TRAP_REPRESS)
SA_METHODS = tuple(set(METHOD_NAMES) - {Method.SEND, Method.TRAP, Method.TRAP_REPRESS})

# --- where tshark differs ---------------------------------------------------------------------------------------------

NAMES = {
    "BlockNum": ["BlockNum_SixteenBit"],
    "EnhancedPort0": ["EnhancedPortZero"],
    "GIDPrefix": ["GUID"],  # of PortInfo; its title there is right
    "GUIDBlock": ["GUID"],  # of SwitchInfo, by name
    "InformInfoEnum": ["Enum"],
    "LinkSpeedEnabledChange": ["LinkSpeecEnabledChange"],
    "NodeDescription": ["NodeString"],
    "PayloadLength": ["PayloadLength", "NewWindowLast", "Data2"],  # by RMPPType
    "PortBlock": ["Port"],  # of LinearForwardingTable
    "ProducerType": ["ProducerTypeVendorID"],
    "SegmentNumber": ["SegmentNumber", "Data1"],
    "TrapNumber": ["TrapNumberDeviceID"],
    "Data": ["SMPData"],
    "M_KEY": ["MKEY"],
}
"""Its names for fields of ours, where they differ by more than underscores and case."""

_LATER = "came into PortInfo with a later release of the standard than the one that tshark goes by"
_PORT_INFO = {
    "CapabilityMask2": _LATER,
    "LinkSpeedExtActive": _LATER,
    "LinkSpeedExtEnabled": _LATER,
    "LinkSpeedExtSupported": _LATER,
    "MulticastPKeyTrapSuppressionEnabled": _LATER,
}
_PAST_259 = "tshark takes SWLIDADDR for an IPv6 address, complains, and shows none of the details"
_NIBBLES = "tshark has two fields there, both of the whole byte"
EXCEPTIONS = {
    "SwitchInfo": {"MulticastFDBTop": "came into SwitchInfo with release 1.2.1 of the standard"},
    "PortInfo": _PORT_INFO,
    "PortInfoRecord": {**_PORT_INFO, "Options": "tshark takes it for reserved"},
    "ClassPortInfo": {"TrapHL": "tshark takes it for reserved"},
    "CapabilityChangeDetails": {
        "ChangeFlags": "tshark has its bits alone",
        "SMPriorityChange": "came into trap 144 with a later release of the standard",
        "CapabilityMask2": "came into trap 144 with a later release of the standard",
    },
    "BadPKeyDetails": {"P_KEY": "tshark has the whole KEY alone"},
    "BadPKeySwitchPortDetails": dict.fromkeys(
        (row.name for row in DATA_DETAILS[TrapNumber.BAD_P_KEY_SWITCH_PORT].rows.values()), _PAST_259
    ),
    "PortCounters": {
        "CounterSelect2": "came into PortCounters with a later release of the standard",
        "LocalLinkIntegrityErrors": _NIBBLES,
        "ExcessiveBufferOverrunErrors": _NIBBLES,
        "QP1Dropped": "came into PortCounters with a later release of the standard",
        "PortXmitWait": "came into PortCounters with release 1.2.1 of the standard",
    },
    "ReportNotice": {"IssuerGID": "tshark has the 64 bytes of a Notice alone"},
    "DirectedRouteSmp": {"D": "tshark looks for bit 15 in one byte, and finds it 0"},
}


# --- comparing --------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A MAD, and the layouts that are in it with the byte where each begins. ``but``: fields that differ in it."""

    mad: bytes
    layouts: tuple[tuple[type[Layout], int], ...]
    but: frozenset[str] = frozenset()


def plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.rpartition(".")[2].lower())


def expected(row: FieldRow, raw: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield first byte, end and value of *row* as we read it; an array's elements one by one."""
    value = row.decode(raw)
    if isinstance(row, ArrayRow):
        step = row.width // 8
        yield from ((row.byte + step * at, row.byte + step * (at + 1), each) for at, each in enumerate(value))
    else:
        yield row.byte, row.stop, int.from_bytes(value) if isinstance(value, bytes) else value


def joined(dissected: Dissected) -> list[Field]:
    """Its fields, and each P_Key, of which it shows membership and partition apart; bytes that we have as an array."""
    found = list(dissected.fields)
    for base, full in zip(
        dissected.named("p_keytable.p_keybase"), dissected.named("p_keytable.membershiptype"), strict=True
    ):
        assert (base.byte, full.stop) == (full.byte, base.byte + 1)
        found.append(replace(base, name="p_keyblock", value=full.value << 15 | base.value))
    for path in dissected.named("trap.drnoticereturnpath"):
        size = path.stop - path.byte
        found += [
            replace(path, byte=path.byte + at, stop=path.byte + at + 1, value=each)
            for at, each in enumerate(path.value.to_bytes(size))
        ]
    return found


def agrees(fields: Iterable[Field], row: FieldRow, raw: bytes, offset: int) -> bool:
    """Whether tshark has a field of this name, around these bytes, with this value; for an array: for each element."""
    names = {plain(name) for name in (row.name, *NAMES.get(row.name, ()))}
    named = [field for field in fields if plain(field.name) in names]
    return all(
        any(
            field.byte <= offset + first
            and field.stop >= offset + end
            and (field.shown if isinstance(row, TextRow) else field.value) == value
            for field in named
        )
        for first, end, value in expected(row, raw)
    )


def compare(cases: list[Case], folder: Path) -> None:
    """Let tshark dissect all MADs, and compare every field. Raises AssertionError with the differences."""
    wrong: dict[tuple[str, ...], str] = {}
    needed = set()
    for case, dissected in zip(cases, dissect([case.mad for case in cases], folder), strict=True):
        fields = joined(dissected)
        for layout, offset in case.layouts:
            raw = case.mad[offset : offset + layout.size]
            exceptions = EXCEPTIONS.get(layout.__name__, {})
            for row in layout.rows.values():
                if agrees(fields, row, raw, offset):
                    continue
                needed.add((layout.__name__, row.name))
                if row.name not in exceptions and row.name not in case.but:
                    there = {each.name for each in fields if offset + row.byte <= each.byte < offset + row.stop}
                    wrong[layout.__name__, row.name] = f"{row.decode(raw)}; tshark has there {sorted(there)}"
        if dissected.complaint and _PAST_259 not in EXCEPTIONS.get(case.layouts[-1][0].__name__, {}).values():
            wrong[dissected.title, dissected.complaint] = "a complaint of tshark"
    # Where tshark has another name, it goes into NAMES; a field that tshark lacks or reads otherwise, into EXCEPTIONS.
    assert wrong == {}
    compared = {layout.__name__ for case in cases for layout, _ in case.layouts}
    assert {(name, row) for name in compared & EXCEPTIONS.keys() for row in EXCEPTIONS[name]} <= needed


def header_of(mad: bytes) -> type[Layout]:
    kinds: dict[int, type[Layout]] = {
        MgmtClass.SUBN_LID_ROUTED: LidRoutedSmp,
        MgmtClass.SUBN_DIRECTED_ROUTE: DirectedRouteSmp,
        MgmtClass.SUBN_ADM: SaHeader,
    }
    return kinds.get(mad[1], Mad)


def case_of(mad: bytes, *layouts: tuple[type[Layout], int], but: Iterable[str] = ()) -> Case:
    return Case(mad.ljust(MAD_SIZE, b"\0"), ((header_of(mad), 0), *layouts), frozenset(but))


# --- the MADs ---------------------------------------------------------------------------------------------------------


def payload(layout: type[Layout], dice: random.Random) -> bytes:
    """Random bytes; the text of a NodeDescription is text."""
    raw = layout(dice.randbytes(layout.size))
    values = {
        attr: "".join(dice.choices("abc XYZ-09'/;", k=40))
        for attr, row in layout.rows.items()
        if isinstance(row, TextRow)
    }
    return raw.replace(**values).raw


def smps() -> Iterator[Case]:
    dice = random.Random(1)
    for attribute_id, layout in KNOWN_ATTRIBUTES.items():
        for method in SMP_METHODS:
            for path in (None, (), (1, 4), tuple(dice.choices(range(1, 255), k=63))):
                mad = bytearray(
                    build_smp(
                        method,
                        attribute_id,
                        dice.getrandbits(32),
                        path=path,
                        data=payload(layout, dice),
                        m_key=dice.getrandbits(64),
                        transaction_id=dice.getrandbits(64),
                    )
                )
                if path is not None:
                    mad[6] = dice.randrange(64)
                    mad[32:36] = dice.randbytes(4)
                    mad[192:] = dice.randbytes(64)
                if method & 0x80:
                    mad[4:6] = (0x8000 * (path is not None) | dice.getrandbits(15)).to_bytes(2)
                yield case_of(bytes(mad), (layout, DATA_OFFSET))


def notices() -> Iterator[Case]:
    dice = random.Random(2)
    for number, details in DATA_DETAILS.items():
        raw = Notice(dice.randbytes(64)).replace(is_generic=1, trap_number=number).raw
        yield case_of(build_smp(Method.TRAP, 0x02, data=raw), (Notice, DATA_OFFSET), (details, DATA_OFFSET))
        sa = build_sa(Method.REPORT, 0x02, data=raw)
        yield case_of(sa, (Notice, SA_HEADER_SIZE), (details, SA_HEADER_SIZE))


def sa_mads() -> Iterator[Case]:
    dice = random.Random(3)
    for attribute_id, layout in SA_ATTRIBUTES.items():
        for method in SA_METHODS:
            mad = build_sa(
                method,
                attribute_id,
                modifier=dice.getrandbits(32),
                data=payload(layout, dice),
                sm_key=dice.getrandbits(64),
                component_mask=dice.getrandbits(64),
                attribute_offset=dice.getrandbits(16),
                status=dice.getrandbits(16),
                transaction_id=dice.getrandbits(64),
            )
            yield case_of(mad, (layout, SA_HEADER_SIZE))


def rmpp() -> Iterator[Case]:
    dice = random.Random(4)
    head = build_sa(Method.GET_TABLE_RESP, NodeRecord.attribute_id, sm_key=KEY, attribute_offset=14)
    data = payload(NodeRecord, dice) + dice.randbytes(900)
    first, *rest = split_segments(head, data)
    yield case_of(first, (NodeRecord, SA_HEADER_SIZE))
    yield from map(case_of, rest)
    ask = build_sa(Method.GET_TABLE, NodeRecord.attribute_id, sm_key=KEY)
    yield case_of(with_rmpp(ask, RmppType.ACK, ACTIVE, 0, dice.getrandbits(32), dice.getrandbits(32)))
    for kind in (RmppType.STOP, RmppType.ABORT):  # in which the standard reserves them
        yield case_of(with_rmpp(ask, kind, ACTIVE, 120), but=["SegmentNumber", "PayloadLength"])
    timed = bytearray(first)
    timed[26] |= 18 << 3  # the byte is 5 bits of RRespTime and 3 of flags; tshark takes 4 and 4
    yield case_of(bytes(timed), but=["RRespTime"])


def counters() -> Iterator[Case]:
    dice = random.Random(5)
    for attribute_id, layout in PERF_ATTRIBUTES.items():
        for method in (Method.GET, Method.SET, Method.GET_RESP):
            mad = bytearray(build_smp(method, attribute_id, transaction_id=dice.getrandbits(64)))
            mad[1] = MgmtClass.PERF_MGMT
            mad[DATA_OFFSET : DATA_OFFSET + layout.size] = payload(layout, dice)
            yield case_of(bytes(mad), (layout, performance.DATA_OFFSET))


def captured() -> Iterator[Case]:
    """Real MADs: those of the vectors, whose fields libibmad decoded."""
    for file in files("vectors/mads_*.json"):
        for vector in load(file)["vectors"]:
            for side in ("request", "response"):
                if vector.get(side) is None:
                    continue
                mad = bytes.fromhex(vector[side]["hex"])
                whole = mad.ljust(MAD_SIZE, b"\0")
                attribute = attribute_of(parse(whole))
                offset = SA_HEADER_SIZE if mad[1] == MgmtClass.SUBN_ADM else DATA_OFFSET
                if attribute is None or offset + attribute.size > len(mad):
                    yield case_of(mad)
                else:
                    yield case_of(mad, (type(attribute), offset))


@pytest.mark.parametrize("cases", [smps, notices, sa_mads, rmpp, counters, captured], ids=lambda cases: cases.__name__)
def test_every_field_is_what_tshark_finds(cases: Any, tmp_path: Path) -> None:
    compare(list(cases()), tmp_path)


def test_the_class_the_method_and_the_attribute_are_named_alike(tmp_path: Path) -> None:
    cases = [*smps(), *sa_mads()]
    for case, dissected in zip(cases, dissect([case.mad for case in cases], tmp_path), strict=True):
        mad = parse(case.mad)
        method = METHOD_NAMES[Method(mad.method)].replace("TrapRepress", "TrapResp")
        family = "SubnAdm" if mad.mgmt_class == MgmtClass.SUBN_ADM else "Subn"
        assert dissected.title.endswith(f" {family}{method}({attribute_name(mad.attribute_id, mad.mgmt_class)})")


def test_the_packet_around_a_mad_is_whole(tmp_path: Path) -> None:
    ask, answer = build_smp(Method.GET, 0x11), build_smp(Method.GET_RESP, 0x11)
    gmp = build_sa(Method.GET, 0x11)
    found = dissect([ask, answer, gmp], tmp_path)

    def values(dissected: Dissected) -> dict[str, int]:
        return {field.name: field.value for field in dissected.fields if field.byte < 0 or field.byte >= MAD_SIZE}

    common = {"lrh.lver": 0, "lrh.lnh": 2, "lrh.pktlen": 72, "bth.opcode": 0x64, "bth.p_key": 0xFFFF, "bth.padcnt": 0}
    smp = {**common, "lrh.vl": 15, "lrh.sl": 0, "bth.destqp": 0, "deth.q_key": 0, "deth.srcqp": 0}
    assert values(found[0]).items() >= {**smp, "lrh.slid": LOCAL_LID, "lrh.dlid": REMOTE_LID}.items()
    assert values(found[1]).items() >= {**smp, "lrh.slid": REMOTE_LID, "lrh.dlid": LOCAL_LID}.items()
    assert values(found[2]).items() >= {**common, "bth.destqp": 1, "deth.q_key": 0x80010000, "deth.srcqp": 1}.items()
    assert [each.complaint for each in found] == [""] * 3
    for dissected in found[:2]:  # of the SA's it shows the CRCs only behind some attributes
        assert [(f.byte, f.stop) for f in dissected.named("invariant.crc")] == [(MAD_SIZE, MAD_SIZE + 4)]
        assert [(f.byte, f.stop) for f in dissected.named("variant.crc")] == [(MAD_SIZE + 4, MAD_SIZE + 6)]
        assert dissected.fields[0].byte == -MAD_OFFSET


def test_masked_keys_are_zero_there_too(tmp_path: Path) -> None:
    trap = Notice.new(is_generic=1, trap_number=256).with_details(BadMKeyDetails.new(m_key=KEY)).raw
    mads = [
        build_smp(Method.SET, 0x15, data=KEY.to_bytes(8) + bytes(56), m_key=KEY),
        build_sa(Method.GET_RESP, PortInfoRecord.attribute_id, data=PortInfoRecord.new(m_key=KEY).raw, sm_key=KEY),
        build_smp(Method.TRAP, 0x02, data=trap),
    ]
    names = ["smplid.mkey", "portinfo.m_key", "sa.smkey", "trap.mkey"]
    for show_keys, value in ((True, KEY), (False, 0)):
        found = dissect(mads, tmp_path, show_keys)
        keys = {name: {f.value for each in found for f in each.named(name)} for name in names}
        assert keys == {name: {value} if name != "smplid.mkey" else {value, 0} for name in names}


def test_a_node_description_is_read_to_its_end(tmp_path: Path) -> None:
    raw = NodeDescription.new(node_description="gpu-a03 mlx5_0").raw
    [found] = dissect([build_smp(Method.GET_RESP, 0x10, data=raw)], tmp_path)
    assert [field.shown for field in found.named("nodedescription.nodestring")] == ["gpu-a03 mlx5_0"]

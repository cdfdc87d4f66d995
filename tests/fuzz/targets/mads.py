"""MADs from the wire: decoded, shown and masked; the SA's answers; RMPP; traps, by Report and by OpenSM's log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache

from ibkeys.client.report_port import TrapReport
from ibkeys.client.rmpp import RmppReceiver
from ibkeys.mad import decode as decoding
from ibkeys.mad.classes.gmp import KEY_CLASS_OF
from ibkeys.mad.classes.notices import details_of
from ibkeys.mad.const import MAD_SIZE, MgmtClass
from ibkeys.mad.inform import ReportNotice
from ibkeys.mad.masking import masked
from ibkeys.mad.notice import Notice
from ibkeys.mad.sa import SA_DATA_SIZE, RmppType, with_rmpp
from ibkeys.watch.log_events import event_of_log
from ibkeys.watch.names import Names
from ibkeys.watch.notices import event_of_report
from ibkeys.watch.opensm_log import LogReader
from tests import corpus
from tests.fabricsim import subnet, tool
from tests.fuzz.target import Choices, Target
from tests.watch.loglines import AT_SWITCH, M_KEY, Q_KEY

_ATTRIBUTES = sorted(decoding.ATTRIBUTES_BY_NAME)
_NOW = datetime(2026, 11, 23, 4, 0, tzinfo=UTC)


# --- whole MADs -------------------------------------------------------------------------------------------------------


def _mad(data: bytes) -> None:
    """Decode a MAD of any class, with and without keys, mask it, name it."""
    without = masked(data)
    assert len(without) == len(data)
    assert masked(without) == without
    assert "\n" not in decoding.summary(data)
    decoding.decode(without)
    for show_keys in (False, True):
        decoding.decode(data, show_keys=show_keys)


def _attribute(data: bytes) -> None:
    """Decode the payload of an attribute, named by the first byte."""
    name = _ATTRIBUTES[data[0] % len(_ATTRIBUTES)] if data else _ATTRIBUTES[0]
    size = decoding.ATTRIBUTES_BY_NAME[name].size
    decoding.decode(data[1 : size + 1].ljust(size, b"\0"), name, show_keys=bool(data and data[0] & 0x80))
    decoding.decode(data[1:], name)


def _mads() -> Iterator[bytes]:
    for file in corpus.files("vectors/mads_ibsim.json")[:1]:
        for each in corpus.load(file)["vectors"][::12]:
            for side in ("request", "response"):
                if each.get(side):
                    yield bytes.fromhex(each[side]["hex"])
    for mgmt_class in (MgmtClass.SUBN_ADM, MgmtClass.PERF_MGMT, *KEY_CLASS_OF):
        for attribute in (1, 2, 0x10, 0x11, 0x12, 0x20, 0x31, 0x33, 0x35, 0x38):
            yield (bytes((1, mgmt_class, 2, 0x81)) + bytes(12) + attribute.to_bytes(2)).ljust(MAD_SIZE, b"\1")


def _payloads() -> Iterator[bytes]:
    for number, name in enumerate(_ATTRIBUTES):
        yield bytes((number,)) + bytes(decoding.ATTRIBUTES_BY_NAME[name].size)


# --- an answer in segments --------------------------------------------------------------------------------------------


def _rmpp(data: bytes) -> None:
    """Segments in any order and of any content; each is type, flags, status, number, length and a few bytes."""
    choices = Choices(data)
    receiver = RmppReceiver(window=4, max_segments=64)
    kept = 0
    while choices:
        kind, flags, status = choices.number(), choices.number(), choices.number()
        number, length = choices.number(2), choices.number(2)
        size = SA_DATA_SIZE if flags & 0x80 else choices.number()
        head = bytes((1, MgmtClass.SUBN_ADM, 2, 0x92)).ljust(MAD_SIZE - SA_DATA_SIZE, b"\0")
        mad = with_rmpp(head + choices.take(4).ljust(size, b"\7"), kind, flags, status & 0x0F, number, length)
        answer = receiver.take(mad)
        assert answer is None or len(answer) == MAD_SIZE
        kept += 1
    if receiver.is_complete:
        assert len(receiver.answer) <= kept * SA_DATA_SIZE
    else:
        receiver.answer  # noqa: B018 - raises TransferFailed


def _transfers() -> Iterator[bytes]:
    def segment(number: int, flags: int, length: int, kind: int = RmppType.DATA) -> bytes:
        return bytes((kind, 0x80 | flags, 0)) + number.to_bytes(2) + length.to_bytes(2) + b"abcd"

    yield segment(1, 7, 40)
    yield segment(1, 3, 0) + segment(2, 1, 0) + segment(3, 5, 100)
    yield segment(1, 3, 640) + segment(3, 5, 200) + segment(2, 1, 0)
    yield segment(1, 3, 0) + segment(0, 1, 0, RmppType.ACK) + segment(0, 1, 0, RmppType.ABORT)


# --- traps ------------------------------------------------------------------------------------------------------------


@cache
def _names() -> Names:
    with tool(subnet("two-switch")) as fabric:
        names = Names()
        names.learn(fabric.sweep())
    return names


def _trap(data: bytes) -> None:
    """A Report of the SA: the Notice and the GID of who sent it; the same Notice of a class with a key of its own."""
    reported = ReportNotice(data[: ReportNotice.size].ljust(ReportNotice.size, b"\0"))
    reported.to_json()
    masked = reported.masked()
    event = event_of_report(TrapReport(masked.notice, masked.issuer_gid, 1, 0.0), _names(), "now")
    assert event.kind
    notice = Notice(reported.raw[: Notice.size])
    for mgmt_class in KEY_CLASS_OF:
        details = details_of(notice, mgmt_class)
        if details is not None:
            details.to_json()
            details.masked()


def _notices() -> Iterator[bytes]:
    for file in corpus.files("vectors/fields_notice.json")[:1]:
        for each in corpus.load(file)["vectors"]:
            yield bytes.fromhex(each["hex"]).ljust(ReportNotice.size, b"\0")


def _log(data: bytes) -> None:
    """Lines of OpenSM's log."""
    reader = LogReader()
    notices = []
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n")):
        notices += reader.take(line, float(number))
    for notice in (*notices, *reader.overdue(1e9)):
        event_of_log(notice, _names(), _NOW)


def _log_lines() -> Iterator[bytes]:
    for lines in (AT_SWITCH, Q_KEY, M_KEY):
        yield "\n".join(lines).encode()


_LOG_WORDS = (
    b"Received Generic Notice", b"Reporting Generic Notice", b"type:2 num:256", b"num:258", b"num:259", b"LID:",
    b"GID:fe80::1", b"KEY:0x", b"[C5FFB700] 0x01 -> ", b"Feb 29 24:61:61 ", b"bad M_Key", b"QP1:0x", b"lid1:", b"SL:",
)  # fmt: skip

TARGETS = (
    Target("mad", _mad, _mads, largest=300),
    Target("attribute", _attribute, _payloads, largest=300),
    Target("rmpp", _rmpp, _transfers, largest=600),
    Target("trap", _trap, _notices, largest=ReportNotice.size),
    Target("opensm-log", _log, _log_lines, _LOG_WORDS),
)

"""-d and --pcap: what they show of the MADs, and that keys stay out."""

from __future__ import annotations

import stat
import struct
from pathlib import Path

import pytest

from ibkeys.errors import StoreError
from ibkeys.mad.const import Method
from ibkeys.mad.notice import BadMKeyDetails, Notice
from ibkeys.mad.records import PortInfoRecord
from ibkeys.mad.sa import build_sa
from ibkeys.mad.smp import build_smp
from ibkeys.umad.pcap import PcapFile, frame_of
from ibkeys.umad.port import Incoming, Outgoing
from ibkeys.umad.tap import Tap, Trace
from tests.cli.conftest import KEY, Cli


def smp(method: int = Method.SET) -> bytes:
    data = KEY.to_bytes(8) + bytes(56)
    return build_smp(method, 0x15, 1, path=(1, 4), data=data, m_key=KEY)


def frames(path: Path) -> list[bytes]:
    """Return what is in the ERF records of a capture file; check what is around it."""
    raw = path.read_bytes()
    assert struct.unpack("<IHHiIII", raw[:24]) == (0xA1B2C3D4, 2, 4, 0, 0, 65535, 197)
    found, at = [], 24
    while at < len(raw):
        seconds, micros, kept, length = struct.unpack_from("<IIII", raw, at)
        time, kind, flags, record, lost, wire = struct.unpack_from("<Q", raw, at + 16) + struct.unpack_from(
            ">BBHHH", raw, at + 24
        )
        assert (kept, record % 8) == (length, 0)
        assert (kind, flags, record, lost) == (21, 4, kept, 0)
        assert (time >> 32, (time & 0xFFFFFFFF) * 10**6 >> 32) == (seconds, micros)
        found.append(raw[at + 32 : at + 32 + wire])
        assert not any(raw[at + 32 + wire : at + 16 + kept])
        at += 16 + kept
    return found


def test_debug_names_each_mad_and_its_attribute(cli: Cli) -> None:
    result = cli("pkey-show", 2, "-d")
    assert result.code == 0
    lines = result.err.splitlines()
    assert any(line.startswith("> Get(P_KeyTable, modifier 0x0) tid 0x") for line in lines)
    assert any(line.startswith("< GetResp(P_KeyTable, ") for line in lines)
    assert any(line.startswith("    PKeyTable(p_keys=") for line in lines)


def test_trace_masks_keys() -> None:
    lines: list[str] = []
    trace = Trace(lines.append)
    trace.sent(Outgoing(smp()), 0)
    trace.received(Incoming(smp(Method.GET_RESP)))
    trace.sent(Outgoing(smp(Method.GET)), 22)
    trace.received(Incoming(smp()[:24], 110))
    assert f"{KEY:x}" not in "\n".join(lines)
    assert lines[0] == "> Set(PortInfo, modifier 0x1) route 0,1,4 tid 0x0"
    assert lines[-2].endswith("refused: errno 22")
    assert lines[-1] == "< timeout of tid 0x0"


def test_pcap_holds_every_mad(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    assert cli("pkey-show", 2, "--pcap", path, "-v").code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    packets = frames(path)
    assert len(packets) % 2 == 0
    for packet in packets:
        assert len(packet) == 8 + 12 + 8 + 256 + 6
        assert packet[28:30] in (b"\x01\x01", b"\x01\x81")


@pytest.mark.parametrize(("show_keys", "expected"), [(False, 0), (True, 4)])
def test_pcap_zeroes_keys_unless_asked(tmp_path: Path, show_keys: bool, expected: int) -> None:
    path = tmp_path / "a.pcap"
    capture = PcapFile(path, 5, show_keys, clock=lambda: 1.5)
    capture.sent(Outgoing(smp()), 0)
    capture.received(Incoming(smp(Method.GET_RESP), 0, 9))
    capture.received(Incoming(smp()[:24], 110))
    capture.sent(Outgoing(smp()), 22)
    capture.close()
    capture.close()
    assert len(frames(path)) == 2
    assert path.read_bytes().count(KEY.to_bytes(8)) == expected


@pytest.mark.parametrize(("show_keys", "expected"), [(False, 0), (True, 4)])
def test_pcap_zeroes_the_keys_of_the_sa_and_of_trap_256(tmp_path: Path, show_keys: bool, expected: int) -> None:
    path = tmp_path / "a.pcap"
    trap = Notice.new(is_generic=1, trap_number=256).with_details(BadMKeyDetails.new(m_key=KEY)).raw
    capture = PcapFile(path, 5, show_keys)
    capture.sent(Outgoing(build_smp(Method.TRAP, Notice.attribute_id, data=trap)), 0)
    record = PortInfoRecord.new(m_key=KEY).raw
    capture.received(Incoming(build_sa(Method.GET_RESP, 0x12, data=record, sm_key=KEY), 0, 9, 1))
    capture.sent(Outgoing(build_sa(Method.GET, 0x0002, data=trap), lid=9, qpn=1), 0)
    capture.close()
    assert len(frames(path)) == 3
    assert path.read_bytes().count(KEY.to_bytes(8)) == expected


def test_pcap_overwrites_and_closes_what_others_could_read(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(bytes(1000))
    path.chmod(0o644)
    PcapFile(path).close()
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_size) == (0o600, 24)


def test_pcap_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write the capture"):
        PcapFile(tmp_path / "no" / "a.pcap")
    with pytest.raises(StoreError, match="is a device, not a regular file"):
        PcapFile(Path("/dev/full"))


def test_frame_of_an_smp() -> None:
    frame = frame_of(smp(), 5, 0xFFFF, 0)
    # VL 15, link version 0; SL 0, LNH 2 (BTH); DLID; packet length in words up to the ICRC; SLID
    assert frame[:8] == bytes.fromhex("f002ffff00480005")
    # UD send only, P_Key 0xffff, QP 0
    assert frame[8:20] == bytes.fromhex("6400ffff" + "00000000" + "00000000")
    assert frame[20:28] == bytes(8)


def test_frame_of_a_gmp() -> None:
    frame = frame_of(smp(), 5, 3, 1, sl=2)
    assert frame[:8] == bytes.fromhex("0022000300480005")
    assert frame[12:16] == bytes.fromhex("00000001")
    assert frame[20:28] == bytes.fromhex("8001000000000001")


def test_tap_closes_all_even_when_one_fails() -> None:
    closed: list[str] = []

    class Port:
        ca_name, port = "sim0", 1

        def close(self) -> None:
            closed.append("port")

    class Observer(Trace):
        def close(self) -> None:
            closed.append("observer")
            raise StoreError("full")

    tap = Tap(Port(), [Observer(print), Observer(print)])  # type: ignore[arg-type]
    with pytest.raises(StoreError):
        tap.close()
    assert closed == ["port", "observer", "observer"]

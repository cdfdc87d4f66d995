"""Writing MADs to a capture file for Wireshark.

A received MAD has lost its packet headers, so they are made up: LRH, BTH and DETH as the standard has them for
management packets (IBA 7.7, 9.2, 9.3.2), with CRCs of zero. Each packet is in a record of type 21 of the Extensible
Record Format (ERF, link type 197), because Wireshark 4.0 does not know link type 247, which is meant for raw
InfiniBand.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Final

from ibkeys import files
from ibkeys.errors import StoreError
from ibkeys.mad.const import MAD_SIZE, QP1_Q_KEY
from ibkeys.mad.masking import masked
from ibkeys.umad.port import Incoming, Outgoing

LINKTYPE_ERF: Final = 197
ERF_INFINIBAND: Final = 21
_FILE_HEADER: Final = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, LINKTYPE_ERF)
_ERF_TIME: Final = struct.Struct("<Q")  # units of 2**-32 seconds; little-endian, unlike the other fields
_ERF: Final = struct.Struct(">BBHHH")
_ERF_VARYING_LENGTH: Final = 4
_ERF_ALIGNMENT: Final = 8
_LRH: Final = struct.Struct(">BBHHH")
_BTH: Final = struct.Struct(">BBHII")
_DETH: Final = struct.Struct(">II")
_LNH_BTH: Final = 2
_UD_SEND_ONLY: Final = 0x64
_CRCS: Final = bytes(6)  # ICRC and VCRC
_WORDS: Final = (_LRH.size + _BTH.size + _DETH.size + MAD_SIZE + 4) // 4  # PktLen counts up to the ICRC


class PcapFile:
    """An observer of a `Tap` that writes every whole MAD to *path*, a new file of mode 0600 in place of an older one.

    An inherited descriptor, such as /dev/stdout, is written to as it is. Unless *show_keys*, only known fields that are
    not keys are written (`masked`). *local_lid*: this port's LID, for the made-up headers. *clock*: returns the
    seconds since 1970. Each method raises StoreError when the file cannot be written.
    """

    def __init__(
        self, path: Path, local_lid: int = 0, show_keys: bool = False, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._lid = local_lid
        self._show_keys = show_keys
        self._clock = clock
        with self._as_one_error():
            self._file: BinaryIO = files.create_output(path)
            self._file.write(_FILE_HEADER)

    def sent(self, mad: Outgoing, errno: int) -> None:
        """Write a MAD that was sent, unless the kernel refused it."""
        if not errno:
            self._write(mad.mad, self._lid, mad.lid, mad.qpn, mad.sl)

    def received(self, mad: Incoming) -> None:
        """Write a MAD that was received, unless it is the report of a timeout."""
        if not mad.status:
            self._write(mad.mad, mad.lid, self._lid, mad.qpn, 0)

    def close(self) -> None:
        """Flush and close the file. Safe to call twice."""
        with self._as_one_error():
            self._file.close()

    def _write(self, raw: bytes, source: int, destination: int, qpn: int, sl: int) -> None:
        if len(raw) != MAD_SIZE:
            return
        frame = frame_of(raw if self._show_keys else masked(raw), source, destination, qpn, sl)
        ticks = int(self._clock() * (1 << 32))
        record = erf_of(frame, ticks)
        microseconds = (ticks & 0xFFFFFFFF) * 1_000_000 >> 32
        header = struct.pack("<IIII", ticks >> 32, microseconds, len(record), len(record))
        with self._as_one_error():
            self._file.write(header + record)

    def _as_one_error(self) -> AbstractContextManager[None]:
        return files.os_errors_as(StoreError, f"{self._path}: cannot write the capture")


def erf_of(frame: bytes, ticks: int) -> bytes:
    """Return *frame* in an ERF record, padded to a multiple of 8 bytes. *ticks*: time since 1970 in units of 2**-32
    seconds."""
    whole = _ERF_TIME.size + _ERF.size + len(frame)
    padding = -whole % _ERF_ALIGNMENT
    header = _ERF.pack(ERF_INFINIBAND, _ERF_VARYING_LENGTH, whole + padding, 0, len(frame))
    return _ERF_TIME.pack(ticks) + header + frame + bytes(padding)


def frame_of(mad: bytes, source: int, destination: int, qpn: int, sl: int = 0) -> bytes:
    """Return *mad* in a made-up packet from LID *source* to LID *destination*; *qpn*: 0 for an SMP (on VL 15), 1 for a
    GMP."""
    is_gmp = qpn != 0
    lrh = _LRH.pack(0 if is_gmp else 0xF0, sl << 4 | _LNH_BTH, destination & 0xFFFF, _WORDS, source & 0xFFFF)
    bth = _BTH.pack(_UD_SEND_ONLY, 0, 0xFFFF, 1 if is_gmp else 0, 0)
    deth = _DETH.pack(QP1_Q_KEY if is_gmp else 0, 1 if is_gmp else 0)
    return lrh + bth + deth + mad + _CRCS

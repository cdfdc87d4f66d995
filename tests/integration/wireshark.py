"""Wireshark's dissector as a decoder that is not ours: MADs through ``--pcap``'s file and tshark, into fields.

One process for any number of MADs. The file is made by the code that ``--pcap`` runs, so it is tested as well.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from ibkeys.umad.pcap import MAD_SIZE, PcapFile
from ibkeys.umad.port import Incoming, Outgoing

MAD_OFFSET = 8 + 12 + 8
"""Bytes of LRH, BTH and DETH before the MAD."""
LOCAL_LID, REMOTE_LID = 5, 9
PREFIX = "infiniband."


@dataclass(frozen=True)
class Field:
    """A field as tshark found it: its name without ``infiniband.``, the bytes of the MAD it lies in, its value.

    ``shown``: the value as tshark prints it.
    """

    name: str
    byte: int
    stop: int
    value: int
    shown: str


@dataclass(frozen=True)
class Dissected:
    """One MAD as tshark sees it. ``title``: class, method and attribute in words; ``complaint``: what it stopped at."""

    fields: tuple[Field, ...]
    title: str
    complaint: str

    def named(self, name: str) -> list[Field]:
        """Return the fields of a name, in order."""
        return [field for field in self.fields if field.name == name]


def dissect(mads: Iterable[bytes], folder: Path, show_keys: bool = True) -> list[Dissected]:
    """Return what tshark says of *mads*, each of 256 bytes; a reply is written as one that came in."""
    path = folder / "mads.pcap"
    capture = PcapFile(path, LOCAL_LID, show_keys)
    count = 0
    for mad in mads:
        assert len(mad) == MAD_SIZE
        qpn = 0 if mad[1] in (0x01, 0x81) else 1
        if mad[3] & 0x80:
            capture.received(Incoming(mad, 0, REMOTE_LID, qpn))
        else:
            capture.sent(Outgoing(mad, lid=REMOTE_LID, qpn=qpn), 0)
        count += 1
    capture.close()
    found = list(_packets(path))
    assert len(found) == count
    return found


def _packets(path: Path) -> Iterator[Dissected]:
    program = shutil.which("tshark")
    assert program is not None, "tshark is not installed: apt-get install tshark"
    done = subprocess.run(
        [program, "-n", "-r", path, "-T", "pdml"], capture_output=True, text=True, check=True, timeout=300
    )
    for packet in ElementTree.fromstring(done.stdout).iterfind("packet"):
        fields, title, complaint = [], "", ""
        for each in packet.iter("field"):
            name, value, words = each.get("name", ""), each.get("value"), each.get("showname", "")
            if name == "_ws.expert":
                complaint = words
            elif name.startswith(PREFIX) and value:
                byte = int(each.get("pos", "")) - MAD_OFFSET
                stop = byte + int(each.get("size", ""))
                fields.append(Field(name.removeprefix(PREFIX), byte, stop, int(value, 16), each.get("show", "")))
                if byte == 0 and stop == MAD_SIZE:
                    title = words
        yield Dissected(tuple(fields), title, complaint)

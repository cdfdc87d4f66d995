"""A reading of a simulated fabric, and what an archive of it holds."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ibkeys
from ibkeys.hardware.catalogue import all_findings
from ibkeys.hardware.check import CheckAnswer
from ibkeys.hardware.reading import FabricReading
from ibkeys.hardware.report import HardwareReport
from ibkeys.keys.smkey import SMKey
from ibkeys.scripting import Fabric
from ibkeys.umad.port import LocalPort, UmadPort
from tests import documents


def look_at(fabric: Fabric, sm_key: int | None = None) -> FabricReading:
    """Return a reading through an open simulated port."""
    umad: Any = fabric.umad
    return FabricReading(fabric, lambda: (umad.local_ca(),), SMKey(sm_key) if sm_key is not None else None)


def open_far(reading: FabricReading) -> Callable[[LocalPort], UmadPort]:
    """Return what opens another port of the host that *reading* is on."""
    umad: Any = reading.fabric.umad
    return lambda port: ibkeys.open_port(umad.subnet, ibkeys.Local(None, port.port, umad.home.node.guid))


def answers(reading: FabricReading) -> dict[str, CheckAnswer]:
    """Make all checks; return what they found, by id."""
    return {finding.id: finding.answer for finding in all_findings(reading)}


def archived(reading: FabricReading, path: Path, hashed: bool = False) -> dict[str, bytes]:
    """Make a report of all checks, write it to *path*, and return the files in it."""
    return written(HardwareReport(reading, list(all_findings(reading)), hashed=hashed), path)


def written(report: HardwareReport, path: Path) -> dict[str, bytes]:
    """Write *report* to *path*, and return the files in it."""
    report.write(path)
    return unpacked(path)


def unpacked(path: Path) -> dict[str, bytes]:
    """Return the files of an archive, by name without the folder; report.json is held against its schema."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes()), mode="r:gz") as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.partition("/")[2]] = file.read()
    documents.check(found.get("report.json", b"").decode())
    return found


def forms(key: int) -> list[bytes]:
    """Return what a key can be searched for in a file: hex, decimal, and its bytes in both orders."""
    turned = int.from_bytes(key.to_bytes(8), "little")
    texts = [f"{number:{kind}}" for number in (key, turned) for kind in ("x", "X", "016x", "d")]
    texts += [":".join(f"{byte:02x}" for byte in number.to_bytes(8)) for number in (key, turned)]
    return [*(text.encode() for text in texts), key.to_bytes(8, "big"), key.to_bytes(8, "little")]


def held(contents: Mapping[str, bytes], keys: list[int]) -> list[str]:
    """Return in which files any form of *keys* stands."""
    return [name for name, data in contents.items() if any(form in data for key in keys for form in forms(key))]

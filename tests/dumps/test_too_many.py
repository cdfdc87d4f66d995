"""Files that claim more than any fabric has. Damaged ones: ``tests/fuzz/targets/imports.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.dumps.importing import import_files
from ibkeys.errors import FileFormatError
from tests.dumps.bringing import SECRET, write


def test_very_many_switches_that_claim_all_ports_are_refused(tmp_path: Path) -> None:
    lines = [f'switchguid=0x{number:x}\nSwitch\t254 "S-{number:x}"\t# "x"\n' for number in range(1, 4000)]
    path = write(tmp_path, "".join(lines), "many")
    with pytest.raises(FileFormatError, match="which no fabric has"):
        import_files([path], SECRET)

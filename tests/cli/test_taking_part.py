"""How much of ibkeys takes part in reading one port: the bounds fall, and what is added there needs a reason."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.bench.scale import ROOT

MOST_FILES = 45
MOST_FUNCTIONS = 180
"""Two of them check the values of scripts, such as `Timing`, which commands make too."""


def test_a_read_of_one_port_takes_few_files_and_functions() -> None:
    """In a process of its own: modules that another test has imported would count differently."""
    script = [sys.executable, "-m", "tests.bench.taking_part"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "1 of 64 P_Key entries in use" in done.stdout
    found = re.match(r"(\d+) files, (\d+) functions\n", done.stderr)
    assert found is not None, done.stderr
    assert int(found[1]) <= MOST_FILES, done.stderr
    assert int(found[2]) <= MOST_FUNCTIONS, done.stderr

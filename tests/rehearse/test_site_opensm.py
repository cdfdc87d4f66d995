"""Which OpenSM a rehearsal starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.errors import UsageError
from ibkeys.rehearse.site_opensm import find_opensm


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "opensm"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_command_line_names_program_options_file_and_files(program: Path, tmp_path: Path) -> None:
    (tmp_path / "o.conf").write_text("lmc 1\n")
    found = find_opensm(f"{program} -F {tmp_path}/o.conf -P 'a b.conf'")
    assert (found.program, found.source, found.config) == (program, "named", tmp_path / "o.conf")
    assert found.command.option("partition_config_file") == "a b.conf"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("", "give a command line of OpenSM"),
        ("'", "No closing quotation"),
        ("/nonexistent/opensm", "no such program"),
        ("{program} --no-such-option", "words that OpenSM 3.3.23 does not know"),
        ("{program} -- -F x", "words that OpenSM 3.3.23 does not know"),
        ("{program} -c out", "OpenSM ends by itself"),
        ("{program} -o", "OpenSM ends by itself"),
        ("{program} -F /nonexistent/opensm.conf", "options file does not exist"),
    ],
)
def test_what_cannot_be_rehearsed_is_refused(program: Path, words: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        find_opensm(words.format(program=program))


def test_a_file_that_is_no_regular_file_is_refused_and_a_missing_one_is_none(program: Path, tmp_path: Path) -> None:
    found = find_opensm(str(program))
    assert found.read(str(tmp_path / "none")) is None
    with pytest.raises(UsageError, match="cannot be copied"):
        found.read("/dev/zero")

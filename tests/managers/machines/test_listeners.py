"""What is closed to others of an OpenSM's files, and what is not, because that OpenSM or other programs need it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ibkeys.host.file_access import FileFact, stat_file
from ibkeys.managers.files.listeners import hindrance_to_closing, remove_others_rights
from ibkeys.managers.machines.this_host import THIS

SOMEBODY = 31337


def fact(folder: Path, mode: int) -> FileFact:
    return replace(stat_file(folder), mode=mode)


@pytest.mark.parametrize(("user", "mode"), [(0, 0o600), (os.geteuid(), 0o600), (SOMEBODY, 0o644)])
def test_a_log_is_closed_only_where_its_opensm_can_still_use_it(tmp_path: Path, user: int, mode: int) -> None:
    log = tmp_path / "opensm.log"
    log.touch()
    log.chmod(0o644)
    assert remove_others_rights(THIS, log, user) == (mode == 0o600)
    assert log.stat().st_mode & 0o7777 == mode


@pytest.mark.parametrize(
    ("mode", "user", "words"),
    [
        (0o755, 0, ""),
        (0o700, SOMEBODY, ""),
        (0o1777, 0, "everybody may write"),
        (0o777, 0, "everybody may write"),
        (0o775, SOMEBODY, f"that OpenSM runs as UID {SOMEBODY}"),
    ],
)
def test_a_folder_that_others_need_is_not_closed(tmp_path: Path, mode: int, user: int, words: str) -> None:
    said = hindrance_to_closing(tmp_path, fact(tmp_path, mode), user)
    assert words in said
    assert bool(said) == bool(words)


def test_a_folder_that_is_not_there_yet_hinders_nothing(tmp_path: Path) -> None:
    assert hindrance_to_closing(tmp_path, None, SOMEBODY) == ""

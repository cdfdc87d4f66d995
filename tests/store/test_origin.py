"""Who made a change: the user that the process runs as, and the one who logged in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ibkeys.store.origin import this_process, user_name

NAMES = {0: "root", 1000: "alice"}


@pytest.mark.parametrize(
    ("uid", "login", "name"),
    [
        (0, "1000", "root (login alice)"),
        (0, "0", "root"),
        (1000, "1000\n", "alice"),
        (0, "4294967295", "root"),
        (0, "", "root"),
    ],
)
def test_sudo_does_not_hide_who_logged_in(tmp_path: Path, uid: int, login: str, name: str) -> None:
    file = tmp_path / "loginuid"
    file.write_text(login)
    assert user_name(lambda: uid, file, NAMES.__getitem__) == name


def test_without_an_audit_system_the_user_alone_is_known(tmp_path: Path) -> None:
    assert user_name(lambda: 1000, tmp_path / "missing", NAMES.__getitem__) == "alice"


def test_a_user_without_a_name_is_told_by_number(tmp_path: Path) -> None:
    assert user_name(lambda: 3_999_999_999, tmp_path / "missing") == "uid 3999999999"


def test_of_this_process() -> None:
    origin = this_process({"stale", "active-sm"}, ["--first 3"])
    assert origin.host == os.uname().nodename
    assert (origin.overrides, origin.options) == (("active-sm", "stale"), ("--first 3",))

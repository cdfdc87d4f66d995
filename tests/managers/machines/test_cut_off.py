"""A connection or a program on another host that ends anywhere: the old or the new file is there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ibkeys.errors import HostNotReached
from ibkeys.store.journal import Journal
from tests.managers.machines.there import NEW, OLD, There, cutting, names
from tests.sample import in_soak
from tests.store.journaled import recorded


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("before", "after"), [(OLD, NEW * 1000), (None, NEW), (OLD, None)])
def test_a_connection_that_is_cut_anywhere_leaves_the_old_or_the_new_file(
    tmp_path: Path, journal: Journal, file: Path, whole: bool, before: bytes | None, after: bytes | None
) -> None:
    there = There(tmp_path / "there")
    found = set()
    for number in range(1, 100):
        file.unlink(missing_ok=True)
        if before is not None:
            file.write_bytes(before)
        try:
            with there.machine(cutting(number, whole)) as host, journal.operation("apply") as operation:
                host.replace(operation, host.look(file), after)
                break
        except ConnectionResetError:
            pass
        now = file.read_bytes() if file.exists() else None
        assert now in (before, after)
        found.add(now)
        assert set(names(file.parent)) <= {file.name}, "the program there ended, and took what was beside along"
    assert number > 4
    assert found == ({before, after} if whole else {before})


STEPS = ("cp", "mv", "sync", "ln", "rm", "stat", "sha256sum", "base64", "head", "touch", "chmod", "tr", "ls", "cut")


@pytest.mark.parametrize("when", [in_soak("before"), "after"])
@pytest.mark.parametrize(("before", "after"), [in_soak(OLD, NEW), (None, NEW), in_soak(OLD, None)])
def test_a_program_that_is_killed_anywhere_leaves_the_old_or_the_new_file(
    tmp_path: Path, journal: Journal, file: Path, when: str, before: bytes | None, after: bytes | None
) -> None:
    there = There(tmp_path / "there")
    count, last = there.tools / "count", there.tools / "last"
    for step in STEPS:
        real, die = shutil.which(step, path="/usr/bin:/bin"), f'[ "$n" -lt "$(/bin/cat {last})" ] || kill -9 0'
        counted = f"echo >>{count}; n=$(wc -l <{count})"
        there.tool(
            step,
            f'{counted}; {die}; exec {real} "$@"'
            if when == "before"
            else f'{counted}; {real} "$@"; s=$?; {die}; exit $s',
        )
    found, dirty = set(), 0
    for number in range(1, 200):
        file.unlink(missing_ok=True)
        if before is not None:
            file.write_bytes(before)
        count.write_text("")
        last.write_text(str(number))
        try:
            with there.machine() as host, journal.operation("apply") as operation:
                host.replace(operation, host.look(file), after)
                break
        except HostNotReached:
            pass
        now = file.read_bytes() if file.exists() else None
        assert now in (before, after)
        found.add(now)
        dirty += len(names(file.parent)) > 1
        last.write_text("9999")
        if operation.id is not None:
            entries = journal.files(operation.id)
            assert now == before or entries[0].status == "pending", "what may have been replaced is not failed"
            with there.machine() as host:
                assert host.clean_up(recorded(entries)).foreign == ()
        assert set(names(file.parent)) <= {file.name}
    assert number > 8
    assert found == {before, after}
    assert dirty or after is None

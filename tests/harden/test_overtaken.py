"""Which part_enforce of an options file is somebody else's, and the end of a change that did not end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused, UsageError
from ibkeys.harden import enforcement
from ibkeys.harden.enforcement import plan_restoring, why_not_finishable
from ibkeys.harden.enforcement_run import ABORT, EnforcementPlan
from ibkeys.harden.overtaken import (
    JournaledValue,
    close_overtaken,
    journaled_values,
    refuse_changed_files,
    unfinished_changes,
)
from ibkeys.harden.step import COMMAND, HardenRequest
from ibkeys.managers.files.opensm_file import FileKey, OpensmFile
from ibkeys.store.journal import FileImage, Journal, OperationRecord, OperationState
from ibkeys.store.origin import this_process
from tests.fabricsim import subnet, tool

PATH, STANDBY = "/etc/opensm/opensm.conf", "/etc/opensm/standby.conf"
HARDENED = {("", PATH): JournaledValue("off", is_hardened=True)}
TAKEN_BACK = {("", PATH): JournaledValue("off", is_hardened=False)}
LEFT = cast(list[OperationRecord], [SimpleNamespace(id=9, undoes=7, started="2026-01-01T00:00:00Z", command="undo")])
Row = tuple[str, OperationState, Sequence[tuple[str, str, str]]]
"""An operation of the journal: command, state, and path and value of each file, before and after."""
FORTH: Row = (COMMAND, "done", [(PATH, "off", "both")])
BACK: Row = (ABORT, "done", [(PATH, "both", "off")])
ENDED: Row = ("--overtaken", "undone", [])
"""Ends what has not ended before; no operation of the journal."""


def text_with(value: str) -> bytes:
    return f"part_enforce {value}\n".encode()


def file_with(value: str, path: str = PATH) -> OpensmFile:
    conf = SimpleNamespace(key=("", path), name=path, data=text_with(value), seen=SimpleNamespace(found=None))
    return cast(OpensmFile, conf)


@pytest.mark.parametrize(("own", "value"), [(HARDENED, "both"), (HARDENED, "off"), (TAKEN_BACK, "off")])
def test_what_a_change_found_or_wrote_is_its_own(own: Mapping[FileKey, JournaledValue], value: str) -> None:
    refuse_changed_files([file_with(value)], own, LEFT)


@pytest.mark.parametrize(
    ("left", "way_on"),
    [(LEFT, "`ibkeys resume 7 --overtaken`"), ([], "`ibkeys harden --via opensm`")],
    ids=["open", "ended"],
)
@pytest.mark.parametrize(("own", "value"), [(HARDENED, "out"), (TAKEN_BACK, "both")])
def test_another_value_is_refused_with_a_command_that_leads_on(
    own: Mapping[FileKey, JournaledValue], value: str, left: list[OperationRecord], way_on: str
) -> None:
    with pytest.raises(Refused, match="another user or program has changed") as caught:
        refuse_changed_files([file_with(value)], own, left)
    assert caught.value.interlock == "overtaken"
    assert way_on in caught.value.more


# --- what the journal knows -------------------------------------------------------------------------------------------


@contextmanager
def journal_of(folder: Path, rows: Sequence[Row]) -> Iterator[ChangeWriter]:
    """Give a writer of an undo whose journal has these operations."""
    stores = {"journal": folder / "journal.db", "keystore": folder / "keys.db"}
    with tool(subnet("two-switch"), **stores) as fabric, ChangeWriter(fabric, ABORT, dry_run=True) as writer:
        for row in rows:
            if row is ENDED:
                with Journal.read(stores["journal"]) as journal:
                    last = journal.list_operations()[-1].id
                close_overtaken(writer, last)
            else:
                add(stores["journal"], row)
        yield writer


def add(path: Path, row: Row) -> None:
    command, state, files = row
    with Journal(path) as journal:
        number = journal.begin_operation(command, this_process())
        for name, before, after in files:
            journal.record_file(number, FileImage(name, text_with(before), text_with(after)))
        journal.set_state(number, state)


@pytest.mark.parametrize(
    ("rows", "own"),
    [
        pytest.param([FORTH], HARDENED, id="hardened"),
        pytest.param([FORTH, BACK], TAKEN_BACK, id="taken back"),
        pytest.param([FORTH, BACK, FORTH], HARDENED, id="hardened again"),
        pytest.param([FORTH, (ABORT, "open", BACK[2])], HARDENED, id="the abort was cut off"),
        pytest.param([FORTH, (ABORT, "open", BACK[2]), ENDED], {}, id="the record of the abort was ended"),
        pytest.param(
            [FORTH, (ABORT, "open", BACK[2]), ENDED, (COMMAND, "done", [(PATH, "in", "both")])],
            {("", PATH): JournaledValue("in", is_hardened=True)},
            id="hardened after the record of the abort was ended",
        ),
        pytest.param([FORTH, (ABORT, "open", BACK[2]), ENDED, (COMMAND, "done", [])], {}, id="and nothing was written"),
        pytest.param([FORTH, (ABORT, "undone", BACK[2]), FORTH], HARDENED, id="hardened instead of the abort"),
        pytest.param(
            [FORTH, (ABORT, "undone", BACK[2]), (COMMAND, "done", [])],
            HARDENED,
            id="hardened instead of an abort that wrote nothing",
        ),
        pytest.param([(COMMAND, "open", FORTH[2])], HARDENED, id="the hardening was cut off"),
        pytest.param([(COMMAND, "open", FORTH[2]), ENDED], {}, id="the record of the hardening was ended"),
        pytest.param([(COMMAND, "undone", FORTH[2]), (ABORT, "done", [])], {}, id="taken back before it wrote"),
        pytest.param([(COMMAND, "done", [*FORTH[2], (PATH, "both", "off")])], HARDENED, id="the file was put back"),
        pytest.param([("smkey-rotate", "done", FORTH[2])], {}, id="another command"),
    ],
)
def test_which_value_a_file_had_and_whether_a_hardening_stands(
    tmp_path: Path, rows: Sequence[Row], own: Mapping[FileKey, JournaledValue]
) -> None:
    with journal_of(tmp_path, rows) as writer:
        assert journaled_values(writer) == own


def test_a_hardening_that_went_on_after_an_abort_stands(tmp_path: Path) -> None:
    rows: list[Row] = [(COMMAND, "open", FORTH[2]), (ABORT, "open", BACK[2])]
    with journal_of(tmp_path, rows) as writer:
        with Journal(tmp_path / "journal.db") as journal:
            journal.now = lambda: "2099-01-01T00:00:00Z"
            journal.reopen(1, this_process()).record_file(FileImage(PATH, text_with("off"), text_with("both")))
            journal.set_state(1, "done")
            journal.set_state(2, "undone")
        assert journaled_values(writer) == HARDENED


# --- --abort ----------------------------------------------------------------------------------------------------------


def abort(
    monkeypatch: pytest.MonkeyPatch, folder: Path, rows: Sequence[Row], *files: OpensmFile
) -> tuple[list[str], list[str]]:
    """Plan an abort where these options files are found; return what each shall have, and the notes."""
    values = list[str]()

    def plan_enforcement(writer: ChangeWriter, asked: HardenRequest, wanted: Callable[[OpensmFile], str]) -> Any:
        values.extend(wanted(file) for file in files)
        return SimpleNamespace(files=files, notes=[])

    monkeypatch.setattr(enforcement, "plan_enforcement", plan_enforcement)
    with journal_of(folder, rows) as writer:
        return values, plan_restoring(writer, HardenRequest(())).notes


def test_each_file_gets_its_own_former_value(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows: list[Row] = [(COMMAND, "done", [(STANDBY, "out", "both"), *FORTH[2]])]
    found = abort(monkeypatch, tmp_path, rows, file_with("both", STANDBY), file_with("both"))
    assert found == (["out", "off"], [])


def test_a_file_that_no_hardening_changed_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    values, [note] = abort(monkeypatch, tmp_path, [FORTH], file_with("both", STANDBY), file_with("both"))
    assert values == ["both", "off"]
    assert note == f"{STANDBY}: part_enforce both stays: the journal has no value from before a hardening"


def test_what_was_taken_back_is_not_taken_back_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert abort(monkeypatch, tmp_path, [FORTH, BACK], file_with("off")) == (["off"], [])
    with pytest.raises(Refused, match="says part_enforce both") as caught:
        abort(monkeypatch, tmp_path, [], file_with("both"))
    assert caught.value.interlock == "overtaken"


def test_a_hardening_that_was_cut_off_before_it_wrote_leaves_what_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    values, [note] = abort(monkeypatch, tmp_path, [FORTH, BACK, (COMMAND, "open", [])], file_with("in"))
    assert values == ["in"]
    assert note.endswith("part_enforce in stays: another program set it after the hardening was undone")


@pytest.mark.parametrize(
    "rows", [[(COMMAND, "open", FORTH[2]), ENDED], [(COMMAND, "done", [(STANDBY, "off", "both")])]]
)
def test_without_a_hardening_of_these_files_there_is_nothing_to_restore(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rows: Sequence[Row]
) -> None:
    with pytest.raises(UsageError, match="nothing to restore"):
        abort(monkeypatch, tmp_path, rows, file_with("both"))


def test_the_record_of_both_ways_ends(tmp_path: Path) -> None:
    stores = {"journal": tmp_path / "journal.db", "keystore": tmp_path / "keys.db"}
    with Journal(stores["journal"]) as journal:
        for command in (COMMAND, ABORT, "smkey-rotate"):
            journal.operation(command).record_file(FileImage(PATH, text_with("off"), text_with("both")))
    with tool(subnet("two-switch"), **stores) as fabric, ChangeWriter(fabric, COMMAND) as writer:
        assert [each.command for each in unfinished_changes(writer)] == [COMMAND, ABORT]
        close_overtaken(writer, 2)
        assert unfinished_changes(writer) == []
    with Journal(stores["journal"]) as journal:
        found = journal.list_operations()
        assert [each.state for each in found] == ["undone", "undone", "open"]
        assert [each.starts[-1].origin.options for each in found] == [("--overtaken",), ("--overtaken",), ()]


def test_without_a_record_there_is_nothing_to_restore_and_a_command_leads_on() -> None:
    with tool(subnet("two-switch")) as fabric, ChangeWriter(fabric, ABORT, dry_run=True) as writer:
        with pytest.raises(UsageError, match="nothing to restore") as caught:
            plan_restoring(writer, HardenRequest(()))
        with pytest.raises(UsageError, match="has ended"):
            why_not_finishable(writer, HardenRequest(()))
    assert "`ibkeys harden --via opensm`" in caught.value.more


@pytest.mark.parametrize(("reverts", "pending"), [(ABORT, True), ("", False)])
def test_one_of_the_other_way_that_did_not_end_is_something_to_do(reverts: str, pending: bool) -> None:
    nothing = cast(Any, None)
    plan = EnforcementPlan(COMMAND, found_sms=nothing, wait=1.0, progress=nothing, say=nothing, reverts=reverts)
    assert plan.pending == pending

"""Which part_enforce of an options file is somebody else's, and the end of a change that did not end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.change.writer import Writer
from ibkeys.errors import Refused, UsageError
from ibkeys.harden.enforcement import plan_abort, refuse_overtaken
from ibkeys.harden.enforcement_run import ABORT, EnforcementPlan
from ibkeys.harden.overtaken import CLOSES, close_overtaken, file_images, not_ended, refuse_changed_files
from ibkeys.harden.step import COMMAND, HardenRequest
from ibkeys.sm.files.opensm_file import OpensmFile
from ibkeys.store.journal import FileImage, Journal, OperationRecord
from tests.fabricsim import subnet, tool

PATH = "/etc/opensm/opensm.conf"
IMAGES = (FileImage(PATH, b"part_enforce off\n", b"part_enforce both\n"),)
LEFT = cast(list[OperationRecord], [SimpleNamespace(started="2026-01-01T00:00:00Z", command=ABORT)])


def file_with(value: str, path: str = PATH) -> OpensmFile:
    conf = SimpleNamespace(
        key=("", path), name=path, data=f"part_enforce {value}\n".encode(), seen=SimpleNamespace(found=None)
    )
    return cast(OpensmFile, conf)


@pytest.mark.parametrize("value", ["both", "off"])
def test_what_a_change_found_or_wrote_is_its_own(value: str) -> None:
    refuse_changed_files([file_with(value)], IMAGES, LEFT)


@pytest.mark.parametrize(
    ("left", "way_on"), [(LEFT, f"`{CLOSES}`"), ([], "`ibkeys harden --via opensm`")], ids=["open", "ended"]
)
@pytest.mark.parametrize("file", [file_with("out"), file_with("both", "/etc/opensm/another.conf")])
def test_another_value_is_refused_with_a_command_that_leads_on(
    file: OpensmFile, left: list[OperationRecord], way_on: str
) -> None:
    with pytest.raises(Refused, match="somebody else has changed") as caught:
        refuse_changed_files([file], IMAGES, left)
    assert caught.value.interlock == "overtaken"
    assert way_on in caught.value.more


def test_the_record_of_both_ways_ends(tmp_path: Path) -> None:
    stores = {"journal": tmp_path / "journal.db", "keystore": tmp_path / "keys.db"}
    with Journal(stores["journal"]) as journal:
        for command in (COMMAND, ABORT, "smkey-rotate"):
            journal.operation(command).record_file(IMAGES[0])
    with tool(subnet("two-switch"), **stores) as fabric, Writer(fabric, COMMAND) as writer:
        assert [each.command for each in not_ended(writer)] == [COMMAND, ABORT]
        assert file_images(writer, (ABORT,)) == [*IMAGES]
        close_overtaken(writer)
        assert not_ended(writer) == []
    with Journal(stores["journal"]) as journal:
        assert [each.state for each in journal.list_operations()] == ["undone", "undone", "open"]


def test_without_a_record_there_is_nothing_to_restore_and_a_command_leads_on() -> None:
    with tool(subnet("two-switch")) as fabric, Writer(fabric, ABORT, dry_run=True) as writer:
        with pytest.raises(UsageError, match="nothing to restore") as caught:
            plan_abort(writer, HardenRequest(()))
        with pytest.raises(UsageError, match="has ended"):
            refuse_overtaken(writer, HardenRequest(()))
    assert "`ibkeys harden --via opensm`" in caught.value.more


@pytest.mark.parametrize(("reverts", "pending"), [(ABORT, True), ("", False)])
def test_one_of_the_other_way_that_did_not_end_is_something_to_do(reverts: str, pending: bool) -> None:
    nothing = cast(Any, None)
    plan = EnforcementPlan(COMMAND, seen=nothing, wait=1.0, progress=nothing, say=nothing, reverts=reverts)
    assert plan.pending == pending

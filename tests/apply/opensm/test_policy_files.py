"""The policy files of several hosts: which are one file, and which standby has another policy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.apply.opensm.interlocks import objections_to_standbys
from ibkeys.apply.opensm.policy_files import current_step, without_shared_files
from ibkeys.errors import FileChanged
from ibkeys.host.replacing.file_to_replace import FoundFile, Metadata, SeenFile
from ibkeys.managers.files.opensm_file import OpensmFile
from tests.apply.opensm.madeup import POLICY


def test_a_standby_that_came_meanwhile_is_told_from_one_that_the_change_has_been_at() -> None:
    def file(data: bytes) -> Any:
        found = FoundFile(data, Metadata(0o644, 0, 0), 1, 1, 1, 1)
        return OpensmFile(cast(Any, SimpleNamespace(name="")), POLICY, SeenFile(POLICY, found))

    site = cast(Any, SimpleNamespace(out_of_reach=(), last_change=None))
    files = [file(b"before"), file(b"after")]
    assert list(objections_to_standbys(site, files, {b"before", b"after"})) == []
    (objection,) = objections_to_standbys(site, [file(b"theirs"), *files], {b"before", b"after"})
    assert objection.interlock == "standby-differs"
    assert "`ibkeys partition-spread`" in objection.message
    assert "start it" not in objection.message, "it was reached, so it runs"
    site.out_of_reach = ("the SM at node05",)
    (objection,) = objections_to_standbys(site, files, {b"before", b"after"})
    assert "reach it with hosts= (if it is stopped, start it first)" in objection.message
    assert "sm-show" not in objection.message
    site.last_change = SimpleNamespace(why_older=lambda file: f"{file.name} has a policy from before operation 2")
    (objection,) = objections_to_standbys(site, files, {b"before", b"after"})
    assert "has a policy from before operation 2, so an SM that is away may have the newer one" in objection.message
    assert "gets the new policy" not in objection.message


def test_a_policy_that_two_hosts_have_from_one_server_is_one_file() -> None:
    def file(host: str, inode: int, data: bytes = b"the same") -> Any:
        found = FoundFile(data, Metadata(0o644, 0, 0), 1, inode, 5, 1)
        return OpensmFile(cast(Any, SimpleNamespace(name=host)), POLICY, SeenFile(POLICY, found))

    master = file("", 7)
    assert without_shared_files([file("sm2", 7), master]) == [master]
    for other in (file("sm2", 8), file("sm2", 7, b"another"), file("", 7)):
        assert without_shared_files([other, master]) == [other, master]


@pytest.mark.parametrize(("data", "what"), [(None, "removed"), (b"theirs", "changed")])
def test_a_file_that_is_at_no_step_is_said_to_be_removed_or_changed(data: bytes | None, what: str) -> None:
    found = FoundFile(data, Metadata(0o644, 0, 0), 1, 1, 1, 1) if data is not None else None
    file = OpensmFile(cast(Any, SimpleNamespace(name="")), POLICY, SeenFile(POLICY, found))
    with pytest.raises(FileChanged, match=f"has been {what} since that operation wrote it, so it is left as it is"):
        current_step(file, (b"before", b"after"))

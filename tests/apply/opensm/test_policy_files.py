"""The policy files of several hosts: which are one file, and which standby has another policy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from ibkeys.apply.opensm.interlocks import objections_to_standbys
from ibkeys.apply.opensm.policy_files import PolicyFile, distinct
from ibkeys.host.replacing.seen import FoundFile, Metadata, SeenFile
from tests.apply.opensm.madeup import POLICY


def test_a_standby_that_came_meanwhile_is_told_from_one_that_the_change_has_been_at() -> None:
    def file(data: bytes) -> Any:
        found = FoundFile(data, Metadata(0o644, 0, 0), 1, 1, 1, 1)
        return PolicyFile(cast(Any, SimpleNamespace(name="")), POLICY, SeenFile(POLICY, found))

    site = cast(Any, SimpleNamespace(out_of_reach=()))
    files = [file(b"before"), file(b"after")]
    assert list(objections_to_standbys(site, files, {b"before", b"after"})) == []
    (objection,) = objections_to_standbys(site, [file(b"theirs"), *files], {b"before", b"after"})
    assert objection.interlock == "standby-differs"


def test_a_policy_that_two_hosts_have_from_one_server_is_one_file() -> None:
    def file(host: str, inode: int, data: bytes = b"the same") -> Any:
        found = FoundFile(data, Metadata(0o644, 0, 0), 1, inode, 5, 1)
        return PolicyFile(cast(Any, SimpleNamespace(name=host)), POLICY, SeenFile(POLICY, found))

    master = file("", 7)
    assert distinct([file("sm2", 7), master]) == [master]
    for other in (file("sm2", 8), file("sm2", 7, b"another"), file("", 7)):
        assert distinct([other, master]) == [other, master]

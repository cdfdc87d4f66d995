"""What objects to an edit of a policy file: an OpenSM that reads it, a program that makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.change.interlocks.file_owners import objections_to_edit
from tests.change.policyhost import host


@pytest.fixture(autouse=True)
def on_a_real_subnet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IBSIM_SOCKNAME", raising=False)  # a developer's; OpenSMs of other simulators are left out by it


def test_the_policy_of_a_running_opensm_is_not_edited_in_place() -> None:
    [objection] = objections_to_edit(Path("/etc/opensm/partitions.conf"), b"", host=host())
    assert objection.interlock == "active-sm"
    assert "OpenSM (process 7)" in objection.message
    assert "to another file" in objection.message


@pytest.mark.parametrize("arguments", [("-P", "/srv/other.conf"), ()])
def test_another_file_is_free(arguments: tuple[str, ...]) -> None:
    assert list(objections_to_edit(Path("/home/me/partitions.conf"), b"", host=host(*arguments))) == []
    in_use = list(objections_to_edit(Path("/srv/other.conf"), b"", host=host(*arguments)))
    assert [each.interlock for each in in_use] == (["active-sm"] if arguments else [])


def test_a_policy_that_is_still_to_be_made_is_found_through_a_link_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    policy = tmp_path / "real" / "partitions.conf"
    [objection] = objections_to_edit(tmp_path / "link" / "partitions.conf", None, host=host("-P", str(policy)))
    assert objection.interlock == "active-sm"


def test_a_file_that_another_program_makes_is_named_with_it() -> None:
    [objection] = objections_to_edit(Path("/home/me/p.conf"), b"# Ansible managed\n", host=host())
    assert (objection.interlock, "Ansible" in objection.message) == ("file-managed", True)

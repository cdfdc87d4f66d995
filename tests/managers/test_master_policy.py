"""The policy of the master on this host, and every way in which it cannot be told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ibkeys.errors import FileFormatError, UsageError
from ibkeys.managers import master_policy
from ibkeys.managers.master_policy import MasterPolicy, policy_of_master, policy_of_only_one
from ibkeys.store.paths import StorePaths
from ibkeys.topology.subnet_manager import SubnetManager
from tests.managers.hosts import STARTED, MadeUpHost
from tests.managers.named_hosts import ONE, TWO, sm_host

POLICY = "/etc/opensm/partitions.conf"
MASTER = SubnetManager(1, "active", "the SM at LID 1 says it is master", ONE)


def taken(
    monkeypatch: pytest.MonkeyPatch, host: MadeUpHost, manager: SubnetManager = MASTER, local: int = ONE
) -> MasterPolicy:
    monkeypatch.delenv("IBSIM_SOCKNAME", raising=False)
    monkeypatch.setattr(master_policy, "find_subnet_manager", lambda fabric: manager)
    fabric: Any = SimpleNamespace(stores=StorePaths(None, None), is_simulated=False, own_guid=local)
    return policy_of_master(fabric, host=host)


def test_the_policy_of_the_master_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    host = sm_host("", ONE, "allow_both_pkeys TRUE\npart_enforce in\npartition_config_file /srv/p.conf\n")
    host.file("/srv/p.conf", "A=5 : ALL=full ;\n")
    found = taken(monkeypatch, host)
    assert [each.name for each in found.policy.partitions if each.base == 5] == ["A"]
    assert (found.policy.path, found.allow_both_pkeys, found.part_enforce) == ("/srv/p.conf", True, "in")
    assert found.notes == ("the policy is /srv/p.conf, of OpenSM (process 7)",)


def test_what_changed_since_the_start_is_taken_as_it_is_now_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    host = sm_host("", ONE)
    host.file("/etc/opensm/opensm.conf", "part_enforce in\n", 0o600, STARTED + 5)
    host.file(POLICY, "A=5 : ALL=full ;\n", changed=STARTED + 5)
    found = taken(monkeypatch, host)
    assert (found.allow_both_pkeys, found.part_enforce) == (False, "in")
    assert found.notes[3:] == (
        "allow_both_pkeys is assumed to be FALSE; a different value may be in force",
        "part_enforce is assumed to be in; a different value may be in force",
    )
    assert "may then have named a different policy" in found.notes[1]
    assert found.notes[2].startswith(f"{POLICY}: changed since OpenSM started")


def test_of_two_the_one_on_the_master_port(monkeypatch: pytest.MonkeyPatch) -> None:
    host = sm_host("", TWO)
    host.file("/other.conf", "B=6 : ALL=full ;\n")
    host.opensm(8, "-g", f"{ONE:x}", "-P", "/other.conf")
    assert taken(monkeypatch, host).policy.path == "/other.conf"


@pytest.mark.parametrize(
    ("manager", "local", "words"),
    [
        (
            SubnetManager(1, "unknown", "no SM answers at LID 1"),
            ONE,
            r"not known .* \(no SM answers at LID 1\)",
        ),
        (SubnetManager(0, "none", "there is none"), ONE, "is not known"),
        (SubnetManager(2, "active", "it says so", TWO), ONE, "is not one of the OpenSMs found on this host"),
    ],
)
def test_only_the_master_counts(
    monkeypatch: pytest.MonkeyPatch, manager: SubnetManager, local: int, words: str
) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        taken(monkeypatch, sm_host("", ONE), manager, local)
    assert "name the policy file" in str(caught.value)


def test_a_command_without_an_option_for_a_file_does_not_advise_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    handover, elsewhere = SubnetManager(1, "unknown", "no SM answers"), SubnetManager(2, "active", "it says so", TWO)
    for manager, advice in ((handover, "shows a master"), (elsewhere, "run on the master's host as root")):
        monkeypatch.setattr(master_policy, "find_subnet_manager", lambda fabric, manager=manager: manager)
        fabric: Any = SimpleNamespace(stores=StorePaths(None, None), is_simulated=False, own_guid=ONE)
        with pytest.raises(UsageError, match=advice) as caught:
            policy_of_master(fabric, host=sm_host("", ONE), can_name_file=False)
        assert "policy file" not in str(caught.value)


def test_no_opensm_no_policy_and_a_faulty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no OpenSM was found on this host: name"):
        taken(monkeypatch, MadeUpHost())
    monkeypatch.setattr(MadeUpHost, "own_user", lambda self: 1000)
    with pytest.raises(UsageError, match=r"was found on this host \(run as root to be certain\)"):
        taken(monkeypatch, MadeUpHost())
    host = sm_host("", ONE)
    del host.entries[POLICY]
    with pytest.raises(FileFormatError, match=rf"the policy {POLICY} of OpenSM \(process 7\) is not there"):
        taken(monkeypatch, host)
    with pytest.raises(FileFormatError, match=f"{POLICY}:1:"):
        taken(monkeypatch, sm_host("", ONE, policy="Default=0x7fff ALL\n"))


def test_without_a_fabric_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IBSIM_SOCKNAME", raising=False)
    host = sm_host("", TWO, policy="Default=0x7fff ALL\n")
    assert policy_of_only_one(host=host, require_accepted=False).policy.accepted is False
    with pytest.raises(FileFormatError):
        policy_of_only_one(host=host)
    host.opensm(8)
    with pytest.raises(UsageError, match="several OpenSMs run on this host"):
        policy_of_only_one(host=host)


def test_what_is_only_called_opensm_does_not_stand_in_the_way_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IBSIM_SOCKNAME", raising=False)
    host = sm_host("", ONE, policy="Default=0x7fff : ALL=full ;\n")
    host.opensm(8, program="/usr/bin/python3")
    found = taken(monkeypatch, host)
    assert found.notes[1] == "process 8, whose program could not be examined, is left out"
    assert policy_of_only_one(host=host).notes == found.notes
    del host.links["/proc/7/exe"]
    with pytest.raises(
        UsageError, match="process 7, whose program could not be examined, process 8, whose program could not be"
    ):
        policy_of_only_one(host=host)

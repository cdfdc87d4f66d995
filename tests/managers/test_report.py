"""Hosts and fabric together: which OpenSM is which manager, and what is dangerous between them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import ibkeys
from ibkeys.discovery.wanted import Wanted
from ibkeys.managers.dangers.catalogue import all_dangers
from ibkeys.managers.document import to_json
from ibkeys.managers.host_ports import HostInfinibandPort, host_ports
from ibkeys.managers.instance import HostEntry
from ibkeys.managers.report import SmReport, join_reports, report_on_host
from ibkeys.managers.subnet_managers import Manager, managers_of
from tests import documents
from tests.corpus import DATA
from tests.managers.hosts import BOOTED, KEY, STARTED, MadeUpHost
from tests.managers.named_hosts import CONF, ONE, TWO, add_port, sm_host


@pytest.fixture(scope="module")
def managers() -> tuple[Manager, ...]:
    """A master on node01, a standby on node02."""
    with ibkeys.open(f"sim:{DATA / 'fabrics' / 'two-switch.net'},sm=node01 mlx4_0") as fabric:
        found = fabric.sweep(wanted=Wanted(sm_info=True))
        [master] = managers_of(found)
        other = next(port for port in found.end_ports() if port.guid == TWO)
    return master, Manager(other, TWO, "standby", 0, 5)


def report(managers: tuple[Manager, ...] | None, *hosts: MadeUpHost) -> SmReport:
    return join_reports(managers, [report_on_host(host) for host in hosts])


def names(found: SmReport) -> list[str]:
    return [each.danger for each in all_dangers(found) if each.danger not in ("sa-key-default", "sm-key-default")]


def test_ports_of_a_host() -> None:
    host = sm_host("", ONE)
    host.file("/sys/class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet\n")
    host.file("/sys/class/infiniband/mlx5_2/ports/1/link_layer", "InfiniBand\n")  # the rest cannot be read
    assert host_ports(host) == (HostInfinibandPort("mlx5_0", 1, ONE, True),)
    assert host_ports(MadeUpHost()) == ()


def test_an_opensm_is_the_manager_of_the_only_port_with_an_sm(managers: tuple[Manager, ...]) -> None:
    [instance] = report(managers, sm_host("", ONE)).instances()
    assert (instance.port_guid, instance.state) == (ONE, "master")
    [instance] = report(managers, sm_host("", TWO)).instances()
    assert (instance.port_guid, instance.state) == (TWO, "standby")
    [instance] = report(None, sm_host("", TWO)).instances()
    assert (instance.port_guid, instance.state) == (TWO, None)


def test_of_two_opensms_the_one_that_was_told_its_port_is_known_and_so_is_the_other(
    managers: tuple[Manager, ...],
) -> None:
    host = sm_host("", ONE)
    add_port(host, "mlx5_1", TWO)
    host.opensm(8, "-g", f"{TWO:x}", environment={"OSM_CACHE_DIR": "/c", "OSM_TMP_DIR": "/d"})
    states = {each.process.pid: each.state for each in report(managers, host).instances()}
    assert states == {7: "master", 8: "standby"}
    host.opensm(9)
    states = {each.process.pid: each.state for each in report(managers, host).instances()}
    assert states == {7: None, 8: "standby", 9: None}, "two that were not told: which is which is not known"


def test_only_the_unit_that_is_named_is_looked_at() -> None:
    host = MadeUpHost()
    host.opensm(7, unit="opensm@0x1.service")
    host.opensm(8, unit="opensm@0x2.service")
    assert [each.process.pid for each in report_on_host(host, HostEntry(unit="opensm@0x2")).instances] == [8]


def test_an_opensm_of_another_simulated_subnet_is_left_out() -> None:
    host = MadeUpHost()
    host.opensm(7, environment={"IBSIM_SOCKNAME": "lab"})
    assert report_on_host(host).instances == ()
    assert [each.process.pid for each in report_on_host(host, socket="lab").instances] == [7]


def test_two_opensms_of_one_host_share_what_nobody_told_them_to_keep_apart() -> None:
    host = sm_host("", ONE)
    host.folder("/var/cache/opensm")
    host.folder("/var/log")
    host.file("/var/log/opensm-subnet.lst", changed=STARTED + 100)
    host.file("/etc/opensm/partitions.conf", "Default=0x7fff : ALL=full ;\n", changed=STARTED + 50)
    host.opensm(8, "-f", "/var/log/opensm.0x2.log", "-g", "2")
    found = report(None, host)
    shared = [each for each in all_dangers(found) if each.danger == "shared-files"]
    [what] = [each.seen for each in shared]
    assert "it shares with process 8: options /etc/opensm/opensm.conf, policy /etc" in what
    assert "cache /var/cache/opensm" in what
    assert "log" not in what.replace("/var/log", "")
    assert {each.files["policy"].reading for each in found.instances()} == {"changed"}, (
        "whose sweep that was is unknown"
    )


def test_a_standby_that_differs_is_named_with_what_differs(managers: tuple[Manager, ...]) -> None:
    master = sm_host("", ONE, f"sm_key {KEY}\npart_enforce in\nsm_priority 9\n")
    standby = sm_host("sm2", TWO, f"sm_key {KEY}\n", "Default=0x7fff : ALL=limited ;\n")
    found = report(managers, master, standby)
    [danger] = [each for each in all_dangers(found) if each.danger == "standby-differs"]
    assert (danger.host, danger.pid) == ("sm2", 7)
    assert danger.seen.endswith("in its policy, part_enforce")
    alike = report(managers, sm_host("", ONE, f"sm_key {KEY}\n"), sm_host("sm2", TWO, f"sm_key {KEY}\n"))
    assert "standby-differs" not in names(alike)
    assert KEY[2:] not in repr(to_json(found, all_dangers(found)))


def test_what_is_not_known_of_a_standby_is_no_difference_and_is_named_once(managers: tuple[Manager, ...]) -> None:
    standby = sm_host("sm2", TWO)
    standby.file(CONF, "", refused=True)
    found = report(managers, sm_host("", ONE, f"sm_key {KEY}\n"), standby)
    between = [each for each in all_dangers(found) if each.danger.startswith("standby-")]
    assert [(each.danger, each.host) for each in between] == [("standby-not-compared", "sm2")]
    of_it = "OpenSM on sm2 (process 7)"
    assert between[0].seen.endswith(f"not read: the policy of {of_it}, the options of {of_it}")
    alike = report(managers, sm_host("", ONE), sm_host("sm2", TWO))
    assert not {each.danger for each in all_dangers(alike)} & {"standby-not-compared", "standby-differs"}


def test_the_advice_is_right_for_the_host() -> None:
    for name, advice, other in (("", "run as root", "sudo"), ("sm2", "use sudo there, or root@HOST", "run as root")):
        host = sm_host(name, ONE)
        host.file(CONF, "", refused=True)
        [instance] = report_on_host(host).instances
        unknowns = " ".join(instance.unknowns())
        assert (advice in unknowns, other in unknowns) == (True, False)


def test_two_opensms_that_claim_one_port_are_named(managers: tuple[Manager, ...]) -> None:
    found = report(managers, sm_host("", ONE), sm_host("liar", ONE), sm_host("sm2", TWO, "part_enforce in\n"))
    [claimed] = [each for each in all_dangers(found) if each.danger == "port-claimed-twice"]
    assert claimed.seen == (
        f"two OpenSMs say that they run on port GUID 0x{ONE:016x}: OpenSM (process 7), OpenSM on liar (process 7)"
    )
    assert "port-claimed-twice" not in names(report(managers, sm_host("", ONE), sm_host("sm2", TWO)))


def test_a_port_that_the_host_does_not_have_is_not_its_own(managers: tuple[Manager, ...]) -> None:
    liar = sm_host("liar", TWO)
    liar.opensm(7, "-g", f"0x{ONE:x}")
    found = report(managers, sm_host("", ONE), liar)
    assert [each.port_guid for each in found.instances()] == [ONE, None]
    without = MadeUpHost("sm2")
    without.opensm(7, "-g", f"0x{ONE:x}")
    assert [each.port_guid for each in report(managers, without).instances()] == [ONE], "it tells no ports"


def test_managers_that_no_host_shows_and_that_say_nothing(managers: tuple[Manager, ...]) -> None:
    master, standby = managers
    found = report(managers, sm_host("", ONE))
    assert names(found) == ["manager-not-seen"]
    assert names(report(managers)) == [], "no host was looked at"
    silent = replace(standby, state=None, priority=None, act_count=None)
    assert names(report((master, silent), sm_host("", ONE))) == ["manager-silent"]
    twice = report((master, replace(standby, state="master")), sm_host("", ONE), sm_host("b", TWO))
    assert names(twice) == ["two-masters"]
    assert twice.master_instance() is None
    assert names(report((standby,), sm_host("", TWO))) == ["no-master"]


def test_a_policy_with_self_where_a_standby_may_take_over(managers: tuple[Manager, ...]) -> None:
    policy = "Default=0x7fff : ALL=limited, SELF=full ;\n"
    both = report(managers, sm_host("", ONE, policy=policy), sm_host("b", TWO, policy=policy))
    assert names(both) == ["self-takeover", "self-takeover"]
    assert names(report(managers[:1], sm_host("", ONE, policy=policy))) == []


def test_the_document_has_every_key_always(managers: tuple[Manager, ...]) -> None:
    host = sm_host("", ONE, f"m_key {KEY}\n")
    found = report(managers, host)
    document = to_json(found, all_dangers(found))
    [instance] = document["hosts"][0]["instances"]
    assert (document["managers"][0]["pid"], document["managers"][0]["state"]) == (7, "master")
    assert instance["started"] == "1970-01-12T13:55:00Z", (BOOTED, STARTED)
    options = {each["name"]: each["value"] for each in instance["options"]}
    assert (options["m_key"], options["sa_key"], options["guid"]) == ("set", "default", "0x0000000000000000")
    files = {each["role"]: each for each in instance["files"]}
    assert files["options"]["mode"] == "0600"
    assert (files["keys"]["there"], files["keys"]["mode"]) == (False, None)
    hidden = MadeUpHost()
    hidden.opensm(7, is_ours=False)
    unknown = report(None, hidden)
    [bare] = to_json(unknown, [])["hosts"][0]["instances"]
    assert (set(bare), bare["cwd"], bare["environment"]) == (set(instance), None, None)
    assert to_json(unknown, [])["managers"] is None


@pytest.mark.parametrize("is_ours", [True, False])
def test_the_document_of_a_process_of_another_user_is_as_its_schema_says(is_ours: bool) -> None:
    host = sm_host("", ONE)
    host.opensm(8, "-g", "2", environment={"POSIXLY_CORRECT": "1"}, is_ours=is_ours)
    found = report(None, host)
    document = {"schema": "ibkeys.sm-show/2", **to_json(found, all_dangers(found)), "errors": [], "unreached": 0}
    documents.check(json.dumps(document))

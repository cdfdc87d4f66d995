"""Which OpenSM a change goes through, and where there is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.errors import HostNotReached, Refused
from ibkeys.mad.attributes import SMInfo
from ibkeys.mad.const import SMState
from ibkeys.managers import site
from ibkeys.managers.files.options_files import refuse_unreached_sms
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.report import HostReport, SmReport
from ibkeys.managers.subnet_managers import Manager, managers_of
from tests.fabricsim import subnet, tool


def manager(guid: int, state: str) -> Manager:
    return Manager(cast(Any, f"port {guid}"), guid, state, 0, 0)


def ask(monkeypatch: pytest.MonkeyPatch, managers: list[Manager], host: HostReport) -> Any:
    monkeypatch.setattr(site, "report_on_host", lambda files, entry, socket: host)
    monkeypatch.setattr(site, "join_reports", lambda managers, hosts, own: SmReport(tuple(managers), tuple(hosts)))
    reached = SimpleNamespace(machine=SimpleNamespace(files=None), host=SmHost())
    return site.find_sms(managers, [cast(Any, reached)], 1)


@pytest.mark.parametrize(
    ("managers", "words"),
    [
        ([], "no subnet manager says that it is master"),
        ([manager(1, "standby")], "no subnet manager says that it is master"),
        ([manager(1, "master"), manager(2, "master")], "2 subnet managers say .*`ibkeys resume`"),
        ([manager(1, "master"), manager(2, "standby")], "not known to be one of the OpenSMs that were found"),
    ],
)
def test_without_one_master_that_is_seen_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, managers: list[Manager], words: str
) -> None:
    with pytest.raises(Refused, match=f"(?s){words}") as refused:
        ask(monkeypatch, managers, HostReport(""))
    assert refused.value.interlock == "master"


def test_of_two_masters_it_is_said_what_to_do_where_no_change_of_their_keys_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Refused) as refused:
        ask(monkeypatch, [manager(1, "master"), manager(2, "master")], HostReport(""))
    assert "put the same sm_key and sa_key in all options files" in refused.value.more


def test_an_opensm_that_does_not_show_its_port_is_named_with_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    untold = cast(Any, SimpleNamespace(name="OpenSM (process 9)", port_guid=None, host=""))
    with pytest.raises(Refused, match=r"if it is OpenSM \(process 9\), set guid in its options and restart it"):
        ask(monkeypatch, [manager(1, "master")], HostReport("", (untold,)))


def test_a_host_that_was_named_twice_is_told_from_one_that_was_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = tuple(cast(Any, SimpleNamespace(name=f"OpenSM on {name}", port_guid=1)) for name in ("sm1", "sm1.example"))
    with pytest.raises(Refused, match=r"was found as OpenSM on sm1, OpenSM on sm1\.example") as refused:
        ask(monkeypatch, [manager(1, "master")], HostReport("", twice))
    assert refused.value.interlock == "master"


def test_a_standby_that_is_seen_twice_gets_no_key() -> None:
    twice = tuple(cast(Any, SimpleNamespace(name=f"OpenSM on {name}", port_guid=2)) for name in ("a", "b"))
    standby = manager(2, "standby")
    with pytest.raises(Refused, match="the SM at port 2 was found as OpenSM on a, OpenSM on b"):
        refuse_unreached_sms([(standby, cast(Any, "one of them"))], [HostReport("", twice)], "would")


def test_a_standby_may_be_the_opensm_that_does_not_show_its_port() -> None:
    untold = (cast(Any, SimpleNamespace(name="OpenSM 7 on sm2", port_guid=None)),)
    with pytest.raises(Refused, match=r"port 2 \(standby\): it may be OpenSM 7 on sm2, which does not show its"):
        refuse_unreached_sms([(manager(2, "standby"), None)], [HostReport("sm2", untold)], "would")


def test_a_host_that_does_not_answer_may_be_the_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostNotReached, match="no route to host") as gone:
        ask(monkeypatch, [manager(1, "master")], HostReport("sm2", error="no route to host"))
    assert gone.value.host == "sm2"


def test_an_sm_that_names_the_guid_of_another_one_is_not_taken_for_it() -> None:
    """It would count as an SM on a host that was reached, and stay behind when keys change."""
    with tool(subnet("two-switch")) as fabric:
        found = fabric.sweep()
    liar = next(port for port in found.end_ports() if port.node.description == "node05 mlx4_0")
    master = next(port for port in found.end_ports() if port.node.description == "node01 mlx4_0")
    liar.sm_info = SMInfo.new(guid=master.guid, sm_state=SMState.STANDBY).raw
    assert [each.guid for each in managers_of(found) if each.port is liar] == [liar.guid]

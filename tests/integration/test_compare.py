"""compare beside a real OpenSM: the policy, its own file, its SA and the nodes, and who of them is right."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ibkeys.mad.const import AttributeID
from ibkeys.managers.instance import DUMP_FILE
from ibkeys.sim.agents import sma
from ibkeys.sim.agents.request import INVALID, AgentRequest, SmpAnswer
from tests.corpus import DATA
from tests.integration.hosted import Hosted, RunningOpensm, opensm
from tests.integration.served import Served
from tests.integration.sshd import Sshd
from tests.sample import in_soak

SA_KEY = 0x5A5A_0000_1234_0001
SM = 0x2C903000A1011
PORT = 0x2C903000A1031
POLICY = f"""Default=0x7fff : ALL=limited, SELF=full ;
Blue=0x10 : SELF=full, {PORT:#x}=limited ;
"""
MORE = POLICY + f"Green=0x20 : {PORT:#x}=full ;\n"


Start = Callable[[str], Hosted]


@pytest.fixture
def start(stack: ExitStack) -> Start:
    """Serve a fabric for programs on our libibumad: answers of the SA are longer than a MAD."""
    return lambda net: stack.enter_context(Hosted(DATA / "fabrics" / f"{net}.net"))


def with_key(served: Hosted) -> Hosted:
    """Put the SA_Key and a policy into its folder."""
    (served.folder / "sa.key").touch(0o600)
    (served.folder / "sa.key").write_text(f"{SA_KEY:#x}\n")
    (served.folder / "wanted.conf").write_text(POLICY)
    return served


@pytest.fixture
def fabric(start: Start) -> Hosted:
    return with_key(start("two-switch"))


@pytest.fixture
def running(fabric: Hosted) -> Iterator[RunningOpensm]:
    with opensm(fabric, POLICY, f"sa_key {SA_KEY:#x}\n") as running:
        yield running


def compared(fabric: Served, *words: str | Path, code: int, key: bool = True) -> dict[str, Any]:
    """Run compare; no key is in what it says."""
    smkey = ("--smkey", f"@{fabric.folder / 'sa.key'}") if key else ()
    done = fabric.ibkeys("compare", "-f", "json", *smkey, *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert f"{SA_KEY:x}" not in done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout) if code in (0, 1, 3) else {}
    return document


def wrong(document: dict[str, Any]) -> list[tuple[str, str | None, list[str], list[str]]]:
    return [
        (each["port_guid"], each["partition"], each["causes"], each["apart"])
        for each in document["values"]
        if each["state"] != "agree"
    ]


def written_later(running: RunningOpensm, text: str) -> None:
    """Put *text* into the policy file, by its time well after the last sweep."""
    running.policy.write_text(text)
    later = (running.folder / DUMP_FILE).stat().st_mtime + 5
    os.utime(running.policy, (later, later))


def test_who_of_the_four_is_right(fabric: Hosted, running: RunningOpensm) -> None:
    policy = ("--policy", fabric.folder / "wanted.conf")
    at_first = compared(fabric, *policy, "--full", "--wait", "30", code=0)
    assert at_first["summary"]["agree"] == len(at_first["values"]) > 20
    assert {each["what"] for each in at_first["values"]} == {"pkey", "enforcement", "m_key_protection"}
    unknown = [each for each in at_first["values"] if None in (each["sm_file"], each["sa"], each["node"])]
    assert unknown == []
    assert at_first["sm_file"]["file"] == str(running.policy)

    fabric.ibkeys("pkey-add", "-G", f"{PORT:#x}", "0x8123", "--yes", "--force", check=True)
    beside = compared(fabric, *policy, code=1)
    assert wrong(beside) == [(f"0x{PORT:016x}", "0x0123", ["changed"], ["node"])]
    [value] = beside["values"]
    assert (value["policy"], value["sm_file"], value["sa"], value["node"]) == ([], [], [], ["0x8123"])
    fabric.ibkeys("pkey-remove", "-G", f"{PORT:#x}", "0x8123", "--yes", "--force", check=True)
    assert compared(fabric, *policy, code=0)["values"] == []

    written_later(running, MORE)
    edited = compared(fabric, "--policy", "opensm", code=1)
    assert {(partition, *causes) for _, partition, causes, _ in wrong(edited)} == {("0x0020", "not-read")}
    assert f"0x{PORT:016x}" in {guid for guid, *_ in wrong(edited)}
    both = compared(fabric, *policy, code=1)
    assert {(partition, *causes) for _, partition, causes, _ in wrong(both)} == {("0x0020", "other-policy", "not-read")}

    running.sweep()
    assert compared(fabric, "--policy", "opensm", "--wait", "30", code=0)["values"] == []
    other = compared(fabric, *policy, code=1)
    assert {(partition, *causes) for _, partition, causes, _ in wrong(other)} == {("0x0020", "other-policy")}


def test_without_the_sm_key_the_word_of_the_sa_is_unknown(fabric: Hosted, running: RunningOpensm) -> None:
    document = compared(fabric, "--policy", "opensm", "--full", "--wait", "30", code=0, key=False)
    assert document["sa"]["P_KeyTableRecord"]["outcome"] == "refused"
    said = {(each["what"], each["sa"] is None) for each in document["values"]}
    assert said == {("pkey", True), ("enforcement", False), ("m_key_protection", False)}
    done = fabric.ibkeys("compare")
    assert "the SA does not show its" in done.stderr
    fabric.ibkeys("pkey-add", "-G", f"{PORT:#x}", "0x8123", "--yes", "--force", check=True)
    [value] = compared(fabric, code=1, key=False)["values"]
    assert (value["partition"], value["causes"]) == ("0x0123", ["hidden"])


def test_a_node_that_refuses_what_the_sm_sets(
    fabric: Hosted, running: RunningOpensm, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared(fabric, "--policy", "opensm", "--wait", "30", code=0)
    honest = sma.SET[AttributeID.P_KEY_TABLE]

    def refuse(request: AgentRequest) -> SmpAnswer:
        is_it = any(port.guid == PORT for port in request.node.end_ports)
        return (INVALID, request.mad[64:128]) if is_it else honest(request)

    monkeypatch.setitem(sma.SET, AttributeID.P_KEY_TABLE, refuse)
    running.give(MORE.encode())
    for _ in range(300):  # until the file is clearly later than the start of OpenSM, and the sweep than the file
        found = wrong(compared(fabric, code=1))
        if {cause for *_, causes, _ in found for cause in causes}.isdisjoint({"not-read", "not-applied"}):
            break
        running.give(MORE.encode())
    assert found == [(f"0x{PORT:016x}", "0x0020", ["refused"], ["sa", "node"])]


@pytest.mark.parametrize(
    ("net", "policy", "options"),
    [
        in_soak("two-switch", "merge-override", "part_enforce in\n"),
        ("two-switch", "merge-override", "part_enforce off\n"),
        ("two-switch", "syntax-bad-guid", ""),
        in_soak("two-switch", "indx0", ""),
        ("dual-home", "both-members", "allow_both_pkeys TRUE\n"),
        in_soak("ring-router", "all-kinds", ""),
        in_soak("dualport64", "rails-dualport", ""),
    ],
)
def test_where_nobody_touched_anything_nothing_differs(start: Start, net: str, policy: str, options: str) -> None:
    """Also with a policy that OpenSM refuses: everybody is a full member."""
    fabric = with_key(start(net))
    text = (DATA / "policies" / f"{policy}.conf").read_bytes()
    with opensm(fabric, text, f"sa_key {SA_KEY:#x}\n{options}"):
        document = compared(fabric, "--policy", "opensm", "--full", "--wait", "30", code=0)
    assert all(each["sa"] is not None for each in document["values"])
    assert len(document["values"]) > 20


def test_what_has_no_room_is_named_so(start: Start) -> None:
    fabric = with_key(start("two-switch"))
    with opensm(fabric, (DATA / "policies" / "overflow-switch0.conf").read_bytes(), f"sa_key {SA_KEY:#x}\n"):
        found = wrong(compared(fabric, "--wait", "1", code=1))
    assert {tuple(causes) for *_, causes, _ in found} == {("no-room",)}
    assert len(found) == 10


@pytest.fixture
def elsewhere(tmp_path: Path) -> tuple[str | Path, ...]:
    """Options that hide the OpenSMs of this host, so that only another host has them."""
    settings = tmp_path / "sm.toml"
    settings.touch(0o600)
    settings.write_text('[here]\nunit = "no-such-unit"\n')
    return ("--sm-config", settings)


def test_the_file_of_an_sm_on_another_host(fabric: Hosted, elsewhere: tuple[str | Path, ...], tmp_path: Path) -> None:
    with (
        opensm(fabric, POLICY, f"sa_key {SA_KEY:#x}\n", words=("-g", f"{SM:#x}")) as running,
        Sshd(tmp_path / "ssh") as server,
    ):
        ssh = (*elsewhere, "--ssh-config", server.config)
        document = compared(fabric, *ssh, "--sm-host", "smhost", "--policy", "opensm", "--wait", "30", code=0)
        assert (document["sm_file"]["host"], document["sm_file"]["file"]) == ("smhost", str(running.policy))
        compared(fabric, *ssh, "--policy", "opensm", code=2)
        alone = compared(fabric, *ssh, "--sm-host", "outsider", "--sm-host", "smhost", code=3)
        assert (alone["sm_file"]["host"], alone["summary"]["differs"]) == ("smhost", 0)
        unseen = compared(fabric, *ssh, "--sm-host", "outsider", code=3)
        assert unseen["sm_file"] is None
        assert "outsider" in unseen["sm_file_unknown"]


@pytest.mark.parametrize(
    ("options", "level", "lease"),
    [
        ("", 0, 0),
        in_soak("m_key_protection_level 1\nm_key_lease_period 60\n", 1, 60),
        in_soak("m_key_protection_level 2\n", 2, 0),
        in_soak("m_key_protection_level 1\nsweep_interval 100\n", 1, 0),
        ("m_key_protection_level 1\nm_key_lease_period 60\nsweep_interval 60\n", 1, 61),
        in_soak("m_key_lease_period 60\nsweep_interval 60\n", 0, 60),
        ("m_key_protection_level 7\nm_key_lease_period 60\n", 2, 60),
    ],
)
def test_how_m_keys_are_guarded(fabric: Hosted, options: str, level: int, lease: int) -> None:
    keys = ("--security-keys", fabric.folder)
    conf = f"sa_key {SA_KEY:#x}\nm_key 0x8f3c91d7e2a65b40\n{options}"
    with opensm(fabric, POLICY, conf):
        document = compared(fabric, *keys, "--policy", "opensm", "--full", "--wait", "30", code=0)
        guarded = [each["node"] for each in document["values"] if each["what"] == "m_key_protection"]
        assert guarded == [{"m_key_protect_bits": level, "m_key_lease_period": lease}] * 8
        [port] = [each for node in fabric.net.nodes for each in node.end_ports if each.guid == PORT]
        port.lease_period = 90
        [value] = compared(fabric, *keys, code=1)["values"]
    assert (value["port_guid"], value["what"], value["causes"]) == (f"0x{PORT:016x}", "m_key_protection", ["changed"])

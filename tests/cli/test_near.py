"""What was meant, where a name is not there; and GUIDs as sysfs has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.umad.port import Incoming
from ibkeys.umad.simulated import SimulatedPort
from tests.cli.conftest import TWO_SWITCH, Cli, run
from tests.fabricsim import change_each_subnet


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("pkey-show", "-N", "node2"), "node 'node2': no port on this subnet matches; did you mean 'node02 mlx4_0'?"),
        (("pkey-show", "-N", "Node02 mlx4_0"), "; did you mean 'node02 mlx4_0'?"),
        (("pkey-show", "--all", "--node", "node2"), "did you mean node02?"),
        (("audit", "--check", "PK01"), "there is no rule 'PK01'; did you mean PK001?"),
        (("audit", "--skip", "hy04"), "there is no rule 'hy04'; did you mean HY004?"),
        (("audit", "--group", "PKE"), "there is no group 'PKE'; did you mean PK?"),
        (("audit", "--group", "zz"), "there is no group 'zz'; choose from MK, "),
        (("audit", "--fail-on", "hihg"), "did you mean high?"),
        (("audit", "--profile", "cloud-secure"), "did you mean cloud-secured?"),
        (("pkey-add", "1", "0x8010", "--override", "index0"), "index0: no such interlock; did you mean index-0?"),
        (("pkey-show", "--at", "node2"), "did you mean 'node02 mlx4_0'?"),
    ],
)
def test_names_that_are_near_are_named(args: tuple[str, ...], said: str) -> None:
    result = run(args[0], "--backend", TWO_SWITCH, *args[1:])
    assert result.code in (2, 3)
    assert said in result.error


def test_no_mad_is_sent_for_a_name_that_is_near() -> None:
    def sent(name: str) -> str:
        return run("pkey-show", "--backend", TWO_SWITCH, "-v", "-N", name).err.splitlines()[0]

    assert "SMPs sent" in sent("node2")
    assert sent("node2") == sent("zzz")


@pytest.mark.parametrize("guid", ["0002:c903:000a:1031", "fe80:0000:0000:0000:0002:c903:000a:1031"])
def test_a_guid_is_taken_as_sysfs_has_it(guid: str) -> None:
    result = run("pkey-show", "--backend", TWO_SWITCH, "-G", guid)
    assert result.code == 0
    assert result.out.startswith("node03 mlx4_0 (ca 0x0002c903000a1030) port 1")


@pytest.mark.parametrize(
    ("who", "found"),
    [
        ("0002:c903:000a:1031", "node03"),
        ("fe80:0000:0000:0000:0002:c903:000a:1030", "node03"),
        ("0002:c902:0040:1000:2", "node02"),
    ],
)
def test_names_takes_it_too_and_the_port_of_a_switch_after_it(who: str, found: str) -> None:
    assert run("discover", "--names", "--backend", TWO_SWITCH, "--only", "host", who).out == f"{found}\n"


def test_a_guid_that_nobody_has_is_shown_in_the_form_of_every_message() -> None:
    result = run("pkey-show", "--backend", TWO_SWITCH, "-G", "0002:c903:00ff:ffff")
    assert result.error == "GUID 0x0002c90300ffffff: no port on this subnet matches"


def test_options_take_it_too(tmp_path: Path) -> None:
    policy = tmp_path / "partitions.conf"
    policy.write_text("Default=0x7fff: ALL=full, SELF=full;\n")
    words = ("--sm-guid", "0002:c903:000a:1031", "--policy", policy, "-f", "json")
    result = run("plan", "--backend", TWO_SWITCH, *words)
    assert result.code in (0, 1), result.err
    assert "0x0002c903000a1031" in result.out


def test_an_inherited_sim_host_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIM_HOST", "node2")
    result = run("pkey-show", "--backend", TWO_SWITCH)
    assert result.code == 2
    assert "the environment variable SIM_HOST does not fit this subnet: no node has the id" in result.error
    assert "did you mean 'node02 mlx4_0'?" in result.error
    monkeypatch.setenv("SIM_HOST", "zzz")
    assert "there are node01 mlx4_0, " in run("pkey-show", "--backend", TWO_SWITCH).error
    assert "SIM_HOST" not in run("pkey-show", "--backend", TWO_SWITCH, "--at", "zzz").error


def test_a_port_that_may_be_a_node_that_was_not_read_is_not_said_to_be_absent(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_each_subnet(monkeypatch, lambda net: net.silence("node05 mlx4_0"))
    for line in (("-G", "0x0002c90300ffffff"), ("-N", "node05")):
        result = cli("pkey-show", *line)
        assert result.code == 3
        assert "not found, but 1 place was not read, so it may be there: " in result.error
        assert "nothing answers behind it" in result.error
        assert "no port on this subnet matches" not in result.error


@pytest.mark.parametrize("with_keys", [False, True])
def test_an_error_in_nodeinfo_on_a_route_is_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, with_keys: bool
) -> None:
    """With keys the node is found by a sweep, without any it is asked by its route."""
    receive = SimulatedPort.recv

    def status_of_the_switch(port: SimulatedPort, timeout: float) -> list[Incoming]:
        came = []
        for each in receive(port, timeout):
            mad = bytearray(each.mad)
            if not each.status and mad[1] == 0x81 and mad[16:18] == b"\0\x11" and mad[7] == 1:
                mad[5] = 0x1C
            came.append(each._replace(mad=bytes(mad)))
        return came

    monkeypatch.setattr(SimulatedPort, "recv", status_of_the_switch)
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o700)
    (keys / "guid2mkey").write_text("0x0002c90300ffffff 0x00000000000000a1\n")
    (keys / "guid2mkey").chmod(0o600)
    more = ("--security-keys", keys, "--ask-unproven") if with_keys else ()
    result = cli("pkey-show", "-D", "0,1", 0, *more)
    assert result.code == 3
    assert "status 0x001c" in result.err
    assert "nothing answers" not in result.err
    assert "no port on this subnet matches" not in result.err

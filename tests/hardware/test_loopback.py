"""Writes of a loopback: restored whatever happens, and to a port of another host never."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ibkeys
from ibkeys.change.consent import Consent
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError, Refused, UsageError
from ibkeys.hardware.loopback.ports import named_ports, prove_far_port
from ibkeys.hardware.loopback.putting_back import COMMAND
from ibkeys.hardware.loopback.writes import Loopback
from ibkeys.hardware.reading import FabricReading
from ibkeys.mad.const import Method
from ibkeys.scripting import Fabric
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.port import LocalPort, UmadPort
from tests.fabricsim import swap_cables
from tests.hardware.looking import look_at, open_far
from tests.hardware.two_ports import HOST, PORTS, Bench, outcomes
from tests.protectedsim import sm_sweeps
from tests.sample import sampled
from tests.spy import LOST, is_set, sets, spy

FORCED = Consent(force=True, overrides=frozenset({"mkey-under-sm"}))


class Killed(BaseException):
    """The process is gone: nothing more is sent."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


WRITTEN = {"write.p-key": "same", "write.m-key": "same", "write.counters": "same"}


def test_each_write_is_proven_and_restored(bench: Bench) -> None:
    before = bench.state()
    assert outcomes(bench.run()) == WRITTEN
    assert bench.state() == before
    assert (bench.far.p_key_violations, bench.left()) == (0, 0)


def test_without_a_count_there_is_nothing_to_reset(bench: Bench) -> None:
    bench.far.p_key_violations = 0
    assert bench.run()["write.counters"].outcome == "not-checked"


def test_a_port_with_an_m_key_keeps_it(bench: Bench) -> None:
    bench.far.m_key = 0x1122334455667788
    found = bench.run()
    assert (found["write.m-key"].outcome, bench.far.m_key) == ("not-checked", 0x1122334455667788)


def test_a_full_table_is_left_alone(bench: Bench) -> None:
    bench.far.p_keys = [0xFFFF, *range(0x8001, 0x8040)]
    before = bench.state()
    assert bench.run()["write.p-key"].text == "no entry of the P_Key table is free"
    assert bench.state() == before


def test_beside_a_subnet_manager_each_write_needs_its_consent(bench: Bench) -> None:
    bench.net.set_sm("login01 mlx5_0")
    before = bench.state()
    found = bench.run()
    assert set(outcomes(found).values()) == {"not-checked"}
    assert "active-sm" in found["write.p-key"].text
    assert "mkey-under-sm" in found["write.m-key"].text
    assert (bench.state(), bench.left()) == (before, 0)
    assert outcomes(bench.run(FORCED)) == WRITTEN
    assert bench.state() == before


def killed_at(number: int, after: bool) -> Callable[[Fabric], object]:
    """Kill the process at the Set with that number, before it leaves or right after."""
    count = [0]

    def act(outgoing: Any) -> None:
        if count[0] > number:
            raise Killed
        if is_set(outgoing):
            count[0] += 1
            if count[0] > number:
                raise Killed

    return lambda fabric: spy(fabric, after=act) if after else spy(fabric, before=act)


KILLS = [f"{when} Set {number}" for number in range(5) for when in ("before", "after")]


@pytest.mark.parametrize("kill", sampled(KILLS, ["after Set 0", "before Set 2", "after Set 2", "after Set 3"]))
def test_a_run_that_is_killed_at_any_set_is_put_back_by_the_next(bench: Bench, kill: str) -> None:
    before = bench.state()
    when, _, number = kill.split()
    with pytest.raises(Killed):
        bench.run(before=killed_at(int(number), when == "after"))
    found = outcomes(bench.run())
    assert found.pop("write.earlier", "same") == "same"
    assert found.pop("write.counters") in ("same", "not-checked")  # that reset may have arrived
    assert set(found.values()) == {"same"}
    assert (bench.state(), bench.left()) == (before, 0)


def test_the_sets_are_five(bench: Bench) -> None:
    """As many as `test_a_run_that_is_killed_at_any_set_is_put_back_by_the_next` kills at."""
    sent: list[list[bytes]] = []
    bench.run(before=lambda fabric: sent.append(spy(fabric)))
    assert len(sets(sent[0])) == 5


@pytest.mark.parametrize("number", sampled("0123", "13"))
def test_a_lost_set_is_a_finding_and_nothing_stays(bench: Bench, number: str) -> None:
    before, count = bench.state(), [0]

    def lose(outgoing: Any) -> int:
        count[0] += is_set(outgoing)
        return LOST if is_set(outgoing) and count[0] == int(number) + 1 else 0

    found = outcomes(bench.run(before=lambda fabric: spy(fabric, refuse=lose)))
    # a table is put back as `undo` does it, which sends a Set again that never arrived
    assert ("differs" in found.values()) == (number != "1")
    if bench.state() != before:  # it was the Set that restores
        assert bench.left() == 1
        bench.run()
    assert (bench.state(), bench.left()) == (before, 0)


def test_a_killed_run_is_not_put_back_on_other_ports(bench: Bench) -> None:
    with pytest.raises(Killed):
        bench.run(before=killed_at(0, after=True))
    with bench.open() as fabric:
        reading = look_at(fabric)
        near, far = named_ports(PORTS, reading.cas())
        with ChangeWriter(fabric, COMMAND) as writer:
            prove = partial(prove_far_port, reading, near, far, open_far(reading))
            loopback = Loopback(reading, writer, prove, frozenset({1, 2}))
            with pytest.raises(Refused, match="not one of these two"):
                list(loopback.findings())


def swap_with_another_host(net: Subnet) -> None:
    """Swap the cables of the second port and of one of another host at their switch; the SM has swept since."""
    swap_cables(net.port(HOST, 2), net.port("db02 mlx5_0", 2), net)
    sm_sweeps(net)


def stranger_hears(net: Subnet) -> list[bytes]:
    """Return a list that gets each Set that arrives at the other host from now on."""
    arrived: list[bytes] = []
    ask = net.carrier.ask

    def heard(mad: bytes, node: Any, ingress: int, slid: int) -> Any:
        if mad[3] == Method.SET and node.description == "db02 mlx5_0":
            arrived.append(mad)
        return ask(mad, node, ingress, slid)

    net.carrier.ask = heard  # type: ignore[method-assign]
    return arrived


def test_a_cable_that_is_swapped_after_the_look_takes_no_set_to_another_host(bench: Bench) -> None:
    before, arrived = bench.state(), stranger_hears(bench.net)
    with pytest.raises(Refused, match="another port answers"):
        bench.run(before=lambda fabric: swap_with_another_host(bench.net))
    assert (bench.state(), bench.left(), arrived) == (before, 0, [])


@pytest.mark.parametrize("number", [1, 3])
def test_a_cable_that_is_swapped_after_a_set_takes_no_other_to_another_host(bench: Bench, number: int) -> None:
    """What was written stays until the cable is back."""
    before, arrived, count = bench.state(), stranger_hears(bench.net), [0]

    def swap(outgoing: Any) -> None:
        count[0] += is_set(outgoing)
        if is_set(outgoing) and count[0] == number:
            swap_with_another_host(bench.net)

    bench.run(before=lambda fabric: spy(fabric, after=swap))
    assert (bench.left(), arrived) == (1, [])
    assert bench.state() != before
    swap_with_another_host(bench.net)
    if number == 3:  # its link was down since its key was stored
        with pytest.raises(Refused, match="or trust_topology=True"):
            bench.run()
        bench.stores["trust_topology"] = True
    assert bench.run()["write.earlier"].outcome == "same"
    assert (bench.state(), bench.left()) == (before, 0)


def test_an_m_key_that_an_sm_has_set_since_then_is_not_taken_away(bench: Bench) -> None:
    with pytest.raises(Killed):
        bench.run(before=killed_at(2, after=True))
    bench.far.m_key = 0x5555AAAA5555AAAA
    found = bench.run()
    assert (found["write.m-key"].outcome, bench.far.m_key) == ("not-checked", 0x5555AAAA5555AAAA)
    assert (bench.left(), bench.far.m_key_violations) == (0, 0)


def test_a_p_key_that_an_sm_adds_meanwhile_stays_and_is_said(bench: Bench) -> None:
    count = [0]

    def add(outgoing: Any) -> None:
        count[0] += is_set(outgoing)
        if is_set(outgoing) and count[0] == 1:
            bench.far.p_keys = [*bench.far.p_keys[:3], 0x8123, *bench.far.p_keys[4:]]

    found = bench.run(before=lambda fabric: spy(fabric, after=add))
    assert (found["write.p-key"].outcome, found["write.m-key"].outcome) == ("differs", "same")
    assert "did a subnet manager write it too?" in found["write.p-key"].text
    assert [key for key in bench.far.p_keys if key] == [0xFFFF, 0x8123]
    assert bench.left() == 0


def test_a_p_key_that_stands_in_an_error_is_not_reported(bench: Bench) -> None:
    def replace_it(outgoing: Any) -> None:
        if is_set(outgoing):
            bench.far.p_keys = [0xFFFF, *[0] * 62, 0x8123]

    found = bench.run(before=lambda fabric: spy(fabric, after=replace_it))
    assert found["write.p-key"].outcome == "differs"
    assert found["write.p-key"].text == "refused by interlock stale"
    assert "8123" not in str(found)
    assert (found["write.m-key"].text, bench.left()) == ("an earlier write could not be put back", 1)


def test_two_ports_of_one_host_may_be_on_one_cable(bench: Bench) -> None:
    for number in (1, 2):
        bench.net.unplug(HOST, number)
    bench.net.plug(HOST, 1, bench.far.node.guid, 2)
    for number in (1, 2):
        bench.net.port(HOST, number).set_states(4, 5)
    assert outcomes(bench.run()) == WRITTEN


# --- other ports ------------------------------------------------------------------------------------------------------


def refused(
    bench: Bench, text: str, kind: type[IbkeysError], change: Callable[[FabricReading], None] = lambda reading: None
) -> str:
    """Return why *text* is refused; nothing may have been set."""
    with bench.open() as fabric:
        sent, reading = spy(fabric), look_at(fabric)
        change(reading)
        with pytest.raises(kind) as error:
            prove_far_port(reading, *named_ports(text, reading.cas()), open_far(reading))
        assert not sets(sent)
        return str(error.value)


@pytest.mark.parametrize("text", ["sim0/1", "sim0/1,sim0/1", "sim0/1,sim0/9", "sim0/1,mlx5_7/1", "a,b", ",", "sim0/1,"])
def test_what_does_not_name_two_ports_of_this_host_is_wrong_usage(bench: Bench, text: str) -> None:
    assert f"ports {text!r}: " in refused(bench, text, UsageError)


def test_the_first_port_is_the_one_that_is_open(bench: Bench) -> None:
    assert "not at the first port" in refused(bench, "sim0/2,sim0/1", Refused)


def test_a_node_that_says_the_guid_of_the_second_port_is_not_written(bench: Bench) -> None:
    bench.net.port("db02 mlx5_0", 1).guid = bench.far.guid
    assert "not show exactly one port" in refused(bench, PORTS, Refused)


def test_a_port_of_another_host_at_the_lid_of_the_second_is_not_written(bench: Bench) -> None:
    bench.net.port("db02 mlx5_0", 1).lid = bench.far.lid
    assert "not show exactly one port" in refused(bench, PORTS, Refused)


def test_another_host_in_the_place_of_the_second_port_is_not_written(bench: Bench) -> None:
    """The host's own second port is elsewhere, and somebody else says its GUID and its LID."""
    other = bench.net.port("db02 mlx5_0", 1)
    other.guid, other.lid = bench.far.guid, bench.far.lid
    bench.net.unplug(HOST, 2)

    def still_active(reading: FabricReading) -> None:
        [ca] = reading.cas()
        active = dataclasses.replace(ca, ports=tuple(dataclasses.replace(port, state=4) for port in ca.ports))
        reading.cas = lambda: (active,)

    assert "another port answers" in refused(bench, PORTS, Refused, still_active)


@pytest.mark.parametrize(
    ("says_its_guid", "why"),
    [(True, "its cable leads to another port"), (False, "its own device shows another port GUID")],
)
def test_a_port_whose_own_device_is_plugged_in_elsewhere_is_not_written(
    bench: Bench, says_its_guid: bool, why: str
) -> None:
    """What the fabric shows fits in all, but the device of the second port is on another cable."""
    elsewhere = bench.net.port("db03 mlx5_0", 2)

    def open_elsewhere(_: LocalPort) -> UmadPort:
        return ibkeys.open_port(bench.net, ibkeys.Local(None, elsewhere.number, elsewhere.node.guid))

    with bench.open() as fabric:
        sent, reading = spy(fabric), look_at(fabric)
        assert reading.topology
        if says_its_guid:
            elsewhere.guid = bench.far.guid
        with pytest.raises(Refused, match=why):
            prove_far_port(reading, *named_ports(PORTS, reading.cas()), open_elsewhere)
        assert not sets(sent)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"state": 2}, "is not Active"),
        ({"link_layer": "Ethernet"}, "no InfiniBand port"),
        ({"capability_mask": 0x400}, "virtual function"),
        ({"gid_prefix": 0xFEC0 << 48}, "different subnets"),
        ({"port_guid": 0}, "no port GUID of its own"),
        ({"base_lid": 0}, "not show exactly one port"),
    ],
)
def test_a_second_port_that_is_unfit_is_not_written(bench: Bench, changed: dict[str, Any], why: str) -> None:
    def change(reading: FabricReading) -> None:
        [ca] = reading.cas()
        first, second, *rest = ca.ports
        other = dataclasses.replace(ca, ports=(first, dataclasses.replace(second, **changed), *rest))
        reading.cas = lambda: (other,)

    assert why in refused(bench, PORTS, Refused, change)

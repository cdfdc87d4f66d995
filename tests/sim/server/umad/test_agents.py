"""Agents as the kernel registers them (user_mad.c, mad.c)."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from ibkeys.mad.const import AttributeID, Method
from tests.sim.server.programs import get
from tests.sim.server.umad.programs import DIRECTED, PERF, SA, SUBN, Program

Opener = Callable[..., Program]
TRAP, REPORT = int(Method.TRAP), 6
VENDOR = 0x32


def test_ids_are_the_lowest_free(program: Opener) -> None:
    one = program()
    assert [one.register(SUBN), one.register(DIRECTED), one.register(SA, version=2)] == [0, 1, 2]
    assert one.unregister(1) == 0
    assert one.register(PERF) == 1


def test_an_open_port_has_at_most_32_agents(program: Opener) -> None:
    one = program()
    for _ in range(32):
        one.register(SUBN)
    assert one.try_register(SUBN)[0] == errno.ENOMEM
    assert one.unregister(5) == 0
    assert one.try_register(SUBN) == (0, 5)


def test_a_class_and_method_has_one_owner_at_a_port(program: Opener) -> None:
    one, beside, elsewhere = program(), program(), program("H-2")
    one.register(SUBN, [TRAP])
    assert beside.try_register(SUBN, [TRAP, REPORT])[0] == errno.EINVAL
    assert one.try_register(SUBN, [TRAP])[0] == errno.EINVAL
    assert beside.try_register(SUBN, [REPORT])[0] == 0
    assert beside.try_register(DIRECTED, [TRAP])[0] == 0
    assert beside.try_register(SUBN)[0] == 0
    assert elsewhere.try_register(SUBN, [TRAP])[0] == 0


@pytest.mark.parametrize("how", ["unregister", "close"])
def test_what_an_agent_owned_is_free_when_it_is_gone(program: Opener, how: str) -> None:
    one, beside = program(), program()
    agent = one.register(SUBN, [TRAP])
    if how == "unregister":
        assert one.unregister(agent) == 0
    else:
        one.close()
    assert beside.try_register(SUBN, [TRAP])[0] == 0


def test_vendor_classes_are_owned_by_oui(program: Opener) -> None:
    one = program()
    assert one.try_register(VENDOR, [1], oui=0x1405)[0] == 0
    assert one.try_register(VENDOR, [1], oui=0x0002C9)[0] == 0
    assert one.try_register(VENDOR, [1], oui=0x1405)[0] == errno.EINVAL
    assert one.try_register(VENDOR, [1], oui=0)[0] == errno.EINVAL


@pytest.mark.parametrize(
    ("mgmt_class", "options", "error"),
    [
        (SUBN, {"version": 8}, errno.EINVAL),
        (80, {}, errno.EINVAL),
        (0x82, {}, errno.EINVAL),
        (SUBN, {"rmpp": 1}, errno.EINVAL),
        (PERF, {"rmpp": 1}, errno.EINVAL),
        (SA, {"rmpp": 2, "version": 2}, errno.EINVAL),
        (SA, {"rmpp": 1, "version": 2}, 0),
        (SA, {"rmpp": 1, "version": 2, "flags": 1}, 0),
        (0, {}, 0),
        (0, {"flags": 1}, errno.EINVAL),
    ],
)
def test_what_can_be_registered(program: Opener, mgmt_class: int, options: dict[str, int], error: int) -> None:
    version = options.pop("version", 1)
    assert program().try_register(mgmt_class, [], version, **options)[0] == error


def test_an_agent_that_is_not_there_cannot_be_taken_away(program: Opener) -> None:
    one = program()
    agent = one.register(SUBN)
    assert (one.unregister(agent), one.unregister(agent), one.unregister(77)) == (0, errno.EINVAL, errno.EINVAL)


def test_a_request_of_an_agent_that_is_not_there_is_refused(program: Opener) -> None:
    one = program()
    one.register(DIRECTED)
    mad = get(AttributeID.NODE_INFO)
    assert (one.send(1, mad), one.send(32, mad)) == (errno.EIO, errno.EINVAL)
    assert one.send(0, mad) == 0


def test_unregistering_forgets_what_waits(program: Opener) -> None:
    one = program()
    agent = one.register(DIRECTED)
    mad = get(AttributeID.NODE_INFO, path=(1, 4))
    assert one.send(agent, mad, timeout=50) == 0
    assert one.unregister(agent) == 0
    assert one.register(DIRECTED) == agent
    assert one.hears_nothing()

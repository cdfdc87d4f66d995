"""The same conversations of real programs on our libibumad and on libumad2sim with ibsim, compared MAD by MAD.

They agree but for `DIFFERENT`, where ibsim differs from a real fabric, and for what both lack: the tests at the end.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import pytest

from ibkeys.mad import offsets as at
from ibkeys.mad.const import DIRECTED_ROUTE, SMP_CLASSES, AttributeID, Method, MgmtClass
from ibkeys.mad.sa import RmppType
from tests.corpus import DATA
from tests.integration.hosted import Hosted
from tests.integration.policy_opensm import running_opensm
from tests.integration.tapped import Heard, Tapped

TWO_SWITCH = DATA / "fabrics" / "two-switch.net"
SMP: Final = int(MgmtClass.SUBN_LID_ROUTED)
PMA: Final = int(MgmtClass.PERF_MGMT)
SA: Final = int(MgmtClass.SUBN_ADM)
NODE_INFO, SWITCH_INFO, PORT_INFO = (
    int(each) for each in (AttributeID.NODE_INFO, AttributeID.SWITCH_INFO, AttributeID.PORT_INFO)
)
COUNTERS: Final = 0x12
EXTENDED: Final = 0x1D
PORT_INFO_RECORD: Final = 0x12
_IN_RECORD: Final = 56 + 4 - 36
"""The place of PortInfo in the answer for a PortInfoRecord, which is compared from byte 36 on."""
_DIFFERENT: Final = {
    (SMP, NODE_INFO, 36): "LocalPortNum: ibsim leaves it 0 when a SMP comes by its LID",
    (SMP, PORT_INFO, 28): "LocalPortNum: ibsim leaves it 0 when a SMP comes by its LID",
    (SMP, SWITCH_INFO, 16): "ibsim's switches do not say that they can enforce partitions",
    (SMP, PORT_INFO, 22): "ibsim's switches do not say that their external ports send P_Key traps",
    (SMP, PORT_INFO, 26): "M_KeyLeasePeriod: in ibsim it is 4089 s, and no Set changes it",
    (SMP, PORT_INFO, 27): "M_KeyLeasePeriod: in ibsim it is 4089 s, and no Set changes it",
    (SMP, PORT_INFO, 29): "LinkWidthEnabled: ibsim ignores it in a Set",
    (SMP, PORT_INFO, 35): "LinkSpeedEnabled: ibsim ignores it in a Set",
    (SMP, PORT_INFO, 36): "NeighborMTU: ibsim ignores it in a Set",
    (SMP, PORT_INFO, 43): "partition enforcement: ibsim ignores it in a Set",
    (SMP, PORT_INFO, 51): "SubnetTimeOut: ibsim ignores it in a Set",
    (SMP, PORT_INFO, 53): "LocalPhyErrors and OverrunErrors: ibsim ignores them in a Set",
    **{(PMA, COUNTERS, place): "ibsim counts MADs, ours counts data packets" for place in range(24, 40)},
    **{(PMA, EXTENDED, place): "ibsim counts MADs, ours counts data packets" for place in range(8, 40)},
}
DIFFERENT: Final = _DIFFERENT | {
    (SA, PORT_INFO_RECORD, _IN_RECORD + place): why
    for (_, attribute, place), why in _DIFFERENT.items()
    if attribute == PORT_INFO
}
"""Class, attribute and byte of its data → why it differs."""
FRESH: Final = (
    *(f"smpquery {name} -D {route}" for name in ("nodeinfo", "nodedesc") for route in ("0", "0,1", "0,1,2")),
    *(
        f"smpquery {name} -D {port}"
        for name in ("portinfo", "pkeys", "guidinfo")
        for port in ("0 1", "0,1 0", "0,1 2", "0,1 6", "0,1,2 1")
    ),
    "smpquery switchinfo -D 0,1",
    "smpquery sl2vl -D 0,1 2",
    "smpquery vlarb -D 0,1 2",
    "ibnetdiscover",
)
"""Asked before an OpenSM has run."""
UP: Final = (
    "perfquery 1 1",
    "perfquery -x 2 1",
    "perfquery 1",
    "smpquery portinfo 1 1",
    "smpquery portinfo 7 2",
    "smpquery switchinfo 7",
    "ibtracert 1 6",
    "ibroute 7",
    "ibaddr 3",
)
"""Asked after OpenSM has brought the subnet up."""
MANAGED: Final = ("saquery CPI", "saquery NR 1", "saquery PIR 1/1", "saquery MCMR 0xc000", "sminfo")
"""Asked while OpenSM runs; libumad2sim can carry answers of one MAD."""


class Request(NamedTuple):
    """A request: of whom, and for what. ``data``: of a Set; that of a Get is what its program had in memory there."""

    mgmt_class: int
    method: int
    attribute: int
    modifier: int
    dlid: int
    path: bytes


class Exchange(NamedTuple):
    """The data of a Set, then status and data of the answer; None where none came."""

    sent: bytes
    status: int | None
    data: bytes


def is_ack(mad: bytes) -> bool:
    """Return whether *mad* is an ACK of RMPP."""
    return mad[at.MGMT_CLASS] == SA and mad[25] == RmppType.ACK


def record_of(mad: bytes) -> bytes:
    """Return the SA's header and its first record; behind it is what OpenSM had in memory there, on libumad2sim."""
    size = 8 * int.from_bytes(mad[44:46]) or 64
    return mad[36 : 56 + size]


def exchanges(heard: Sequence[Heard]) -> dict[Request, list[Exchange]]:
    """Return what passed of each request, in its order."""
    got = {each.mad[12:16]: each.mad for each in heard if not each.out and each.mad[at.METHOD] & at.RESPONSE}
    found: dict[Request, list[Exchange]] = {}
    for each in heard:
        mad = each.mad
        if not each.out or mad[at.METHOD] & at.RESPONSE or is_ack(mad):
            continue
        is_smp, is_directed = mad[at.MGMT_CLASS] in SMP_CLASSES, mad[at.MGMT_CLASS] == DIRECTED_ROUTE
        request = Request(
            SMP if is_smp else mad[at.MGMT_CLASS],
            mad[at.METHOD],
            int.from_bytes(mad[at.ATTRIBUTE_ID]),
            int.from_bytes(mad[at.ATTRIBUTE_MODIFIER]),
            0 if is_directed else each.dlid,
            mad[at.INITIAL_PATH][1 : 1 + mad[at.HOP_COUNT]] if is_directed else b"",
        )
        sent = mad[at.DATA] if request.method == Method.SET else b""
        answer = got.get(mad[12:16])
        status = None if answer is None else int.from_bytes(answer[at.STATUS]) & 0x7FFF
        data = b"" if answer is None else record_of(answer) if request.mgmt_class == SA else answer[at.DATA]
        found.setdefault(request, []).append(Exchange(sent, status, data))
    return found


class Both:
    """The same fabric twice. ``different``: the places of `DIFFERENT` that were so."""

    def __init__(self, ours: Hosted, theirs: Tapped) -> None:
        self.ours, self.theirs = ours, theirs
        self.different: set[tuple[int, int, int]] = set()
        self._heard: list[Heard] = []
        ours.watchers.append(lambda passed: self._heard.append(Heard(passed.out, passed.dlid, passed.mad)))

    def clear(self) -> None:
        self._heard.clear()
        self.theirs.heard.clear()

    def run(self, line: str) -> tuple[int, int]:
        """Run a command on both; return its exit codes, on ours first."""
        self.clear()
        command = shlex.split(line)
        return self.ours.run(command).returncode, self.theirs.run(command).returncode

    def sides(self) -> tuple[dict[Request, list[Exchange]], dict[Request, list[Exchange]]]:
        return exchanges(self._heard), exchanges(self.theirs.heard)

    def compare(self) -> int:
        """Compare what passed; return the number of requests."""
        ours, theirs = self.sides()
        assert ours.keys() == theirs.keys()
        for request, mine in ours.items():
            assert len(mine) == len(theirs[request]), request
            for one, other in zip(mine, theirs[request], strict=True):
                assert one.status == other.status, request
                for part in (one.sent, other.sent), (one.data, other.data):
                    places = {place for place, (a, b) in enumerate(zip(*part, strict=True)) if a != b}
                    found = {(request.mgmt_class, request.attribute, place) for place in places}
                    assert found <= DIFFERENT.keys(), (request, sorted(places), part)
                    self.different |= found
        return sum(map(len, ours.values()))


@contextmanager
def both() -> Iterator[Both]:
    with Hosted(TWO_SWITCH, library="own") as ours, Tapped(TWO_SWITCH) as theirs:
        yield Both(ours, theirs)


@pytest.fixture(scope="module")
def fresh() -> Iterator[Both]:
    with both() as fabrics:
        yield fabrics


@pytest.fixture(scope="module")
def up() -> Iterator[Both]:
    with both() as fabrics:
        for fabric in (fabrics.ours, fabrics.theirs):
            # One SMP at a time: else the order of the answers decides by which of two links OpenSM finds a switch.
            fabric.opensm("sweep_interval 0\nmax_wire_smps 1\nsingle_thread TRUE\n")
        assert fabrics.compare() > 150
        yield fabrics


@pytest.fixture(scope="module")
def managed() -> Iterator[Both]:
    with both() as fabrics, running_opensm(fabrics.ours), running_opensm(fabrics.theirs):
        yield fabrics


@pytest.mark.parametrize("line", FRESH)
def test_before_a_subnet_manager(fresh: Both, line: str) -> None:
    assert fresh.run(line) == (0, 0)
    assert fresh.compare()


@pytest.mark.parametrize("line", UP)
def test_after_opensm_whose_own_conversation_is_compared_too(up: Both, line: str) -> None:
    ours, theirs = up.run(line)
    assert ours == theirs
    assert up.compare()


@pytest.mark.parametrize("line", MANAGED)
def test_beside_opensm(managed: Both, line: str) -> None:
    assert managed.run(line) == (0, 0)
    assert managed.compare()


def test_each_difference_that_is_excused_is_there(up: Both) -> None:
    for line in ("ibnetdiscover", *UP):
        up.run(line)
        up.compare()
    reasons = {DIFFERENT[place] for place in up.different}
    assert reasons == set(DIFFERENT.values())


def answers(found: dict[Request, list[Exchange]]) -> list[int | None]:
    return [each.status for exchanged in found.values() for each in exchanged]


def test_ibsim_does_not_answer_an_unknown_attribute(fresh: Both) -> None:
    fresh.run("smpdump -D 0 0x99")
    ours, theirs = map(answers, fresh.sides())
    assert (ours, theirs) == ([0x0C], [None])


def test_libumad2sim_sends_on_a_route_that_does_not_begin_at_the_port(fresh: Both) -> None:
    """The kernel refuses it: smi.c, smi_handle_dr_smp_send."""
    fresh.run("smpquery nodeinfo -D 0,2")
    ours, theirs = map(answers, fresh.sides())
    assert (ours, set(theirs)) == ([], {None})


def test_ibsim_does_not_know_a_route_that_begins_with_a_lid(up: Both) -> None:
    assert up.run("ibportstate 8 1 query") == (0, 255)


def test_libumad2sim_has_no_answers_of_several_mads(managed: Both) -> None:
    managed.clear()
    asked = [fabric.run(["saquery", "-p"]).stdout.count("PathRecord dump") for fabric in (managed.ours, managed.theirs)]
    assert asked[0] == 64
    assert asked[1] != 64


def test_libumad2sim_lets_two_programs_own_a_class_and_method(managed: Both) -> None:
    """So a second OpenSM starts at the port of the first."""
    logs = [
        fabric.run([*fabric.opensm_arguments(extra=("-o", "-f", "stdout"))], env=fabric.opensm_environment).stdout
        for fabric in (managed.ours, managed.theirs)
    ]
    assert ["osm_vendor_bind: ERR" in log for log in logs] == [True, False]

"""The connection to the OpenSM's host is cut at every point of an apply: what is open is finished, or goes back.

ssh goes through a relay that ends after so many pieces from the other side, each time one later.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from ibkeys.host.host_lock import lock_file
from tests.corpus import DATA
from tests.integration.hosted import last_operation, left_over, opensm
from tests.integration.other_host import OtherHost
from tests.integration.relay import NO_USER, READER, WRITER, Relay
from tests.integration.sshd import Sshd
from tests.integration.subnet import Subnet
from tests.integration.tenants import GREEN, SM, TENANTS, tables
from tests.sample import in_soak

LOCK = lock_file(Path("opensm.conf")).name
SAMPLE = {READER: (0.3, "undo"), WRITER: (0.8, "resume")}
"""The point of each connection under make test, as a share of the whole, and how it goes on."""
ROWS = [
    in_soak(READER, SAMPLE[READER][1], False),
    (WRITER, SAMPLE[WRITER][1], False),
    *(in_soak(which, way_on, True) for which in SAMPLE for way_on in ("resume", "undo")),
]


class Cut(OtherHost):
    """The other host behind the relay."""

    relay: Relay

    def run(self, *words: str | int | Path) -> subprocess.CompletedProcess[str]:
        return self.served.ibkeys(*words, "--yes", *self.options, timeout=180)

    def open_operations(self) -> list[str]:
        done = self.served.ibkeys("journal", "-f", "json")
        return [each["state"] for each in json.loads(done.stdout)["operations"] if each["state"] == "open"]


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cut]:
    folder = tmp_path_factory.mktemp("cut")
    with ExitStack() as stack:
        served = stack.enter_context(Subnet(DATA / "fabrics" / "two-switch.net"))
        running = stack.enter_context(opensm(served, TENANTS, words=("-g", f"{SM:#x}")))
        other = Cut(served, running, stack.enter_context(Sshd(folder / "sshd")), folder)
        other.relay = Relay(folder / "relay", other.sshd)
        yield other


def whole(cut: Cut) -> None:
    """One apply and undo without a cut, to know how many pieces there are."""
    cut.relay.arm(NO_USER, 0)
    assert cut.run("apply", cut.plan, "--via", "opensm", "--allow-removals").returncode == 0
    cut.counts = {which: cut.relay.pieces(which) for which in (READER, WRITER)}
    cut.relay.arm(NO_USER, 0)
    assert cut.run("undo", last_operation(cut.served)).returncode == 0
    assert all(count > 10 for count in cut.counts.values())


def points(which: int, count: int, every: bool) -> Sequence[int]:
    """Where to cut, *every* one up to far beyond the end: a busy machine makes other pieces in each run."""
    if every:
        return range(1, 3 * count)
    return [1 + round(SAMPLE[which][0] * (count - 4))]


@pytest.mark.parametrize(("which", "way_on", "every"), ROWS)
def test_a_cut_at_every_point_is_finished_or_goes_back(cut: Cut, which: int, way_on: str, every: bool) -> None:
    before = tables(cut.served)
    whole(cut)
    after, mended = None, 0
    for point in points(which, cut.counts[which], every):
        cut.relay.arm(which, point)
        done = cut.run("apply", cut.plan, "--via", "opensm", "--allow-removals")
        cut.relay.arm(NO_USER, 0)
        may_stay = []
        if done.returncode == 0:  # the cut came when all was done, at most the lock was not removed
            assert cut.run("undo", last_operation(cut.served)).returncode == 0
            if every and point > cut.counts[which] / 2:
                break
        elif not cut.open_operations():
            assert done.returncode == 3, done.stderr
            assert "host smhost" in done.stderr
            may_stay = [[LOCK]]  # nobody could remove it; the next command takes it over
        elif way_on == "undo":
            mended += 1
            done = cut.run("undo")
            assert done.returncode == 0, (point, done.stderr)
        else:
            mended += 1
            done = cut.run("resume")
            assert done.returncode == 0, (point, done.stderr)
            assert cut.running.policy.read_bytes() == GREEN.encode()
            after = after or tables(cut.served)
            assert tables(cut.served) == after
            cut.relay.arm(NO_USER, 0)
            assert cut.run("undo", last_operation(cut.served)).returncode == 0
        assert cut.running.policy.read_bytes() == TENANTS.encode(), point
        assert tables(cut.served) == before, point
        assert not cut.open_operations()
        assert left_over(cut.running.policy) in [[], *may_stay]
    else:
        assert not every, "the last cut came before the end"
    assert mended or not every

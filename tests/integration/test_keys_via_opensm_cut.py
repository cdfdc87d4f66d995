"""The connection to the OpenSMs' host is cut at every point of a rotation of the M_Key: --resume ends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.hosted import left_over
from tests.integration.keyed_opensm import CLOSED
from tests.integration.keyed_standbys import KeyedSite, keyed_site, through_ssh
from tests.integration.relay import NOBODY, READER, WRITER, Relay

ALL = 30
SAMPLE = (WRITER, 0.6)
"""How many points of each connection under make soak; the one under make test, as a share of the whole."""


@dataclass
class Cut:
    """A site with a key on every port, behind the relay."""

    site: KeyedSite
    relay: Relay

    def rotate(self) -> dict[int, int]:
        """Rotate without a cut; return how many pieces each connection has."""
        self.relay.arm(NOBODY, 0)
        code, said = self.site.ibkeys("mkey-rotate")
        assert code == 0, said
        return {which: self.relay.pieces(which) for which in (READER, WRITER)}

    def cut(self, which: int, point: int) -> bool:
        """Let a rotation be cut, and look at what it leaves; returns whether there was something to finish."""
        before = self.site.key()
        self.relay.arm(which, point)
        code, said = self.site.ibkeys("mkey-rotate")
        self.relay.arm(NOBODY, 0)
        self.site.assert_no_key_is_lost()
        is_open = "--resume" in said
        if is_open:
            assert code == 3, said
            assert "host smhost" in said
            code, said = self.site.ibkeys("mkey-rotate", "--resume")
            assert code == 0, said
        elif code:  # nothing was begun
            assert self.site.key() == before
            return False
        self.site.assert_no_key_is_lost()
        key, *rest = self.site.key()
        assert (key != before[0], rest) == (True, [2, 60])
        return is_open


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def start(stack: ExitStack, folder: Path, opensms: int) -> Cut:
    sshd, words = through_ssh(stack, folder)
    cut = Cut(stack.enter_context(keyed_site(opensms, words)), Relay(folder / "relay", sshd))
    code, said = cut.site.ibkeys("mkey-deploy", *CLOSED)
    assert code == 0, said
    return cut


def finish(cut: Cut, opensms: int) -> None:
    """At the end all of them are there, and nothing else."""
    assert cut.site.states() == ["master", *["standby"] * (opensms - 1)]
    assert cut.site.violations() == 0
    for each in cut.site.opensms:
        assert left_over(each.conf) == []


def test_a_cut_in_the_middle_is_finished(stack: ExitStack, tmp_path: Path) -> None:
    cut = start(stack, tmp_path, 1)
    which, share = SAMPLE
    assert cut.cut(which, round(share * cut.rotate()[which]))
    finish(cut, 1)


@pytest.mark.soak
@pytest.mark.parametrize("which", [READER, WRITER], ids=["reader", "writer"])
def test_a_cut_at_every_point_is_finished_with_a_standby(stack: ExitStack, tmp_path: Path, which: int) -> None:
    cut = start(stack, tmp_path, 2)
    count = cut.rotate()[which]
    mended = [cut.cut(which, 1 + number * (count - 1) // ALL) for number in range(ALL)]
    assert sum(mended) > ALL // 4
    finish(cut, 2)

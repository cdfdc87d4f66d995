"""The connection to the OpenSMs' host is cut anywhere in a rotation of the M_Key, which goes on or back then; and while
the level of one that nobody confirmed is lowered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ibkeys.host.host_lock import lock_file
from tests.integration.hosted import left_over
from tests.integration.keyed_crash import REFUSED, KeyedScene
from tests.integration.keyed_opensm import CLOSED
from tests.integration.keyed_standbys import KeyedSite, keyed_site, through_ssh
from tests.integration.lowering_crash import AGAIN, WAYS_DOWN, LoweringScene
from tests.integration.relay import NO_USER, READER, WRITER, Relay

PARTS = 8
"""Under `make soak` the connection is cut after each piece, in so many tests."""
WITH_STANDBY = 3 * PARTS
"""With a standby in more tests, since each cut takes three times as long."""
SAMPLE = (WRITER, 0.6)
"""The point of a rotation under `make test`, as a share of all those of a connection."""
SAMPLE_DOWN = 40
"""That of a lowering, of about 60 which its writer has."""
CONNECTIONS = pytest.mark.parametrize("which", [READER, WRITER], ids=["reader", "writer"])


@dataclass
class Cut:
    """A site with a key on every port, behind the relay."""

    site: KeyedSite
    relay: Relay

    def rotate(self) -> dict[int, int]:
        """Rotate without a cut; return how many pieces each connection has."""
        self.relay.arm(NO_USER, 0)
        code, said = self.site.ibkeys("mkey-rotate")
        assert code == 0, said
        return {which: self.relay.pieces(which) for which in (READER, WRITER)}

    def cut(self, which: int, point: int, way_on: str = "resume") -> bool:
        """Let a rotation be cut, look at what it leaves, and finish it, or go back where keys are not mixed; returns
        whether there was something to finish."""
        before = self.site.key()
        self.relay.arm(which, point)
        code, said = self.site.ibkeys("mkey-rotate")
        self.relay.arm(NO_USER, 0)
        self.site.assert_no_key_is_lost()
        is_open = "`ibkeys resume`" in said
        if is_open:
            assert code == 3, said
            assert "host smhost" in said
            code, said = self.site.ibkeys(way_on)
            if way_on == "undo" and code == 0:
                assert self.site.key() == before
                return True
            if code == REFUSED and "can only be finished" in said:
                code, said = self.site.ibkeys("resume")
            assert code == 0, said
        elif code:  # nothing was begun
            assert self.site.key() == before
            return False
        self.site.assert_no_key_is_lost()
        key, *rest = self.site.key()
        assert (key != before[0], rest) == (True, [2, 60])
        return is_open


def start(stack: ExitStack, folder: Path, opensms: int) -> Cut:
    sshd, words = through_ssh(stack, folder)
    cut = Cut(stack.enter_context(keyed_site(opensms, words)), Relay(folder / "relay", sshd))
    code, said = cut.site.ibkeys("mkey-deploy", *CLOSED)
    assert code == 0, said
    return cut


def finish(cut: Cut, opensms: int) -> None:
    """At the end all of them are there, and nothing else; the next rotation removes a lock that nobody could remove."""
    if any(left_over(each.conf) == [lock_file(each.conf).name] for each in cut.site.opensms):
        cut.relay.arm(NO_USER, 0)
        assert cut.site.ibkeys("mkey-rotate")[0] == 0
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
@CONNECTIONS
@pytest.mark.parametrize("way_on", ["resume", "undo"])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_cut_anywhere_is_finished_or_goes_back(
    stack: ExitStack, tmp_path: Path, which: int, way_on: str, part: int
) -> None:
    cut = start(stack, tmp_path, 1)
    mended = [cut.cut(which, point, way_on) for point in range(1 + part, cut.rotate()[which] + 1, PARTS)]
    assert any(mended)
    finish(cut, 1)


@pytest.mark.soak
@CONNECTIONS
@pytest.mark.parametrize("part", range(WITH_STANDBY))
def test_a_cut_anywhere_is_finished_with_a_standby(stack: ExitStack, tmp_path: Path, which: int, part: int) -> None:
    cut = start(stack, tmp_path, 2)
    mended = [cut.cut(which, point) for point in range(1 + part, cut.rotate()[which] + 1, WITH_STANDBY)]
    assert any(mended)
    finish(cut, 2)


# --- the way back of a rotation that nobody confirmed -----------------------------------------------------------------


class CutScene(KeyedScene):
    """The site, as a scene whose commands are not killed but cut off on a connection."""

    def __init__(self, cut: Cut, which: int) -> None:
        super().__init__(cut.site.served, [each.conf for each in cut.site.opensms], "", lambda: finish(cut, 1))
        self.site, self.relay, self.which, self.words = cut.site, cut.relay, which, cut.site.words
        self.cuts = 0
        """How many commands did not get to their end."""

    def run(self, words: Sequence[str], mode: str = "off", point: int = 0) -> tuple[int, str]:
        """Run a command; with *mode* ``kill`` it is cut off at *point*."""
        self.relay.arm(self.which if mode == "kill" else NO_USER, point)
        return self.site.ibkeys(*words)

    def points_of(self, words: Sequence[str]) -> int:
        self.must(*words)
        return self.relay.pieces(self.which)

    def kill(self, words: Sequence[str], point: int) -> None:
        """Let a command be cut off at a point, and look at where keys are then, and what it says."""
        code, said = self.run(words, "kill", point)
        self.relay.arm(NO_USER, 0)
        assert code == 0 or (
            code == 3
            and "host smhost" in said
            and re.search("restore the former state with `ibkeys undo [0-9]+`", said)
        ), said
        self.cuts += code != 0
        self.assert_no_key_is_lost()


def cut_scene(stack: ExitStack, folder: Path, which: int) -> CutScene:
    sshd, words = through_ssh(stack, folder)
    return CutScene(Cut(stack.enter_context(keyed_site(1, words)), Relay(folder / "relay", sshd)), which)


@pytest.mark.soak
def test_a_cut_while_the_level_goes_back_is_finished(stack: ExitStack, tmp_path: Path) -> None:
    scene = cut_scene(stack, tmp_path, WRITER)
    LoweringScene(scene).cut_off(SAMPLE_DOWN, AGAIN)
    assert scene.cuts == 1


@pytest.mark.soak
@CONNECTIONS
@pytest.mark.parametrize("way_on", WAYS_DOWN)
def test_a_cut_anywhere_while_the_level_goes_back_is_finished_or_the_run_is(
    stack: ExitStack, tmp_path: Path, which: int, way_on: str
) -> None:
    scene = cut_scene(stack, tmp_path, which)
    lowering = LoweringScene(scene)
    for point in range(1, lowering.points() + 1):
        lowering.cut_off(point, way_on)
    assert scene.cuts

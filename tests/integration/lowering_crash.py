"""A rotation that nobody confirmed, and an ibkeys that dies while it lowers the level: what must hold then, and how it
goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ibkeys.sim.server.outbox import PassedMad
from tests.integration.keyed_crash import KeyedScene, Setting
from tests.integration.keyed_opensm import stage_of_last_run
from tests.integration.waiting import Waiting

AGAIN = "--unconfirmed"
WAYS_DOWN = (AGAIN, "undo", "resume")
"""From a lowering that died. The first one is the same command again."""
_LEVEL_1 = ("--protect", "1")
_TOO_LATE = "600"
"""Seconds for the confirmation: more than any test takes."""


class LoweringScene:
    """A scene whose last run waits for a confirmation that never comes. It began at level 1 and is at level 2."""

    def __init__(self, scene: KeyedScene) -> None:
        self.scene = scene
        self.former: Setting = (0, 0, 0)
        """What all ports had before the last run."""

    def begin(self) -> list[str]:
        """Bring the subnet to level 2 by a run whose process and child have died; return what lowers the level."""
        scene, last = self.scene, self.scene.last_run()
        words = ["resume"]
        if last is None or not last.is_open:
            self._to_level_1()
            self.former = scene.key()
            words = ["mkey-rotate", "--protect", "2"]
        waiting = Waiting(scene.served, *words, "--confirm-within", _TOO_LATE, *scene.words)
        waiting.hear(answer=scene.answer)
        waiting.die_with_child()
        assert scene.key()[1:] == (2, 60)
        last = scene.last_run()
        assert last is not None
        return ["undo", AGAIN, str(last.id)]

    def _to_level_1(self) -> None:
        _, level, _ = self.scene.key()
        if level == 0:
            self.scene.must("mkey-deploy", *_LEVEL_1, "--lease", "60")
        elif level > 1:
            self.scene.must("mkey-rotate", *_LEVEL_1)

    def points(self) -> int:
        """Return how many points the lowering has."""
        return self.scene.points_of(self.begin())

    def cut_off(self, point: int, way_on: str) -> None:
        """Let the lowering die at a point, go on, and look at all that must hold."""
        scene, lowering = self.scene, self.begin()
        key, level, lease = scene.key()
        with self._no_port_opens():
            scene.kill(lowering, point)
            said = self._lower_again(lowering) if way_on == AGAIN else scene.must(way_on, lowering[-1])
        wanted, stands = {
            AGAIN: ((key, level - 1, lease), ("open", "gone-back")),
            "resume": ((key, level, lease), ("done", "confirmed")),
            "undo": (self.former, ("undone", "confirmed")),
        }[way_on]
        assert (scene.key(), scene.said_in_confs(), stage_of_last_run(scene.stores)) == (wanted, {wanted}, stands)
        scene.assert_no_key_is_lost()
        scene.assert_nothing_beside(said)
        scene.check()

    def _lower_again(self, lowering: list[str]) -> str:
        """Lower it again, and return what ibkeys said; "" where it had nothing to do, and so took no lock over."""
        code, said = self.scene.run(lowering)
        assert code == 0 or (code == 3 and "was rolled back already" in said), said
        return said if code == 0 else ""

    @contextmanager
    def _no_port_opens(self) -> Iterator[None]:
        """Within this every port is at level 1 or above after each MAD, with a key that is in the key store."""
        seen: set[tuple[int, int]] = set()

        def watch(mad: PassedMad) -> None:
            settings = self.scene.keys()
            seen.update((key, level) for key, level, _ in settings)

        self.scene.served.watchers.append(watch)
        try:
            yield
        finally:
            self.scene.served.watchers.remove(watch)
        assert min(level for _, level in seen) >= 1
        assert {key for key, _ in seen} <= self.scene.stored_keys()

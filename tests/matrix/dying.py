"""A subnet whose commands die at one of their Sets."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from ibkeys.mad.const import Method
from ibkeys.sim.deliveries import DeliveryOutcome
from ibkeys.sim.nodes import SimPort
from tests.mkeys.two_admins_driver import Site, import_all


class DyingSite(Site, ABC):
    """A site whose next command dies when so many Sets have left; before that or after it has been answered."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 1)
        self.dies_at: int | None = None
        """At which Set, 1 for the first; None: at none."""
        self.dies_before = False
        """Whether that Set has not left yet."""

    def _is_the_fabric(self) -> AbstractContextManager[object]:
        if self.dies_at is not None:
            self._die_at(self.dies_at)
        return super()._is_the_fabric()

    def _die_at(self, number: int) -> None:
        inner, counter = self.net.send, itertools.count(1)

        def send(mad: bytes, origin: SimPort, dlid: int = 0xFFFF) -> DeliveryOutcome:
            is_last = mad[3] == Method.SET and next(counter) == number
            if is_last and self.dies_before:
                os.kill(os.getpid(), signal.SIGKILL)
            outcome = inner(mad, origin, dlid)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return outcome

        self.net.send = send  # type: ignore[method-assign]

    @abstractmethod
    def prove(self) -> None:
        """Make the cell, and look at all that must hold."""


def main(make: Callable[[Path, str], DyingSite], directory: str, *names: str) -> None:
    """Prove each cell in a folder of its own; SystemExit with how many failed."""
    import_all()
    failed = 0
    for number, name in enumerate(names):
        folder = Path(directory) / str(number)
        cell = make(folder, name)
        try:
            cell.prove()
        except AssertionError as error:
            failed += 1
            if os.environ.get("HISTORY"):
                traceback.print_exc()
                print("\n".join(cell.history), file=sys.stderr)
            print(f"{name}: {error}", file=sys.stderr)
        shutil.rmtree(folder)
    if failed:
        raise SystemExit(f"{failed} of {len(names)} cells")

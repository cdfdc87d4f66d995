"""The OpenSM of a rehearsal: started on the copy of the fabric, and waited for until it rests."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ibkeys.errors import IbkeysError
from ibkeys.printable import named
from ibkeys.rehearse.opensm_options import LOG
from ibkeys.rehearse.twin import Twin, kill_program
from ibkeys.sim.nodes import SimNode

_SWEPT: Final = re.compile(r"SUBNET UP|Errors during initialization")
"""The lines with which a heavy sweep ends. Source: opensm osm_state_mgr.c, do_sweep."""
_ERROR: Final = re.compile(r"\bERR ([0-9A-F]{4})\b")
_LONGEST: Final = 300.0
"""Seconds within which OpenSM has to come to rest: a first sweep of 2,048 hosts takes a few."""
_PAUSE: Final = 0.05


class OpensmRun:
    """An OpenSM on the copy. *host*: its node; *words*: its command line; *folder*: the folder of its files; *quiet*:
    how long no MAD must be sent until OpenSM counts as idle, in seconds: longer than it waits for an answer."""

    def __init__(self, twin: Twin, host: SimNode, words: Sequence[str], folder: Path, quiet: float) -> None:
        self._twin, self._quiet = twin, quiet
        self._log = folder / LOG
        self._again = partial(OpensmRun, twin, host, words, folder, quiet)
        self._first = self.sweeps()
        self._process: subprocess.Popen[bytes] = twin.start(
            host, words, {"OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
        )

    def wait_until_it_rests(self, sweeps: int = 1) -> None:
        """Wait until OpenSM has made at least *sweeps* heavy sweeps in all, and no program sends a MAD for a while.

        Raises IbkeysError if OpenSM ends, does not make these sweeps in time, or if MADs go on. The message has no text
        of the log, where keys are.
        """
        end = time.monotonic() + _LONGEST
        while self.sweeps() < self._first + sweeps:
            self._check_that_it_runs()
            if time.monotonic() > end:
                raise IbkeysError(
                    f"OpenSM made no heavy sweep on the copy of the fabric within {_LONGEST:g} s{self._errors_named()}"
                )
            time.sleep(_PAUSE)
        if not self._twin.wait_until_quiet(self._quiet, _LONGEST):
            raise IbkeysError(
                f"OpenSM sent MADs to the copy of the fabric for {_LONGEST:g} s without a pause{self._errors_named()}"
            )

        self._check_that_it_runs()

    def _check_that_it_runs(self) -> None:
        status = self._process.poll()
        if status is not None:
            raise IbkeysError(f"OpenSM ended on the copy of the fabric (exit status {status}){self._errors_named()}")

    def sweep(self) -> None:
        """Send SIGHUP to OpenSM, so that it reads its files and sweeps, and wait as `wait_until_it_rests`."""
        before = self.sweeps() - self._first
        self._process.send_signal(signal.SIGHUP)  # `ibkeys sim run` passes it on.
        self.wait_until_it_rests(before + 1)

    def stop(self) -> None:
        """End OpenSM, and wait until it has ended."""
        self._process.terminate()
        self._process.wait()

    def kill(self) -> None:
        """Kill OpenSM. May be called from another thread."""
        kill_program(self._process)

    def once_more(self) -> OpensmRun:
        """Start OpenSM again with the same command line when this one has ended, and return it once it rests. It goes
        on in the same log."""
        self._process.wait()
        started = self._again()
        started.wait_until_it_rests()
        return started

    def sweeps(self) -> int:
        """Return how many heavy sweeps its log has, those of an earlier OpenSM with the same log included."""
        return len(_SWEPT.findall(self.log()))

    def log(self) -> str:
        """Return the log up to now, with the keys of the copy in it; "" if there is none yet."""
        try:
            return self._log.read_text("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def errors(self) -> Counter[str]:
        """Return how often each error number of OpenSM is in its log."""
        return Counter(_ERROR.findall(self.log()))

    def _errors_named(self) -> str:
        errors = [f"ERR {number} ({count} times)" for number, count in self.errors().most_common()]
        return f"; its log has {named(errors)}" if errors else ""

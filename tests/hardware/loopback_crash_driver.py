"""Run by test_loopback_crash.py: the writes of a loopback, killed at points from the first write to the last.

    loopback_crash_driver.py DIRECTORY MOST

The points are those of `run_apart`, with crashpoint.c preloaded. MOST: how many of them, evenly spread; 0 is all. How
many left a write that stood, and how many there were, is printed.

After each kill: if a port is not as before, the journal names the write, and an M_Key that a port has is in the key
store. The next start puts everything back, by the same command and without a question.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from ibkeys.keys.mkey import MKey
from ibkeys.store.keystore.keystore import KeyStore
from tests.crashpoints.apart import run_apart
from tests.hardware.two_ports import Bench, outcomes


def work_of(bench: Bench) -> Callable[[Callable[[], None]], int]:
    def work(started: Callable[[], None]) -> int:
        found = outcomes(bench.run(before=lambda fabric: started()))
        return int(set(found.values()) != {"same"})

    return work


def killed(bench: Bench, point: int) -> bool:
    """Kill the writes at *point*, and let the next start put them back; return whether one stood."""
    before = bench.state()
    ended = run_apart(bench.net, work_of(bench), "kill", point)
    # a run may pass a few points fewer than the one that was counted, and then comes to its end
    assert ended.code in (-signal.SIGKILL, 0), f"ended with {ended.code}"
    stood = bench.state() != before
    assert bench.left() or not stood, "a write stands that the journal does not name"
    if bench.far.m_key:
        with KeyStore(bench.stores["keystore"], create=False) as store:
            assert MKey(bench.far.m_key) in store.all_keys().get(bench.far.guid, ()), "its M_Key is in no key store"
    found = outcomes(bench.run())
    assert "write.earlier" in found or not stood, "what was put back is not said"
    assert set(found.values()) <= {"same", "not-checked"}, found
    assert (bench.state(), bench.left()) == (before, 0), "it was not put back"
    return stood


def main(directory: str, most: str) -> None:
    folder = Path(directory)

    def bench(name: str) -> Bench:
        (folder / name).mkdir()
        return Bench(folder / name)

    counted = bench("count")
    ended = run_apart(counted.net, work_of(counted), "count", 0)
    assert ended.code == 0, ended
    points = range(0, ended.points, -(-ended.points // int(most)) if int(most) else 1)
    stood = 0
    for point in points:
        try:
            stood += killed(bench(str(point)), point)
        except BaseException as error:
            raise SystemExit(f"killed at point {point} of {ended.points}: {error!r}") from error
        shutil.rmtree(folder / str(point))
    print(stood, len(points))


if __name__ == "__main__":
    main(*sys.argv[1:])

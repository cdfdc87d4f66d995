"""``make fuzz``, ``python -m tests.fuzz``: give every target inputs until there were as many as wanted.

Each target has its share of the time, in slices; what was counted before counts too. Exit code 1: there are findings.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz.account import Account
from tests.fuzz.catalogue import TARGETS
from tests.fuzz.driving import forget, has_atheris, inputs_run
from tests.fuzz.seeds import begin_with, keep
from tests.fuzz.target import Target, place_of

ROOT = Path(__file__).resolve().parents[2]
_MOST = {"atheris": 1 << 30, "hypothesis": 20_000}
"""Inputs of one slice by driver: libFuzzer takes 32 bits, and Hypothesis cannot be told to end after some seconds."""


def main() -> int:
    """Fuzz, or keep what was found to reach new lines."""
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    chosen = options.target or list(TARGETS.values())
    if options.keep:
        for each in chosen:
            print(f"{each.name}: {keep(each, _grown(options.folder, each))} inputs kept", flush=True)
        return 0
    account = Account.read(options.folder / "account.json")
    while account.total < options.inputs:
        each = account.next_of(chosen)
        begun = time.monotonic()
        count = run_slice(each, options.driver, options.seconds, options.inputs - account.total, options.folder)
        account.add(each, count, time.monotonic() - begun)
        print(f"{account.total:>12,} inputs; {each.name}: {account.inputs[each.name]:,}", flush=True)
    return report(account, options.folder)


def run_slice(of: Target, driver: str, seconds: int, inputs: int, folder: Path) -> int:
    """Run one slice in a process of its own; return how many inputs it had. One that ends badly is a finding."""
    forget(folder)
    most, seed = min(inputs, _MOST[driver]), str(time.time_ns() % (1 << 31))
    command = ["-m", "tests.fuzz.slice", of.name, driver, str(most), str(seconds), seed, str(folder)]
    with (
        (folder / "slice.log").open("wb") as log,
        subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=log, stderr=log) as process,
    ):
        process.wait()
    shutil.rmtree(place_of(process.pid), ignore_errors=True)
    count = inputs_run(folder)
    said = (folder / "slice.log").read_text(errors="replace")
    print("".join(f"{line}\n" for line in said.splitlines() if line.startswith("finding: ")), end="", flush=True)
    if process.returncode or not count:
        ended = folder / "findings" / of.name
        ended.mkdir(parents=True, exist_ok=True)
        (ended / f"ended-{seed}.txt").write_text(f"{of.name}: the process ended with {process.returncode}\n{said}")
        print(f"finding: {of.name}: the process ended with {process.returncode}", flush=True)
        if not count:
            raise SystemExit(f"{of.name}: no input was run: {said[-2000:]}")
    return count


def report(account: Account, folder: Path) -> int:
    """Print what there was; return the exit code."""
    for name in sorted(account.inputs):
        print(f"{name:24}{account.inputs[name]:>12,} inputs{account.seconds[name]:>8.0f} s")
    findings = sorted((folder / "findings").glob("*/*.txt"))
    ran = f" from {account.begun} to {account.last}" if account.begun else ""
    print(f"{account.total:,} inputs{ran}, {len(findings)} findings")
    for each in findings:
        print(f"  {each}")
    return 1 if findings else 0


def _grown(folder: Path, of: Target) -> list[bytes]:
    """Return the committed inputs and those of the corpus that grew, the smallest of them."""
    grown = [each.read_bytes() for each in (folder / "corpus" / of.name).glob("*")]
    return [*begin_with(of), *sorted(grown, key=len)[:1500]]


def _target(name: str) -> Target:
    if name not in TARGETS:
        raise argparse.ArgumentTypeError(f"there is no {name!r}; there are {', '.join(TARGETS)}")
    return TARGETS[name]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", nargs="*", type=_target, metavar="TARGET", help="all by default")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="in all, those of earlier runs counted")
    parser.add_argument("--seconds", type=int, default=75, help="of one slice")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "fuzz", help="where all is kept")
    driver = "atheris" if has_atheris() else "hypothesis"
    parser.add_argument("--driver", choices=_MOST, default=driver)
    parser.add_argument("--keep", action="store_true", help="keep in tests/data/fuzz what reaches lines of its own")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

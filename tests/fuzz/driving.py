"""The drivers: what makes inputs for a target, judges them, counts them, and writes down what it finds.

`atheris` (libFuzzer) follows the coverage and keeps in a folder each input that reached something new. Where it is not
installed, Hypothesis draws a committed input and changes of it, and makes what it finds smaller.
"""

from __future__ import annotations

import hashlib
import importlib.util
import mmap
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.judge import Finding, Judge
from tests.fuzz.mutate import mutate
from tests.fuzz.seeds import begin_with
from tests.fuzz.target import Target

_COUNT_EACH = 4096
_COUNTED = "slice"
_MOST_OF_ONE = 3
"""Findings of one place that are written down in one slice: the others are the same."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the work: *inputs* for a target, or as many as it has in *seconds*. ``folder``: where all is kept."""

    target: Target
    inputs: int
    seconds: int
    seed: int
    folder: Path

    @property
    def corpus(self) -> Path:
        """Where the inputs are that reached something."""
        return self.folder / "corpus" / self.target.name

    @property
    def counted(self) -> Path:
        """The file with the number of inputs that were run: see `inputs_run`."""
        return self.folder / _COUNTED


class RunningOpensm:
    """A slice that runs: it judges, counts and writes down. Use it as a context manager."""

    def __init__(self, part: Slice) -> None:
        self.part = part
        self.judge = Judge(part.target, _COUNT_EACH)
        self.places: dict[str, int] = {}

    def one(self, data: bytes) -> Finding | None:
        """Judge one input."""
        found = self.judge.finding(data)
        self._counted[:] = self.judge.inputs.to_bytes(8)
        if found is not None:
            self._write_down(found)
        return found

    def _write_down(self, found: Finding) -> None:
        """Write an input and its report; of one place the smallest ones only."""
        self.places[found.place] = self.places.get(found.place, 0) + 1
        if self.places[found.place] > _MOST_OF_ONE:
            return
        folder = self.part.folder / "findings" / found.target
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{found.place.replace(' ', '-').replace('/', '-')}-{hashlib.sha256(found.data).hexdigest()[:12]}"
        (folder / name).write_bytes(found.data)
        (folder / f"{name}.txt").write_text(f"{found.target}: {found.place}\n{found.data!r}\n\n{found.report}")
        print(f"finding: {found.target}: {found.place}: {folder / name}", file=sys.stderr, flush=True)

    def __enter__(self) -> RunningOpensm:
        self.judge.__enter__()
        self.part.counted.write_bytes(bytes(8))
        with self.part.counted.open("r+b") as file:
            self._counted = mmap.mmap(file.fileno(), 8)
        return self

    def __exit__(self, *error: Any) -> None:
        self.judge.__exit__(None, None, None)
        self._counted.close()


def inputs_run(folder: Path) -> int:
    """Return how many inputs the last slice in *folder* had, also where it was killed or libFuzzer ended it."""
    counted = folder / _COUNTED
    return int.from_bytes(counted.read_bytes()) if counted.exists() else 0


def forget(folder: Path) -> None:
    """Forget that number, before a slice begins that may not come so far as to count."""
    (folder / _COUNTED).unlink(missing_ok=True)


def has_atheris() -> bool:
    """Whether atheris is installed."""
    return importlib.util.find_spec("atheris") is not None


def instrumented(load: Callable[[], Target]) -> Target:
    """Return the target that *load* imports, its rooms of ibkeys made to tell atheris where they go.

    What ibkeys imports when it is first used counts too, so the target runs once.
    """
    import atheris

    with atheris.instrument_imports(include=["ibkeys"]), Judge(target := load()) as judge:
        for data in target.seeds():
            judge.finding(data)
    return target


def by_atheris(part: Slice) -> None:
    """Run a slice with atheris. Ends the process, as libFuzzer does."""
    import atheris

    part.corpus.mkdir(parents=True, exist_ok=True)
    for data in begin_with(part.target):
        (part.corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    running = RunningOpensm(part)
    words = part.target.words

    def change(data: bytes, most: int, seed: int) -> bytes:
        if seed % 2:
            return bytes(atheris.Mutate(data, most))
        return mutate(data, random.Random(seed), words)[:most]

    options = {
        "runs": part.inputs,
        "max_total_time": part.seconds,
        "max_len": part.target.largest,
        "seed": part.seed,
        "timeout": 600,  # of the clock on the wall, which a busy machine passes; `Judge` looks at the processor's
        "rss_limit_mb": 2048,
        "verbosity": 0,
        "artifact_prefix": f"{part.folder}/",
        "print_final_stats": 0,
    }
    arguments = [sys.argv[0], *(f"-{name}={value}" for name, value in options.items()), str(part.corpus)]

    def one(data: bytes) -> None:
        running.one(data)

    running.__enter__()
    atheris.Setup(arguments, one, custom_mutator=change)
    atheris.Fuzz()


def by_hypothesis(part: Slice) -> None:
    """Run a slice with Hypothesis."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    inputs = inputs_of(part.target)
    with RunningOpensm(part) as running:

        @seed(part.seed)
        @settings(
            max_examples=part.inputs,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(inputs)
        def run(data: bytes) -> None:
            running.one(data)

        run()


def inputs_of(target: Target) -> Any:
    """Return a strategy of Hypothesis: one of the inputs of `begin_with`, with changes."""
    from hypothesis import strategies as st

    whole = begin_with(target)

    def changed(data: bytes, seed: int) -> bytes:
        return mutate(data, random.Random(seed), target.words, whole)[: target.largest]

    return st.builds(changed, st.sampled_from(whole), st.integers(0, (1 << 32) - 1))

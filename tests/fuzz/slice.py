"""One part of `make fuzz`, a process: ``python -m tests.fuzz.slice TARGET DRIVER INPUTS SECONDS SEED FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fuzz.driving import Slice, by_atheris, by_hypothesis, instrumented
from tests.fuzz.target import Target


def main(name: str, driver: str, inputs: str, seconds: str, seed: str, folder: str) -> None:
    """Run the slice. With atheris the process ends within."""

    def load() -> Target:
        from tests.fuzz.catalogue import TARGETS

        return TARGETS[name]

    is_atheris = driver == "atheris"
    part = Slice(instrumented(load) if is_atheris else load(), int(inputs), int(seconds), int(seed), Path(folder))
    (by_atheris if is_atheris else by_hypothesis)(part)


if __name__ == "__main__":
    main(*sys.argv[1:])

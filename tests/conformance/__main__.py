"""``python -m tests.conformance [CA [PORT]]``: does libibumad, and the kernel under it, do what umad.c claims?

It compiles the program against the libibumad of this machine, runs it at a port, by default the one that libibumad
chooses, and prints the claims that do not hold. Nothing on the fabric is changed: it registers agents at the port, and
asks for NodeInfo. Needs a C compiler, libibumad-dev and the rights to open the umad device. Ends with 0 if all hold.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

PROGRAM: Final = Path(__file__).with_name("umad.c")
INSTALL: Final = "apt-get install gcc libc6-dev libibumad-dev"
LIMIT: Final = 240.0
"""Seconds after which the program hangs."""


def compiled(folder: Path) -> Path:
    """Compile the program into *folder*, linked to the libibumad of this machine."""
    compiler = shutil.which("cc")
    if compiler is None:
        sys.exit(f"no C compiler: {INSTALL}")
    built = folder / PROGRAM.stem
    done = subprocess.run([compiler, "-Wall", "-o", str(built), str(PROGRAM), "-libumad"], timeout=LIMIT)
    if done.returncode:
        sys.exit(f"it was not compiled: {INSTALL}")
    return built


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ibkeys-conformance-") as folder:
        command = [str(compiled(Path(folder))), *sys.argv[1:]]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LIMIT)
    claims = done.stdout.splitlines()
    wrong = [line for line in claims if not line.startswith("ok")]
    for line in wrong:
        print(line)
    print(f"{len(claims) - len(wrong)} of {len(claims)} claims hold")
    if done.returncode < 0:
        print(f"the program was ended by signal {-done.returncode}")
    sys.exit(bool(done.returncode))


if __name__ == "__main__":
    main()

"""What contrib/ has, and the programs that judge it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

CONTRIB: Final = Path(__file__).parents[2] / "contrib"
RULES: Final = CONTRIB / "prometheus" / "ibkeys.rules.yml"
DASHBOARD: Final = CONTRIB / "grafana" / "ibkeys.json"
METRIC: Final = re.compile(r"\bibkeys_[a-z0-9_]+\b")
_SELECTOR: Final = re.compile(r"\bibkeys_[a-z0-9_]+(?:\{[^}]*\})?")


def program(name: str, package: str) -> str:
    """Return the path of a program; an AssertionError names the Debian package that has it."""
    found = shutil.which(name)
    assert found is not None, f"{name} is not installed: apt-get install {package}"
    return found


def promtool(*args: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool to its end."""
    command = [program("promtool", "prometheus"), *map(str, args)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)


def rule_expressions() -> dict[str, str]:
    """Return alert → expression, as they stand in the file of rules."""
    found: dict[str, str] = {}
    for block in RULES.read_text().split("- alert: ")[1:]:
        name, rest = block.split("\n", 1)
        text = rest.split("expr:", 1)[1]
        lines = re.split(r"\n\s+(?:for|labels): ", text, maxsplit=1)[0].removeprefix(" >-").split("\n")
        found[name] = " ".join(line.strip() for line in lines).strip()
    return found


def selectors(expression: str) -> list[str]:
    """Return the vector selectors of a query, without ranges and offsets."""
    return _SELECTOR.findall(expression)

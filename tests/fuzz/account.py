"""How many inputs each target had, in how much time: kept in a file, so that `make fuzz` goes on where it was ended."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.fuzz.target import Target


@dataclass(slots=True)
class Account:
    """``inputs`` and ``seconds`` by target. ``begun``, ``last``: UTC, ISO 8601. ``path``: the file."""

    path: Path
    inputs: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    begun: str = ""
    last: str = ""

    @classmethod
    def read(cls, path: Path) -> Account:
        """Return the account in a file, a new one where there is none."""
        return cls(path, **json.loads(path.read_text())) if path.exists() else cls(path)

    @property
    def total(self) -> int:
        """Inputs of all targets."""
        return sum(self.inputs.values())

    def add(self, target: Target, inputs: int, seconds: float) -> None:
        """Add a slice, and write the file."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.begun, self.last = self.begun or now, now
        self.inputs[target.name] = self.inputs.get(target.name, 0) + inputs
        self.seconds[target.name] = self.seconds.get(target.name, 0.0) + seconds
        content = {name: value for name, value in asdict(self).items() if name != "path"}
        self.path.write_text(json.dumps(content, indent=1) + "\n")

    def next_of(self, targets: list[Target]) -> Target:
        """Return the target that had least time for its share."""
        return min(targets, key=lambda each: self.seconds.get(each.name, 0.0) / each.share)

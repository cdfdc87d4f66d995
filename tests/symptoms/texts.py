"""The pasted texts of tests/data/symptoms, each with the cause that is expected, and where its command shows it.

A line that begins with ``###`` is the head of the text below it. ``cause``: must be among the first two. ``fault``: the
simulated fabric that has it, of `tests.symptoms.faults`; ``host``: a made sysfs. ``shows``: a regular expression that
the output of the cause's command matches.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from tests.corpus import DATA

FOLDER = DATA / "symptoms"


@dataclass(frozen=True)
class Pasted:
    text: str
    cause: str
    fault: str = ""
    host: str = ""
    shows: str = ""
    number: int = 0

    def __str__(self) -> str:
        return f"{self.number}-{self.fault or self.host or 'cluster'}-{self.cause}"


def pasted_texts() -> Iterator[Pasted]:
    """Yield the texts of all files."""
    records = [each for path in sorted(FOLDER.glob("*.txt")) for each in f"\n{path.read_text()}".split("\n### ")[1:]]
    for number, record in enumerate(records, 1):
        head, _, text = record.partition("\n")
        yield Pasted(text, **dict(word.split("=", 1) for word in shlex.split(head)), number=number)

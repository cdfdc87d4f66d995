"""The catalogue of dangers: three tables, whose rows are checked one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ibkeys.managers.dangers.between import BETWEEN
from ibkeys.managers.dangers.danger import Danger, FoundDanger, danger_of
from ibkeys.managers.dangers.of_files import FILE_DANGERS
from ibkeys.managers.dangers.of_options import OPTION_DANGERS
from ibkeys.managers.instance import Instance
from ibkeys.managers.report import SmReport

DANGERS: Final[tuple[Danger, ...]] = (*FILE_DANGERS, *OPTION_DANGERS)


def all_dangers(report: SmReport) -> Iterator[FoundDanger]:
    """Yield every danger in a report: first the dangers of the fabric and between OpenSMs, then those of each
    OpenSM."""
    for find in BETWEEN:
        yield from find(report)
    for instance in report.instances():
        yield from dangers_of(instance)


def dangers_of(instance: Instance) -> Iterator[FoundDanger]:
    """Yield the dangers in the files and options of one OpenSM."""
    for row in DANGERS:
        for seen in row.find(instance):
            yield danger_of(instance, row.name, seen, row.means, row.remedy)

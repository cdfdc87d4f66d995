"""The catalogue of dangers: the rows of three tables, checked one after the other."""

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
    """Yield every danger: those of the fabric and between OpenSMs first, then those of each OpenSM."""
    for find in BETWEEN:
        yield from find(report)
    for instance in report.instances():
        yield from dangers_of(instance)


def dangers_of(instance: Instance) -> Iterator[FoundDanger]:
    """Yield the dangers that one OpenSM shows by itself."""
    for row in DANGERS:
        for seen in row.find(instance):
            yield danger_of(instance, row.name, seen, row.means, row.remedy)

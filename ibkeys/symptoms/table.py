"""The table: all rows, from which the command, ibkeys-symptoms(7), a page of the site and the tests are made."""

from __future__ import annotations

from typing import Final

from ibkeys.symptoms import clusters, diags, host, opensm, opensm_sa, own_texts, programs, traps, values
from ibkeys.symptoms.row import Symptom

TABLE: Final[tuple[Symptom, ...]] = (
    *opensm.ROWS,
    *opensm_sa.ROWS,
    *traps.ROWS,
    *host.ROWS,
    *diags.ROWS,
    *programs.ROWS,
    *clusters.ROWS,
    *own_texts.ROWS,
    *values.ROWS,
)
SUBJECTS: Final = tuple(dict.fromkeys(row.subject for row in TABLE))
"""The subjects, in the order of the pages."""
BY_NAME: Final = {row.name: row for row in TABLE}

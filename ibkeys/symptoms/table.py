"""The table: all rows, from which the command, ibkeys-symptoms(7), a page of the site and the tests are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ibkeys.symptoms import clusters, diags, host, opensm, opensm_sa, own_texts, programs, traps, values
from ibkeys.symptoms.row import Symptom

BY_SUBJECT: Final[Mapping[str, Sequence[Symptom]]] = {
    opensm.SUBJECT: (*opensm.ROWS, *opensm_sa.ROWS, *traps.ROWS),
    host.SUBJECT: host.ROWS,
    diags.SUBJECT: diags.ROWS,
    programs.SUBJECT: programs.ROWS,
    clusters.KUBERNETES: clusters.OF_KUBERNETES,
    clusters.UFM: clusters.OF_UFM,
    clusters.NOT_OURS: clusters.NOT_KEYS,
    own_texts.SUBJECT: own_texts.ROWS,
    values.SUBJECT: values.ROWS,
}
"""The rows by subject, in the order of the pages."""
TABLE: Final = tuple(row for rows in BY_SUBJECT.values() for row in rows)
BY_NAME: Final = {row.name: row for row in TABLE}

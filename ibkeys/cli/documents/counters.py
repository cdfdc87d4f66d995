"""The document about violation counters: counters-clear."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.shared import ERRORS, UNREACHED, changed_ports

COUNTERS_CLEAR: Final = changed_ports(
    "counters-clear", 2, ERRORS._replace(optional=True), UNREACHED._replace(optional=True)
)

"""What is recorded: the scenarios, by subject. A new one is a row in one of these files."""

from __future__ import annotations

from typing import Final

from tests.recordings.recorder import Scenario
from tests.recordings.scenarios import (
    m_keys,
    m_keys_by_opensm,
    partitions,
    partitions_by_sm,
    ports,
    recovery,
    sm,
    stores,
)

_TABLES: Final = (ports, partitions, partitions_by_sm, m_keys, m_keys_by_opensm, recovery, sm, stores)
SCENARIOS: Final[dict[str, Scenario]] = {each.name: each for table in _TABLES for each in table.SCENARIOS}

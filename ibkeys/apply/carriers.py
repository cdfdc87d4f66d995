"""The carriers by name: the journal notes which one an operation went by, and it is finished and undone by the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from ibkeys.apply.carrier import Carrier
from ibkeys.apply.direct import DirectCarrier
from ibkeys.change.writer import Writer
from ibkeys.errors import StoreError
from ibkeys.store.journal import PlanRecord

CARRIERS: Final[Mapping[str, Callable[[Writer], Carrier]]] = {DirectCarrier.name: DirectCarrier}
"""Name → what makes it."""


def carrier_of(writer: Writer, record: PlanRecord | None) -> Carrier:
    """Return the carrier by which an operation of the journal went; those of earlier versions went the direct way, and
    so do operations without a plan. Raises StoreError for one that this version does not know."""
    name = _name_in(record.options) if record is not None else DirectCarrier.name
    make = CARRIERS.get(name)
    if make is None:
        raise StoreError(
            f"this operation was made by way of {name!r}, which this ibkeys does not know; use a newer one"
        )
    return make(writer)


def _name_in(options: str) -> str:
    try:
        kept = json.loads(options)
    except ValueError:
        return DirectCarrier.name  # who reads the permissions says that this is damaged
    return str(kept.get("carrier", DirectCarrier.name)) if isinstance(kept, dict) else DirectCarrier.name

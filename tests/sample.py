"""A long row of cases of which `make test` runs a named sample, and `make soak` all."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any, Final

import pytest

SOAK: Final = os.environ.get("IBKEYS_SOAK") == "1"
"""Whether this is `make soak`."""


def sampled(rows: Iterable[str], sample: Collection[str]) -> list[Any]:
    """Return *rows* for ``parametrize``, all but those of *sample* marked as soak.

    Raises ValueError for a name in the sample that is not a row: a sample that does not run must not look green.
    """
    names = list(rows)
    if strangers := set(sample) - set(names):
        raise ValueError(f"the sample names {sorted(strangers)}, which are not rows")
    return [pytest.param(name, marks=() if name in sample else pytest.mark.soak) for name in names]

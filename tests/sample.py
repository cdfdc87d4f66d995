"""A long row of cases of which `make test` runs a named sample, and `make soak` all."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, TypeVar

import pytest

T = TypeVar("T")
SOAK: Final = os.environ.get("IBKEYS_SOAK") == "1"
"""Whether this is `make soak`."""


def one_in(stride: int, rows: Sequence[T]) -> Sequence[T]:
    """Return every row under `make soak`; under `make test` one in *stride*, and the last."""
    return rows if SOAK else [*rows[:-1:stride], rows[-1]]


def in_soak(*values: object) -> Any:
    """Return a row for ``parametrize`` that `make soak` runs and `make test` does not."""
    return pytest.param(*values, marks=pytest.mark.soak)


def sampled(rows: Iterable[str], sample: Collection[str]) -> list[str]:
    """Return *rows* for ``parametrize``: all under `make soak`, under `make test` those of *sample* only.

    Raises ValueError for a name in the sample that is not a row: a sample that does not run must not look green.
    """
    names = list(rows)
    if strangers := set(sample) - set(names):
        raise ValueError(f"the sample names {sorted(strangers)}, which are not rows")
    return [name for name in names if SOAK or name in sample]

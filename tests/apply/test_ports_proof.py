"""When a port counts as written by OpenSM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ibkeys.apply.by_sm.ports_proof import ExpectedPort
from ibkeys.keys.pkey import PKey


def table(**entries: int) -> dict[int, PKey]:
    return {int(index[1:]): PKey(key) for index, key in entries.items()}


@pytest.mark.parametrize(("allow_both", "is_right"), [(True, True), (False, False)])
def test_with_allow_both_pkeys_another_membership_has_no_index_to_keep(allow_both: bool, is_right: bool) -> None:
    """OpenSM remembers an index of 0x0010 that the prediction does not know, and 0x8010 goes."""
    before, predicted = table(i0=0xFFFF, i5=0x8010), table(i0=0xFFFF, i5=0x0010)
    target: Any = SimpleNamespace(table=table(i0=0xFFFF, i3=0x0010), enforcement=None)
    assert (not ExpectedPort(predicted, before, allow_both_pkeys=allow_both).difference(target)) == is_right

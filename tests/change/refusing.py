"""A change that an interlock refuses."""

from __future__ import annotations

from typing import Any

import pytest

from ibkeys.errors import Refused


def refused(w: Any, plan: Any, interlock: str) -> None:
    with pytest.raises(Refused) as caught:
        w.apply(plan)
    assert caught.value.interlock == interlock
    assert interlock in str(caught.value)

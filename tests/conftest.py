"""Hypothesis profiles: the same examples at every run; few by default, many with IBKEYS_SOAK=1 (``make soak``)."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

_COMMON: dict[str, Any] = {
    "derandomize": True,
    "database": None,
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
settings.register_profile("default", max_examples=50, **_COMMON)
settings.register_profile("soak", max_examples=5000, **_COMMON)
settings.load_profile("soak" if os.environ.get("IBKEYS_SOAK") == "1" else "default")

"""What holds for all tests: Hypothesis profiles, and signals as a program at a terminal has them.

Hypothesis: the same examples at every run; few by default, many with IBKEYS_SOAK=1 (``make soak``).
"""

from __future__ import annotations

import os
import signal
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

# A shell lets what it runs in the background ignore SIGINT, and nohup SIGHUP; what tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

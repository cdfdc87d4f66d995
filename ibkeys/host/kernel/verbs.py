"""The violation counters of a port that verbs show to every user, from the output of ibv_devinfo.

Source: libibverbs verbs.h (bad_pkey_cntr and qkey_viol_cntr of ibv_query_port are PKeyViolations and QKeyViolations of
PortInfo; the device flags BAD_PKEY_CNTR and BAD_QKEY_CNTR say which devices count; a zero of other devices proves
nothing).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ibkeys.host.run_program import RunProgram

PROGRAM: Final = ("ibv_devinfo", "-v")
_COUNTED: Final = re.compile(r"^\s*(bad_pkey_cntr|qkey_viol_cntr):\s*0x([0-9a-fA-F]{1,8})\s*$", re.MULTILINE)
_FLAG: Final = re.compile(r"^\s*(BAD_PKEY_CNTR|BAD_QKEY_CNTR)\s*$", re.MULTILINE)
_FLAG_OF: Final = {"bad_pkey_cntr": "BAD_PKEY_CNTR", "qkey_viol_cntr": "BAD_QKEY_CNTR"}


@dataclass(frozen=True, slots=True)
class Violations:
    """PKeyViolations and QKeyViolations of a port; None if the device does not count them, or they could not be
    read."""

    p_key: int | None
    q_key: int | None


NOT_READ: Final = Violations(None, None)


def read_violations(run: RunProgram, device: str, port: int) -> Violations:
    """Return the violation counters of one port from the output of ibv_devinfo, which *run* runs; None for both if it
    fails."""
    if device.startswith("-"):  # a name that the program would take for an option
        return NOT_READ
    return violations_in(run([*PROGRAM, "-d", device, "-i", str(port)]) or "")


def violations_in(text: str) -> Violations:
    """Return the violation counters in the output of ``ibv_devinfo -v`` for one port; None for a counter that the
    device does not count."""
    flags = set(_FLAG.findall(text))
    counts = {name: int(number, 16) for name, number in _COUNTED.findall(text) if _FLAG_OF[name] in flags}
    return Violations(counts.get("bad_pkey_cntr"), counts.get("qkey_viol_cntr"))

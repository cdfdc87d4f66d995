"""mkey-remove: planning to remove the M_Key of every port of a subnet.

Key, level and lease go to 0 in one Set. Even if the Set or its reply is lost, the port can be reached: either nothing
changed, or its key is 0 and it accepts every SMP. If a device stores only a part of the Set, it is open or shows its
key: ProtectBits have no effect while the M_Key is 0, and at level 0 a Get shows the key to everybody (IBA 14.2.4). A
separate first Set for the level would gain nothing, and keys would be readable in between.
"""

from __future__ import annotations

from collections.abc import Mapping

from ibkeys.change.interlocks.m_keys import no_keys_left
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import OnFound
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mkeys.rollout.beginning import PlannedRun
from ibkeys.mkeys.rollout.found_ports import has_it_already
from ibkeys.mkeys.rollout.new_run import Order, plan_new_run
from ibkeys.mkeys.rollout.planned_run import describe
from ibkeys.mkeys.rollout.port_job import PortJob
from ibkeys.store.journal.runs import REMOVAL, RunOptions

NOTHING = KeySetting(NO_MKEY, 0, 0)
"""The setting of every port after the run."""


def plan_removal(
    writer: ChangeWriter,
    at_once: int = 64,
    first: int | None = None,
    max_failures: int = 5,
    order: Order = "farthest",
    progress: OnFound | None = None,
    *,
    leaves_open: bool = False,
) -> PlannedRun:
    """Plan a new run that removes M_Key, level and lease from every end port of the fabric; all former keys stay in the
    key store. *at_once*, *first*, *max_failures*: as in `RunOptions`; *order*: by hops from the local port. A port
    without a key gets level and lease 0 if it has others; a port whose key is still in the key store is part of the run
    too. The user is asked whether the ports may be open afterwards, unless *leaves_open*. Raises Refused (``open-run``)
    while another run is not finished.
    """
    stored = writer.keystore.current()
    options = RunOptions(False, NOTHING.protect, NOTHING.lease, at_once, first, max_failures)
    run = plan_new_run(
        writer, REMOVAL, options, lambda old: NOTHING, lambda job: _has_nothing(job, stored), order, progress
    )
    describe(writer, run)
    losing = sum(not job.old.key.is_zero for job in run.jobs)
    if losing and not leaves_open:
        who = f"{losing} ports lose their M_Keys" if losing > 1 else "1 port loses its M_Key"
        run.plan.questions = [no_keys_left(who)]
    return run


def _has_nothing(job: PortJob, stored: Mapping[int, MKey]) -> str:
    """Return the reason why a port is skipped: it has no key, level or lease, and the key store has no key for it; else
    ""."""
    if has_it_already(job) and stored.get(job.port.port_guid, NO_MKEY).is_zero:
        return "it has no M_Key, no level and no lease"
    return ""

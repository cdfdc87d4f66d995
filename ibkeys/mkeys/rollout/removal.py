"""mkey-remove: planning to remove the M_Key of every port of a subnet.

Key, level and lease go to 0 in one Set. Whatever becomes of it or of its reply, the port can be reached: it has all
that it had, or its key is 0 and it accepts every SMP. Should a device take only a part, it is open or shows its key:
ProtectBits have no effect while the M_Key is 0, and at level 0 a Get shows the key to everybody (IBA 14.2.4). Level
first, in a Set of its own, as one would do by hand, gains nothing and leaves keys readable in between.
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
"""What every port has after the run."""


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
    key store. *at_once*, *first*, *max_failures* as `RunOptions` has them, *order* by hops from the local port.

    A port without a key gets level and lease 0 where it has any; one of which the key store still has a key is noted.
    That the ports are open afterwards is asked about, unless *leaves_open* says that it is meant. Raises Refused
    (``open-run``) while another run is not finished.
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
    """Return why a port is skipped, "" when it is not: it has nothing, and the key store knows that."""
    if has_it_already(job) and stored.get(job.port.port_guid, NO_MKEY).is_zero:
        return "it has no M_Key, no level and no lease"
    return ""

"""mkey-remove: planning to remove the M_Key of every port of a subnet.

One Set changes key, level and lease to 0. Even if the Set or its reply is lost, the port can be reached: either nothing
has changed, or its key is 0 and it accepts every SMP. If a device stores only a part of the Set, the port has no key or
shows its key: ProtectBits have no effect while the M_Key is 0, and at level 0 a Get shows the key to everybody (IBA
14.2.4). A separate Set for the level before that would gain nothing, and keys would be readable between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ibkeys.change.interlocks.m_keys import no_keys_left
from ibkeys.change.writer import ChangeWriter
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mkeys.planning_options import NO_OPTIONS, PlanningOptions
from ibkeys.mkeys.rollout.found_ports import has_wanted_setting
from ibkeys.mkeys.rollout.new_run import plan_new_run
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.port_job import PortJob
from ibkeys.mkeys.rollout.run_plan import describe
from ibkeys.store.journal.runs import REMOVAL, RunOptions

NO_KEY_SETTING = KeySetting(NO_MKEY, 0, 0)
"""The setting of every port after the run."""
OF_REMOVAL: Final = RunOptions(False, NO_KEY_SETTING.protect, NO_KEY_SETTING.lease)


def plan_removal(
    writer: ChangeWriter, options: RunOptions = OF_REMOVAL, planning: PlanningOptions = NO_OPTIONS
) -> PlannedRun:
    """Plan a new run that removes M_Key, level and lease from every end port of the fabric. All former keys stay in the
    key store.

    *options*: `OF_REMOVAL` with the limits of the user. A port without a key is changed if its level or lease is not 0,
    and is part of the run if the key store has a key for it. Unless ``planning.leaves_open``, the user is asked whether
    the ports may be without a key afterwards. Raises Refused (``open-run``) while another run is not finished, and the
    errors of `Fabric.sweep`.
    """
    stored = writer.keystore.current()
    run = plan_new_run(
        writer,
        REMOVAL,
        options,
        lambda old: NO_KEY_SETTING,
        lambda job: why_nothing_to_remove(job, stored),
        planning.order,
        planning.progress,
    )
    describe(writer, run)
    losing = sum(not job.old.key.is_zero for job in run.jobs)
    if losing and not planning.leaves_open:
        who = f"{losing} ports lose their M_Keys" if losing > 1 else "1 port loses its M_Key"
        run.plan.questions = [no_keys_left(who)]
    return run


def why_nothing_to_remove(job: PortJob, stored: Mapping[int, MKey]) -> str:
    """Return the reason why a port is skipped, if it has no key, level and lease and the key store has no key for it;
    else "". *stored*: the current keys of the key store, by port GUID."""
    if has_wanted_setting(job) and stored.get(job.port.port_guid, NO_MKEY).is_zero:
        return "no M_Key, no level and no lease"
    return ""

"""The step for the keys of subnet managers: a new sm_key and sa_key on all hosts, before the first M_Key.

With the default SA_Key anyone can ask the SA for the M_Key of every port.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ibkeys.change.interrupts import Interrupts
from ibkeys.change.writer import ChangeWriter
from ibkeys.harden.step import HardeningStep, HardenRequest, StepChange
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.site import reach
from ibkeys.mkeys.opensm.known_keys import options_files
from ibkeys.smkeys.key_holders import DEFAULT, keys_in
from ibkeys.smkeys.planning import KeyChange, plan_change
from ibkeys.smkeys.recorded_changes import COMMAND, changes_on
from ibkeys.smkeys.run import SmKeySettings


class SmKeyStep(HardeningStep):
    """The step that changes sm_key and sa_key."""

    name = "sm-keys"
    title = "a new SM_Key and SA_Key"
    command = COMMAND
    lifts = frozenset({"default-sa-key"})

    def is_due(self, writer: ChangeWriter, asked: HardenRequest) -> bool:
        """Return whether a change was interrupted on this subnet, so that its keys are pending in the key store.

        In a dry run, return True also if an options file has the default sa_key: the audit of a dry run does not query
        the SA with the default key. Raises StoreError, StoreSealed, HostNotReached, and the errors of a sweep.
        """
        found = writer.fabric.swept or writer.fabric.sweep()
        changes = changes_on(writer, {port.guid for port in found.end_ports()})
        if not (asked.is_dry or changes.pending(writer.keystore)):
            return False  # the audit has queried the SA with the default key, so its finding decides
        files = options_files(reach(writer.enter, asked.hosts), writer.fabric.own_guid)
        has_default = asked.is_dry and any(keys_in(file.data)["sa_key"] == DEFAULT for file in files)
        return has_default or bool(
            changes.with_unknown_keys_as_foreign(writer.keystore, files).pending(writer.keystore)
        )

    def plan_change(self, writer: ChangeWriter, asked: HardenRequest) -> StepChange | None:
        """Return the change of both keys, or the rest of an interrupted one. Raises the errors of
        `ibkeys.smkeys.planning.plan_change`."""
        interrupts = Interrupts()
        settings = SmKeySettings(asked.wait, check=interrupts.check, say=asked.say)
        plan = plan_change(writer, reach(writer.enter, asked.hosts), {}, settings)
        words = [_in_words(plan, file) for file in plan.managers.files]
        rollback = "former keys are not restored; `ibkeys smkey-rotate --via opensm` gives new ones"
        return StepChange.of(plan, words, rollback, lambda: _make(writer, plan, interrupts))


SM_KEYS: Final = SmKeyStep()


def _in_words(plan: KeyChange, file: OpensmFile) -> str:
    changes = [f"{kind} {plan.state(kind, key)} -> new" for kind, key in keys_in(file.data).items()]
    return f"{file.name}: {', '.join(changes)}"


def _make(writer: ChangeWriter, plan: KeyChange, interrupts: Interrupts) -> Sequence[str]:
    with interrupts:
        writer.apply(plan)
    return ()

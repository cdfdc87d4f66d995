"""The command `partition-spread`: give all OpenSMs the policy of the master."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ibkeys.cli.changing import writer_of
from ibkeys.cli.documents.policies import PARTITION_SPREAD
from ibkeys.cli.exits import clean, write
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.partitions.many_ports import ManyPortsChange, StepsBar
from ibkeys.cli.render import write_document
from ibkeys.cli.sm.files_request import FilesChangeOptions, files_change_options
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.policy import master_policy
from ibkeys.printable import named

if TYPE_CHECKING:
    from ibkeys.apply.spread import SpreadFile
    from ibkeys.managers.master_policy import MasterPolicy


@command("partition-spread")
@files_change_options("command_options", FilesChangeOptions)
def partition_spread(command_options: FilesChangeOptions) -> int:
    """Give all OpenSMs the policy of the master.

    An SM that was off keeps its former policy, and brings it into force when it takes over. This command shows how each
    file differs from the master's, asks, and replaces those that differ. No port changes, and no OpenSM is signalled.
    Refused if the master's file is older than the last change of the journal: then the former master has the changes.
    """
    from ibkeys.apply.apply_plan import ApplyHooks
    from ibkeys.apply.by_sm.course import CarrierSettings
    from ibkeys.apply.carriers import CarrierChoice
    from ibkeys.apply.spread import absent_sms_of, files_of, plan_spread
    from ibkeys.change.interrupts import Interrupts

    where, consent = command_options.where, command_options.consent
    hosts = hosts_of(where, command_options.sm_hosts)
    with open_fabric(where, changing=True) as fabric, writer_of(fabric, PARTITION_SPREAD.name, consent) as writer:
        interrupts, bar = Interrupts(), StepsBar(where.debug)
        master = master_policy(fabric, hosts, can_name_file=False)
        via = CarrierChoice(None, CarrierSettings(command_options.sm_wait), hosts)
        plan = plan_spread(writer, master, via, ApplyHooks(interrupts.check, bar))
        files, absent = files_of(plan), absent_sms_of(plan)
        shown = _Spread(writer, plan, consent, command_options.format, True, interrupts, bar, master, files, absent)
        return shown.carry_out()


@dataclass
class _Spread(ManyPortsChange):
    """The change, shown file by file. ``absent``: the SMs whose files cannot be reached, in words."""

    master: MasterPolicy
    files: list[SpreadFile]
    absent: tuple[str, ...]

    def show(self, put: Callable[[str], None]) -> None:
        """Write the difference of each file that differs."""
        for each in self.files:
            put(clean(f"{each.file.name}: {'differs from' if each.differs else 'is the same as'} the master's policy"))
            for line in each.difference.splitlines():
                put(f"  {clean(line)}")
        if not self.files:
            put("no other OpenSM has a policy file of its own")

    def _write_result(self, applied: bool) -> None:
        plan, dry_run = self.plan, self.consent.dry_run
        files = [
            {
                "host": each.file.machine.name or None,
                "path": str(each.file.seen.path),
                "differs": each.differs,
                "diff": each.difference,
            }
            for each in self.files
        ]
        if write_document(self.format, PARTITION_SPREAD, lambda: self._document(applied, files), files):
            return
        if applied and plan.failed:
            number = plan.operation_id
            write(f"partly done: operation {number} is still open; `ibkeys resume {number}` continues it")
        elif applied:
            write(clean(f"done: {self._outcome()}; `ibkeys undo {plan.operation_id}` restores them"))
        elif dry_run and plan.phases:
            write("dry run: nothing was changed")
        elif not plan.phases and not plan.refusals:
            write(clean(f"nothing to change: {self._outcome()}"))

    def _outcome(self) -> str:
        """Return, in words, which files have the master's policy, and which SMs were not compared."""
        if not self.absent:
            return "all files have the master's policy"
        return f"all files that can be reached have the master's policy. Not compared: {named(self.absent)}"

    def _document(self, applied: bool, files: list[dict[str, Any]]) -> dict[str, Any]:
        plan, content = self.plan, self.plan.to_json()
        is_left = bool(plan.failed or plan.refusals or (plan.phases and not applied))
        return {
            "dry_run": self.consent.dry_run,
            "applied": applied,
            "complete": not is_left,
            **{name: content[name] for name in ("operation", "notes", "interlocks", "errors")},
            "file": self.master.policy.path,
            "digest": self.master.policy.digest,
            "files": files,
        }

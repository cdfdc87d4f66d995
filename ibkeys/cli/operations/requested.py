"""An operation of the journal that a command line asks to resume or undo."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibkeys.cli.changing import writer_of
from ibkeys.cli.given import refuse_given
from ibkeys.cli.listing.folding import gives_each
from ibkeys.cli.mkeys.rollout_options import OpensmOptions, refuse_options_of_other_method
from ibkeys.cli.opening import open_fabric, stores_of
from ibkeys.cli.partitions.many_ports import ManyPortsChange, ManyPortsOptions, StepsBar
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.ufm import open_ufm

if TYPE_CHECKING:
    from ibkeys.change.open_operations import OperationTarget
    from ibkeys.cli.mkeys.run_request import RunRequest
    from ibkeys.cli.sm.files_request import FilesRequest
    from ibkeys.store.journal import Journal
    from ibkeys.store.journal.runs import MKeyRun

PERMISSION_OPTIONS: Final = ("--allow-removals", "--allow-break")
AT_ONCE_OPTION: Final = ("--at-once",)
FORWARD_OPTIONS: Final = ("--first", "--confirm-within")
UFM_OPTIONS: Final = tuple(f"--ufm-{name}" for name in ("token", "cert", "key", "ca", "insecure", "proxy"))
KEY_RUN_OPTIONS: Final = ("--max-failures", "--opensm-conf", "--standby-wait", "--open-while-rotating", "--leave-open")
NOT_FOR_FILES: Final = (
    *KEY_RUN_OPTIONS,
    *PERMISSION_OPTIONS,
    *FORWARD_OPTIONS,
    *AT_ONCE_OPTION,
    *UFM_OPTIONS,
    "--unconfirmed",
)
"""Options that have no effect on a change of OpenSM's files."""
FindTarget = Callable[["Journal", "int | None"], "OperationTarget"]


@dataclass(frozen=True, slots=True)
class RequestedOperation:
    """The operation that a command resumes, undoes or closes.

    ``command_options``: the options of the command. ``target``: the operation. ``run``: the run of M_Keys, if the
    operation is one; else None.
    """

    command_options: ManyPortsOptions
    target: OperationTarget
    run: MKeyRun | None

    def refuse(self, options: Iterable[str], why: str = "has no use for {}: omit it") -> None:
        """Raise UsageError if one of *options* was typed.

        *why*: the words of the message after the operation's name; ``{}`` in it stands for the typed options.
        """
        record = self.target.record
        name = f"operation {record.id} ({record.command})"
        refuse_given(options, f"{name} {why}")

    def close_record(self, path: Path | None) -> str:
        """End the record of the operation in the journal *path*, and return its name in words."""
        from ibkeys.store.journal import Journal

        record = self.target.record
        with Journal(path) as journal:
            journal.end_undos(record.id)
            journal.set_state(record.id, "undone")
        return f"operation {record.id} ({record.command})"

    def run_request(self, opensm: OpensmOptions, confirm_within: int | None = None) -> RunRequest:
        """Return the request to resume or undo a run of M_Keys.

        Raises UsageError if it is not the last run on its subnet.
        """
        from ibkeys.change.open_operations import refuse_earlier_run
        from ibkeys.cli.mkeys.run_request import RunRequest
        from ibkeys.mkeys.methods import method_of_run

        run = self.run
        refuse_earlier_run(self.target)
        assert run is not None  # only for runs of M_Keys; the journal found it to be the last one
        method = method_of_run(run)
        refuse_options_of_other_method(method)
        return RunRequest(run.command, self.command_options, method, opensm, confirm_within, run.id)

    def files_request(self, sm_wait: int) -> FilesRequest:
        """Return the request to resume, undo or close a change of sm_key and sa_key, or of part_enforce."""
        from ibkeys.cli.audit.enforcement import EnforcementRequest
        from ibkeys.cli.sm.smkey_change import SmKeyRequest

        kind = SmKeyRequest if self.target.kind == "sm-keys" else EnforcementRequest
        command_options = self.command_options
        return kind(
            command_options.where,
            command_options.consent,
            command_options.format,
            command_options.sm_hosts,
            sm_wait,
            self.target.record,
        )

    def restore(self, sm_wait: int, *, allow_break: bool, at_once: bool = False, unconfirmed: bool = False) -> int:
        """Undo a change of partitions or of values of ports; return the exit code. M_Keys are not restored.

        *sm_wait*: seconds without progress after which ibkeys gives an OpenSM up. The other arguments are options of
        `ibkeys undo`. Raises Refused for an interlock and without confirmation, and the errors of the undo.
        """
        from ibkeys.apply.apply_plan import ApplyHooks
        from ibkeys.apply.by_sm.course import CarrierSettings
        from ibkeys.apply.carriers import CarrierChoice
        from ibkeys.apply.undo import plan_undo
        from ibkeys.change.interrupts import Interrupts

        command_options = self.command_options
        where, consent = command_options.where, command_options.consent
        each = gives_each(command_options.folding, command_options.format)
        with open_fabric(where, changing=True) as fabric, writer_of(fabric, "undo", consent, self.target.id) as writer:
            interrupts, bar = Interrupts(), StepsBar(where.debug)
            settings = CarrierSettings(sm_wait, allow_break, at_once=at_once)
            via = CarrierChoice(
                None,
                settings,
                hosts_of(where, command_options.sm_hosts),
                open_ufm=partial(open_ufm, ufm_options=command_options.ufm),
            )
            hooks = ApplyHooks(interrupts.check, bar)
            plan = plan_undo(writer, self.target.id, hooks, via=via, breaks=allow_break, unconfirmed=unconfirmed)
            return ManyPortsChange(writer, plan, consent, command_options.format, each, interrupts, bar).carry_out()


def find_operation(
    command_options: ManyPortsOptions, operation: int | None, find_target_in: FindTarget
) -> RequestedOperation:
    """Return the operation that a command resumes, undoes or closes.

    *operation*: its number; None if none was typed. *find_target_in*: the function of `ibkeys.change.open_operations`
    that finds it in the journal, such as `find_to_resume`. Raises StoreError for an unknown operation and if none is
    open; UsageError if several are open and none was typed, or if the operation cannot be resumed, undone or closed.
    """
    from ibkeys.change.open_operations import find_target

    return RequestedOperation(
        command_options,
        *find_target(stores_of(command_options.where), operation, find_target_in, command_options.consent.dry_run),
    )

"""What the command line asks of an operation that goes on or back, and which one that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from ibkeys.cli.changing import writer_of
from ibkeys.cli.given import refuse_given
from ibkeys.cli.listing.folding import gives_each
from ibkeys.cli.mkeys.rollout_options import refuse_options_of_other_method
from ibkeys.cli.opening import open_fabric, stores_of
from ibkeys.cli.options import Changing, Folding, SmHosts, Where
from ibkeys.cli.partitions.many_ports import Bar, ManyPortsChange
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.ufm import UfmOptions, open_ufm
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.change.open_operations import Target
    from ibkeys.cli.audit.enforcement import EnforcementRequest
    from ibkeys.cli.mkeys.run_request import RunRequest
    from ibkeys.cli.sm.smkey_change import SmKeyRequest
    from ibkeys.store.journal import Journal
    from ibkeys.store.journal.runs import Run

ALLOW: Final = {"--allow-removals": "allow_removals", "--allow-break": "allow_break"}
AT_ONCE: Final = {"--at-once": "at_once"}
FORWARD: Final = {"--first": "first", "--confirm-within": "confirm_within"}
OF_UFM: Final = {f"--ufm-{name}": f"ufm_{name}" for name in ("token", "cert", "key", "ca", "insecure", "proxy")}
OF_KEYS: Final = {
    "--max-failures": "max_failures",
    "--opensm-conf": "opensm_conf",
    "--standby-wait": "standby_wait",
    "--open-while-rotating": "open_while_rotating",
}
"""Options by how they are typed, and how click calls them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks. ``target``: the operation; ``last``: the last run of M_Keys."""

    where: Where
    ufm: UfmOptions
    consent: Changing
    sm_hosts: SmHosts
    folding: Folding
    format: str
    target: Target
    last: Run | None

    def refuse(self, options: Mapping[str, str], why: str = "has no use for {}: omit it") -> None:
        """Raise UsageError if one of *options* was typed. *why*: the words after the name of the operation, with {} for
        these options."""
        record = self.target.record
        name = f"operation {record.id} ({record.command})"
        refuse_given(options, f"{name} {why}")

    def run_request(
        self, sm_wait: int, standby_wait: int, opens: bool, confirm_within: int | None = None
    ) -> RunRequest:
        """Return the request to go on with the last run of M_Keys, or to roll it back. *opens*: --open-while-rotating.
        Raises UsageError if the operation is not that run."""
        from ibkeys.cli.mkeys.run_request import RunRequest

        last, record = self.last, self.target.record
        if not self.target.is_last_run:
            ends = f"`ibkeys resume {record.id} --overtaken` ends the record of this one"
            raise UsageError(
                f"operation {record.id} ({record.command}) is not the last run of M_Keys: only that one goes on or "
                f"back; {ends if record.state == 'failed' or record.is_unfinished else 'this one has ended'}"
            )
        command = last.command if last is not None else record.command
        is_through_opensm = last is not None and last.via is not None
        if last is not None:
            refuse_options_of_other_method(is_through_opensm)
        given = self.where, self.sm_hosts, self.consent, self.format
        times = sm_wait, standby_wait, opens, confirm_within
        return RunRequest(command, *given, is_through_opensm, *times, last.id if last is not None else None)

    def sm_key_request(self, sm_wait: int) -> SmKeyRequest:
        """Return the request to go on with a change of sm_key and sa_key, to take it back, or to end its record."""
        from ibkeys.cli.sm.smkey_change import SmKeyRequest

        return SmKeyRequest(self.where, self.consent, self.sm_hosts, sm_wait, self.format, self.target.record)

    def enforcement_request(self, sm_wait: int) -> EnforcementRequest:
        """Return the request to go on with a change of part_enforce, to take it back, or to end its record."""
        from ibkeys.cli.audit.enforcement import EnforcementRequest

        return EnforcementRequest(self.where, self.consent, self.sm_hosts, sm_wait, self.format, self.target.record)

    def restore(self, sm_wait: int, *, allow_break: bool, at_once: bool = False, unconfirmed: bool = False) -> int:
        """Restore what the operation overwrote, where that is no M_Key; the arguments are options of `ibkeys undo`."""
        from ibkeys.apply.apply_plan import ApplyHooks
        from ibkeys.apply.by_sm.course import Settings
        from ibkeys.apply.carriers import Via
        from ibkeys.apply.undo import plan_undo
        from ibkeys.change.interrupts import Interrupts

        where, consent = self.where, self.consent
        each = gives_each(self.folding, self.format)
        with open_fabric(where, changing=True) as fabric, writer_of(fabric, "undo", consent, self.target.id) as writer:
            interrupts, bar = Interrupts(), Bar(where.debug)
            settings = Settings(sm_wait, allow_break, at_once=at_once)
            via = Via(None, settings, hosts_of(where, self.sm_hosts), open_ufm=partial(open_ufm, given=self.ufm))
            hooks = ApplyHooks(interrupts.check, bar)
            plan = plan_undo(writer, self.target.id, hooks, via=via, breaks=allow_break, unconfirmed=unconfirmed)
            return ManyPortsChange(writer, plan, consent, self.format, each, interrupts, bar).carry_out()


Find = Callable[["Journal", "int | None"], "Target"]


def find(where: Where, dry_run: bool, operation: int | None, meant: Find) -> tuple[Target, Run | None]:
    """Return the operation that is *meant*, as a function of `ibkeys.change.open_operations` says, and the last run of
    M_Keys. *operation*: its number, None where none was typed. Raises StoreError and UsageError."""
    from ibkeys.store.journal import Journal
    from ibkeys.store.journal.runs import Runs
    from ibkeys.store.moving_runs import move_run_between

    stores = stores_of(where)
    move_run_between(stores.keystore, stores.journal, dry_run)
    with Journal.read(stores.journal) as journal:
        return meant(journal, operation), Runs(journal).last()

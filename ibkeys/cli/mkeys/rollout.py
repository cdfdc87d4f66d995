"""M_Keys over a fabric: mkey-deploy, mkey-rotate and mkey-remove."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ibkeys.cli import exits, options
from ibkeys.cli.changing import end_overtaken, writer_of
from ibkeys.cli.help.command import command
from ibkeys.cli.left_locks import remove_left_locks
from ibkeys.cli.mkeys import rollout_options
from ibkeys.cli.mkeys.confirming import Awaiting, awaiting, lower
from ibkeys.cli.mkeys.rollout_options import (
    AT_ONCE,
    MAX_FAILURES,
    ConfirmationOptions,
    KeyOptions,
    MethodOptions,
    RolloutOptions,
)
from ibkeys.cli.mkeys.rollout_output import Steps
from ibkeys.cli.mkeys.rollout_shown import ShownRun
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import Changing, SmHosts, Where
from ibkeys.cli.secrets import read_m_key
from ibkeys.cli.showing import progress_bar
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.change.writer import Writer
    from ibkeys.discovery.wanted import OnFound
    from ibkeys.mkeys.opensm.planned import ViaOpensm
    from ibkeys.mkeys.rollout.new_keys import Command
    from ibkeys.mkeys.rollout.planned_run import PlannedRun
    from ibkeys.mkeys.rollout.rest import GoOn
    from ibkeys.store.keys.runs import RunOptions

    NewRun = Callable[[Writer, OnFound | None], PlannedRun]
    NewRunVia = Callable[[Writer, OnFound | None, ViaOpensm], PlannedRun]


@dataclass(frozen=True, slots=True)
class _RunRequest:
    """The command line of a run, without its keys."""

    command: str
    where: Where
    course: RolloutOptions
    method: MethodOptions
    sm_hosts: SmHosts
    confirming: ConfirmationOptions
    consent: Changing
    format: str

    def is_through_opensm(self, writer: Writer) -> bool:
        """Whether the run goes through OpenSM: as the user says, else as it began."""
        from ibkeys.mkeys.opensm.earlier import goes_through_opensm

        if self.method.via is not None or not self.course.is_of_an_earlier_run:
            return self.method.is_opensm
        return goes_through_opensm(writer)

    def through(self, awaits: Awaiting | None = None) -> ViaOpensm:
        """Return the options for a run through OpenSM. *awaits*: learns when the run begins."""
        from ibkeys.mkeys.opensm.method import RunListener
        from ibkeys.mkeys.opensm.planned import ViaOpensm

        self.method.check(self.course)
        listener = RunListener(lambda text: exits.warn(text, "to do"), Steps().tell)
        if awaits is not None:
            listener = replace(listener, began=awaits.began)
        hosts, is_awaited = hosts_of(self.where, self.sm_hosts), self.confirming.confirm_within is not None
        return ViaOpensm(
            hosts, self.method.sm_wait, self.method.open_while_rotating, listener, is_awaited, self.method.standby_wait
        )

    def awaits(self, stack: ExitStack) -> Awaiting | None:
        """Start the child of --confirm-within, which *stack* leaves at its end; None if no run is to be confirmed."""
        seconds = self.confirming.confirm_within
        if seconds is None or self.consent.dry_run or self.method.via == "direct":
            return None
        return stack.enter_context(
            awaiting(self.command, self.where, self.sm_hosts, self.method.sm_wait, seconds, self.through)
        )


@command("mkey-deploy")
@rollout_options.keys
@rollout_options.course
@rollout_options.method
@rollout_options.confirming
@options.sm_hosts
@options.changing
@options.format
@options.fabric
def mkey_deploy(
    where: Where,
    keys: KeyOptions,
    course: RolloutOptions,
    method: MethodOptions,
    confirming: ConfirmationOptions,
    sm_hosts: SmHosts,
    consent: Changing,
    format: str,
) -> int:
    """Give every port of the subnet its first M_Key.

    Choose whether all ports get one key (--same) or each its own (--per-port). Ports that have a key are left
    alone. Each key is generated and saved in the key store, on disk, before it is sent. Level and lease are set
    together with the key; values that are not given stay as they are. If an OpenSM is master, use --via opensm:
    OpenSM gets one key and sets it on all ports.
    """
    return _give_keys(keys, _RunRequest("mkey-deploy", where, course, method, sm_hosts, confirming, consent, format))


@command("mkey-rotate")
@rollout_options.keys
@rollout_options.course
@rollout_options.method
@rollout_options.confirming
@options.sm_hosts
@options.changing
@options.format
@options.fabric
def mkey_rotate(
    where: Where,
    keys: KeyOptions,
    course: RolloutOptions,
    method: MethodOptions,
    confirming: ConfirmationOptions,
    sm_hosts: SmHosts,
    consent: Changing,
    format: str,
) -> int:
    """Give every port of the subnet that has an M_Key a new one.

    Choose whether all ports get one key (--same) or each its own (--per-port). Ports without a key are left alone,
    and so are ports whose key is not known. Each key is generated and saved in the key store, on disk, before it is
    sent; the old one stays there. Level and lease are set together with the key; values that are not given stay as
    they are. If an OpenSM is master, use --via opensm: OpenSM gets one key and sets it on all ports.
    """
    return _give_keys(keys, _RunRequest("mkey-rotate", where, course, method, sm_hosts, confirming, consent, format))


@command("mkey-remove")
@rollout_options.course
@rollout_options.method
@rollout_options.confirming
@click.option("--leave-open", is_flag=True, help="Confirm that the ports may be open to everyone afterwards.")
@options.sm_hosts
@options.changing
@options.format
@options.fabric
def mkey_remove(
    where: Where,
    course: RolloutOptions,
    method: MethodOptions,
    confirming: ConfirmationOptions,
    leave_open: bool,
    sm_hosts: SmHosts,
    consent: Changing,
    format: str,
) -> int:
    """Remove the M_Key of every port of the subnet.

    M_Key, level and lease become 0, in one Set that carries the present key of the port. Afterwards every host of
    the subnet can change the ports. A port whose key is not known is left alone and named. Every former key stays
    in the key store, and --abort restores it. If an OpenSM is master, use --via opensm.
    """
    course.check([])
    confirming.check(course)
    confirming.refuse_removal()

    def plan(writer: Writer, progress: OnFound | None) -> PlannedRun:
        from ibkeys.mkeys.rollout.removal import plan_removal

        return plan_removal(
            writer,
            course.at_once or AT_ONCE,
            course.first,
            course.max_failures or MAX_FAILURES,
            course.order or "farthest",
            progress,
            leaves_open=leave_open,
        )

    def plan_via(writer: Writer, progress: OnFound | None, through: ViaOpensm) -> PlannedRun:
        from ibkeys.mkeys.opensm.planned import plan_removal

        return plan_removal(writer, through, progress, leaves_open=leave_open)

    request = _RunRequest("mkey-remove", where, course, method, sm_hosts, confirming, consent, format)
    return _carry_out(request, plan, plan_via)


def _give_keys(keys: KeyOptions, request: _RunRequest) -> int:
    course, is_through_opensm = request.course, request.method.is_opensm
    request.confirming.check(course, keys.given())
    if request.confirming.unconfirmed is None:
        keys.check(course, is_through_opensm)
    key = read_m_key(keys.new_m_key, "--new-m-key", confirm=True) if keys.new_m_key is not None else None
    if keys.opensm_conf is not None:
        from ibkeys.host.opensm_conf import read_conf

        read_conf(keys.opensm_conf)  # an unreadable file ends the command before the fabric is opened

    def options_of(same: bool) -> RunOptions:
        from ibkeys.store.keys.runs import RunOptions

        bounds = course.at_once or AT_ONCE, course.first, course.max_failures or MAX_FAILURES
        return RunOptions(same, keys.protect, keys.lease, *bounds)

    def plan(writer: Writer, progress: OnFound | None) -> PlannedRun:
        from ibkeys.mkeys.rollout.new_keys import plan_run

        file = keys.new_m_key[1:] if keys.new_m_key is not None and keys.new_m_key.startswith("@") else ""
        order = course.order or "farthest"
        command: Command = "mkey-deploy" if request.command == "mkey-deploy" else "mkey-rotate"
        return plan_run(writer, command, options_of(keys.same), key, order, file, progress, keys.opensm_conf)

    def plan_via(writer: Writer, progress: OnFound | None, through: ViaOpensm) -> PlannedRun:
        from ibkeys.mkeys.opensm.planned import plan_keys

        return plan_keys(writer, request.command, options_of(same=True), through, key, progress)

    return _carry_out(request, plan, plan_via, keys.opensm_conf)


def _carry_out(request: _RunRequest, plan_new: NewRun, plan_new_via: NewRunVia, opensm_conf: Path | None = None) -> int:
    """Plan a new run, or continue or roll back the last one, and carry out the plan; or lower an earlier level.

    With --overtaken both the rollback and the rest are planned, for what refuses them.
    """
    if request.confirming.unconfirmed is not None:
        return _lower(request, request.confirming.unconfirmed)
    command, course, where = request.command, request.course, request.where

    def plan(writer: Writer, progress: OnFound | None) -> PlannedRun:
        from ibkeys.mkeys.rollout.going_back import plan_return
        from ibkeys.mkeys.rollout.rest import plan_rest

        if course.abort or course.overtaken:
            run = plan_return(writer, course.at_once, course.max_failures, progress)
            if not course.overtaken:
                return run
        if course.go_on or course.resume or course.overtaken:
            how: GoOn = "continue" if course.go_on else "resume"
            return plan_rest(writer, how, course.at_once, course.max_failures, progress, opensm_conf)
        return plan_new(writer, progress)

    def plan_via(writer: Writer, progress: OnFound | None) -> PlannedRun:
        from ibkeys.mkeys.opensm import planned

        through = request.through(awaits)
        if course.abort or course.overtaken:
            run = planned.plan_return(writer, through, progress)
            if not course.overtaken:
                return run
        if course.resume or course.overtaken:
            return planned.plan_rest(writer, through, progress)
        return plan_new_via(writer, progress, through)

    with ExitStack() as stack:
        awaits = request.awaits(stack)
        fabric = stack.enter_context(open_fabric(where, changing=True))
        writer = stack.enter_context(writer_of(fabric, command, request.consent))
        if awaits is not None:
            awaits.keep_key(where, fabric)
        with progress_bar(where) as progress:
            is_through_opensm = request.is_through_opensm(writer)
            if not is_through_opensm:
                request.method.check_direct()
            make_plan = plan_via if is_through_opensm else plan
            if course.overtaken:
                going_on = "the last run: --resume finishes it, --abort rolls it back"
                return end_overtaken(
                    request.consent,
                    partial(make_plan, writer, progress),
                    partial(_close_overtaken, where, writer),
                    going_on,
                )
            run = make_plan(writer, progress)
        begun = run.plan.command
        # A user who wants to set keys must not remove them by finishing that run, nor the other way round; and to take
        # one run back must not take back a later one.
        if command != begun and (course.abort or "mkey-remove" in {command, begun}):
            raise UsageError(f"the last run was started by {begun}; to continue it: ibkeys {begun} {course.ways[0]}")
        return ShownRun(writer, run, request.consent, request.format, where, awaits).carry_out()


def _close_overtaken(where: Where, writer: Writer) -> str:
    """End the record of the last run, remove the locks that it left on the hosts of OpenSMs, and return its name."""
    from ibkeys.mkeys.opensm.earlier import goes_through_opensm, hosts_of_last_run
    from ibkeys.mkeys.rollout.closing import close_overtaken

    name = close_overtaken(writer)
    if goes_through_opensm(writer):
        remove_left_locks(where, writer.command, hosts_of_last_run(writer.keystore))
    return name


def _lower(request: _RunRequest, operation: int) -> int:
    """Lower the level that an earlier operation raised and nobody confirmed."""
    if request.consent.dry_run:
        raise UsageError("--unconfirmed has no dry run: omit --dry-run")
    where, consent = request.where, request.consent
    with open_fabric(where, changing=True) as fabric, writer_of(fabric, request.command, consent) as writer:
        return lower(writer, request.through(), operation)

"""M_Keys over a fabric: mkey-deploy, mkey-rotate and mkey-remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ibkeys.cli import options
from ibkeys.cli.help.command import command
from ibkeys.cli.mkeys import rollout_options
from ibkeys.cli.mkeys.rollout_options import (
    AT_ONCE,
    MAX_FAILURES,
    KeyOptions,
    MethodOptions,
    RolloutOptions,
    refuse_options_of_other_method,
)
from ibkeys.cli.mkeys.run_request import RunRequest
from ibkeys.cli.options import Changing, SmHosts, Where
from ibkeys.cli.secrets import read_m_key
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.change.writer import Writer
    from ibkeys.discovery.wanted import OnFound
    from ibkeys.mkeys.opensm.planned import ViaOpensm
    from ibkeys.mkeys.rollout.new_keys import Command
    from ibkeys.mkeys.rollout.planned_run import PlannedRun
    from ibkeys.store.journal.runs import RunOptions


@command("mkey-deploy")
@rollout_options.keys
@rollout_options.course
@rollout_options.method
@options.sm_hosts
@options.changing
@options.format
@options.fabric
def mkey_deploy(
    where: Where,
    keys: KeyOptions,
    course: RolloutOptions,
    method: MethodOptions,
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
    request = _request("mkey-deploy", where, method, sm_hosts, consent, format)
    return _give_keys(request, keys, course)


@command("mkey-rotate")
@rollout_options.keys
@rollout_options.course
@rollout_options.method
@options.sm_hosts
@options.changing
@options.format
@options.fabric
def mkey_rotate(
    where: Where,
    keys: KeyOptions,
    course: RolloutOptions,
    method: MethodOptions,
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
    request = _request("mkey-rotate", where, method, sm_hosts, consent, format)
    return _give_keys(request, keys, course)


@command("mkey-remove")
@rollout_options.course
@rollout_options.method
@click.option("--leave-open", is_flag=True, help="Confirm that the ports may be open to everyone afterwards.")
@options.sm_hosts
@options.changing
@options.format
@options.fabric
def mkey_remove(
    where: Where,
    course: RolloutOptions,
    method: MethodOptions,
    leave_open: bool,
    sm_hosts: SmHosts,
    consent: Changing,
    format: str,
) -> int:
    """Remove the M_Key of every port of the subnet.

    M_Key, level and lease become 0, in one Set that carries the present key of the port. Afterwards every host of
    the subnet can change the ports. A port whose key is not known is left alone and named. Every former key stays
    in the key store, and `ibkeys undo ID` restores it. If an OpenSM is master, use --via opensm.
    """
    if method.confirm_within is not None:
        raise UsageError("mkey-remove raises no level that could be rolled back: omit --confirm-within").explained(
            "A key is never rolled back automatically; `ibkeys undo ID` restores the keys."
        )
    request = _request("mkey-remove", where, method, sm_hosts, consent, format)

    def plan(writer: Writer, progress: OnFound | None, through: ViaOpensm | None) -> PlannedRun:
        from ibkeys.mkeys.opensm import planned
        from ibkeys.mkeys.rollout.removal import plan_removal

        if through is not None:
            return planned.plan_removal(writer, through, progress, leaves_open=leave_open)
        return plan_removal(
            writer,
            course.at_once or AT_ONCE,
            course.first,
            course.max_failures or MAX_FAILURES,
            course.order or "farthest",
            progress,
            leaves_open=leave_open,
        )

    return request.carry_out(plan)


def _give_keys(request: RunRequest, keys: KeyOptions, course: RolloutOptions) -> int:
    keys.check(request.is_through_opensm)
    key = read_m_key(keys.new_m_key, "--new-m-key", confirm=True) if keys.new_m_key is not None else None
    if keys.opensm_conf is not None:
        from ibkeys.host.opensm_conf import read_conf

        read_conf(keys.opensm_conf)  # an unreadable file ends the command before the fabric is opened

    def options_of(same: bool) -> RunOptions:
        from ibkeys.store.journal.runs import RunOptions

        bounds = course.at_once or AT_ONCE, course.first, course.max_failures or MAX_FAILURES
        return RunOptions(same, keys.protect, keys.lease, *bounds)

    def plan(writer: Writer, progress: OnFound | None, through: ViaOpensm | None) -> PlannedRun:
        from ibkeys.mkeys.opensm.planned import plan_keys
        from ibkeys.mkeys.rollout.new_keys import plan_run

        if through is not None:
            return plan_keys(writer, request.command, options_of(same=True), through, key, progress)
        file = keys.new_m_key[1:] if keys.new_m_key is not None and keys.new_m_key.startswith("@") else ""
        order = course.order or "farthest"
        command: Command = "mkey-deploy" if request.command == "mkey-deploy" else "mkey-rotate"
        return plan_run(writer, command, options_of(keys.same), key, order, file, progress, keys.opensm_conf)

    return request.carry_out(plan)


def _request(
    command: str,
    where: Where,
    method: MethodOptions,
    sm_hosts: SmHosts,
    consent: Changing,
    format: str,
) -> RunRequest:
    """Return the request for a new run. Raises UsageError for options that do not apply to its method."""
    refuse_options_of_other_method(method.is_opensm)
    times = method.sm_wait, method.standby_wait, method.open_while_rotating, method.confirm_within
    return RunRequest(command, where, sm_hosts, consent, format, method.is_opensm, *times)

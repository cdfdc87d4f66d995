"""The commands `mkey-deploy`, `mkey-rotate` and `mkey-remove`: M_Keys of a whole fabric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ibkeys.cli.help.command import command
from ibkeys.cli.mkeys import rollout_options
from ibkeys.cli.mkeys.key_options import read_new_m_key
from ibkeys.cli.mkeys.rollout_options import KeyOptions, KeyRunOptions, refuse_options_of_other_method
from ibkeys.cli.mkeys.run_request import RunRequest
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.mkeys.methods import KeyMethod
    from ibkeys.mkeys.rollout.new_keys import KeyCommand


@command("mkey-deploy")
@rollout_options.keys
@rollout_options.key_run_options()
def mkey_deploy(command_options: KeyRunOptions, keys: KeyOptions) -> int:
    """Give every port of the fabric its first M_Key.

    Choose whether all ports get one key (--same) or each its own (--per-port). Ports that have a key are left
    alone. Each key is generated and saved in the key store, on disk, before it is sent. Level and lease are set
    together with the key; values that are not given stay as they are. If an OpenSM is master, the run goes through
    it: OpenSM gets one key and sets it on all ports.
    """
    return _give_keys("mkey-deploy", command_options, keys)


@command("mkey-rotate")
@rollout_options.keys
@rollout_options.key_run_options()
def mkey_rotate(command_options: KeyRunOptions, keys: KeyOptions) -> int:
    """Replace the M_Key of every port that has one.

    Choose whether all ports get one key (--same) or each its own (--per-port). Ports without a key are left alone,
    and so are ports whose key is not known. Each key is generated and saved in the key store, on disk, before it is
    sent; the old one stays there. Level and lease are set together with the key; values that are not given stay as
    they are. If an OpenSM is master, the run goes through it: OpenSM gets one key and sets it on all ports.
    """
    return _give_keys("mkey-rotate", command_options, keys)


@command("mkey-remove")
@rollout_options.key_run_options(rollout_options.leave_open)
def mkey_remove(command_options: KeyRunOptions, leave_open: bool) -> int:
    """Remove the M_Key of every port of the fabric.

    M_Key, level and lease become 0, in one Set that carries the present key of the port. Afterwards every host of
    the fabric can change the ports. A port whose key is not known is left alone and named. Every former key stays
    in the key store, and `ibkeys undo ID` restores it. If an OpenSM is master, the run goes through it.
    """
    if command_options.confirm_within is not None:
        raise UsageError("mkey-remove raises no level that could be rolled back: omit --confirm-within").explained(
            "A key is never rolled back automatically; `ibkeys undo ID` restores the keys."
        )
    from ibkeys.store.journal.runs import RunOptions

    order, limits = command_options.order, _limits(command_options)
    return _request("mkey-remove", command_options).carry_out(
        lambda method, writer, planning: method.plan_removal(
            writer, RunOptions(False, 0, 0, *limits), replace(planning, order=order, leaves_open=leave_open)
        )
    )


def _give_keys(command: KeyCommand, command_options: KeyRunOptions, keys: KeyOptions) -> int:
    request = _request(command, command_options, keys.check)
    key = read_new_m_key(keys.new_m_key)
    if keys.opensm_conf is not None:
        from ibkeys.managers.opensm.m_key_lines import read_conf

        read_conf(keys.opensm_conf)  # an unreadable file ends the command before the fabric is opened

    from ibkeys.store.journal.runs import RunOptions

    order, conf = command_options.order, keys.opensm_conf
    run_options = RunOptions(keys.same, keys.protect, keys.lease, *_limits(command_options))
    key_file = keys.new_m_key[1:] if keys.new_m_key is not None and keys.new_m_key.startswith("@") else ""
    return request.carry_out(
        lambda method, writer, planning: method.plan_keys(
            writer, command, run_options, key, replace(planning, order=order, key_file=key_file, opensm_conf=conf)
        )
    )


def _limits(command_options: KeyRunOptions) -> tuple[int, int | None, int]:
    return command_options.at_once, command_options.first, command_options.max_failures


def _request(
    command: str, command_options: KeyRunOptions, check_keys: Callable[[KeyMethod], None] = lambda method: None
) -> RunRequest:
    """Return the request for a new run. *check_keys*: as `KeyOptions.check`.

    Raises UsageError for options that the method does not have. If the method is not chosen yet, the request raises
    this error later.
    """

    typed = command_options.method

    def check(method: KeyMethod) -> None:
        refuse_options_of_other_method(method, is_chosen=typed is None)
        check_keys(method)

    if typed is not None:
        check(typed)
    return RunRequest(
        command,
        command_options,
        typed,
        command_options.opensm,
        command_options.confirm_within,
        check=check,
    )

"""Restore what an operation overwrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from ibkeys.cli import options
from ibkeys.cli.help.command import command
from ibkeys.cli.mkeys import rollout_options
from ibkeys.cli.operations import asked
from ibkeys.cli.operations.asked import ALLOW, AT_ONCE, OF_KEYS, OF_UFM, Asked
from ibkeys.cli.options import Changing, Folding, SmHosts, Where
from ibkeys.cli.sm.ufm import UfmOptions, ufm_options
from ibkeys.cli.types import Number
from ibkeys.errors import StoreError, UsageError


@dataclass(frozen=True, slots=True)
class _Choices:
    """What the rollback may do, and how long is waited for subnet managers."""

    allow_break: bool
    at_once: bool
    sm_wait: int
    standby_wait: int
    open_while_rotating: bool
    unconfirmed: bool


_choices: Final = options.group(
    "choices",
    _Choices,
    options.option(
        "--allow-break",
        env=False,
        is_flag=True,
        help="Allow the temporary loss of connectivity that undo lists.",
    ),
    options.option(
        "--at-once",
        env=False,
        is_flag=True,
        help="Through OpenSM or UFM: restore the former policy in one step, even if that briefly disconnects pairs.",
    ),
    options.wait_for_sm,
    rollout_options.standby_wait,
    rollout_options.open_while_rotating,
    options.option(
        "--unconfirmed",
        env=False,
        is_flag=True,
        hidden=True,
        help="Nobody confirmed the operation: no port is overwritten that somebody else has changed; of M_Keys only "
        "the level is lowered.",
    ),
)


@command("undo")
@click.argument("operation", required=False, type=Number(1, 2**31), metavar="[ID]")
@_choices
@options.sm_hosts
@ufm_options
@options.changing
@options.folding
@options.format
@options.fabric
def undo(
    where: Where,
    ufm: UfmOptions,
    consent: Changing,
    sm_hosts: SmHosts,
    folding: Folding,
    format: str,
    operation: int | None,
    choices: _Choices,
) -> int:
    """Restore what an operation overwrote.

    ID is the number that `ibkeys journal` shows; without it, the only open operation is taken, and one that has ended
    needs it. P_Key tables are restored byte for byte, enforcement bits, part_enforce and policies as they were, and
    M_Keys, levels and leases of the last mkey-deploy, mkey-rotate or mkey-remove. The new keys of an open smkey-rotate
    are given up where no file has them.
    It goes back as the operation went: directly, through OpenSM or through UFM. The undo is itself an operation:
    undoing the undo of a partition change repeats the change. Counters that were cleared cannot be restored.
    """
    from ibkeys.change.open_operations import to_undo

    target, last = asked.find(where, consent.dry_run, operation, to_undo)
    wanted = Asked(where, ufm, consent, sm_hosts, folding, format, target, last)
    if target.kind == "keys":
        return _undo_keys(wanted, choices)
    if target.kind in ("sm-keys", "enforcement"):
        wanted.refuse(OF_KEYS | ALLOW | AT_ONCE | OF_UFM | {"--unconfirmed": "unconfirmed"})
        if target.kind == "enforcement":
            return wanted.enforcement_request(choices.sm_wait).take_back()
        return wanted.sm_key_request(choices.sm_wait).take_back()
    wanted.refuse(OF_KEYS)
    how = {"allow_break": choices.allow_break, "at_once": choices.at_once, "unconfirmed": choices.unconfirmed}
    return wanted.restore(choices.sm_wait, **how)


def _undo_keys(wanted: Asked, choices: _Choices) -> int:
    from ibkeys.cli.mkeys.earlier_run import lower_level, roll_back_run

    wanted.refuse(ALLOW | AT_ONCE | OF_UFM)
    request = wanted.run_request(choices.sm_wait, choices.standby_wait, choices.open_while_rotating)
    record = wanted.target.record
    if choices.unconfirmed:
        return lower_level(request, record.id)
    if record.state == "undone":
        by = f" by operation {record.undone_by}" if record.undone_by is not None else ", or its record was ended"
        raise StoreError(f"operation {record.id} ({record.command}) has already been undone{by}")
    if record.undoes is not None:
        raise UsageError(
            f"operation {record.id} gave former M_Keys back, and that is not undone: `ibkeys resume` finishes it where "
            "it is open; `ibkeys mkey-rotate` gives new keys"
        )
    return roll_back_run(request)

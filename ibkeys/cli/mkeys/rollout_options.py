"""The options of mkey-deploy, mkey-rotate and mkey-remove: keys, extent of the run, method, confirmation.

`resume` and `undo` use some of them too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from ibkeys.cli import options
from ibkeys.cli.given import refuse_given
from ibkeys.cli.mkeys import key_options
from ibkeys.cli.opening import is_simulated
from ibkeys.cli.options.declaring import F
from ibkeys.cli.options.through_managers import SM_WAIT
from ibkeys.cli.sm.files_request import ChangeWithHostsOptions
from ibkeys.cli.types import NumberType
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.mkeys.methods import KeyMethod

opensm_conf: Final = options.opensm_conf("The opensm.conf of an SM of this subnet. It must already have the new key.")
leave_open: Final = options.flag("--leave-open", help="Confirm that the ports may be open to everyone afterwards.")


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """The options for the keys, the level and the lease that mkey-deploy or mkey-rotate sets."""

    same: bool = options.flag_field("--same", help="One key for all ports, which stock OpenSM requires.")
    per_port: bool = options.flag_field(
        "--per-port", help="A different key for each port: stock OpenSM does not support it."
    )
    opensm_conf: Path | None = options.field_of(opensm_conf)
    new_m_key: str | None = options.field_of(
        key_options.new_m_key(
            "The key, with --same: @FILE reads it, '-' asks for it without echo.  [default: generated]"
        )
    )
    protect: int | None = options.field_of(key_options.protect("M_KeyProtectBits."))
    lease: int | None = options.field_of(key_options.lease("M_KeyLeasePeriod; 0: the lease never expires."))

    def check(self, method: KeyMethod) -> None:
        """Raise UsageError for options that contradict each other, or that a run by *method* does not have."""
        if not method.sends_sets:
            if self.per_port:
                raise UsageError(
                    "stock OpenSM has one M_Key for the subnet: --per-port cannot be combined with --via opensm"
                )
            return
        if self.new_m_key is not None and not self.same:
            raise UsageError(
                "--new-m-key sets the same key on every port, so it needs --same; without --new-m-key keys are "
                "generated"
            )
        if self.same and self.per_port:
            raise UsageError("--same and --per-port exclude each other")
        if not (self.same or self.per_port):
            raise UsageError(
                "add --same for one key on all ports (stock OpenSM can keep it), or --per-port for a key of its own on "
                "each port: here ibkeys sends the Sets, not OpenSM"
            ).explained(
                "Stock OpenSM keeps one key for the subnet, its m_key.",
                "--per-port lasts only where no SM runs, or one that has m_key_per_port.",
            )


keys: Final = options.group("keys", KeyOptions)


@dataclass(frozen=True, slots=True)
class OpensmOptions:
    """The options of a run through OpenSM. ``sm_wait``: seconds without progress after which ibkeys gives OpenSM up."""

    sm_wait: int = options.field_of(options.wait_for_sm, SM_WAIT)
    standby_wait: int = options.field(
        "--standby-wait",
        type=NumberType(1, 86_400),
        default=600,
        metavar="S",
        help="With --via opensm: seconds that you have to start a standby that systemd does not start.  [default: 600]",
    )
    open_while_rotating: bool = options.flag_field(
        "--open-while-rotating",
        help="With --via opensm: lower the level to 0 while the key changes; meanwhile anyone can read it.",
    )


opensm: Final = options.group("opensm", OpensmOptions)


@dataclass(frozen=True, slots=True)
class KeyRunOptions(ChangeWithHostsOptions):
    """The options that mkey-deploy, mkey-rotate and mkey-remove share: limits, order and method of a run.

    ``confirm_within``: the seconds within which the run must be confirmed; None if it needs no confirmation.
    """

    first: int | None = options.number_field(
        "--first", 1, 1_000_000, "N", "Change only the first N ports, then stop until `ibkeys resume`.", env=False
    )
    order: Literal["farthest", "nearest"] = options.field(
        "--order",
        env=False,
        type=click.Choice(["farthest", "nearest"]),
        default="farthest",
        help="Which ports come first, by hops from here.  [default: farthest]",
    )
    at_once: int = options.number_field(
        "--at-once", 1, 1024, "N", "Maximum number of ports in progress at once.", default=64, env=False
    )
    max_failures: int = options.number_field(
        "--max-failures", 1, 1_000_000, "N", "Stop when N ports have failed.", default=5, env=False
    )
    via: Literal["auto", "direct", "opensm"] | None = options.field(
        "--via",
        env=False,
        type=click.Choice(["auto", "direct", "opensm"]),
        help="direct: ibkeys sends the Sets; opensm: through the options files of the OpenSMs; auto: through OpenSM "
        "where it is master, direct where no SM runs.  [default: auto]",
    )
    opensm: OpensmOptions = options.field_of(opensm)
    confirm_within: int | None = options.field_of(
        options.confirm_within("With --via opensm: lower the level again unless confirmed within S seconds.")
    )

    @property
    def method(self) -> KeyMethod | None:
        """Return the method of the run; None: the state of the fabric decides.

        A simulated subnet has no OpenSM.
        """
        from ibkeys.mkeys.methods import KEY_METHODS
        from ibkeys.store.journal.runs import DIRECT

        if self.via is None or self.via == "auto":
            return KEY_METHODS[DIRECT] if is_simulated(self.where) else None
        return KEY_METHODS[self.via]


def key_run_options(*others: Callable[..., Any]) -> Callable[[F], F]:
    """Return the decorator for a command that begins a run.

    *others*: decorators of the command's own options, which its help lists after ``--via``.
    """
    return options.group(
        "command_options",
        KeyRunOptions,
        *others,
        options.sm_hosts,
        options.changing,
        options.format,
        options.fabric,
        *(options.removed_option(f"--{name}", "resume", is_flag=True) for name in ("continue", "resume")),
        options.removed_option("--abort", "undo ID", is_flag=True),
        options.removed_option("--overtaken", "resume --overtaken", is_flag=True),
        options.removed_option("--confirm", "confirm"),
        options.removed_option("--unconfirmed", "undo"),
    )


def refuse_options_of_other_method(method: KeyMethod, is_chosen: bool = False) -> None:
    """Raise UsageError for typed options that have no effect in a run by *method*.

    *is_chosen*: whether ibkeys chose the method. Options about the hosts of OpenSMs then had an effect on the choice.
    """
    if not method.sends_sets:
        why = "OpenSM sets all ports in one sweep: {} cannot be combined with a run through OpenSM"
        refuse_given(_DIRECT_OPTIONS, why)
    else:
        refuse_given(
            _OPENSM_OPTIONS if is_chosen else (*_OPENSM_OPTIONS, *_HOST_OPTIONS),
            "{}: only through OpenSM; in this run ibkeys sends the Sets itself",
        )


_OPENSM_OPTIONS: Final = ("--wait", "--standby-wait", "--open-while-rotating", "--confirm-within")
"""Options that have an effect only with ``--via opensm``."""
_HOST_OPTIONS: Final = ("--sm-host", "--sudo", "--ssh-config", "--sm-config")
"""Options that name the hosts of OpenSMs. With ``--via auto`` ibkeys examines these hosts to choose the method."""
_DIRECT_OPTIONS: Final = ("--first", "--order", "--at-once", "--max-failures", "--opensm-conf")
"""Options that have an effect only if ibkeys sends the Sets itself."""

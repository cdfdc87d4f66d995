"""The options of mkey-deploy, mkey-rotate and mkey-remove: keys, extent of the run, method, confirmation.

Some are those of the commands that go on with a run, too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import click

from ibkeys.cli import options
from ibkeys.cli.given import refuse_given
from ibkeys.cli.types import Number
from ibkeys.errors import UsageError

AT_ONCE: Final = 64
MAX_FAILURES: Final = 5


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """Which keys, level and lease a run of mkey-deploy or mkey-rotate gives."""

    same: bool
    per_port: bool
    opensm_conf: Path | None
    new_m_key: str | None
    protect: int | None
    lease: int | None

    def check(self, is_through_opensm: bool) -> None:
        """Raise UsageError for options that contradict each other."""
        if is_through_opensm:
            self._check_through_opensm()
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
                "say whether all ports get one key (--same, which stock OpenSM can keep) or each its own (--per-port)"
            ).explained(
                "Stock OpenSM keeps one key for the subnet, its m_key.",
                "--per-port lasts only where no SM runs, or one that has m_key_per_port.",
            )

    def _check_through_opensm(self) -> None:
        if self.per_port:
            raise UsageError(
                "stock OpenSM has one M_Key for the subnet: --per-port cannot be combined with --via opensm"
            )


@dataclass(frozen=True, slots=True)
class RolloutOptions:
    """The limits and order of a run."""

    first: int | None
    order: Literal["farthest", "nearest"] | None
    at_once: int | None
    max_failures: int | None


standby_wait: Final = options.option(
    "--standby-wait",
    type=Number(1, 86_400),
    default=600,
    metavar="S",
    help="With --via opensm: seconds that you have to start a standby that systemd does not start.  [default: 600]",
)
open_while_rotating: Final = options.option(
    "--open-while-rotating",
    env=False,
    is_flag=True,
    help="With --via opensm: lower the level to 0 while the key changes; meanwhile anyone can read it.",
)
opensm_conf: Final = click.option(
    "--opensm-conf",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The opensm.conf of an SM of this subnet. It must already have the new key.",
)

keys: Final = options.group(
    "keys",
    KeyOptions,
    click.option("--same", is_flag=True, help="One key for all ports, which stock OpenSM requires."),
    click.option("--per-port", is_flag=True, help="A different key for each port: stock OpenSM does not support it."),
    opensm_conf,
    click.option(
        "--new-m-key",
        metavar="@FILE|-",
        help="The key, with --same: @FILE reads it, '-' asks for it without echo.  [default: generated]",
    ),
    click.option("--protect", type=Number(0, 3), metavar="0..3", help="M_KeyProtectBits."),
    click.option(
        "--lease", type=Number(0, 65535), metavar="SECONDS", help="M_KeyLeasePeriod; 0: the lease never expires."
    ),
)
course: Final = options.group(
    "course",
    RolloutOptions,
    click.option(
        "--first",
        type=Number(1, 1_000_000),
        metavar="N",
        help="Change only the first N ports, then stop until `ibkeys resume`.",
    ),
    options.replaced("--continue", "resume", is_flag=True),
    options.replaced("--resume", "resume", is_flag=True),
    options.replaced("--abort", "undo ID", is_flag=True),
    options.replaced("--overtaken", "resume --overtaken", is_flag=True),
    click.option(
        "--order",
        type=click.Choice(["farthest", "nearest"]),
        help="Which ports come first, by hops from here.  [default: farthest]",
    ),
    click.option(
        "--at-once",
        type=Number(1, 1024),
        metavar="N",
        help=f"Maximum number of ports in progress at once.  [default: {AT_ONCE}]",
    ),
    click.option(
        "--max-failures",
        type=Number(1, 1_000_000),
        metavar="N",
        help=f"Stop when N ports have failed.  [default: {MAX_FAILURES}]",
    ),
)


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """Whether the keys are set by own Sets or through OpenSM. ``sm_wait``: seconds without progress after which OpenSM
    is given up; ``confirm_within``: seconds in which somebody has to confirm the run, None where nobody has to."""

    via: Literal["direct", "opensm"] | None
    sm_wait: int
    standby_wait: int
    open_while_rotating: bool
    confirm_within: int | None

    @property
    def is_opensm(self) -> bool:
        """Whether it was asked to go through OpenSM."""
        return self.via == "opensm"


def refuse_options_of_other_method(is_through_opensm: bool) -> None:
    """Raise UsageError for options of the command line that mean nothing in a run by this method."""
    if is_through_opensm:
        why = "OpenSM sets all ports in one sweep: {} cannot be combined with a run through OpenSM"
        refuse_given(_OF_DIRECT, why)
    else:
        refuse_given(_OF_OPENSM, "{}: only through OpenSM; in this run ibkeys sends the Sets itself")


_OF_OPENSM: Final = {
    "--wait": "sm_wait",
    "--standby-wait": "standby_wait",
    "--open-while-rotating": "open_while_rotating",
    "--confirm-within": "confirm_within",
    "--sm-host": "sm_host",
    "--sudo": "sudo",
    "--ssh-config": "ssh_config",
    "--sm-config": "sm_config",
}
"""Options that mean something only with ``--via opensm``, and what click calls them."""
_OF_DIRECT: Final = {
    "--first": "first",
    "--order": "order",
    "--at-once": "at_once",
    "--max-failures": "max_failures",
    "--opensm-conf": "opensm_conf",
}
"""Options that mean something only in a run by own Sets."""
method: Final = options.group(
    "method",
    MethodOptions,
    options.option(
        "--via",
        env=False,
        type=click.Choice(["direct", "opensm"]),
        default=None,
        help="direct: ibkeys sends the Sets; opensm: through the options files of the OpenSMs.  [default: direct]",
    ),
    options.wait_for_sm,
    standby_wait,
    open_while_rotating,
    options.confirm_within("With --via opensm: lower the level again unless confirmed within S seconds."),
    options.replaced("--confirm", "confirm"),
    options.replaced("--unconfirmed", "undo --unconfirmed"),
)

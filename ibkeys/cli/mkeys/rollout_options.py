"""The options of mkey-deploy, mkey-rotate and mkey-remove: keys, extent of the run, method, confirmation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import click
from click.core import ParameterSource

from ibkeys.cli import options
from ibkeys.cli.guarding import MOST_SECONDS
from ibkeys.cli.types import Number
from ibkeys.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
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

    def given(self) -> list[str]:
        """Return the given options among those that a run keeps from its start."""
        named = {
            "--same": self.same,
            "--per-port": self.per_port,
            "--new-m-key": self.new_m_key is not None,
            "--protect": self.protect is not None,
            "--lease": self.lease is not None,
        }
        return [name for name, is_given in named.items() if is_given]

    def check(self, course: RolloutOptions, is_through_opensm: bool = False) -> None:
        """Raise UsageError for options that contradict each other or *course*."""
        course.check(self.given())
        if is_through_opensm:
            self._check_through_opensm()
            return
        if course.abort and self.opensm_conf is not None:
            raise UsageError("--abort restores former keys, whatever an opensm.conf says: omit --opensm-conf")
        if self.new_m_key is not None and not self.same:
            raise UsageError(
                "--new-m-key sets the same key on every port, so it needs --same; without --new-m-key keys are "
                "generated"
            )
        if self.same and self.per_port:
            raise UsageError("--same and --per-port exclude each other")
        if not (course.is_of_an_earlier_run or self.same or self.per_port):
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
        if self.opensm_conf is not None:
            raise UsageError("--via opensm edits the options file of each OpenSM itself: omit --opensm-conf")


@dataclass(frozen=True, slots=True)
class RolloutOptions:
    """The limits and order of a run, and whether it continues or rolls back an earlier one."""

    first: int | None
    order: Literal["farthest", "nearest"] | None
    at_once: int | None
    max_failures: int | None
    go_on: bool
    resume: bool
    abort: bool
    overtaken: bool

    @property
    def ways(self) -> list[str]:
        """The options that take an earlier run up again, and that were given."""
        named = {"--continue": self.go_on, "--resume": self.resume, "--abort": self.abort}
        named["--overtaken"] = self.overtaken
        return [name for name, is_given in named.items() if is_given]

    @property
    def is_of_an_earlier_run(self) -> bool:
        """Whether the last run is taken up again."""
        return bool(self.ways)

    def check(self, given: list[str]) -> None:
        """Raise UsageError for options that contradict each other. *given*: others that belong to a new run."""
        if len(self.ways) > 1:
            raise UsageError(f"{' and '.join(self.ways)} exclude each other")
        fixed = {"--first": self.first is not None, "--order": self.order is not None}
        given = [*given, *(name for name, is_given in fixed.items() if is_given)]
        if self.ways and given:
            raise UsageError(
                f"{self.ways[0]} continues a run with the options it was started with: omit {', '.join(given)}"
            )


_KEYS: Final = (
    click.option("--same", is_flag=True, help="One key for all ports, which stock OpenSM requires."),
    click.option("--per-port", is_flag=True, help="A different key for each port: stock OpenSM does not support it."),
    click.option(
        "--opensm-conf",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="The opensm.conf of an SM of this subnet. It must already have the new key.",
    ),
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
_COURSE: Final = (
    click.option(
        "--first",
        type=Number(1, 1_000_000),
        metavar="N",
        help="Change only the first N ports, then stop until --continue.",
    ),
    click.option("--continue", "go_on", is_flag=True, help="After --first: change the other ports."),
    click.option("--resume", is_flag=True, help="Finish a run that was interrupted, stopped, or had failures."),
    click.option(
        "--abort", is_flag=True, help="Restore the former keys, levels and leases of the ports of the last run."
    ),
    click.option(
        "--overtaken",
        is_flag=True,
        help="End the record of the last run where somebody else has changed what it set: nothing is sent or written.",
    ),
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
    is given up.
    """

    via: Literal["direct", "opensm"] | None
    sm_wait: int
    standby_wait: int
    open_while_rotating: bool

    @property
    def is_opensm(self) -> bool:
        """Whether it was asked to go through OpenSM."""
        return self.via == "opensm"

    def check_direct(self) -> None:
        """Raise UsageError for options of the command line that mean something only with ``--via opensm``."""
        source = click.get_current_context().get_parameter_source
        given = [name for name, option in _OF_OPENSM.items() if source(option) is ParameterSource.COMMANDLINE]
        if given:
            raise UsageError(f"{', '.join(given)}: only with --via opensm; in this run ibkeys sends the Sets itself")

    def check(self, course: RolloutOptions) -> None:
        """Raise UsageError for options of *course* that count ports: OpenSM sets all of them in one sweep."""
        bounds = {
            "--first": course.first is not None,
            "--continue": course.go_on,
            "--order": course.order is not None,
            "--at-once": course.at_once is not None,
            "--max-failures": course.max_failures is not None,
        }
        given = [name for name, is_given in bounds.items() if is_given]
        if given:
            raise UsageError(
                f"OpenSM sets all ports in one sweep: {', '.join(given)} cannot be combined with --via opensm"
            )


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
_METHOD: Final = (
    options.option(
        "--via",
        env=False,
        type=click.Choice(["direct", "opensm"]),
        default=None,
        help="direct: ibkeys sends the Sets; opensm: through the options "
        "files of the OpenSMs.  [default: direct, or as the run was started]",
    ),
    options.wait_for_sm,
    options.option(
        "--standby-wait",
        type=Number(1, 86_400),
        default=600,
        metavar="S",
        help="With --via opensm: seconds that you have to start a standby that systemd does not start.  [default: 600]",
    ),
    options.option(
        "--open-while-rotating",
        env=False,
        is_flag=True,
        help="With --via opensm: lower the level to 0 while the key changes; meanwhile anyone can read it.",
    ),
)


@dataclass(frozen=True, slots=True)
class ConfirmationOptions:
    """Whether a run is to be confirmed. ``confirm_within``: seconds. ``unconfirmed``: the operation of an earlier run
    whose level this command lowers; it does nothing else then."""

    confirm_within: int | None
    unconfirmed: int | None

    def check(self, course: RolloutOptions, given: Sequence[str] = ()) -> None:
        """Raise UsageError for options that contradict each other or *course*. *given*: others that belong to a new
        run."""
        within = ["--confirm-within"] if self.confirm_within is not None else []
        if self.unconfirmed is not None and [*course.ways, *given, *within]:
            raise UsageError("--unconfirmed ID takes no other option: it is about an earlier run")
        if within and course.abort:
            raise UsageError("--abort rolls back, so there is nothing to confirm: omit --confirm-within")

    def refuse_removal(self) -> None:
        """Raise UsageError: a command that removes keys raises no level."""
        if self.confirm_within is not None:
            raise UsageError("mkey-remove raises no level that could be rolled back: omit --confirm-within").explained(
                "A key is never rolled back automatically; --abort restores the keys."
            )


_CONFIRMING: Final = (
    options.option(
        "--confirm-within",
        env=False,
        type=Number(1, MOST_SECONDS),
        metavar="S",
        help="With --via opensm: lower the level again unless confirmed within S seconds.",
    ),
    options.replaced("--confirm", "confirm"),
    options.option(
        "--unconfirmed",
        env=False,
        type=Number(1, 2**31),
        metavar="ID",
        help="Lower the level that operation ID raised and nobody confirmed; --confirm-within does it automatically.",
    ),
)


def confirming(command: F) -> F:
    """Give a command the argument ``confirming``, a `ConfirmationOptions`."""
    return _gathered(command, "confirming", ConfirmationOptions, _CONFIRMING)


def method(command: F) -> F:
    """Give a command the argument ``method``, a `MethodOptions`."""
    return _gathered(command, "method", MethodOptions, _METHOD)


def keys(command: F) -> F:
    """Give a command the argument ``keys``, a `KeyOptions`."""
    return _gathered(command, "keys", KeyOptions, _KEYS)


def course(command: F) -> F:
    """Give a command the argument ``course``, a `RolloutOptions`."""
    return _gathered(command, "course", RolloutOptions, _COURSE)


def _gathered(command: F, name: str, kind: type[Any], given: tuple[Callable[[Any], Any], ...]) -> F:
    """Gather the options *given* in one argument of *command*."""
    fields = list(kind.__dataclass_fields__)

    @functools.wraps(command)
    def wrapper(**values: Any) -> Any:
        return command(**{name: kind(**{field: values.pop(field) for field in fields})}, **values)

    wrapped: Any = wrapper
    for option in reversed(given):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]

"""The command `watch`: reporting wrong keys as they are tried, from Reports of the SA, counters or OpenSM's log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibkeys import files
from ibkeys.cli import exits, options
from ibkeys.cli.given import is_given
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import open_fabric, sm_key_of
from ibkeys.cli.options import AskSa, Where
from ibkeys.cli.sm.policy import is_opensm, master_policy, read_accepted
from ibkeys.cli.sm.ufm import UfmOptions, ufm_options
from ibkeys.cli.types import NumberType
from ibkeys.errors import MadStatusError, NoReply, SendRefused, Unreachable, UsageError
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.cli.watch.event_writer import EventWriter
    from ibkeys.client.reports import Subscriber
    from ibkeys.keys.smkey import SMKey
    from ibkeys.partitions.model import Policy
    from ibkeys.scripting import Fabric
    from ibkeys.umad.port import UmadPort
    from ibkeys.watch.following import FollowedFile
    from ibkeys.watch.policy import PartitionNames
    from ibkeys.watch.systemd import Notifier
    from ibkeys.watch.watching import Watch, WatchSettings

COMMAND: Final = "watch"


@dataclass(frozen=True, slots=True)
class _WatchOptions:
    """The options of `watch`: the sources, the end, and the form of the output."""

    all_traps: bool = options.field(
        "--all-traps",
        is_flag=True,
        help="Also report ports and groups that appear or disappear, and links that change.",
    )
    interval: int = options.number_field(
        "--interval", 0, 86_400, "S", "Seconds between two readings of the counters, 0 for none.", default=60
    )
    repeats: int = options.number_field(
        "--repeats", 1, 86_400, "S", "Seconds between two counts of repeated events.", default=60
    )
    policy: str | None = options.field_of(options.partition_names)
    opensm_log: str | None = options.field(
        "--opensm-log", metavar="FILE", help="Follow OpenSM's log instead of Reports: needs no SM_Key."
    )
    command: str | None = options.field(
        "--exec",
        "command",
        env=False,
        metavar="COMMAND",
        help="Run this command for each line, with the event on standard input.",
    )
    count: int | None = options.field("--count", type=NumberType(1, 10**9), metavar="N", help="End after N lines.")
    seconds: int | None = options.field(
        "--for", "seconds", type=NumberType(1, 10**9), metavar="S", help="End after S seconds."
    )
    format: str | None = options.field_of(
        options.format_of(
            ["table", "json"], "Form of the output.  [default: table on a terminal, else json]", default=None
        )
    )


@command(COMMAND)
@options.group("command_options", _WatchOptions)
@options.sa
@ufm_options
@options.fabric
def watch(where: Where, ufm: UfmOptions, sa: AskSa, command_options: _WatchOptions) -> int:
    """Show who tries a wrong key, and where, as it happens.

    Subscribes at the SA to the traps of refused M_Keys, P_Keys and Q_Keys, for which OpenSM requires its sa_key
    (--smkey), and reads the violation counters at intervals. Repeated events are combined: the first gives a line at
    once, the others a count later. Runs until SIGTERM or SIGINT.
    """
    from ibkeys.change.interrupts import Interrupts
    from ibkeys.cli.watch.event_writer import EventWriter
    from ibkeys.watch.commands import EventCommand, split_command
    from ibkeys.watch.systemd import Notifier
    from ibkeys.watch.watching import Watch, WatchSettings

    words = split_command(command_options.command) if command_options.command is not None else None
    # The policy is read here so that a mistake in it is reported before anything is sent.
    policy = read_accepted(command_options.policy, ufm) if command_options.policy is not None else None
    sm_key = sm_key_of(where)
    if command_options.opensm_log is not None and (is_given("smkey") or command_options.all_traps):
        raise UsageError("--opensm-log replaces Reports: omit --smkey and --all-traps")
    settings = WatchSettings(
        float(command_options.interval),
        float(command_options.repeats),
        command_options.count,
        command_options.seconds and float(command_options.seconds),
        sa.pkey_idx,
    )
    notifier = Notifier(os.environ, time.monotonic)
    with Interrupts() as interrupts, _follow_log(command_options.opensm_log) as log:
        commands = EventCommand(words, exits.warn) if words is not None else None
        format = command_options.format or ("table" if sys.stdout.isatty() else "json")
        outlet = EventWriter(format, where.verbose > 0, commands, interrupts, notifier)
        traps = _traps(command_options.all_traps) if log is None else ()
        with _open_and_subscribe(where, sa, sm_key, traps, notifier, bool(command_options.interval)) as (
            fabric,
            subscriber,
        ):
            partitions = _partitions(command_options.policy, policy, fabric)
            watching = Watch(fabric, outlet, settings, subscriber, log, partitions)
            if fabric.is_simulated and settings.seconds is None:
                watching.pause = time.sleep  # without an end it would take a whole core
            _run(watching, outlet, _sources_in_words(subscriber, log, settings))
    return exits.DONE


def _run(watching: Watch, outlet: EventWriter, beginning: str) -> None:
    """Watch until a signal or a limit ends it, then write the remaining events and the summary.

    *beginning*: the message to write when the watch has begun.
    """
    from ibkeys.cli.watch.event_writer import ReaderGone

    try:
        watching.start()
        outlet.ready(beginning)
        watching.run()
    except (KeyboardInterrupt, ReaderGone):
        exits.detail("ending")
    outlet.stopping()
    outlet.end(watching.finish())


def _traps(all_of_them: bool) -> tuple[int, ...]:
    from ibkeys.mad.const import SECURITY_TRAPS, TrapNumber

    further = (
        TrapNumber.GID_IN_SERVICE,
        TrapNumber.GID_OUT_OF_SERVICE,
        TrapNumber.MULTICAST_GROUP_CREATED,
        TrapNumber.MULTICAST_GROUP_DELETED,
        TrapNumber.LINK_STATE_CHANGE,
        TrapNumber.CAPABILITY_CHANGE,
    )
    return (*SECURITY_TRAPS, *further) if all_of_them else SECURITY_TRAPS


def _follow_log(path: str | None) -> AbstractContextManager[FollowedFile | None]:
    from ibkeys.watch.following import FollowedFile

    if path is None:
        return nullcontext()
    with files.os_errors_as(UsageError, f"--opensm-log: {path}"):
        return FollowedFile(Path(path))


@contextmanager
def _open_and_subscribe(
    where: Where, sa: AskSa, sm_key: SMKey | None, traps: tuple[int, ...], notifier: Notifier, has_counters: bool
) -> Iterator[tuple[Fabric, Subscriber | None]]:
    """Open the fabric and subscribe to *traps*; at the end of the block the subscriptions end.

    Yields the fabric and the subscriber. The subscriber is None if there are no traps, or if subscribing failed and the
    counters are watched (*has_counters*). Raises the errors of `open_fabric` and `_subscribe`.
    """
    from ibkeys.client.reports import Subscriber
    from ibkeys.fabric.subnet_manager import OwnSmLid
    from ibkeys.keys.smkey import NO_SM_KEY
    from ibkeys.umad.tap import Tap
    from ibkeys.watch.systemd import SignsOfLife

    subscribers: list[Subscriber] = []

    def around(port: UmadPort) -> UmadPort:
        if notifier.wants_signs:
            port = Tap(port, [SignsOfLife(notifier)])
        if not traps:
            return port
        lid = sa.sm_port
        sm_lid = None if lid is None else lambda: lid
        subscribers.append(Subscriber(port, traps, sm_key or NO_SM_KEY, sm_lid=sm_lid, pkey_index=sa.pkey_idx))
        return subscribers[0].port

    with open_fabric(where, around=around) as fabric:
        subscriber = _subscribe(subscribers[0], sm_key is not None, has_counters) if subscribers else None
        if subscriber is not None and sa.sm_port is None:
            subscriber.ask_sm_lid = OwnSmLid(fabric)
        try:
            yield fabric, subscriber
        finally:
            problem = subscriber.close() if subscriber is not None else None
            if problem is not None:
                exits.warn(f"the subscriptions were not ended: {problem}")


def _subscribe(subscriber: Subscriber, with_key: bool, has_counters: bool) -> Subscriber | None:
    """Subscribe at the SA, and return the subscriber.

    Returns None, with a warning, if this fails, no SM_Key was given (*with_key*) and the counters are watched
    (*has_counters*). Otherwise a failure raises MadStatusError, NoReply, SendRefused or Unreachable.
    """
    try:
        subscriber.subscribe()
    except (MadStatusError, NoReply, SendRefused, Unreachable) as error:
        if with_key or not has_counters:
            raise
        exits.warn(f"no traps are received, only the counters are read: {error}")
        return None
    return subscriber


def _partitions(name: str | None, policy: Policy | None, fabric: Fabric) -> PartitionNames | None:
    from ibkeys.watch.policy import PartitionNames

    if name is not None and is_opensm(name):
        policy = master_policy(fabric).policy
    return PartitionNames(policy) if policy is not None else None


def _sources_in_words(subscriber: Subscriber | None, log: FollowedFile | None, settings: WatchSettings) -> str:
    """Return the message that names the sources of the watch."""
    sources = []
    if subscriber is not None:
        sources.append(f"{counted(len(subscriber.traps), 'trap')} of the SA at LID {subscriber.sm_lid}")
    if log is not None:
        sources.append(str(log.path))
    if settings.interval:
        sources.append(f"counters every {settings.interval:.0f} s")
    return f"watching {', '.join(sources) or 'nothing'}"

"""The last run as the key store has it, and its ports as a sweep finds them now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ibkeys.change.target import Target
from ibkeys.change.writer import Writer
from ibkeys.errors import Refused, UsageError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.mkeys.rollout.absent import identities
from ibkeys.mkeys.rollout.beginning import LastRun
from ibkeys.mkeys.rollout.found_ports import has_now
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.port_job import Job
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.keys.runs import Run, RunOptions, RunPort, Runs
from ibkeys.topology.nodes import Port


def last_run(store: KeyStore) -> tuple[Run, list[RunPort]]:
    """Return the last run and its ports in the order of change. Raises UsageError if there was never one."""
    runs = Runs(store)
    last = runs.last()
    if last is None:
        raise UsageError(
            f"the key store ({store.path or 'in memory'}) has no run of mkey-deploy, mkey-rotate or mkey-remove to "
            "continue"
        )
    return last, runs.ports(last.id)


def with_bounds(options: RunOptions, at_once: int | None, max_failures: int | None) -> RunOptions:
    """Return *options* with the bounds that the user gave now; None leaves one as it was."""
    return replace(
        options,
        at_once=options.at_once if at_once is None else at_once,
        max_failures=options.max_failures if max_failures is None else max_failures,
    )


def name_of(run: Run) -> str:
    """Return a run in words."""
    return f"run {run.id} ({run.command}, begun {run.started})"


def refuse_other_way(run: PlannedRun) -> None:
    """Raise UsageError for an earlier run that goes through a subnet manager: Sets of ibkeys cannot finish it."""
    last = run.beginning.last if isinstance(run.beginning, LastRun) else None
    if last is not None and last.via is not None:
        raise UsageError(
            f"{name_of(last)} goes through {last.via.get('name')}: continue with --via {last.via.get('name')}"
        )


def refuse_while_open(store: KeyStore) -> None:
    """Raise Refused (``open-run``) while the last run is not finished, or its level may be rolled back, which only that
    of the last run does: no other begins before."""
    last = Runs(store).last()
    if last is None or (last.state != "open" and not last.may_go_back):
        return
    if last.state != "open":
        raise Refused(
            f"{name_of(last)} is rolled back unless someone confirms it, and no other run can begin before that: "
            f"--confirm {last.id} or --resume keeps it",
            "open-run",
        ).explained(f"--unconfirmed {last.id} lowers its level; --abort restores the former state.")
    ways = (
        ("--continue continues it, --abort rolls it back")
        if last.options.first
        else "--resume finishes it, --abort rolls it back"
    )
    raise Refused(f"{name_of(last)} is not finished: {ways}; no other run can begin before that", "open-run")


def known_job(
    writer: Writer,
    run: PlannedRun,
    store: KeyStore,
    kept: RunPort,
    reachable: dict[int, tuple[Port, str]],
    meant: Callable[[KeySetting], KeySetting],
) -> Job | None:
    """Return the job for a port of an earlier run that the sweep found; None, and an entry among the skipped ones,
    where there is none."""
    port, reason = reachable[kept.port_guid]
    info = port.port_info
    if reason or info is None:
        run.skipped.append(PortResult(port.identity(), "skipped", reason, unread=True))
        return None
    old = has_now(info)
    known = {store.get(ref).m_key for ref in (kept.key_ref, kept.old_ref) if ref is not None}
    if kept.is_begun and old.key not in known | ({NO_MKEY} if kept.old_ref is None else set()):
        text = "it has an M_Key that is neither its old nor its new one: somebody else changed it"
        if old.key.is_zero:
            text = "its M_Key is gone, as after a reset: mkey-deploy gives it one when this run has ended"
        run.skipped.append(PortResult(port.identity(), "skipped", text, unread=True))
        return None
    return Job(Target(writer.fabric.handle(port), old.key), info, old, meant(old), sequence=kept.sequence)


def name_not_found(writer: Writer, run: PlannedRun, ports: Sequence[RunPort]) -> None:
    """Skip *ports*, those of an earlier run that the sweep did not find, each by its name. Raises StoreError."""
    for kept, identity in zip(ports, identities(writer, ports), strict=True):
        is_gone = kept.port_guid in writer.fabric.ring.settled
        run.skipped.append(PortResult(identity, "skipped", _not_found(kept, is_gone), unread=not is_gone))


def _not_found(kept: RunPort, is_gone: bool) -> str:
    """Return what is said about a port of the run that the sweep did not find. *is_gone*: the user said so."""
    if is_gone:
        return (
            "the sweep did not find it, and since `ibkeys mkey-list --settle` the run no longer waits for it; its keys "
            "stay in the key store"
        )
    keys = (
        "the keys it may have are in the key store"
        if kept.is_begun
        else "it keeps what it had before the run, until --resume finds it"
    )
    return (
        f"the sweep did not find it; {keys}; `ibkeys mkey-list --settle` finds a port that moved, and ends the wait "
        "for one that is gone"
    )

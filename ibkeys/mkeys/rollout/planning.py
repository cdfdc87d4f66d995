"""mkey-deploy and mkey-rotate: planning a run of M_Keys over a fabric, going on with one, and going back.

A run is planned on one sweep. Every end port of it is either a `Job` or stands in ``skipped`` with the reason; a port
whose key is not known is left alone and never provoked. How the jobs are carried out: `ibkeys.mkeys.rollout.rollout`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ibkeys.change.edits import wrong_fields
from ibkeys.change.interlocks.m_keys import first_keys_at_level_0, objections_to_key
from ibkeys.change.plan import Plan
from ibkeys.change.target import Target
from ibkeys.change.writer import Writer
from ibkeys.discovery.sweep import LINKS, OnFound
from ibkeys.errors import Refused, UsageError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mkeys.key_edit import shown_key
from ibkeys.mkeys.rollout import opensm_procedure
from ibkeys.mkeys.rollout.beginning import LastRun, NewRun
from ibkeys.mkeys.rollout.planned_run import PlannedRun, describe
from ibkeys.mkeys.rollout.port_job import Job
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.keys.runs import Run, RunOptions, RunPort, Runs, shared_key_ref
from ibkeys.store.sqlite import guid_text
from ibkeys.topology.model import Port, Topology

Command = Literal["mkey-deploy", "mkey-rotate"]
Order = Literal["farthest", "nearest"]
GoOn = Literal["continue", "resume"]


def plan_run(
    writer: Writer,
    command: Command,
    options: RunOptions,
    new_key: MKey | None = None,
    order: Order = "farthest",
    key_file: str = "",
    progress: OnFound | None = None,
    opensm_conf: Path | None = None,
) -> PlannedRun:
    """Plan a new run over every end port of the subnet: first keys (mkey-deploy), or new ones (mkey-rotate).

    *new_key* is for all ports and needs ``options.same``; without it keys are generated. *order*: by hops from the own
    port. *key_file* is the name of the file that *new_key* came from. *opensm_conf*: what an SM of this subnet starts
    with, besides what is found on this host. Raises UsageError, FileFormatError and StoreError (*opensm_conf*), and
    Refused (``open-run``) while another run is not finished.
    """
    _check(options, new_key)
    with _open_store(writer) as store:
        last = Runs(store).last()
        if last is not None and last.state == "open":
            raise _open_run(last)
    found = writer.fabric.sweep(progress=progress, wanted=LINKS)
    everything: list[Job] = []
    run = PlannedRun(Plan(command), options, found, beginning=NewRun(command, everything))
    shared = (new_key or MKey.generate()) if options.same else None
    jobs: list[Job] = []
    for port, reason in _candidates(writer, found):
        if reason:
            run.skipped.append(PortResult(port.identity(), "skipped", reason, unread=True))
            continue
        job = _new_job(writer, port, options, shared)
        if reason := _not_for(command, job):
            run.skipped.append(PortResult(port.identity(), "skipped", reason))
        elif _has(job):
            run.already_set.append(job)
        else:
            jobs.append(job)
    run.skipped += _nothing_behind(found)
    jobs.sort(key=lambda job: len(job.port.agent_path), reverse=order == "farthest")
    _put_in_stages(writer, run, jobs)
    everything += run.jobs + run.already_set
    for sequence, job in enumerate(everything):
        job.sequence = sequence
    if options.first is not None:
        _keep_first(run, options.first)
    describe(writer, run, key_file, opensm_conf, generated=new_key is None)
    if new_key is not None and run.jobs:
        guids = {node.guid for node in found.nodes} | {port.guid for port in found.end_ports()}
        run.plan.objections += objections_to_key(writer, new_key, guids)
    if command == "mkey-deploy" and options.protect is None:
        open_ports = sum(not job.wanted.protect for job in run.jobs)
        whose = "port gets its first M_Key" if open_ports == 1 else "ports get their first M_Keys"
        run.plan.questions = [first_keys_at_level_0(f"{open_ports} {whose}")] if open_ports else []
    return run


def plan_rest(
    writer: Writer,
    how: GoOn,
    at_once: int | None = None,
    max_failures: int | None = None,
    progress: OnFound | None = None,
    opensm_conf: Path | None = None,
) -> PlannedRun:
    """Plan the rest of the last run: what waits after its first ports (``continue``), or what was cut off (``resume``).

    Ports that may have been set are known by what they answer: those with their new key are done with, the others
    get it. *opensm_conf* as `plan_run` has it. Raises UsageError when there is nothing of the kind.
    """
    with _open_store(writer) as store:
        last, ports = _last(store)
        options = _bounds(last.options, at_once, max_failures)
        unsettled = [port for port in ports if port.state in ("sent", "failed")]
        if last.state == "undone":
            raise UsageError(f"{_name(last)} went back; there is nothing of it to go on with")
        if how == "continue":
            if last.options.first is None:
                raise UsageError(f"{_name(last)} was not begun with --first; --resume finishes one that was cut off")
            if unsettled or any(port.state == "waiting" for port in ports[: last.options.first]):
                raise UsageError(
                    f"{_name(last)}: its first ports are not all done; --resume settles them, --abort goes back"
                )
            options = replace(options, first=None)
        found = writer.fabric.sweep(progress=progress, wanted=LINKS)
        is_open = last.state == "open"
        run = PlannedRun(Plan(last.command), options, found, is_open=is_open, beginning=LastRun(last))
        _collect(writer, run, store, last, ports)
    describe(writer, run, opensm_conf=opensm_conf)
    return run


def plan_return(
    writer: Writer,
    at_once: int | None = None,
    max_failures: int | None = None,
    progress: OnFound | None = None,
) -> PlannedRun:
    """Plan to give every port that the last run has begun what it had before: key, level and lease."""
    with _open_store(writer) as store:
        last, ports = _last(store)
        options = replace(_bounds(last.options, at_once, max_failures), first=None)
        found = writer.fabric.sweep(progress=progress, wanted=LINKS)
        unused = [port.key_ref for port in ports if port.key_ref is not None and not port.is_begun]
        run = PlannedRun(
            Plan(last.command),
            options,
            found,
            goes_back=True,
            is_open=last.state == "open",
            beginning=LastRun(last, unused),
        )
        reachable = _reachable(writer, found)
        jobs: list[Job] = []
        for kept in ports:
            if not kept.is_begun:
                continue
            job = _known_job(writer, run, store, kept, reachable, _former(store, kept))
            if job is None:
                continue
            job.returns_from, job.ref = kept.key_ref, kept.old_ref
            (run.already_set if _has(job) else jobs).append(job)
    _put_in_stages(writer, run, jobs)
    describe(writer, run)
    return run


def _check(options: RunOptions, new_key: MKey | None) -> None:
    if new_key is not None and not options.same:
        raise UsageError("--new-m-key is one key for every port: say so with --same; without it keys are generated")
    if new_key is not None and new_key.is_zero:
        raise UsageError("M_Key 0 is no protection: to take keys away, use mkey-set or go back with --abort")
    if options.protect is not None and not 0 <= options.protect <= 3:
        raise UsageError(f"ProtectBits {options.protect} is not in 0..3")
    if options.lease is not None and not 0 <= options.lease <= 0xFFFF:
        raise UsageError(f"lease {options.lease} s is not in 0..65535")


def _candidates(writer: Writer, found: Topology) -> list[tuple[Port, str]]:
    """Return every end port with the reason to leave it alone, "" for none."""
    ports = list(found.end_ports())
    guids = Counter(port.port_guid for port in ports if port not in found.doubtful)
    errors = {id(trouble.port): trouble.error for trouble in reversed(found.troubles)}
    listed = []
    for port in ports:
        info = port.port_info
        if port in found.doubtful:
            reason = found.doubtful[port]
        elif info is None:
            reason = f"its PortInfo could not be read: {errors.get(id(port), 'no reply')}"
        elif not port.port_guid or guids[port.port_guid] > 1:
            reason = "its port GUID is not its own, and keys are kept by port GUID"
        elif shown_key(info) is None and writer.fabric.ring.for_all != NO_MKEY:
            reason = (
                "it is at level 1 and hides its M_Key, and none that is known is its own: give the key with -y, "
                "--keystore or --security-keys, or -y 0 if it has none"
            )
        else:
            reason = ""
        listed.append((port, reason))
    return listed


def _nothing_behind(found: Topology) -> list[PortResult]:
    """Return the ports behind which something is that does not answer: it may be one whose key is not known."""
    troubles = {id(trouble.port): trouble for trouble in found.troubles if _leads_nowhere(trouble.port)}
    return [PortResult(each.port.identity(), "skipped", each.error, unread=True) for each in troubles.values()]


def _leads_nowhere(port: Port) -> bool:
    """Whether a port that the sweep had trouble with should lead to another, and does not."""
    if port.peer is not None:
        return False
    return not port.is_end_port or (port.path == () and port.is_linked)


def _reachable(writer: Writer, found: Topology) -> dict[int, tuple[Port, str]]:
    """Return every end port by its GUID, with the reason to leave it alone."""
    return {port.port_guid: (port, reason) for port, reason in _candidates(writer, found)}


def _new_job(writer: Writer, port: Port, options: RunOptions, shared: MKey | None) -> Job:
    info = port.port_info
    assert info is not None
    old = _has_now(info)
    wanted = KeySetting(
        shared or MKey.generate(),
        old.protect if options.protect is None else options.protect,
        old.lease if options.lease is None else options.lease,
    )
    return Job(Target(writer.fabric.handle(port), old.key), info, old, wanted)


def _has_now(info: PortInfo) -> KeySetting:
    return KeySetting(shown_key(info) or NO_MKEY, info.m_key_protect_bits, info.m_key_lease_period)


def _has(job: Job) -> bool:
    return job.keeps_key and not wrong_fields(job.shown, job.wanted.fields())


def _not_for(command: Command, job: Job) -> str:
    """Return why a new run leaves a readable port alone, "" when it does not."""
    if command == "mkey-deploy" and not job.old.key.is_zero and not job.keeps_key:
        return "it has an M_Key already: mkey-rotate gives it a new one"
    if command == "mkey-rotate" and job.old.key.is_zero:
        return "it has no M_Key: mkey-deploy gives it its first"
    return ""


def _put_in_stages(writer: Writer, run: PlannedRun, jobs: Iterable[Job]) -> None:
    """All ports but those of the SMs and the own one; then the SMs'; the own port last of all: local tools without the
    new keys work as long as possible, and so does the way back."""
    own = writer.fabric.own_guid
    managers = {id(port) for port in opensm_procedure.sm_ports(run.found.end_ports())}
    stages: list[list[Job]] = [[], [], []]
    for job in jobs:
        stages[2 if job.port.port_guid == own else 1 if id(job.port) in managers else 0].append(job)
    run.stages = stages


def _keep_first(run: PlannedRun, first: int) -> None:
    kept = []
    for stage in run.stages:
        kept.append(stage[:first])
        run.later += len(stage) - len(kept[-1])
        first -= len(kept[-1])
    run.stages = kept


def _collect(writer: Writer, run: PlannedRun, store: KeyStore, last: Run, ports: Sequence[RunPort]) -> None:
    """Sort the ports of a run that are not done into jobs, those that have what they shall have, and skipped ones."""
    reachable = _reachable(writer, run.found)
    shared_ref = shared_key_ref(ports) if last.options.same else None
    shared = store.get(shared_ref).m_key if shared_ref is not None else None
    jobs: list[Job] = []
    for kept in ports:
        if kept.state in ("done", "skipped", "undone"):
            continue
        if run.options.first is not None and kept.sequence >= run.options.first:
            run.later += 1
            continue
        meant = store.get(kept.key_ref).m_key if kept.key_ref is not None else shared or MKey.generate()
        job = _known_job(writer, run, store, kept, reachable, _meant(kept, last.options, meant))
        if job is None:
            continue
        job.ref = kept.key_ref
        (run.already_set if _has(job) else jobs).append(job)
    _put_in_stages(writer, run, jobs)


def _known_job(
    writer: Writer,
    run: PlannedRun,
    store: KeyStore,
    kept: RunPort,
    reachable: dict[int, tuple[Port, str]],
    meant: Callable[[KeySetting], KeySetting],
) -> Job | None:
    """Return the job for a port of an earlier run; None, and an entry among the skipped ones, where there is none."""
    port, reason = reachable.get(kept.port_guid, (None, ""))
    if port is None:
        text = "the sweep did not find it; what it may have is in the key store"
        run.skipped.append(PortResult(_identity(kept), "skipped", text, unread=True))
        return None
    info = port.port_info
    if reason or info is None:
        run.skipped.append(PortResult(port.identity(), "skipped", reason, unread=True))
        return None
    old = _has_now(info)
    known = {store.get(ref).m_key for ref in (kept.key_ref, kept.old_ref) if ref is not None}
    if kept.is_begun and old.key not in known | ({NO_MKEY} if kept.old_ref is None else set()):
        text = "it has an M_Key that is neither its old nor its new one: somebody else changed it"
        if old.key.is_zero:
            text = "its M_Key is gone, as after a reset: mkey-deploy gives it one when this run has ended"
        run.skipped.append(PortResult(port.identity(), "skipped", text, unread=True))
        return None
    return Job(Target(writer.fabric.handle(port), old.key), info, old, meant(old), sequence=kept.sequence)


def _meant(kept: RunPort, options: RunOptions, key: MKey) -> Callable[[KeySetting], KeySetting]:
    """Return what a port shall have: what the run does not set stays as it was before the run."""

    def wanted(now: KeySetting) -> KeySetting:
        before = now
        if kept.is_begun and kept.old_protect_bits is not None and kept.old_lease_period is not None:
            before = replace(now, protect=kept.old_protect_bits, lease=kept.old_lease_period)
        protect = before.protect if options.protect is None else options.protect
        lease = before.lease if options.lease is None else options.lease
        return KeySetting(key, protect, lease)

    return wanted


def _former(store: KeyStore, kept: RunPort) -> Callable[[KeySetting], KeySetting]:
    """Return what a port had before the run."""
    key = store.get(kept.old_ref).m_key if kept.old_ref is not None else NO_MKEY

    def wanted(now: KeySetting) -> KeySetting:
        protect = now.protect if kept.old_protect_bits is None else kept.old_protect_bits
        return KeySetting(key, protect, now.lease if kept.old_lease_period is None else kept.old_lease_period)

    return wanted


def _identity(kept: RunPort) -> dict[str, Any]:
    """Return what is known of a port that is not there, as every document has it."""
    return {
        "node_guid": guid_text(kept.node_guid),
        "port_guid": guid_text(kept.port_guid),
        "node_desc": None,
        "node_type": None,
        "port": kept.port,
        "lid": None,
    }


# --- the runs in the store --------------------------------------------------------------------------------------------


@contextmanager
def _open_store(writer: Writer) -> Iterator[KeyStore]:
    """Yield the key store; for a dry run without making one."""
    if not writer.dry_run:
        yield writer.keystore
        return
    paths = writer.fabric.stores
    with KeyStore(paths.keystore, create=False, passphrase=paths.passphrase) as store:
        yield store


def _last(store: KeyStore) -> tuple[Run, list[RunPort]]:
    runs = Runs(store)
    last = runs.last()
    if last is None:
        raise UsageError(
            f"the key store ({store.path or 'in memory'}) has no run of mkey-deploy or mkey-rotate to go on with"
        )
    return last, runs.ports(last.id)


def _bounds(options: RunOptions, at_once: int | None, max_failures: int | None) -> RunOptions:
    return replace(
        options,
        at_once=options.at_once if at_once is None else at_once,
        max_failures=options.max_failures if max_failures is None else max_failures,
    )


def _name(run: Run) -> str:
    return f"run {run.id} ({run.command}, begun {run.started})"


def _open_run(run: Run) -> Refused:
    ways = "--continue goes on, --abort goes back" if run.options.first else "--resume finishes it, --abort goes back"
    return Refused(f"{_name(run)} is not finished: {ways}; no other run begins before", "open-run")

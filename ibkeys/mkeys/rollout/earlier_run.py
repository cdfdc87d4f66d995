"""The last run of M_Keys in the journal, and its ports as a sweep finds them now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ibkeys.change.interlocks.overtaken import OVERTAKEN, overtaken
from ibkeys.change.next_commands import close_command, next_commands_of, open_elsewhere
from ibkeys.change.target import PortTarget
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.keyring import KeyRing
from ibkeys.errors import KeyGone, Refused, UsageError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mkeys.rollout.absent_ports import absent_identities
from ibkeys.mkeys.rollout.found_ports import has_wanted_setting, present_setting, put_in_stages, reachable_ports
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.port_job import PortJob
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.printable import counted, named
from ibkeys.store.cut_off_operations import close_cut_off
from ibkeys.store.journal import KEY_COMMANDS, Journal
from ibkeys.store.journal.runs import MKeyRun, RunOptions, RunPort, Runs
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.moving_runs import IS_TO_BE_MOVED, has_run_to_move
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port


def last_run(writer: ChangeWriter) -> tuple[MKeyRun, list[RunPort]]:
    """Return the run that *writer* resumes or undoes, else the last run, and its ports in the order of change. Its keys
    need not be in the key store: see `last_run_with_keys`. Raises UsageError if the journal has no run, or if the
    operation that *writer* continues is none; StoreError.
    """
    path = writer.fabric.stores.journal
    with Journal.read(path) as journal:
        runs = Runs(journal)
        last = runs.last() if writer.continued is None else runs.find(writer.continued)
        if last is not None:
            return last, runs.ports(last.id)
    raise UsageError(
        f"the journal ({path or 'in memory'}) has no run of mkey-deploy, mkey-rotate or mkey-remove to continue"
    ).explained(
        "If the journal was lost: every key is in the key store, and `ibkeys mkey-rotate` begins a new run.",
        "An interrupted run may have left another level: `ibkeys mkey-show --all` shows it.",
    )


def last_run_with_keys(writer: ChangeWriter, store: KeyStore) -> tuple[MKeyRun, list[RunPort]]:
    """Return the same as `last_run`. Raises its errors, and KeyGone if *store* does not have the keys of the run,
    because the key store was lost or replaced."""
    last, ports = last_run(writer)
    if not has_keys_of(store, last, ports):
        close = close_command_of(last)
        how = f" --via {last.method}" if not last.sends_sets else " --same" if last.options.same else " --per-port"
        raise KeyGone(
            f"the key store ({store.path or 'in memory'}) does not have the keys of {last.name}: it was lost or "
            f"replaced since then, or is another one; `ibkeys mkey-rotate{how}` begins a new run"
            + (f", `{close}` only ends the record of this one" if close else "")
        ).explained(
            "Nothing was changed. `ibkeys keystore import` takes the keys that OpenSM has.",
            "With a backup of it: `ibkeys keystore restore FILE`, and run this command again.",
            "An interrupted run may have left another level: `ibkeys mkey-show --all` shows it, "
            "`ibkeys mkey-rotate --protect LEVEL` sets it.",
        )
    return last, ports


def prefer_keys_of_run(ring: KeyRing, store: KeyStore, last: MKeyRun, ports: Sequence[RunPort]) -> None:
    """Change the key ring for the ports to which the *last* run may have sent a Set. The next sweep then reads such a
    port only with the old and the new key of that Set, at levels 2 and 3 once with each, first with the new one (in a
    rollback, with the old one).

    Runs through OpenSM are left out, because they change keys at lower levels. Raises StoreError.
    """
    for port in ports:
        names = (port.old_name, port.key_name) if last.operation.is_half_undone else (port.key_name, port.old_name)
        either = dict.fromkeys(key_named(store, name) for name in names)
        keys = [key for key in either if not key.is_zero]  # a port without a key accepts any key
        guid = port.port_guid
        # If another key was imported since, or the user gave one, that key stays the first.
        if last.sends_sets and port.state == "sent" and ring.by_guid.get(guid) in keys:
            ring.by_guid[guid], ring.spares[guid], ring.in_change[guid] = keys[0], keys[1:], keys
            ring.confirmed -= {guid}


def is_without_keys(writer: ChangeWriter) -> bool:
    """Return whether the keys of the last run were lost with an earlier key store, so that the run can be neither
    resumed nor undone. Raises the errors of `last_run`."""
    last, ports = last_run(writer)
    return not has_keys_of(writer.keystore, last, ports)


def has_keys_of(store: KeyStore, run: MKeyRun, ports: Sequence[RunPort]) -> bool:
    """Return whether *store* has every key that a run and its *ports* name."""
    names = {name for port in ports for name in (port.key_name, port.old_name) if name is not None}
    return store.has_names(names, names_in(run.via))


def names_in(via: Mapping[str, Any] | None) -> set[str]:
    """Return the names of the keys in *via*, the record of a run through OpenSM; an empty set for None."""
    earlier = [] if via is None else via.get("earlier", [])
    settings = [] if via is None else [via.get("former"), via.get("wanted")]
    settings += earlier if isinstance(earlier, list) else []
    return {str(each["key_name"]) for each in settings if isinstance(each, dict) and each.get("key_name") is not None}


def with_bounds(options: RunOptions, at_once: int | None, max_failures: int | None) -> RunOptions:
    """Return *options* with the limits *at_once* and *max_failures* that the user gave now; None keeps the value."""
    return replace(
        options,
        at_once=options.at_once if at_once is None else at_once,
        max_failures=options.max_failures if max_failures is None else max_failures,
    )


def close_command_of(last: MKeyRun) -> str | None:
    """Return the command that ends the record of a run and does nothing else; None if the run has ended."""
    return None if next_commands_of(last.operation) is None else close_command(last.id)


def close_overtaken(writer: ChangeWriter) -> str:
    """Note in the journal that the last run, whose values another program or administrator has changed, has ended, and
    return its name. No port, file or OpenSM is changed, and its keys stay in the key store. Raises UsageError if there
    is no run, StoreError."""
    last, _ = last_run(writer)
    with Journal(writer.fabric.stores.journal) as journal, journal.in_one_transaction():
        journal.leave_stage(last.id, last.operation.stage, "confirmed")  # it needs no confirmation any more
        journal.end_undos(last.id)
        if last.is_left_over:
            journal.set_state(last.id, "undone")
        close_cut_off(journal, KEY_COMMANDS, "undone", last.started)
    return last.name


def refuse_other_method(run: PlannedRun) -> None:
    """Raise UsageError for an earlier run that goes through OpenSM, which Sets of ibkeys cannot finish."""
    if run.last is not None and not run.last.sends_sets:
        raise UsageError(f"{run.last.name} goes through {run.last.method}, and is finished through it")


def refuse_while_open(writer: ChangeWriter, store: KeyStore, here: Collection[int]) -> list[str]:
    """Raise Refused (``open-run``) while the last run on this subnet is not finished, or while it may still be rolled
    back. Only the last run can be finished or rolled back, so no other run may begin before. *here*: the GUIDs of ports
    of this subnet.

    Return notes for the user: one for each run that is open on another subnet, and one for an open run whose keys are
    lost. Such a run can never end, so it does not prevent a new one; but *store* may be the wrong key store. Raises
    UsageError in a dry run while the key store still has a run of an earlier version; StoreError.
    """
    if writer.dry_run and has_run_to_move(store):
        raise UsageError(IS_TO_BE_MOVED)
    with Journal.read(writer.fabric.stores.journal) as journal:
        runs, records = Runs(journal), journal.list_operations()
        last = runs.last(here)
        has_keys = last is not None and has_keys_of(store, last, runs.ports(last.id))
        numbers = runs.operations()
    newest = 0 if last is None else last.id
    others = [each for each in records if each.is_of_keys and each.undoes is None and each.id != newest]
    without_run = [each for each in others if each.id not in numbers]
    if without_run and without_run[-1].state == "open" and newest < without_run[-1].id:
        number, command = without_run[-1].id, without_run[-1].command
        raise Refused(
            f"operation {number} ({command}) of an earlier version is open, and its run is in another key store: "
            f"`ibkeys resume {number}` with that key store takes the run over, `{close_command(number)}` "
            "only ends its record",
            "open-run",
        )
    notes = open_elsewhere(each for each in others if each.id in numbers)
    if last is None:
        return notes
    if not has_keys and not last.operation.goes_back:
        lost = (
            f"{last.name} is not finished, and the key store {store.path or 'in memory'} does not have its keys: it "
            "was lost or is another one; the record of that run ends when this one begins"
        )
        return [*notes, lost] if last.is_open else notes
    operation = last.operation
    if operation.is_half_undone:
        raise Refused(
            f"{last.name} is half rolled back: `ibkeys resume {last.id}` finishes that; no other run can begin before "
            "that",
            "open-run",
        ).explained("`ibkeys keystore list --settle` ends the wait for ports that are gone.")
    if operation.goes_back:
        raise Refused(
            f"{last.name} is rolled back unless a user confirms it, and no other run can begin before that: "
            f"`ibkeys confirm {last.id}` keeps it, `ibkeys undo {last.id}` restores the former state",
            "open-run",
        )
    if last.is_open:
        commands = f"`ibkeys resume {last.id}` finishes it, `ibkeys undo {last.id}` rolls it back"
        raise Refused(f"{last.name} is not finished: {commands}; no other run can begin before that", "open-run")
    return notes


def refuse_strange_ports(writer: ChangeWriter, run: PlannedRun) -> None:
    """Raise Refused (``overtaken``) if an earlier run can be neither resumed nor undone because of the ports that the
    sweep found: the ports belong, or may belong, to another subnet, or another program or administrator has changed
    them."""
    _refuse_another_subnet(writer, run.found)
    _refuse_overtaken(run)


def _refuse_another_subnet(writer: ChangeWriter, found: Topology) -> None:
    """Raise Refused (``overtaken``) if the sweep found no port of the last run.

    This may be another subnet, on which the run can be neither resumed nor undone: an OpenSM there would set its key on
    every port. Or the local adapter was replaced: then the subnet is the right one, and its ports are not found because
    no key is sent over an unknown link. If the SA names the node behind that link, its GUID tells which case it is;
    without a name both are possible.
    """
    last, ports = last_run(writer)
    found_guids = {port.port_guid for port in found.end_ports()}
    if not ports or any(port.port_guid in found_guids for port in ports):
        return
    none = f"not one of the ports of {last.name}"
    advice = "name the port that leads to that subnet (-C, -P)"
    named_guids = {each.named[0] for each in found.unasked if each.named is not None}
    may_be_swapped = not named_guids or any(port.port_guid in named_guids for port in ports)
    if not (found.troubles and may_be_swapped):
        message = f"{none} is on this subnet, so that run was on a different one"
        raise Refused(message, OVERTAKEN).unchanged(advice)
    first = found.troubles[0]
    message = f"{none} was found by the sweep, which ended at {first.port}: {first.error}"
    raise Refused(message, OVERTAKEN).explained(
        "If the adapter of this host was replaced, follow what the error says about that port.",
        f"If this is another subnet, {advice}; nothing was changed.",
    )


def sort_ports(
    writer: ChangeWriter,
    run: PlannedRun,
    store: KeyStore,
    ports: Iterable[RunPort],
    wanted_setting: Callable[[RunPort, KeySetting], KeySetting],
) -> None:
    """Sort *ports* of an earlier run into ``run.stages``, ``run.already_set`` and ``run.skipped``. *wanted_setting*:
    returns the wanted setting of a port from its data in the journal and its present setting. Raises StoreError."""
    reachable = reachable_ports(writer, run.found)
    jobs: list[PortJob] = []
    lost: list[RunPort] = []
    for kept in ports:
        if kept.port_guid not in reachable:
            lost.append(kept)
            continue
        job = _known_job(writer, run, store, kept, *reachable[kept.port_guid], wanted_setting)
        if job is not None:
            new, old = (None if name is None else store.ref_of(name) for name in (kept.key_name, kept.old_name))
            job.ref, job.returns_from = (old, new) if run.goes_back else (new, None)
            (run.already_set if has_wanted_setting(job) else jobs).append(job)
    _name_not_found(writer, run, lost)
    put_in_stages(writer, run, jobs)


def _known_job(
    writer: ChangeWriter,
    run: PlannedRun,
    store: KeyStore,
    kept: RunPort,
    port: Port,
    reason: str,
    wanted_setting: Callable[[RunPort, KeySetting], KeySetting],
) -> PortJob | None:
    """Return the job for a port that the sweep found; None if the port is left alone. Then it is added to
    ``run.skipped``, and to ``run.overtaken`` if another program or administrator has changed it.

    *kept*: the port's data in the journal; *reason*: why *port* could not be read, "" if it was.
    """
    info = port.port_info
    if reason or info is None:
        run.skipped.append(PortResult(port.identity(), "skipped", reason, unread=True))
        return None
    old = present_setting(info)
    wanted = wanted_setting(kept, old)
    if run.undoes_ended and old.key != key_named(store, kept.key_name):
        run.without_key.append(port)
    why = _why_left_alone(run, store, kept, old, wanted)
    if why:
        # OpenSM gives a key to a port that lost its own, so the user need not act.
        is_overtaken = not (old.key.is_zero and _goes_through_sm(run))
        run.skipped.append(PortResult(port.identity(), "skipped", why, unread=not is_overtaken, overtaken=is_overtaken))
        run.overtaken += [port] if is_overtaken else []
        return None
    return PortJob(PortTarget(writer.fabric.handle(port), old.key), info, old, wanted, sequence=kept.sequence)


def _why_left_alone(
    run: PlannedRun, store: KeyStore, kept: RunPort, now: KeySetting, wanted_setting: KeySetting
) -> str:
    """Return the reason why a port is left alone: it has neither the setting that the run found nor the setting that
    the run wrote. Return "" if it has one of these, or if its former setting is not known, because the run has not
    begun the port. *kept*: its data in the journal; *now*: its present setting.
    """
    if kept.old_protect_bits is None or kept.old_lease_period is None:
        return ""
    found = KeySetting(key_named(store, kept.old_name), kept.old_protect_bits, kept.old_lease_period)
    known = [found]
    if kept.key_name is not None:
        known.append(found.with_values(key_named(store, kept.key_name), run.options.protect, run.options.lease))
    if now.key not in {each.key for each in known}:
        if not now.key.is_zero:
            return "it has an M_Key that is neither its old nor its new one: another user or program changed it"
        if not wanted_setting.key.is_zero:
            return _why_reset(run)
    if _goes_through_sm(run) or now == wanted_setting or any(_is_or_was_setting(each, now) for each in known):
        return ""
    return (
        f"it has level {now.protect} with lease {now.lease} s, which this run neither found nor set together: another "
        "program did, or it took only a part"
    )


def _is_or_was_setting(known: KeySetting, now: KeySetting) -> bool:
    """Return whether a port whose setting is *now* has the setting *known*, or had it until its lease ran out, which
    sets the level to 0."""
    has_run_out = not known.key.is_zero and known.lease > 0
    return now == known or (has_run_out and now == replace(known, protect=0))


def key_named(store: KeyStore, name: str | None) -> MKey:
    """Return the key with this *name* in the journal; key 0 for None. Raises StoreError."""
    return NO_MKEY if name is None else store.named(name).m_key


def _why_reset(run: PlannedRun) -> str:
    """Return the reason why a port is left alone that had an M_Key and has none now, in words."""
    if _goes_through_sm(run):
        return "its M_Key is gone, as after a reset: OpenSM gives it the M_Key of its options file with its next sweep"
    return "its M_Key is gone, as after a reset: mkey-deploy gives it an M_Key when this run has ended"


def _goes_through_sm(run: PlannedRun) -> bool:
    return run.last is not None and not run.last.sends_sets


def _refuse_overtaken(run: PlannedRun) -> None:
    """Raise Refused (``overtaken``) if another program or administrator has changed the ports of an earlier run.

    For a run through OpenSM, which sets all ports, one changed port suffices. Any other run is refused if no port is
    left that it could change. The rollback of an ended run is refused if a port no longer has the key that the run gave
    it.
    """
    last = run.last
    assert last is not None
    if run.without_key:
        has = "does not hold the M_Key" if len(run.without_key) == 1 else "do not hold the M_Keys"
        found = f"{counted(len(run.without_key), 'port')} {has} that it gave ({named(run.without_key)})"
        raise overtaken(last.name, [found], close_command_of(last))
    if run.overtaken and (not last.sends_sets or not (run.jobs or run.already_set)):
        ports = named([str(port) for port in run.overtaken])
        has = "has" if len(run.overtaken) == 1 else "have"
        found = (
            f"{counted(len(run.overtaken), 'port')} {has} an M_Key, level or lease that this run neither found nor set"
        )
        found += f" ({ports})"
        if any(present_setting(port.port_info).key.is_zero for port in run.overtaken if port.port_info is not None):
            found += ", or none any more"
        raise overtaken(last.name, [found], close_command_of(last))


def _name_not_found(writer: ChangeWriter, run: PlannedRun, ports: Sequence[RunPort]) -> None:
    """Add to ``run.skipped`` the *ports* of an earlier run that the sweep did not find, each by its name. Raises
    StoreError."""
    for kept, identity in zip(ports, absent_identities(writer, ports), strict=True):
        is_gone = kept.port_guid in writer.fabric.ring.settled
        run.skipped.append(PortResult(identity, "skipped", _why_not_found(kept, is_gone), unread=not is_gone))


def _why_not_found(kept: RunPort, is_gone: bool) -> str:
    """Return the reason why the sweep did not find a port of the run, as far as it is known, and the next command.
    *kept*: the port's data in the journal; *is_gone*: whether the user has ended the wait for the port."""
    if is_gone:
        return (
            "the sweep did not find it, and since `ibkeys keystore list --settle` the run no longer waits for it; its "
            "keys stay in the key store"
        )
    keys = (
        "the keys it may have are in the key store"
        if kept.is_begun
        else "it keeps the setting that it had before the run, until `ibkeys resume` finds it"
    )
    return (
        f"the sweep did not find it; {keys}; `ibkeys keystore list --settle` finds a port that moved, and ends the "
        "wait for one that is gone"
    )

"""Problems of a host's key files and settings, with the remedies: `HostFacts` judged for ``doctor``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ibkeys.errors import IbkeysError, StoreSealed
from ibkeys.keys.key_setting import least_lease
from ibkeys.managers.host_facts import HostFacts, KeyFile
from ibkeys.managers.key_files import compare_key_files
from ibkeys.managers.opensm.process import OpensmConfig
from ibkeys.printable import counted
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import Runs
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.moving_runs import has_run_to_move
from ibkeys.umad.probe import ProbeResult


def check_host(facts: HostFacts) -> Iterator[ProbeResult]:
    """Yield a check for each OpenSM that runs, each file that holds keys, and each configuration of OpenSM; and one for
    each of these problems: every user may open the devices, or may use privileged Q_Keys.
    """
    for process in facts.opensm_processes:
        where = f"its key files are in {process.cache}" + (
            "" if process.cache_known else " unless OSM_CACHE_DIR says so"
        )
        yield ProbeResult("OpenSM", True, f"runs here as process {process.pid}; {where}")
    yield from check_key_files(facts.key_files)
    for config in facts.opensm_configs:
        yield from _check_config(config)
    open_to_all = [device.path.name for device in facts.devices if device.others_can_open]
    if open_to_all:
        yield ProbeResult(
            "device modes",
            False,
            f"every user may open {', '.join(open_to_all)}: every user may send SMPs, or claim to be a subnet manager",
            "a udev rule with GROUP and MODE 0660",
        )
    if facts.privileged_qkey:
        yield ProbeResult(
            "privileged Q_Keys",
            False,
            "every user may use Q_Keys with bit 31 set, and so forge packets to QP1",
            "rdma system set privileged-qkey off",
        )


def check_key_files(files: Iterable[KeyFile]) -> Iterator[ProbeResult]:
    """Yield a check for each file that holds or may hold keys. All users may read a file without a key."""
    for each in files:
        file = each.file
        if each.holds_key is False:
            continue
        ok: bool | None = False
        advice = ""
        if file.others_can_read:
            what = "it" if each.holds_key else "it, and it is not known whether it holds a key"
            detail = f"other users may read {what} (mode {file.mode:04o})"
            advice = f"chmod 600 {file.path}, and change the keys"
        elif file.others_can_write or file.strange_owners:
            detail = "other users can replace it: a directory above belongs to them, or is open to them"
            advice = "keep it in a directory that belongs to root, with mode 0700"
        elif each.holds_key is None:
            ok, detail = None, "cannot be read, so it is not known whether it holds a key"
        else:
            ok, detail = True, f"mode {file.mode:04o}, written {file.modified:%Y-%m-%d %H:%M} UTC"
        yield ProbeResult(each.kind, ok, f"{file.path}: {detail}", advice)


def _check_config(config: OpensmConfig) -> Iterator[ProbeResult]:
    name, path = "opensm.conf", config.file.path
    is_set, level = config.m_key_set, config.m_key_protection_level
    wrong = (
        (config.mistakes, f"{', '.join(config.mistakes)}: the value is not a number", "correct it"),
        (
            config.m_key_all_ones,
            "m_key is all ones: a vendor's SM then chooses a random key, stock OpenSM uses it as the key",
            "set a key of your own: ibkeys keystore generate",
        ),
        (
            is_set and not level,
            "m_key is set with level 0: every host can read it",
            "m_key_protection_level 2, with a lease",
        ),
        (level and not is_set, "m_key_protection_level has no effect while m_key is 0", "set m_key, or level 0"),
        (
            is_set and level and not config.m_key_lease_period,
            "m_key_lease_period is 0: a port whose key is lost stays locked",
            f"m_key_lease_period {max(60, least_lease(config.sweep_interval))}",
        ),
        (
            is_set and not config.m_key_lookup,
            "m_key_lookup is FALSE: OpenSM sends m_key to every port, and uses no guid2mkey",
            "m_key_lookup TRUE",
        ),
    )
    found: list[tuple[bool | None, str, str]] = [(False, detail, advice) for is_so, detail, advice in wrong if is_so]
    for option, is_default in (("sm_key", config.sm_key_default), ("sa_key", config.sa_key_default)):
        if is_default:
            found.append((None, f"{option} is OpenSM's default 1, which everyone knows", f"set {option}"))
    if not any(ok is False for ok, _, _ in found):
        how = f"m_key is set, level {level}, lease {config.m_key_lease_period} s" if is_set else "no m_key is set"
        yield ProbeResult(name, True, f"{path}: {how}")
    for ok, detail, advice in found:
        yield ProbeResult(name, ok, f"{path}: {detail}", advice)


def check_steps(store: KeyStore, folders: Iterable[Path]) -> Iterator[ProbeResult]:
    """Yield checks of the guid2mkey of each of *folders*: whether it lacks keys of the key store, and whether it has
    newer ones."""
    for folder in folders:
        try:
            steps = compare_key_files(store, folder)
        except StoreSealed:
            yield ProbeResult("key files", None, f"{folder}: not compared with the key store, which is encrypted")
            continue
        except IbkeysError as error:
            yield ProbeResult("key files", False, str(error))
            continue
        if not any((steps.missing, steps.stale, steps.newer)):
            yield ProbeResult("key files", True, f"{folder}: guid2mkey and the key store match")
        if steps.missing or steps.stale:
            yield ProbeResult(
                "key files",
                False,
                f"{folder}: guid2mkey has no key for {counted(len(steps.missing), 'port')} with one in the key store, "
                f"and an older one for {len(steps.stale)}: an OpenSM that starts with it does not reach them",
                f"stop OpenSM, ibkeys keystore export {folder}, start it",
            )
        if steps.newer:
            yield ProbeResult(
                "key files",
                False,
                f"{folder}: guid2mkey has another key for {counted(len(steps.newer), 'port')}, written after the key "
                "store's",
                f"ibkeys keystore import {folder}",
            )


def check_run_to_move(store: KeyStore) -> Iterator[ProbeResult]:
    """Yield a check where an earlier version left its last run of M_Keys in *store*."""
    if has_run_to_move(store):
        yield ProbeResult(
            "M_Key run",
            None,
            "the last run of M_Keys of an earlier version is in the key store, and may be open",
            "`ibkeys resume` moves it to the journal, and finishes it where it is open",
        )


def check_run(journal: Journal) -> Iterator[ProbeResult]:
    """Yield a check for each run of mkey-deploy, mkey-rotate or mkey-remove that is not finished.

    ``ok`` is None for a run that waits after its first ports, and for one of which only failed ports are left. It is
    False for all others, and for every run with a port that may or may not have its new key. Of the runs of which only
    failed ports are left, only the last one has a check.
    """
    runs = Runs(journal)
    for run in filter(None, map(runs.find, sorted(runs.operations()))):
        if not (run.is_open or (run.is_left_over and runs.is_last(run.id))):
            continue
        states = [port.state for port in runs.ports(run.id)]
        sent, waiting = states.count("sent"), states.count("waiting")
        yield ProbeResult(
            "M_Key run",
            None if (run.options.first or not run.is_open) and not sent else False,
            f"{run.name} is not finished: {counted(states.count('done'), 'port')} done, {states.count('failed')} failed"
            f", {sent} may have their new key or not, {waiting} wait; every key is in the key store",
            f"ibkeys resume {run.id} finishes it, ibkeys undo {run.id} rolls it back",
        )

"""Dangers in the files of one OpenSM: users who can read or write them, keys that are printed, changes that OpenSM has
not read yet.

Source: opensm osm_subnet.c, osm_prtn_config.c, osm_db_files.c.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from typing import Final

from ibkeys.managers.dangers.danger import Danger, holds_keys
from ibkeys.managers.instance import HOW_TO_MEND, Instance, InstanceFile, Role


def _find_readable(role: Role) -> Callable[[Instance], Iterator[str]]:
    def find(instance: Instance) -> Iterator[str]:
        file = instance.files[role]
        is_harmless = role == "options" and not holds_keys(instance)
        if file.fact is not None and file.fact.others_can_read and not is_harmless:
            yield f"others can read {file.path} (mode {file.fact.mode:04o})"

    return find


def _find_writable(instance: Instance) -> Iterator[str]:
    for role in ("options", "policy", "cache", "keys"):
        file: InstanceFile = instance.files[role]
        if file.fact is not None and (file.fact.others_can_write or file.fact.strange_owners):
            yield f"others can write or replace {file.path}"


def _find_open_umask(instance: Instance) -> Iterator[str]:
    umask = instance.process.umask
    if umask is not None and not umask & stat.S_IROTH and holds_keys(instance, "m_key"):
        yield f"its umask is {umask:04o} and m_key is set"


def _find_keys_in_output(instance: Instance) -> Iterator[str]:
    """Yield a text if OpenSM prints keys when it reads its options file. It prints each key that differs from the
    default."""
    file = instance.options_file
    names = [name for name in ("m_key", "sm_key", "sa_key") if file is not None and name in file.values]
    names = [name for name in names if instance.options.setting(name).shown == "set"]
    if names:
        yield f"it prints {' and '.join(names)} in clear when it reads them: {'; '.join(_output_places(instance))}"


def _output_places(instance: Instance) -> Iterator[str]:
    output, log = instance.files["output"], instance.files["log"]
    yield "to syslog"
    if instance.options.setting("daemon").value is True:
        yield f"to its log {log.path}" + _readers_in_words(log)
    elif output.path is not None:
        yield f"to {output.path}" + _readers_in_words(output)
    elif (instance.process.output or "").startswith("socket:"):
        yield "to the journal"
    elif instance.process.output is None:
        yield "to its standard output, wherever that goes"


def _readers_in_words(file: InstanceFile) -> str:
    if file.fact is None:
        return ""
    return ", which others can read" if file.fact.others_can_read else ", which others cannot read"


def _find_options_never_read(instance: Instance) -> Iterator[str]:
    file = instance.files["options"]
    if file.reading == "absent-since-start" and file.source != "default":
        yield f"its options file {file.path} was not there when it started"
    elif file.reading == "absent":
        yield f"its options file {file.path} is not there"


def _find_missing_policy(instance: Instance) -> Iterator[str]:
    file = instance.files["policy"]
    if file.is_there is False:
        yield f"its policy {file.path} is not there"
    elif file.no_facts_reason == "unnamed":
        yield "it has no policy file"


def _find_faulty_policy(instance: Instance) -> Iterator[str]:
    if instance.policy_fault:
        yield instance.policy_fault


def _safe_to_signal(instance: Instance) -> Iterator[InstanceFile]:
    """Yield the files that OpenSM may be made to read by a signal: options and policy. If the policy is faulty, yield
    none, because one heavy sweep reads both."""
    if not instance.policy_fault:
        yield from (instance.files["options"], instance.files["policy"])


def _find_unread_changes(instance: Instance) -> Iterator[str]:
    for file in _safe_to_signal(instance):
        if file.reading == "not-read":
            yield f"{file.path} was changed after the last heavy sweep that ended without errors"


def _find_uncertain_changes(instance: Instance) -> Iterator[str]:
    for file in _safe_to_signal(instance):
        if file.reading in ("changed", "may-have-been-read"):
            yield f"{file.path} was changed since it started, and may or may not have been read"


def _find_options_that_need_restart(instance: Instance) -> Iterator[str]:
    file = instance.files["options"]
    if file.reading not in ("changed", "may-have-been-read", "not-read") or instance.options_file is None:
        return
    unread_options = [
        each.name
        for each in map(instance.options.setting, instance.options_file.values)
        if each.needs_restart and each.source == "options file"
    ]
    if unread_options:
        yield f"{file.path} was changed since it started, and sets {', '.join(unread_options)}"


FILE_DANGERS: Final = (
    Danger(
        "policy-missing",
        _find_missing_policy,
        "every port is a full member of the default partition, and of no other",
        "put the policy there; check it first (ibkeys policy-check), then send SIGHUP",
    ),
    Danger(
        "policy-faulty",
        _find_faulty_policy,
        "OpenSM drops the whole policy and makes every port a full member of the default partition",
        HOW_TO_MEND,
    ),
    Danger(
        "options-readable",
        _find_readable("options"),
        "this file has keys",
        "chmod 600, and change the keys",
    ),
    Danger(
        "keys-readable",
        _find_readable("keys"),
        "guid2mkey holds the M_Key of every port",
        "chmod 600, UMask=0077 in the unit (OpenSM re-creates the file), and change the keys",
    ),
    Danger(
        "keys-made-readable",
        _find_open_umask,
        "OpenSM re-creates guid2mkey after sweeps, readable for others",
        "UMask=0077 in the unit, and restart",
    ),
    Danger(
        "files-writable",
        _find_writable,
        "anyone who can write it decides which ports can talk, or which M_Key is sent where",
        "let root own it and the directories above it, and remove the write permission of others",
    ),
    Danger(
        "keys-in-output",
        _find_keys_in_output,
        "anyone who can read the journal, syslog or that file knows the keys",
        "let only root read them; keys that others may have read have to be changed",
    ),
    Danger(
        "log-readable",
        _find_readable("log"),
        "the log shows keys: the sa_key when a program asks with a wrong one, the sm_key of another SM, offered M_Keys",
        "chmod 600 and UMask=0077 in the unit",
    ),
    Danger(
        "armed",
        _find_unread_changes,
        "the next heavy sweep applies it, whatever starts that sweep; a sweep with errors may have applied it already",
        "put the old file back, or, if the change is meant, check the policy (ibkeys policy-check), then send SIGHUP",
    ),
    Danger(
        "changed",
        _find_uncertain_changes,
        "the file does not show which policy is in force",
        "ibkeys plan and ibkeys audit read what the ports have; SIGHUP makes OpenSM read the file: check the policy "
        "first (ibkeys policy-check)",
    ),
    Danger(
        "needs-restart",
        _find_options_that_need_restart,
        "OpenSM reads these options only when it starts; a different value may be in force",
        "restart OpenSM if one of them was changed",
    ),
    Danger(
        "options-not-read",
        _find_options_never_read,
        "an options file that is not there when OpenSM starts is never read later, even after SIGHUP: the defaults "
        "are in force",
        "put it there and restart",
    ),
)

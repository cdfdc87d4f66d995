"""Keeping the M_Keys in OpenSM's files secret: the files are closed to other users before a key is written, and notes
name the files that cannot be closed.

OpenSM prints each changed value of its options file in plain text, to its standard output and to syslog, and under
``--daemon`` to its log. It writes guid2mkey again at each change with the rights that its umask leaves, so only the
mode of the folder keeps other users out. Source: opensm osm_subnet.c (opts_parse), osm_db_files.c; a running OpenSM,
observed.
"""

from __future__ import annotations

from typing import Final

from ibkeys.change.consent import Objection
from ibkeys.change.through_sm import ManagedOpensm, OpensmManagers
from ibkeys.host.file_access import FileFact
from ibkeys.managers.files.listeners import is_usable_alone, remove_others_rights
from ibkeys.printable import named

_UNITS_UMASK: Final = "UMask=0077"


def objections_to_sa_key(managers: OpensmManagers) -> list[Objection]:
    """Return a list with the objection ``default-sa-key`` if an OpenSM has the default SA_Key, with which anybody can
    read the M_Key; else an empty list."""
    names = [each.name for each in managers.all if each.options["sa_key"].shown == "default"]
    if not names:
        return []
    return [
        Objection(
            "default-sa-key",
            f"the SA_Key of {named(names)} is the default, 1: anyone who sends it to the SA can read the "
            "M_Key, at every level; set new keys first: `ibkeys smkey-rotate --via opensm`",
        )
    ]


def notes_on_files(managers: OpensmManagers) -> list[str]:
    """Return, in words, the files that will be closed to other users, and those that ibkeys does not close."""
    notes = []
    for manager in managers.all:
        files = manager.running.instance.files
        user = manager.file.user
        open_files = [str(files[role].path) for role in ("cache", "log") if _is_closed_next(files[role].fact, user)]
        if open_files:
            notes.append(f"{manager.name}: other users can no longer access {named(open_files)}")
        if _is_open(files["log"].fact) and not _is_closed_next(files["log"].fact, user):
            notes.append(f"{files['log'].path} keeps its mode: it does not belong to the user of its OpenSM")
        elif _is_open(files["log"].fact):
            notes.append(f"{files['log'].path}: if logrotate re-creates it, set the mode there (create 0600)")
        umask = manager.running.instance.process.umask
        if umask is None or umask & 0o077 != 0o077:
            notes.append(
                f"{manager.name} re-creates guid2mkey with mode 0644 at each change: the file's folder, which is "
                f"closed to others, protects it; {_UNITS_UMASK} in the unit of this OpenSM does too, from its next "
                "start on"
            )
        if why := manager.file.why_others_keep_rights:
            notes.append(why)
        elif manager.file.others_have_rights:
            notes.append(f"{manager.file.name} holds keys: only its owner may read it from now on")
    return notes


def close(manager: ManagedOpensm) -> None:
    """Remove the permissions of other users on the folder of an OpenSM's key files and on its log. Raises FileError,
    FileChanged, HostNotReached."""
    log = manager.running.instance.files["log"]
    remove_others_rights(manager.machine, manager.cache, manager.file.user)
    if log.place is not None and log.fact is not None:
        remove_others_rights(manager.machine, log.place, manager.file.user)


def _is_closed_next(fact: FileFact | None, user: int) -> bool:
    return fact is not None and not fact.is_private and is_usable_alone(fact, user)


def _is_open(fact: FileFact | None) -> bool:
    return fact is not None and fact.others_can_read

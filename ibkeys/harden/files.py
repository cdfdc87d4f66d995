"""The steps for files: remove other users' access to files with keys, for every reachable OpenSM.

"Closed" means that no other user has access. OpenSM recreates guid2mkey at each key change with the permissions of its
umask. So its folder and log are closed before the first key is written, and the files that it created in the meantime
are closed at the end. An options file gets its permissions together with its first key. Permissions are only removed;
the rollback is chmod. Source: opensm osm_db_files.c, osm_log.c; a running OpenSM, observed.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys.change.through_sm import find_and_lock_sms
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import Wanted
from ibkeys.errors import FileError, Refused
from ibkeys.harden.findings import StepName
from ibkeys.harden.step import COMMAND, HardeningStep, HardenRequest, StepChange
from ibkeys.host.file_access import FileFact
from ibkeys.managers.files.listeners import hindrance_to_closing, is_usable_alone, remove_others_rights
from ibkeys.managers.files.options_files import REFUSAL
from ibkeys.managers.instance import Role
from ibkeys.managers.opensm.process import opensm_config
from ibkeys.managers.site import RunningOpensm, reach
from ibkeys.managers.subnet_managers import managers_of
from ibkeys.store.cut_off_operations import close_cut_off, is_any_cut_off
from ibkeys.store.journal import FileImage

_KEY_STEPS: Final[frozenset[StepName]] = frozenset({"sm-keys", "new-m-key", "m-keys"})
_UMASK: Final = 0o077


@dataclass(frozen=True)
class FileStep(HardeningStep):
    """A step that closes the files of these ``roles``. ``words``: the change in words if no such file exists yet; only
    the last of the steps for files has it."""

    name: StepName
    title: str
    roles: tuple[Role, ...]
    words: tuple[str, ...] = ()
    command = f"{COMMAND} files"
    serves = _KEY_STEPS

    def is_due(self, writer: ChangeWriter, asked: HardenRequest) -> bool:
        """Return whether this is the last of the steps for files, and an earlier run of one of them was interrupted.
        Raises StoreError."""
        return bool(self.words) and is_any_cut_off(writer.fabric.stores.journal, [self.command])

    def plan_change(self, writer: ChangeWriter, asked: HardenRequest) -> StepChange | None:
        """Return the change that closes the files; None if there is none to close, unless this is the last of the steps
        for files. Raises the errors of a sweep, `find_and_lock_sms` and `open_files`."""
        managers = managers_of(writer.fabric.sweep(wanted=Wanted(sm_info=True)))
        runnings = find_and_lock_sms(writer, managers, reach(writer.enter, asked.hosts)).opensms  # the master last
        found = [each for running in runnings for each in self.open_files(running)]
        if not found and not self.words:
            return None
        return StepChange(
            [each.words for each in found] or self.words,
            "; ".join(each.rollback for each in found) or "chmod restores the rights",
            lambda: self.close_all(writer, [each for running in runnings for each in self.open_files(running)]),
            [note for running in runnings for note in _notes_on_umask(running)] if "keys" in self.roles else (),
        )

    def open_files(self, running: RunningOpensm) -> Iterator[_OpenFile]:
        """Yield the files and folders of an OpenSM to which other users have access, with the rollback of each. Left
        out are those that the OpenSM could not use without that access, and an options file without a key. Raises
        FileError for a file that cannot be examined, Refused (`REFUSAL`) for a folder that cannot be closed,
        HostNotReached."""
        for role in self.roles:
            file = running.instance.files[role]
            if file.path is None or file.place is None:
                continue
            try:
                fact = running.machine.files.stat(file.place)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise FileError(f"{file.path}: cannot be examined: {error.strerror or error}") from None
            user = running.read_user()
            if role == "cache" and (hindrance := hindrance_to_closing(file.path, fact, user)):
                raise Refused(f"{running.instance.name}: {hindrance}", REFUSAL).unchanged()
            if not fact.is_private and is_usable_alone(fact, user) and (role != "options" or _has_key(running, fact)):
                path, host = running.place_of(role, fact)[0], running.machine.name
                name = f"{path} on {host}" if host else str(path)
                words = f"{name}: mode {fact.mode:04o} -> {fact.mode & stat.S_IRWXU:04o}"
                image = FileImage(str(path), None, None, fact.mode, fact.uid, fact.gid, host=host)
                yield _OpenFile(running, role, file.place, words, f"chmod {fact.mode:04o} {name}", image)

    def close_all(self, writer: ChangeWriter, files: Sequence[_OpenFile]) -> Sequence[str]:
        """Record each of *files* in the journal and close it; then signal the OpenSM of each options file among them.

        The last of the steps for files also ends the records of interrupted steps for files. Returns an empty tuple:
        nothing is left undone. Raises FileError, FileChanged, HostRefused, HostNotReached, StoreError.
        """
        with writer.journaled() as operation:
            for each in files:
                entry = operation.record_file(each.image)
                remove_others_rights(each.running.machine, each.place)
                entry.done()
            for each in files:
                if each.role == "options":  # a new mode looks like an edit that OpenSM has not read
                    each.running.machine.signal(each.running.instance.process)
            if self.words:  # this is the last of the steps for files, so an interrupted one is complete too
                close_cut_off(operation.journal, [self.command], "done", but=operation.id)
        return ()


@dataclass(frozen=True, slots=True)
class _OpenFile:
    """A file to which other users have access.

    ``place``: the path by which ibkeys reaches it on its host; if OpenSM has mounts of its own, this path is valid only
    as long as OpenSM's process runs; ``words``: the change; ``rollback``: the command that restores the permissions;
    ``image``: the file's data in the journal.
    """

    running: RunningOpensm
    role: Role
    place: Path
    words: str
    rollback: str
    image: FileImage


FOLDERS: Final = FileStep("folders", "folders of key files and logs closed to others", ("cache", "log"))
KEY_FILES: Final = FileStep(
    "key-files",
    "files with keys closed to others",
    ("options", "keys"),
    ("guid2mkey and the options files that exist at that step: mode 0600",),
)


def _has_key(running: RunningOpensm, fact: FileFact) -> bool:
    seen = running.machine.look(running.place_of("options")[0])
    return seen.data is not None and opensm_config(fact, seen.data).holds_key


def _notes_on_umask(running: RunningOpensm) -> Iterator[str]:
    """Yield a note if the umask of an OpenSM lets other users read the files that it creates."""
    umask = running.instance.process.umask
    if umask is None or umask & _UMASK != _UMASK:
        yield (
            f"{running.instance.name} re-creates guid2mkey readable for others at each later change of a key; the "
            "file's folder is closed to others, which protects the file; UMask=0077 in the unit of this OpenSM "
            "protects it too, after the next start"
        )

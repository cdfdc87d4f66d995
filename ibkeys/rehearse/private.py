"""Work in a part of this host that no other process sees, and that ends with this process, even if it is killed.

The work runs in a child process with namespaces of its own. Its processes are in a PID namespace, whose end kills all
of them, and which ends when this process ends (PR_SET_PDEATHSIG). Its files are in a tmpfs of its own mount namespace,
where all other file systems are read-only, and its abstract sockets in a network namespace. So nothing is left behind
in any case, and two such pieces of work cannot meet. Source: namespaces(7), pid_namespaces(7), prctl(2).
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from ibkeys import errors
from ibkeys.errors import IbkeysError, Refused
from ibkeys.printable import place_of
from ibkeys.sim.hosted.linux import call, die_with_parent, library, mount

_FOLDERS: Final = ("/mnt", "/media", "/srv", "/dev/shm")
"""The folders of which one is covered by the tmpfs: every host has some of them, and no program needs all."""
_NODEV: Final = 4
_FLAGS: Final = {"nosuid": 2, "nodev": _NODEV, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
"""Flags of a mount that a user namespace may not take away. Source: linux/mount.h."""
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


def run_privately(work: Callable[[Path], Any], needed: Iterable[Path] = ()) -> Any:
    """Call *work* with a private, empty folder in a child process as described above, and return its result, which
    must be JSON.

    *needed*: paths that the private folder may not hide, besides those of Python and ibkeys. This process must have
    one thread. Raises Refused if the kernel allows no such namespaces, or no folder can be covered. An error of *work*
    is raised here with its text. Its type is the same if that is in `ibkeys.errors` and needs only a message, or is
    Refused; else it is that of the nearest base class, and IbkeysError for other errors.
    """
    folder = _folder_to_cover(needed)
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _become_private(work, folder, writer)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as answers:
            answer = answers.read()
    finally:
        os.kill(child, signal.SIGKILL)  # It is this process's child and not waited for yet, so the id is its own.
        os.waitpid(child, 0)
    if not answer:
        raise IbkeysError("the private process of the rehearsal was killed")
    kind, content = json.loads(answer)
    if kind == "result":
        return content
    if kind == Refused.__name__:
        raise Refused(*content)
    raise _error(kind, content[0])


def _error(kind: str, message: str) -> IbkeysError:
    """Return an error of *kind*, or of its nearest base class that needs only a message."""
    for each in getattr(errors, kind, IbkeysError).__mro__:
        with suppress(TypeError):
            error: IbkeysError = each(message)
            return error
    raise AssertionError("IbkeysError needs only a message")


def _folder_to_cover(needed: Iterable[Path]) -> Path:
    own = map(Path, (sys.prefix, sys.base_prefix, __file__, *sys.path))
    used = [each.resolve() for each in (*own, *needed)]
    for folder in map(Path, _FOLDERS):
        if folder.is_dir() and not folder.is_symlink() and not any(each.is_relative_to(folder) for each in used):
            return folder
    raise Refused(
        f"a rehearsal mounts its own files over a folder that it does not need, and {', '.join(_FOLDERS)} are missing "
        "or in use: create /mnt",
        "namespaces",
    )


def _become_private(work: Callable[[Path], Any], folder: Path, answers: int) -> NoReturn:
    """Create the namespaces, and fork the process that runs *work* in them as their first process. End with it."""
    parent = os.getppid()
    try:
        _bind_to(parent)
        os.setsid()  # Ctrl-C ends the parent, and with it this process.
        _unshare()
        alive, held = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(held)
            die_with_parent()
            if select.select([alive], [], [], 0)[0]:  # The parent, which held the other end, ended before the call.
                os._exit(0)
            _work(work, folder, answers)
        os.close(answers)
        os.waitpid(child, 0)
    except OSError as error:
        _answer(answers, Refused.__name__, [_refusal(error), "namespaces"])
    except IbkeysError as error:
        _answer(answers, type(error).__name__, [str(error)])
    finally:
        os._exit(0)


def _bind_to(parent: int) -> None:
    die_with_parent()
    if os.getppid() != parent:  # The parent ended before the call.
        os._exit(0)


def _unshare() -> None:
    lib = library()
    kinds = lib.CLONE_NEWNS | lib.CLONE_NEWPID | lib.CLONE_NEWNET | lib.CLONE_NEWIPC
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        call(lib.unshare, kinds)
        return
    call(lib.unshare, lib.CLONE_NEWUSER | kinds)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _work(work: Callable[[Path], Any], folder: Path, answers: int) -> NoReturn:
    """Run *work* in this process, the first one of its namespaces, and write the answer for the parent."""
    try:
        try:
            _mount_all(folder)
        except OSError as error:
            _answer(answers, Refused.__name__, [_refusal(error), "namespaces"])
        else:
            tempfile.tempdir = str(folder)
            _answer(answers, "result", work(folder))
    except Refused as error:
        _answer(answers, Refused.__name__, [str(error), error.interlock])
    except IbkeysError as error:
        _answer(answers, type(error).__name__, [str(error)])
    except BaseException as error:
        where = f"{type(error).__name__} at {place_of(error)}"
        _answer(answers, IbkeysError.__name__, [f"internal error in the rehearsal ({where})"])
    finally:
        os._exit(0)


def _mount_all(folder: Path) -> None:
    lib = library()
    mount("none", "/", flags=lib.MS_REC | lib.MS_PRIVATE)
    mount("proc", "/proc", "proc", lib.MS_NOSUID | _NODEV | lib.MS_NOEXEC)
    for place, flags in _mounts():
        if place != "/proc" and not place.startswith("/proc/"):  # Namespaces of the programs are written there.
            with suppress(FileNotFoundError):  # Another mount covers it.
                mount("none", place, flags=lib.MS_BIND | lib.MS_REMOUNT | lib.MS_RDONLY | flags)
    mount("none", str(folder), "tmpfs", lib.MS_NOSUID | _NODEV, "mode=0700")


def _mounts() -> list[tuple[str, int]]:
    """Return the place and the flags of every mount, by /proc/self/mountinfo (proc(5), fields 5 and 6)."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            words = line.split(" ")
            place = _OCTAL.sub(lambda match: chr(int(match[1], 8)), words[4])
            found.append((place, sum(_FLAGS.get(each, 0) for each in words[5].split(","))))
    return found


def _refusal(error: OSError) -> str:
    where = f" at {error.filename}" if error.filename else ""
    return (
        f"this kernel allows no private namespaces for a rehearsal ({error.strerror}{where}): run it as root, or allow "
        "user namespaces"
    )


def _answer(descriptor: int, kind: str, content: Any) -> None:
    with os.fdopen(descriptor, "w", encoding="utf-8") as answers:
        json.dump([kind, content], answers)

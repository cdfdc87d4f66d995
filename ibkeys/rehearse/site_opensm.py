"""The site's own OpenSM: its program, its command line, and the files that they name."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from ibkeys import files
from ibkeys.errors import UsageError
from ibkeys.host.host_files import THIS_HOST
from ibkeys.managers.opensm.command_line import CommandLine, read_command_line
from ibkeys.managers.opensm.on_this_host import running_here
from ibkeys.managers.opensm.process import OPENSM_CACHE, OPENSM_CONFIGS, PROGRAM, OpensmProcess
from ibkeys.printable import named
from ibkeys.rehearse.bundle import Bundle
from ibkeys.store.sqlite import timestamp

OpensmSource = Literal["running", "named", "installed", "packed"]
"""Where the OpenSM of a rehearsal is from: it runs on this host, the user named it, it is only installed here, or its
options and files are from a bundle."""
_SAY_WHICH: Final = "name it by `ibkeys rehearse --opensm COMMAND`"
_ENDS: Final = frozenset({"version", "help", "create-config", "once"})
"""Arguments with which OpenSM ends by itself."""


@dataclass(frozen=True, slots=True)
class SiteOpensm:
    """The site's OpenSM, as it can be started again.

    ``program``: the path of its executable. ``words``: its arguments. ``folder``: the folder that its relative paths
    start from. ``source``: where it is from. ``config``: its options file, None if it does not exist. ``cache``:
    the folder of its key files. ``started``: when it was started, in seconds since 1970; None: not known. ``packed``:
    the bundle that has its options and files, in place of ``words``, ``config`` and ``cache``.
    """

    program: Path
    words: tuple[str, ...]
    folder: Path
    source: OpensmSource
    config: Path | None
    cache: Path = OPENSM_CACHE
    started: float | None = None
    packed: Bundle | None = None

    @property
    def command(self) -> CommandLine:
        """The command line, in which no value is a key."""
        return read_command_line(self.words)

    @property
    def since(self) -> str:
        """When it was started, as the journal writes times; "" if that is not known."""
        started = self.started
        return "" if started is None else timestamp(lambda: datetime.fromtimestamp(started, UTC))

    def path(self, name: str) -> Path:
        """Return the path of a file that the options call *name*."""
        return self.folder / name

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file that the options call *name*; None if it does not exist. Raises UsageError if it
        cannot be read."""
        if self.packed is not None:
            return self.packed.files.get(Path(name).name)
        try:
            return THIS_HOST.read(self.path(name), files.LARGE)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(
                f"{self.path(name)}: OpenSM reads this file, and it cannot be copied for the rehearsal: "
                f"{error.strerror or error}"
            ) from None


def find_opensm(named_command: str | None) -> SiteOpensm:
    """Return the OpenSM that *named_command*, a command line as in a shell, starts; None: the one that runs on this
    host, else the one that is installed here, with no arguments.

    Raises UsageError if there is none, if several run, if it runs in a container or as another user, if its options
    file does not exist, or for a command line that OpenSM 3.3.23 does not know or with which it does not go on.
    """
    if named_command is not None:
        program, *words = _split(named_command)
        return _site_opensm(program, words, Path.cwd(), "named", Path(os.environ.get("OSM_CACHE_DIR", OPENSM_CACHE)))
    running = running_here()
    if len(running) > 1:
        raise UsageError(
            f"{len(running)} OpenSMs run on this host (processes {named([each.pid for each in running])}): {_SAY_WHICH}"
        )
    if running:
        return _of_process(running[0])
    return _site_opensm(PROGRAM, (), Path("/"), "installed")


def packed_opensm(bundle: Bundle, named_program: str | None) -> SiteOpensm:
    """Return the OpenSM of *bundle*, started by *named_program*; None: by the one that is installed here. Raises
    UsageError if there is none, and for a *named_program* with arguments."""
    program, *words = [PROGRAM] if named_program is None else _split(named_program)
    if words:
        raise UsageError(f"the bundle has the arguments of OpenSM: name only its program, {program}")
    return replace(_site_opensm(program, (), Path("/"), "packed"), config=None, packed=bundle)


def _of_process(process: OpensmProcess) -> SiteOpensm:
    """Return the OpenSM of a running process. Raises UsageError if it is in a container, or may not be examined."""
    if process.view == "own":
        raise UsageError(
            f"OpenSM (process {process.pid}) runs in a container: {_SAY_WHICH}, with the paths of its "
            "files on this host"
        )
    try:
        words = THIS_HOST.read(process.folder / "cmdline", files.SETTINGS).decode("utf-8", "surrogateescape")
        program = os.readlink(process.folder / "exe").removesuffix(" (deleted)")
    except OSError:
        raise UsageError(
            f"OpenSM (process {process.pid}) belongs to another user, so its program and options cannot be read: run "
            f"this as root, or {_SAY_WHICH}"
        ) from None
    found = _site_opensm(program, words.split("\0")[1:-1], process.cwd or Path("/"), "running", process.cache)
    return replace(found, started=process.started)


def _split(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the command line of OpenSM: {error}") from None
    if not words:
        raise UsageError("give a command line of OpenSM, such as 'opensm -F /etc/opensm/opensm.conf'")
    return words


def _site_opensm(
    program: str, words: Sequence[str], folder: Path, source: OpensmSource, cache: Path = OPENSM_CACHE
) -> SiteOpensm:
    path = shutil.which(program)
    if path is None:
        raise UsageError(
            f"{program}: no such program on this host; a rehearsal needs an OpenSM: install the package opensm, or "
            f"{_SAY_WHICH}"
        )
    command = read_command_line(words)
    if command.not_understood or "--" in words:
        raise UsageError(f"the command line of OpenSM has words that OpenSM 3.3.23 does not know: {_SAY_WHICH}")
    stopping = [each.argument.name for each in command.given if each.argument.name in _ENDS]
    if stopping:
        raise UsageError(f"with --{stopping[0]} OpenSM ends by itself, and a rehearsal needs one that goes on: omit it")
    config = command.last("config")
    given = [folder / config] if config else OPENSM_CONFIGS
    existing = next((each for each in given if os.path.exists(each)), None)
    if config and existing is None:
        raise UsageError(f"{folder / config}: OpenSM's options file does not exist, or this user may not see it")
    return SiteOpensm(Path(path).resolve(), tuple(words), folder, source, existing, cache)

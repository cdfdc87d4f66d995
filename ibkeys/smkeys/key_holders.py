"""The OpenSMs of a change of sm_key and sa_key, and the time after which a standby takes over.

An OpenSM whose host is not reached would keep the former sm_key. That OpenSM and the others would then ignore each
other, and after its polling time there would be two masters. Source: opensm osm_sminfo_rcv.c, osm_sm_state_mgr.c; a
running OpenSM, observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from ibkeys.change.through_sm import POLLING, OpensmManagers, find_opensms
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused, UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.files.options_files import REFUSAL
from ibkeys.managers.opensm.effective_options import EffectiveOption
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.managers.site import ReachedHost, RunningOpensm
from ibkeys.managers.subnet_managers import managers_of
from ibkeys.printable import named
from ibkeys.topology.model import Topology

SmKeyKind = Literal["sm_key", "sa_key"]
KINDS: Final[tuple[SmKeyKind, ...]] = ("sm_key", "sa_key")
DEFAULT: Final = SMKey(1)
"""OpenSM's default of sm_key and sa_key."""
_IF_ONE_IS_LEFT_OUT: Final = "an SM that keeps the former sm_key becomes a second master"


def keys_in(data: bytes) -> dict[SmKeyKind, SMKey]:
    """Return sm_key and sa_key of an OpenSM that starts with the options file *data*."""
    options = read_options(data)
    keys: dict[SmKeyKind, SMKey] = {}
    for kind in KINDS:
        value = options.value(kind)
        assert isinstance(value, MKey)
        keys[kind] = SMKey(value.reveal())
    return keys


def find_sm_key_managers(
    writer: ChangeWriter, reached: Sequence[ReachedHost], topology: Topology, goes_on: bool
) -> OpensmManagers:
    """Return the OpenSMs of the fabric. *topology*: the result of a sweep that read SMInfo.

    *goes_on*: whether an interrupted change is resumed, so that there may be several masters now. Raises the errors of
    `find_opensms`; UsageError if it cannot be verified that a process is an OpenSM; Refused (`REFUSAL`) for an OpenSM
    whose command line has its keys, and (``file``) for options files that cannot be replaced together.
    """
    managers = find_opensms(writer, reached, managers_of(topology), _read_options, _IF_ONE_IS_LEFT_OUT, goes_on)
    _refuse_one_file_of_several_hosts(managers.files)
    _refuse_several_files_of_another_host(managers.files)
    if managers.standbys and not all(each.is_certain for opensm in managers.all for each in opensm.options.values()):
        managers.notes.append(
            "the time after which a standby takes over was taken from the options files; it is not known whether each "
            "OpenSM has read its file"
        )
    return managers


def _read_options(running: RunningOpensm, file: OpensmFile) -> tuple[Mapping[str, EffectiveOption], list[str]]:
    """Return the options that decide when a standby takes over, and no notes. Raises UsageError if it cannot be
    verified that the process is an OpenSM, Refused (`REFUSAL`) if its command line has one of the keys."""
    instance = running.instance
    if not instance.process.program_known:
        raise UsageError(f"{instance.name}: it cannot be verified that it is an OpenSM; run as root")
    on_command_line = [kind for kind in KINDS if instance.options.setting(kind).source == "command line"]
    if on_command_line:
        raise Refused(f"{instance.name} has its {named(on_command_line)} from its command line", REFUSAL).unchanged(
            "put it into the options file instead and restart that OpenSM",
            "Every user of the host sees a command line.",
        )
    return running.settings(POLLING, "the time after which a standby takes over")[0], []


def _refuse_one_file_of_several_hosts(files: Sequence[OpensmFile]) -> None:
    """Raise Refused (``file``) if several hosts mount one file from a server. That file is replaced only once, and the
    other hosts would notice it late."""
    first_with: dict[tuple[int, int, bytes], OpensmFile] = {}
    for file in files:
        found = file.seen.found
        other = file if found is None else first_with.setdefault((found.inode, found.modified_ns, found.data), file)
        if other is not file and other.machine.name != file.machine.name:
            raise Refused(
                f"{other.name} and {file.name} are the same file, which both hosts share: give "
                "each host its own options file",
                "file",
            ).unchanged()


def _refuse_several_files_of_another_host(files: Sequence[OpensmFile]) -> None:
    """Raise Refused (``file``) if another host has two of *files*. Both would have to be prepared at the same time, but
    on another host only one file can be prepared."""
    first_on_host: dict[str, OpensmFile] = {}
    for file in files:
        other = first_on_host.setdefault(file.machine.name, file)
        if file.machine.name and other is not file:
            raise Refused(f"{other.name} and {file.name} belong to two OpenSMs of one host", "file").unchanged(
                "stop one of them, or run ibkeys on that host",
                "Both files would have to be replaced at the same time, but only one can be prepared on another host.",
            )

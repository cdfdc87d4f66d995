"""The OpenSMs of a change of sm_key and sa_key, and the time after which a standby takes over.

An OpenSM that is not reached would keep the former sm_key. It and the others would then ignore each other, and after
its polling time there would be two masters. Source: opensm osm_sminfo_rcv.c, osm_sm_state_mgr.c; a running OpenSM,
observed.
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
from ibkeys.managers.site import ReachedHost, Running
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
    found: dict[SmKeyKind, SMKey] = {}
    for kind in KINDS:
        value = options.value(kind)
        assert isinstance(value, MKey)
        found[kind] = SMKey(value.reveal())
    return found


def find_sm_key_managers(
    writer: ChangeWriter, reached: Sequence[ReachedHost], found: Topology, goes_on: bool
) -> OpensmManagers:
    """Return the OpenSMs of the fabric that a sweep with SMInfo *found*. *goes_on*: an interrupted change is resumed,
    so there may be several masters now. Raises the errors of `find_opensms`, and Refused (`REFUSAL`, ``file``) for an
    OpenSM that does not take its keys from its file, or for files that cannot be replaced together.
    """
    managers = find_opensms(writer, reached, managers_of(found), _read_options, _IF_ONE_IS_LEFT_OUT, goes_on)
    _refuse_one_file_of_several_hosts(managers.files)
    _refuse_several_files_of_another_host(managers.files)
    if managers.standbys and not all(each.is_certain for opensm in managers.all for each in opensm.options.values()):
        managers.notes.append(
            "the time after which a standby takes over is that in the options files now; it is not known "
            "whether each OpenSM has read it"
        )
    return managers


def _read_options(running: Running, file: OpensmFile) -> tuple[Mapping[str, EffectiveOption], list[str]]:
    """Return the options that decide when a standby takes over, and no notes. Raises Refused, UsageError for an OpenSM
    whose keys cannot be changed by its options file."""
    instance = running.instance
    if not instance.process.program_known:
        raise UsageError(f"{instance.name}: it cannot be verified that it is an OpenSM; run as root")
    told = [kind for kind in KINDS if instance.options.setting(kind).source == "command line"]
    if told:
        raise Refused(f"{instance.name} has its {named(told)} from its command line", REFUSAL).unchanged(
            "put it into the options file instead and restart that OpenSM",
            "Every user of the host sees a command line.",
        )
    return running.settings(POLLING, "the time after which a standby takes over")[0], []


def _refuse_one_file_of_several_hosts(files: Sequence[OpensmFile]) -> None:
    """Raise Refused (``file``) if several hosts mount one file from a server: it is replaced once, and the other hosts
    notice that late."""
    seen: dict[tuple[int, int, bytes], OpensmFile] = {}
    for file in files:
        found = file.seen.found
        other = file if found is None else seen.setdefault((found.inode, found.modified_ns, found.data), file)
        if other is not file and other.machine.name != file.machine.name:
            raise Refused(
                f"{other.name} and {file.name} are the same file, which both hosts share: give "
                "each host its own options file",
                "file",
            ).unchanged()


def _refuse_several_files_of_another_host(files: Sequence[OpensmFile]) -> None:
    """Raise Refused (``file``) if two files of one other host would have to be prepared at the same time: only one can
    be."""
    seen: dict[str, OpensmFile] = {}
    for file in files:
        other = seen.setdefault(file.machine.name, file)
        if file.machine.name and other is not file:
            raise Refused(f"{other.name} and {file.name} belong to two OpenSMs of one host", "file").unchanged(
                "stop one of them, or run ibkeys on that host",
                "Both files would have to be replaced at the same time, but only one can be prepared on another host.",
            )

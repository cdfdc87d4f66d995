"""The check that the options files of an earlier run through OpenSM have only settings that the run found or wrote.

The options files are read twice. First before any port is read: if another key is in force, a sweep with the keys of
this key store would only count violations. Then under the locks on the hosts, before the run continues. The ports are
compared in `ibkeys.mkeys.rollout.earlier_run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ibkeys.change.interlocks.overtaken import changed_file, overtaken
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import FileError, HostNotReached
from ibkeys.keys.key_setting import KeySetting
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.managers.site import ReachedHost
from ibkeys.mkeys.opensm.fit_managers import KEY_LINES, setting_of
from ibkeys.mkeys.opensm.record import RunRecord
from ibkeys.mkeys.rollout.earlier_run import close_command_of, last_run


def refuse_changed_files(writer: ChangeWriter, record: RunRecord, confs: Iterable[OpensmFile]) -> None:
    """Raise Refused (``overtaken``) if one of these options files has a setting that the last run neither found nor
    wrote. *record*: the record of the last run."""
    by_name = {conf.name: conf for conf in confs}
    found = [
        changed_file(conf, _in_words(setting, record))
        for conf in by_name.values()
        if not record.is_ours(setting := setting_of(map(read_options(conf.data).value, KEY_LINES)))
    ]
    if found:
        last, _ = last_run(writer)
        raise overtaken(last.name, found, close_command_of(last))


def files_of_absent(
    record: RunRecord, running: Iterable[OpensmFile], reached: Sequence[ReachedHost]
) -> list[OpensmFile]:
    """Return the options files of those OpenSMs of the run that do not run now, because the run writes these files too.
    Files that cannot be read are left out. *running*: the options files of the OpenSMs that run."""
    known = {conf.key for conf in running}
    found = []
    for each in [*record.members, *record.stopped]:
        try:
            conf = each.options_file(reached)
        except (FileError, HostNotReached):
            continue  # the error is raised where the file would be written
        found += [conf] if conf.key not in known else []
    return found


def _in_words(setting: KeySetting, record: RunRecord) -> str:
    """Return a setting in words, without the key."""
    keys = {each.key for each in record.settings}
    key = "no M_Key" if setting.key.is_zero else "the M_Key of this run" if setting.key in keys else "another M_Key"
    return key if setting.key.is_zero else f"{key}, level {setting.protect}, lease {setting.lease} s"

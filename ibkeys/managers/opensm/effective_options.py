"""The options in force in a running OpenSM, each with its source, and whether the value is certain.

The command line overrides the options file, which overrides the defaults. A running OpenSM uses a new value of the file
only if it differs from the last value that it read there. So a value of the command line stays in force until the value
in the file changes. Source: opensm main.c, osm_subnet.c (osm_subn_rescan_conf_files).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.command_line import CommandLine
from ibkeys.managers.opensm.option_table import OPTIONS, OptionValue
from ibkeys.managers.opensm.options_file import OptionsFile

OptionSource = Literal["command line", "options file", "environment", "default", "sm.toml", "process", "not known"]

SHOWN: Final = (
    *("guid", "sm_priority", "subnet_prefix", "sm_key", "sa_key"),
    *("m_key", "m_key_protection_level", "m_key_lease_period", "m_key_lookup"),
    *("partition_config_file", "part_enforce", "allow_both_pkeys", "keep_pkey_indexes"),
    *("sweep_interval", "sweep_on_trap", "ignore_other_sm", "console", "daemon", "log_file", "dump_files_dir"),
)
"""The options that are shown even if they are not set. Other options are shown only if they are set."""


@dataclass(frozen=True, slots=True)
class EffectiveOption:
    """An option of a running OpenSM. ``value``: None if the option has no text, or, with the ``source`` "not known", if
    the value is not known. ``is_certain``: whether it is certain that this value is in force.
    """

    name: str
    value: OptionValue
    source: OptionSource
    is_certain: bool

    @property
    def needs_restart(self) -> bool:
        """Whether OpenSM has to be restarted to use a changed value."""
        return OPTIONS[self.name].needs_restart

    @property
    def shown(self) -> int | bool | str | None:
        """The value for people: a GUID and the subnet prefix in hex; in place of a key only ``zero``, ``default`` or
        ``set``, and in place of a plugin's arguments only ``set``."""
        if isinstance(self.value, MKey):
            return state_of_key(self.name, self.value)
        if self.name == "event_plugin_options" and self.value:
            return "set"  # a plugin argument may be a password
        return f"0x{self.value:016x}" if OPTIONS[self.name].kind == "u64" and self.value is not None else self.value


def as_written(value: object) -> str:
    """Return a value as an options file spells it: a flag as TRUE or FALSE."""
    return str(value).upper() if isinstance(value, bool) else str(value)


def state_of_key(name: str, key: MKey) -> str:
    """Return ``zero``, ``default`` or ``set``, which is all that is shown of a key. *name*: its option."""
    if key.is_zero:
        return "zero"
    return "default" if key == OPTIONS[name].default else "set"


@dataclass(frozen=True, slots=True)
class EffectiveOptions:
    """The options of one OpenSM process. ``command``: its command line. ``file``: the present options file; None if it
    cannot be read. ``is_changed``: whether the file may have changed since OpenSM read it. ``tmp_dir``: the value of
    OSM_TMP_DIR, "" if it is not set, None if the environment cannot be read.
    """

    command: CommandLine
    file: OptionsFile | None
    is_changed: bool
    tmp_dir: str | None

    def setting(self, name: str) -> EffectiveOption:
        """Return the option *name* with its value, its source, and whether it is certain."""
        option = OPTIONS[name]
        all_understood = not self.command.not_understood
        in_file = self.file is not None and name in self.file.values
        if name in self.command.options:
            is_in_force = option.needs_restart or (self.file is not None and not (self.is_changed and in_file))
            return EffectiveOption(name, self.command.options[name], "command line", all_understood and is_in_force)
        if self.file is None:
            return EffectiveOption(name, None, "not known", False)
        is_certain = all_understood and not self.is_changed
        if in_file:
            return EffectiveOption(name, self.file.values[name], "options file", is_certain)
        if name == "dump_files_dir" and self.tmp_dir != "":
            source: OptionSource = "environment" if self.tmp_dir else "not known"
            return EffectiveOption(name, self.tmp_dir, source, is_certain and self.tmp_dir is not None)
        return EffectiveOption(name, option.default, "default", is_certain)

    def shown(self) -> Iterator[EffectiveOption]:
        """Yield the options to show, each once: those of `SHOWN`, and those that command line or options file set."""
        set_in_file: Mapping[str, OptionValue] = self.file.values if self.file is not None else {}
        for name in dict.fromkeys([*SHOWN, *self.command.options, *set_in_file]):
            yield self.setting(name)

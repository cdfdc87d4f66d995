"""Dangers of the options of one OpenSM, and of the lines of its options file.

Source: opensm osm_subnet.c, main.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ibkeys.managers.dangers.danger import Danger, doubt_suffix
from ibkeys.managers.instance import Instance
from ibkeys.managers.opensm.options_file import Complaint
from ibkeys.printable import counted


def _key_state_finder(name: str, state: str) -> Callable[[Instance], Iterator[str]]:
    def find(instance: Instance) -> Iterator[str]:
        setting = instance.options.setting(name)
        if setting.value is not None and setting.shown == state:
            yield f"{name} is {_STATES[state]}{doubt_suffix(setting)}"

    return find


_STATES: Final = {"default": "OpenSM's default 1, which everybody knows", "zero": "0"}


def _find_missing_sweeps(instance: Instance) -> Iterator[str]:
    setting = instance.options.setting("sweep_interval")
    if setting.value == 0:
        yield f"sweep_interval is 0{doubt_suffix(setting)}"


def _find_key_lookup_off(instance: Instance) -> Iterator[str]:
    lookup, key = instance.options.setting("m_key_lookup"), instance.options.setting("m_key")
    if lookup.value is False and lookup.source != "not known" and key.shown == "set":
        yield f"m_key is set and m_key_lookup is FALSE{doubt_suffix(lookup)}"


def _find_open_console(instance: Instance) -> Iterator[str]:
    setting = instance.options.setting("console")
    port = instance.options.setting("console_port").value
    if setting.value == "loopback":
        yield f"the console is open on TCP port {port} of its host{doubt_suffix(setting)}"
    if setting.value == "socket":
        where = f"on TCP port {port}, if this OpenSM was built with it{doubt_suffix(setting)}"
        yield f"the console is open to the network {where}"


def _find_key_on_command_line(instance: Instance) -> Iterator[str]:
    names = [each.argument.name for each in instance.process.command.given if each.value is None]
    for name in ("smkey", "cc_key"):
        if name in names:
            yield f"a key was given on its command line (--{name})"


def _find_unknown_words(instance: Instance) -> Iterator[str]:
    count = instance.process.command.not_understood
    if count:
        yield f"its command line has {counted(count, 'word')} that OpenSM 3.3 does not know"


def _find_remarks(complaint: Complaint, text: str) -> Callable[[Instance], Iterator[str]]:
    def find(instance: Instance) -> Iterator[str]:
        for remark in instance.options_file.remarks if instance.options_file is not None else ():
            if remark.complaint == complaint:
                path = instance.files["options"].path
                yield f"{path}:{remark.line}: {text.format(remark.option)}"

    return find


OPTION_DANGERS: Final = (
    Danger(
        "sa-key-default",
        _key_state_finder("sa_key", "default"),
        "anyone who sends SM_Key 1 to the SA can read M_Keys and all P_Key tables",
        "`ibkeys smkey-rotate --via opensm`, which sets both keys on all hosts; before the first M_Key",
    ),
    Danger(
        "sa-key-zero",
        _key_state_finder("sa_key", "zero"),
        "the SA trusts no requester, but gives P_Key tables to all",
        "`ibkeys smkey-rotate --via opensm`, which sets both keys on all hosts",
    ),
    Danger(
        "sm-key-default",
        _key_state_finder("sm_key", "default"),
        "any OpenSM that a user starts is accepted as legitimate and can become master",
        "`ibkeys smkey-rotate --via opensm`, which sets both keys on all hosts within seconds",
    ),
    Danger(
        "sm-key-zero",
        _key_state_finder("sm_key", "zero"),
        "any subnet manager is accepted as legitimate",
        "`ibkeys smkey-rotate --via opensm`, which sets both keys on all hosts within seconds",
    ),
    Danger(
        "key-on-command-line",
        _find_key_on_command_line,
        "every user of the host sees it in the list of processes",
        "set it in the options file instead, with mode 600, restart, and change the key",
    ),
    Danger(
        "console-open",
        _find_open_console,
        "every user of that host (with socket: of every host) can switch sweeps off and print all keys, without a "
        "password",
        "console off in the options file, and restart",
    ),
    Danger(
        "key-lookup-off",
        _find_key_lookup_off,
        "a changed m_key is sent to ports that have the old one: all are refused, and guid2mkey is overwritten",
        "m_key_lookup TRUE before the key is changed",
    ),
    Danger(
        "not-true",
        _find_remarks("not-true", "{} has a word that looks like true but means FALSE: only the word TRUE means true"),
        "the option is off",
        "write TRUE or FALSE",
    ),
    Danger(
        "no-number",
        _find_remarks("no-number", "{} has a value that is not a number, or too large"),
        "the line changes nothing: an earlier value or the default is in force",
        "correct the line",
    ),
    Danger(
        "replaced",
        _find_remarks("replaced", "{} has a value that is out of range"),
        "OpenSM puts another value in its place",
        "correct the line",
    ),
    Danger(
        "unknown-option",
        _find_remarks("unknown", "OpenSM 3.3 has no such option"),
        "the line changes nothing, unless this OpenSM is another vendor's",
        "correct the line or remove it",
    ),
    Danger(
        "no-newline",
        _find_remarks("no-newline", "the last line has no newline"),
        "it may be half written, and a shortened value, even a key, is used as it is",
        "write the file beside it and rename it",
    ),
    Danger(
        "sweep-interval-0",
        _find_missing_sweeps,
        "only traps start a sweep; if it was set to 0 while OpenSM ran, OpenSM sweeps without a pause",
        "set sweep_interval to 10 and restart: a running OpenSM does not start to sweep again after 0",
    ),
    Danger(
        "not-understood",
        _find_unknown_words,
        "it is another version, and what this report says about its options and files may be wrong",
        "compare with `opensm --help`",
    ),
)

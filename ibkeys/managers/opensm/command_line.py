"""OpenSM's command line, in all spellings that OpenSM accepts.

OpenSM reads it with getopt_long_only. A long name has one dash or two, may be shortened as long as it is unique, and
its value follows ``=`` or is the next word. A name of one letter has one dash, and its value may follow without a
space; letters without a value may be combined. A word with one dash is tried as a long name first. ``--`` ends the
options. If an option is given more than once, the last value counts.

Source: opensm main.c (main, its table long_option), as in Debian's opensm 3.3.23, and glibc's getopt. The effect of -v
on log_flags is left out. Two options have keys as values. No message and no text of this module shows a key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.option_table import OPTIONS, OptionValue
from ibkeys.managers.opensm.options_file import CONSOLES, corrected


class Argument(NamedTuple):
    """An argument of OpenSM's command line. ``name``: its long name; ``letter``: its short name or "". ``sets``: the
    name of the option in the options file that it sets, or "". ``fixed``: the value that it sets if it takes none."""

    name: str
    letter: str
    takes_value: bool
    sets: str
    fixed: str


_ROWS: Final = """
version                        -  word  -
config                         F  value -
create-config                  c  value -
debug                          d  value -
guid                           g  value guid
ignore_guids                   i  value port_prof_ignore_file
hop_weights_file               w  value hop_weights_file
dimn_ports_file                O  value port_search_ordering_file
port_search_ordering_file      O  value port_search_ordering_file
lmc                            l  value lmc
sweep                          s  value sweep_interval
timeout                        t  value transaction_timeout
verbose                        v  word  -
D                              D  value log_flags
log_file                       f  value log_file
log_limit                      L  value log_max_size
erase_log_file                 e  word  accum_log_file=FALSE
Pconfig                        P  value partition_config_file
no_part_enforce                N  word  no_partition_enforcement=TRUE
part_enforce                   Z  value part_enforce
allow_both_pkeys               W  word  allow_both_pkeys=TRUE
qos                            Q  word  qos=TRUE
qos_policy_file                Y  value qos_policy_file
congestion_control             -  word  congestion_control=TRUE
cc_key                         -  value cc_key
maxsmps                        n  value max_wire_smps
console                        q  value console
V                              V  word  log_flags=0xff
help                           h  word  -
once                           o  word  -
reassign_lids                  r  word  reassign_lids=TRUE
priority                       p  value sm_priority
subnet_prefix                  -  value subnet_prefix
smkey                          k  value sm_key
routing_engine                 R  value routing_engine
ucast_cache                    A  word  use_ucast_cache=TRUE
connect_roots                  z  word  connect_roots=TRUE
lid_matrix_file                M  value lid_matrix_dump_file
lfts_file                      U  value lfts_file
sadb_file                      S  value sa_db_file
root_guid_file                 a  value root_guid_file
cn_guid_file                   u  value cn_guid_file
io_guid_file                   G  value io_guid_file
port-shifting                  -  word  port_shifting=TRUE
scatter-ports                  -  value scatter_ports
max_reverse_hops               H  value max_reverse_hops
ids_guid_file                  m  value ids_guid_file
guid_routing_order_file        X  value guid_routing_order_file
stay_on_fatal                  y  word  exit_on_fatal=FALSE
honor_guid2lid                 x  word  honor_guid2lid_file=TRUE
console-port                   C  value console_port
daemon                         B  word  daemon=TRUE
pidfile                        -  value -
inactive                       I  word  sm_inactive=TRUE
perfmgr                        -  word  perfmgr=TRUE
perfmgr_sweep_time_s           -  value perfmgr_sweep_time_s
prefix_routes_file             -  value prefix_routes_file
consolidate_ipv6_snm_req       -  word  consolidate_ipv6_snm_req=TRUE
do_mesh_analysis               -  word  do_mesh_analysis=TRUE
lash_start_vl                  -  value lash_start_vl
sm_sl                          -  value sm_sl
retries                        -  value transaction_retries
log_prefix                     -  value log_prefix
torus_config                   -  value torus_config
guid_routing_order_no_scatter  -  word  guid_routing_order_no_scatter=TRUE
nue_max_num_vls                -  value nue_max_num_vls
dump_files_dir                 -  value dump_files_dir
"""


def _parse_row(line: str) -> Argument:
    name, letter, kind, sets = line.split()
    option, _, fixed = sets.removeprefix("-").partition("=")
    return Argument(name, letter.removeprefix("-"), kind == "value", option, fixed)


ARGUMENTS: Final = tuple(_parse_row(line) for line in _ROWS.strip().split("\n"))
_LONG: Final = {each.name: each for each in ARGUMENTS}
# If two arguments have the same letter, it means the first of them.
_SHORT: Final = {each.letter: each for each in reversed(ARGUMENTS) if each.letter}
_HEX: Final = frozenset({"guid", "sm_key", "cc_key", "subnet_prefix"})
"""Options whose number is read as hexadecimal, with or without 0x. All others are C numbers: 0x is hex, a leading 0
octal."""


_NOT_SHOWN: Final = "(a key, not shown)"
_MISTYPED_KEY: Final = re.compile(r"(?i)(key[a-z_]*[=:\s]+)(0x[0-9a-f]+|[0-9a-f]{5,})")
"""A key in the value of another option: OpenSM reads -m_key=0x1 as -m with the value _key=0x1."""


@dataclass(frozen=True, slots=True)
class GivenArgument:
    """An argument in a command line. ``value``: its value as written, with a key in a mistyped word masked; None if it
    takes none, or the value is a key."""

    argument: Argument
    value: str | None

    def __str__(self) -> str:
        if not self.argument.takes_value:
            return f"--{self.argument.name}"
        return f"--{self.argument.name} {_NOT_SHOWN if self.value is None else self.value}"


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The command line of an OpenSM. ``given``: its arguments in order. ``options``: option name in the options file →
    the value that an argument sets. ``not_understood``: the number of words that are not in the table, or that lack
    their value. OpenSM 3.3.23 would have ended at the first such word. So a running OpenSM with such words is another
    version, and its other values are uncertain too.
    """

    given: tuple[GivenArgument, ...] = ()
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    not_understood: int = 0

    def last(self, name: str) -> str | None:
        """Return the value of the last argument with the long name *name*, None if there is none."""
        values = [each.value for each in self.given if each.argument.name == name]
        return values[-1] if values else None

    def option(self, name: str) -> OptionValue:
        """Return the value that the command line sets for the option *name* of the options file; None if it sets
        none."""
        return self.options.get(name)


def read_command_line(words: Sequence[str], in_order: bool = False) -> CommandLine:
    """Return the command line with these *words* after the program's name. *in_order*: whether the process has the
    variable POSIXLY_CORRECT, so that the first word that is not an option ends the options."""
    # OpenSM reads the words twice, first only for the name of its options file. getopt reorders them in the first pass.
    _, _, words = _scan(words, in_order)
    found, errors, _ = _scan(words, in_order)
    given = [(each, _MISTYPED_KEY.sub(rf"\1{_NOT_SHOWN}", value) if value else value) for each, value in found]
    options: dict[str, OptionValue] = {}
    for argument, value in given:
        options.update(_options_set_by(argument, value))
    if options.get("no_partition_enforcement") is True:
        options["part_enforce"] = "off"
    shown = (GivenArgument(each, None if _is_key(each) else value) for each, value in given)
    return CommandLine(tuple(shown), options, errors)


_Arguments = list[tuple[Argument, str | None]]


def _scan(words: Sequence[str], in_order: bool) -> tuple[_Arguments, int, list[str]]:
    """Return the arguments with their values, the number of wrong words, and the words in the order into which getopt
    brings them: the options with their values, then all other words."""
    given: _Arguments = []
    errors = 0
    options: list[str] = []
    non_options: list[str] = []
    queue = list(words)
    while queue and queue[0] != "--":
        word = queue.pop(0)
        if word.startswith("-") and word != "-":
            queue_before = list(queue)
            errors += _parse_word(word, queue, given)
            options += [word, *queue_before[: len(queue_before) - len(queue)]]
        elif in_order:
            queue.insert(0, word)
            break
        else:
            non_options.append(word)
    return given, errors, [*options, *queue[:1], *non_options, *queue[1:]]


def _parse_word(word: str, queue: list[str], given: _Arguments) -> int:
    """Parse one word of options, take its value from *queue* if it has none itself, and append the result to *given*.
    Return the number of errors in the word."""
    found = _parse_long(word)
    if found is None:
        return _parse_letters(word[1:], queue, given)
    argument, value = found
    if argument is None or (value is not None and not argument.takes_value):
        return 1
    if argument.takes_value and value is None:
        if not queue:
            return 1
        value = queue.pop(0)
    given.append((argument, value))
    return 0


def _parse_long(word: str) -> tuple[Argument | None, str | None] | None:
    """Return the argument that *word* names by its long name, and its value if the word has one. Return (None, None)
    for a word that is wrong, and None for a word with letters."""
    dashes = 2 if word.startswith("--") else 1
    if dashes == 1 and len(word) == 2 and word[1] in _SHORT:
        return None
    name, equals, rest = word[dashes:].partition("=")
    value = rest if equals else None
    if name in _LONG:
        return _LONG[name], value
    matches = [each for each in ARGUMENTS if each.name.startswith(name)]
    if len(matches) == 1:
        return matches[0], value
    if not matches and dashes == 1 and word[1] in _SHORT:
        return None
    return None, None


def _parse_letters(letters: str, queue: list[str], given: _Arguments) -> int:
    """Parse the *letters* of a word, as `_parse_word`. Return the number of errors in it."""
    errors = 0
    while letters:
        letter, letters = letters[0], letters[1:]
        argument = _SHORT.get(letter)
        if argument is None:
            errors += 1
        elif not argument.takes_value:
            given.append((argument, None))
        elif letters or queue:
            given.append((argument, letters or queue.pop(0)))
            letters = ""
        else:
            errors += 1
    return errors


def _options_set_by(argument: Argument, text: str | None) -> dict[str, OptionValue]:
    if not argument.sets:
        return {}
    option = OPTIONS[argument.sets]
    word = argument.fixed or text or ""
    if option.kind == "flag":
        return {option.name: word == "TRUE"}
    if option.kind == "text":
        is_left_out = option.name == "console" and word not in CONSOLES
        return {} if is_left_out else {option.name: corrected(option.name, word)}
    number = _leading_number(word, 16 if option.name in _HEX else 0)
    if argument.name == "sweep" and (number * 1_000_000) >> 32:
        return {}  # OpenSM ignores an interval that is too large
    if argument.name in _WHEN_ZERO and number == 0:
        number = _WHEN_ZERO[argument.name]
    more: dict[str, OptionValue] = {"force_log_flush": True} if argument.name == "V" else {}
    return {**more, option.name: MKey(number) if option.kind == "key" else number}


_WHEN_ZERO: Final = {"guid": (1 << 64) - 1, "maxsmps": 0x7FFF_FFFF}
"""Argument → the value that OpenSM takes for 0. For guid, it asks at its terminal for the port; for maxsmps, there is
no limit."""


def _is_key(argument: Argument) -> bool:
    return bool(argument.sets) and OPTIONS[argument.sets].kind == "key"


_LEADING: Final = re.compile(r"[ \t\r\n\v\f]*([+-]?)(?:0[xX]([0-9a-fA-F]+)|([0-9a-fA-F]+))")


def _leading_number(text: str, base: int) -> int:
    """Return the number at the start of *text* as C's strtoull reads it; 0 if there is none."""
    match = _LEADING.match(text)
    if match is None:
        return 0
    if match[2]:
        number = int(match[2], 16)
    elif base == 16:
        number = int(match[3], 16)
    else:
        base = 8 if match[3].startswith("0") else 10
        digits = re.match(r"[0-7]*" if base == 8 else r"[0-9]*", match[3])
        number = int((digits[0] if digits else "") or "0", base)
    most = (1 << 64) - 1
    return most if number > most else -number & most if match[1] == "-" else number

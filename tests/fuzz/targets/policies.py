"""Policies in every dialect, edited in place, OpenSM's options and command line, and what a UFM answers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import cache

from ibkeys import jsonfile
from ibkeys.errors import UfmNotReached, UfmRefused
from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.command_line import read_command_line
from ibkeys.managers.opensm.edit import with_options
from ibkeys.managers.opensm.m_key_lines import KeyLines, key_changes_at_start, with_lines
from ibkeys.managers.opensm.option_table import OPTIONS
from ibkeys.managers.opensm.options_file import corrected, read_options
from ibkeys.managers.opensm.references import without_keys
from ibkeys.managers.ufm import answers
from ibkeys.managers.ufm.policy import notes_on, policy_of
from ibkeys.managers.ufm.sm_settings import states_of
from ibkeys.partitions.describe import in_words, to_json
from ibkeys.partitions.dialect import in_dialect
from ibkeys.partitions.editing.changes import KnownPorts, add_members, move_members, remove_members
from ibkeys.partitions.editing.partition_name import PartitionName
from ibkeys.partitions.export import pin, pin_random, to_conf
from ibkeys.partitions.ipoib import compare_groups
from ibkeys.partitions.lint import lint
from ibkeys.partitions.membership import EndPort, resolve
from ibkeys.partitions.model import MemberRule, Policy
from ibkeys.partitions.reader import parse_policy
from tests.corpus import DATA
from tests.fuzz.judge import check_words
from tests.fuzz.target import Choices, Target

_URL = "https://ufm.example/ufmRest"
_PORTS = [EndPort(0x0002C90200401000, "switch"), *(EndPort(0x0002C903000A1001 + 16 * each, "ca") for each in range(9))]


# --- partitions.conf --------------------------------------------------------------------------------------------------


def _policy(data: bytes) -> None:
    """Read a policy as OpenSM does, in both dialects; describe, check and resolve it, and write it out again."""
    read = parse_policy(data)
    check_sound(read)
    for policy in (read, in_dialect(read, "nvidia")):
        list(lint(policy))
        list(in_words(policy))
        json.dumps(to_json(policy, (*policy.errors, *policy.warnings)))
        resolve(policy, _PORTS, _PORTS[1].guid, emulate_fallback=True)
        compare_groups(policy, None)
        if policy.accepted:
            again = parse_policy(to_conf(policy))
            assert again.accepted
            assert [each.base for each in again.partitions] == [each.base for each in policy.partitions]
            for pinned in (pin(policy), pin_random(policy, random.Random(1))):
                to_conf(pinned)


def check_sound(policy: Policy) -> None:
    """Assert what every policy has, whatever was read: it is accepted, or it says in which line it is not."""
    found = (*policy.errors, *policy.warnings)
    assert all(problem.line >= 1 and problem.column >= 1 and "\n" not in problem.message for problem in found)
    assert policy.accepted or policy.errors
    assert policy.definitions or policy.errors
    for definition in policy.definitions:
        assert 1 <= definition.base <= 0x7FFF
        assert all(rule.guid for rule in definition.rules if rule.who == "GUID")


def _edit(data: bytes) -> None:
    """Add, remove and move members in place; the first byte says what and where."""
    choices = Choices(data)
    what, which = choices.number(), choices.number()
    policy = parse_policy(data[2:])
    partitions = policy.partitions if policy.accepted else ()
    where = PartitionName(None, partitions[which % len(partitions)].base if partitions else 5)
    ports = KnownPorts({_PORTS[1].guid: "node # 1\n"}, {})
    guids = [_PORTS[1 + (which >> shift) % 9].guid for shift in range(1 + what % 3)]
    guids = list(dict.fromkeys(guids))
    match what % 4:
        case 0 | 1:
            edited = add_members(policy, where, [MemberRule("GUID", each, "full") for each in guids], ports)
        case 2:
            edited = remove_members(policy, where, guids, ports)
        case _:
            edited = move_members(policy, where, PartitionName("other", None), guids[:1], ports)
    assert edited.after.accepted


def _policies() -> Iterator[bytes]:
    for path in sorted((DATA / "policies").glob("*.conf")):
        if path.stat().st_size <= 1500:
            yield path.read_bytes()


_POLICY_WORDS = (
    b"Default=0x7fff", b"ALL", b"SELF", b"ALL_CAS", b"ALL_SWITCHES", b"ALL_ROUTERS", b"ALL_VCAS", b"=full",
    b"=limited", b"=both", b",defmember=", b",ipoib", b",indx0", b"mgid=", b"mgid=ff12:401b::ffff:ffff", b",rate=",
    b",mtu=", b",sl=", b",scope=", b",Q_Key=", b",TClass=", b",FlowLabel=", b"#", b";", b":", b"\r", b"09",
    b"0x0002c903000a1021", b"\xc3\xa9",
)  # fmt: skip


# --- OpenSM's options -------------------------------------------------------------------------------------------------


def _options(data: bytes) -> None:
    """Read an options file, hide its keys, set options in it."""
    found = read_options(data)
    for name in OPTIONS:
        corrected(name, found.value(name))
    hidden = without_keys(data)
    # What hides keys leaves none: hidden once more it stays.
    assert without_keys(hidden) == hidden
    wanted = KeyLines(MKey(0x1122334455667788), 2, 60)
    key_changes_at_start(data, wanted)
    after = with_lines(data, wanted)
    assert read_options(after).value("m_key") == MKey(0x1122334455667788)
    with_options(data, {"m_key": MKey(7), "qos": True, "partition_config_file": "/etc/p.conf"})


def _command_line(data: bytes) -> None:
    """Read the words of an opensm process, as /proc has them."""
    words = data.decode("utf-8", "surrogateescape").split("\0")
    for in_order in (False, True):
        line = read_command_line(words, in_order)
        for name in ("m_key", "partition_config_file", "guid"):
            line.option(name)


_OPTION_WORDS = (
    *(name.encode() for name in OPTIONS),
    b"TRUE",
    b"FALSE",
    b"(null)",
    b"0x",
    b"\t",
    b" ",
    b"#",
    b"@",
    b'"',
)


# --- UFM --------------------------------------------------------------------------------------------------------------


def _ufm(data: bytes) -> None:
    """Read JSON as each of the answers that a UFM may give."""
    document = jsonfile.loads(data)
    for read in _ANSWERS:
        try:
            read(document)
        except (UfmNotReached, UfmRefused, ValueError) as error:
            check_words(error)


def _policy_of_ufm(document: object) -> None:
    found = answers.parse_partitions(document)
    partitions = list(found.by_base.values())
    notes_on(partitions)
    assert policy_of(_URL, partitions).accepted


def _sm_states(document: object) -> None:
    if isinstance(document, dict):
        states_of(_URL, document)


_ANSWERS: tuple[Callable[[object], object], ...] = (
    _policy_of_ufm,
    lambda document: answers.parse_single_answer(5, document),
    lambda document: answers.parse_job("1", document),
    lambda document: answers.parse_job_id(None, document),
    _sm_states,
)


@cache
def _ufm_answers() -> tuple[bytes, ...]:
    members = [{"guid": "0002c903000a1021", "membership": "full", "index0": False}]
    entry = {"partition": "lustre", "ip_over_ib": True, "qos_conf": {"mtu_limit": 4, "rate_limit": 3}, "guids": members}
    return tuple(
        json.dumps(each).encode()
        for each in (
            {"0x7fff": {**entry, "guids": []}, "0x5": entry},
            ["0x7fff", "0x5"],
            entry,
            {"ID": "1", "Status": "Completed", "Summary": "", "Progress": 100},
            {"m_key": "0x0", "sm_key": "0x1", "sa_key": "0x1", "m_key_per_port": "True", "m_key_protection_level": 2},
        )
    )


_JSON_WORDS = (
    b'"0x7fff":', b'"guids":', b'"guid":', b'"membership":"limited"', b'"index0":true', b"null", b"[]", b"{}", b'""',
    b'"ip_over_ib":', b'"partition":', b'"Status":"Completed With Errors"', b"\\ud800", b"NaN", b"-0", b"true", b"0.5",
)  # fmt: skip

TARGETS = (
    Target("policy", _policy, _policies, _POLICY_WORDS, largest=2048, share=2),
    Target("policy-edit", _edit, lambda: (b"\0\0" + each for each in _policies()), _POLICY_WORDS, largest=2048),
    Target(
        "opensm-options",
        _options,
        lambda: (b"m_key 0x1\nm_key_protect 1\nguid 0x0\n# x\nsm_key 0x2\n", b"qos TRUE\n"),
        _OPTION_WORDS,
        largest=1024,
    ),
    Target(
        "opensm-command-line",
        _command_line,
        lambda: (b"opensm\0-g\0000x1\0-F\0/etc/o.conf\0--pconfig=/p\0-B", b"opensm\0-k\0007\0-t\0100\0-e\0-V"),
        (b"\0-", b"\0--", *(f"--{name}".encode() for name in ("config", "smkey", "guid", "subnet_prefix", "cache"))),
        largest=512,
    ),
    Target("ufm", _ufm, _ufm_answers, _JSON_WORDS, largest=2048),
)

"""Editing the heads of definitions: the flags of a partition, its name, and removing it. Each edited text is read
again: it must mean the former policy with this change, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ibkeys.errors import UsageError
from ibkeys.partitions.editing.changes import EditedPolicy
from ibkeys.partitions.editing.partition_name import PartitionName, find_partition, require_partition
from ibkeys.partitions.editing.text import PolicyText, TextEdit
from ibkeys.partitions.model import (
    DEFAULT_NAME,
    DEFAULT_PARTITION,
    MAX_NAME,
    Definition,
    GroupFlags,
    MemberWord,
    Partition,
    Policy,
)
from ibkeys.partitions.reader import parse_policy
from ibkeys.partitions.words import BLANKS, abbreviates
from ibkeys.printable import Detail, clean, counted

FlagValue = int | str | bool | frozenset[int]
Flags = Mapping[str, FlagValue | None]
"""Flags of a partition by their names in partitions.conf. None and False remove a flag, True is a flag without a value.
``scope`` has a set of numbers."""

_ORDER: Final = ("mtu", "rate", "scope", "Q_Key", "TClass", "sl", "FlowLabel", "ipoib", "defmember")
"""The flags in the order in which OpenSM compares an abbreviated word with them; ``indx0`` must be complete."""
GROUP_FLAGS: Final = {
    "mtu": "mtu",
    "rate": "rate",
    "Q_Key": "q_key",
    "TClass": "t_class",
    "sl": "sl",
    "FlowLabel": "flow_label",
}
"""Flags of a group that have one number: name in the file → field of `GroupFlags`."""
_OF_LIVING_GROUP: Final = frozenset({*GROUP_FLAGS, "scope"})
_SCOPE_IGNORED: Final = (
    "OpenSM 3.3.23 ignores scope for the broadcast group of ipoib: it holds for groups of mgid lines"
)
_FORBIDDEN: Final = frozenset(",=:;#\0\r\n")


def flags_as_text(flags: Flags) -> str:
    """Return flags as they follow the P_Key in a head: ``, ipoib, mtu=5``; "" for none."""
    return "".join(f", {text}" for name, value in flags.items() for text in _texts(name, value))


def set_flags(policy: Policy, where: PartitionName, flags: Flags) -> EditedPolicy:
    """Return the edit of *policy* that sets *flags* of a partition.

    A flag stands in the first definition of the partition; a flag of a group in the first one with ipoib, if any has
    it. A flag that is removed is removed from all definitions. Before ``defmember`` changes, each item without a
    membership gets its present one. Raises FileFormatError for a policy that OpenSM would refuse; UsageError for a
    partition that does not exist, and if OpenSM would read the edited text otherwise than meant.
    """
    policy.require_accepted()
    partition = require_partition(policy, where)
    had = {"ipoib": partition.ipoib, "indx0": partition.indx0}  # in one of the definitions is enough
    flags = {name: value for name, value in flags.items() if name not in had or had[name] is not value}
    text = PolicyText(policy)
    edits: list[TextEdit] = []
    expected: dict[tuple[int, int], Definition] = {}
    for definition in partition.definitions:
        own = {name: value for name, value in flags.items() if definition is _place_of(name, partition, flags)}
        lost = {name: value for name, value in flags.items() if name not in own and _is_removed(value)}
        edits += _flag_edits(text, definition, {**own, **lost})
        if "defmember" in own or "defmember" in lost:
            edits += _written_memberships(text, definition)
        expected[definition.line, definition.column] = _with_flags(definition, {**own, **lost})
    after = _reread(policy, text, edits, expected, ipoib_changes="ipoib" in flags)
    ignored = "scope" in flags and partition.ipoib
    return EditedPolicy(policy, after, notes=(_SCOPE_IGNORED,) if ignored else ())


def delete_partition(policy: Policy, where: PartitionName) -> EditedPolicy:
    """Return the edit of *policy* that removes all definitions of a partition.

    Partitions whose P_Key OpenSM picks get their present P_Key first. Comments outside the definitions stay. Raises
    FileFormatError for a policy that OpenSM would refuse; UsageError for a partition that does not exist, for the
    default partition, and for the only partition of a policy: OpenSM takes a file without one as no policy.
    """
    policy.require_accepted()
    partition = require_partition(policy, where)
    if partition.base == DEFAULT_PARTITION:
        raise UsageError(f"{policy.path}: the default partition cannot be deleted: OpenSM makes it in any case")
    if len(policy.partitions) == 1:
        raise UsageError(
            f"{policy.path}: {clean(partition.name)} is the only partition: without any, OpenSM makes every port a "
            "full member of the default partition"
        )
    text = PolicyText(policy)
    others = [each for each in policy.definitions if each.base != partition.base]
    edits = [*_written_keys(text, others)]
    for definition in partition.definitions:
        edits.append(_removal(text, definition))
    after = parse_policy(text.edited(edits), policy.path)
    if not after.accepted or list(after.definitions) != [replace(each, pkey_given=True) for each in others]:
        raise UsageError(f"{policy.path}: partition {where} cannot be removed so that all others stay: use an editor")
    return EditedPolicy(
        policy, after, notes=(Detail(f"partition {clean(partition.name)} (0x{partition.base:04x}) is removed"),)
    )


def rename_partition(policy: Policy, where: PartitionName, name: str) -> EditedPolicy:
    """Return the edit of *policy* that gives a partition another name.

    Partitions whose P_Key OpenSM picks get their present P_Key first, because names decide it. Raises FileFormatError
    for a policy that OpenSM would refuse; UsageError for a partition that does not exist, for the default partition,
    and for a name that OpenSM cannot keep or that another partition has.
    """
    policy.require_accepted()
    partition = require_partition(policy, where)
    _check_name(policy, partition, name)
    text = PolicyText(policy)
    edits = [*_written_keys(text, policy.definitions)]
    for definition in partition.definitions:
        start = text.offset(definition)
        key = text.text.find("=", start, _head_end(text, definition))
        has_name = definition.name is not None
        end = start + len(definition.name or "")
        if not has_name and (key < 0 or text.text[start:key].strip(BLANKS)):
            edits.append(TextEdit(start, start, f"{name}="))  # the head begins with the P_Key itself
        else:
            edits.append(TextEdit(start, end if has_name else start, name))
    after = parse_policy(text.edited(edits), policy.path)
    wanted = [
        replace(each, pkey_given=True, name=name if each.base == partition.base else each.name)
        for each in policy.definitions
    ]
    if not after.accepted or list(after.definitions) != wanted:
        raise UsageError(f"{policy.path}: OpenSM would not read {name!r} as the name of partition {where}")
    old = f"{clean(partition.name)} (0x{partition.base:04x})"
    return EditedPolicy(policy, after, notes=(Detail(f"partition {old} is called {clean(name)} now"),))


def lacking_ipoib(policy: Policy) -> str:
    """Return a remark about a new partition without ipoib if most partitions of *policy* have it; "" otherwise."""
    others = [each for each in policy.partitions if each.base != DEFAULT_PARTITION]
    having = sum(each.ipoib for each in others)
    if not having or 2 * having <= len(others):
        return ""
    return (
        f"{having} of {counted(len(others), 'other partition')} {'has' if having == 1 else 'have'} ipoib and the new "
        "one has not, so its members get no IPoIB interface"
    )


# --- one head ---------------------------------------------------------------------------------------------------------


def _head_end(text: PolicyText, definition: Definition) -> int:
    return text.text.index(":", text.offset(definition))


def _flag_name(word: str) -> str | None:
    """Return the flag that OpenSM reads a word as, None for an unknown one."""
    if word == "indx0":
        return word
    return next((name for name in _ORDER if word and abbreviates(word, name)), None)


def _flags_in(text: PolicyText, definition: Definition) -> Iterator[tuple[str | None, int, int]]:
    """Yield each flag of a head: its name, and the offsets of its comma and of its end without blanks."""
    end = _head_end(text, definition)
    comma = text.text.find(",", text.offset(definition), end)
    while comma >= 0:
        following = text.text.find(",", comma + 1, end)
        piece = text.text[comma + 1 : following if following >= 0 else end]
        name = _flag_name(piece.partition("=")[0].strip(BLANKS))
        yield name, comma, comma + 1 + len(piece.rstrip(BLANKS))
        comma = following


def _flag_edits(text: PolicyText, definition: Definition, flags: Flags) -> list[TextEdit]:
    """Return the edits that set *flags* in a head: the first of each name is replaced, further ones are removed, and
    new flags come last."""
    left = dict(flags)
    edits = []
    for name, start, end in _flags_in(text, definition):
        if name in flags:
            new = flags_as_text({name: left.pop(name)}) if name in left else ""
            if new.replace(" ", "") != text.text[start:end].replace(" ", ""):
                edits.append(TextEdit(start, end, new))
    if added := flags_as_text(left):
        colon = _head_end(text, definition)
        end = len(text.text[:colon].rstrip(BLANKS))
        edits.append(TextEdit(end, end, added))
    return edits


def _texts(name: str, value: FlagValue | None) -> Iterator[str]:
    if value is None or value is False:
        return
    if value is True:
        yield name
    elif isinstance(value, frozenset):
        yield from (f"{name}={each}" for each in sorted(value))
    else:
        yield f"{name}={value:#x}" if name == "Q_Key" else f"{name}={value}"


def _place_of(name: str, partition: Partition, flags: Flags) -> Definition:
    """Return the definition of a partition that a flag stands in."""
    first, *_ = partition.definitions
    if name not in _OF_LIVING_GROUP or flags.get("ipoib") is not None:
        return first
    return next((each for each in partition.definitions if each.ipoib), first)


def _is_removed(value: FlagValue | None) -> bool:
    return value is None or value is False


def _with_flags(definition: Definition, flags: Flags) -> Definition:
    """Return *definition* as OpenSM reads it with *flags*."""
    changes: dict[str, object] = {}
    group: dict[str, object] = {}
    default = GroupFlags()
    for name, value in flags.items():
        if name in ("ipoib", "indx0"):
            changes[name] = bool(value)
        elif name == "defmember":
            word: MemberWord = "full" if value == "full" else "both" if value == "both" else "limited"
            changes["default_membership"] = word
        elif name == "scope":
            group["scopes"] = value if isinstance(value, frozenset) else frozenset()
        else:
            field = GROUP_FLAGS[name]
            group[field] = value if value is not None else getattr(default, field)
    return replace(definition, flags=replace(definition.flags, **group), **changes)  # type: ignore[arg-type]


def _written_memberships(text: PolicyText, definition: Definition) -> Iterator[TextEdit]:
    """Yield the edits that write the membership of each item that has none."""
    words = {text.offset(rule): rule.membership for rule in definition.rules}
    for line in text.body(definition):
        for item in line.items:
            if item.start in words and item.name_end == item.end:
                yield TextEdit(item.end, item.end, f"={words[item.start]}")


def _written_keys(text: PolicyText, definitions: Sequence[Definition]) -> Iterator[TextEdit]:
    """Yield the edits that write the P_Key into each head that has none."""
    for definition in definitions:
        if not definition.pkey_given:
            start, end = text.offset(definition), _head_end(text, definition)
            comma = text.text.find(",", start, end)
            stop = len(text.text[: comma if comma >= 0 else end].rstrip(BLANKS))
            equals = text.text.find("=", start, stop)
            at = equals if equals >= 0 else max(start, stop)
            yield TextEdit(at, max(at, stop), f"=0x{definition.base:04x}")


def _removal(text: PolicyText, definition: Definition) -> TextEdit:
    """Return the edit that removes a definition, with its whole lines where nothing else is on them."""
    start, lines = text.offset(definition), text.body(definition)
    last = lines[-1]
    end = last.close + 1 if last.close is not None else last.line_end
    line_start = text.text.rfind("\n", 0, start) + 1
    begins_line = not text.text[line_start:start].strip(BLANKS)
    if text.text[line_start - 2 : line_start] == "\n\n" and last.line_end == len(text.text):
        line_start -= 1  # the blank line before the last definition was for this one
    if last.close is None or not text.is_followed(last):
        return TextEdit(line_start if begins_line else start, last.line_end if begins_line else end, "")
    return TextEdit(start, end, "")


def _check_name(policy: Policy, partition: Partition, name: str) -> None:
    if partition.base == DEFAULT_PARTITION or name == DEFAULT_NAME:
        raise UsageError(f"{policy.path}: the default partition is called {DEFAULT_NAME}, and no other can be")
    size = len(name.encode("utf-8", "surrogateescape"))
    if not name.strip(BLANKS) or name != name.strip(BLANKS) or _FORBIDDEN & set(name) or size > MAX_NAME:
        raise UsageError(
            f"{clean(name)!r} is no name of a partition: 1 to {MAX_NAME} bytes without , = : ; # and without blanks at "
            "its ends"
        )
    other = find_partition(policy, PartitionName(name, None))
    if other is not None and other.base != partition.base:
        raise UsageError(f"{policy.path}: partition 0x{other.base:04x} is called {clean(name)!r} already")


def _reread(
    policy: Policy,
    text: PolicyText,
    edits: Sequence[TextEdit],
    expected: Mapping[tuple[int, int], Definition],
    *,
    ipoib_changes: bool = False,
) -> Policy:
    """Return the edited policy. *expected*: the changed definitions by their line and column. Raises UsageError if
    OpenSM would read it otherwise: groups may change with the flags of their head, and some that it left out may come,
    but none may go; *ipoib_changes*: unless their broadcast group goes."""
    after = parse_policy(text.edited(edits), policy.path)
    wanted = [expected.get((each.line, each.column), each) for each in policy.definitions]
    if after.accepted and len(after.definitions) == len(wanted):
        for new, want in zip(after.definitions, wanted, strict=True):
            if replace(new, groups=()) != replace(want, groups=()) or _mgids(new) != _mgids(want):
                break
            if not ipoib_changes and not _made(want) <= _made(new):
                break
        else:
            return after
    raise UsageError(f"{policy.path}: OpenSM would not read the edited flags as meant: change them with an editor")


def _mgids(definition: Definition) -> list[int]:
    return [group.mgid for group in definition.groups]


def _made(definition: Definition) -> set[int]:
    return {place for place, group in enumerate(definition.groups) if group.refused is None}

"""Writing a policy as the text of a partitions.conf, and replacing P_Keys that OpenSM would pick by fixed ones."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from ibkeys.errors import NoRoom
from ibkeys.keys.pkey import FULL_BIT
from ibkeys.partitions.editing.adding import block
from ibkeys.partitions.model import DEFAULT_PARTITION, Definition, GroupFlags, MgidGroup, Policy, is_ip_group

WIDTH: Final = 116
_NAMES: Final = {
    "mtu": "mtu",
    "rate": "rate",
    "sl": "sl",
    "q_key": "Q_Key",
    "t_class": "TClass",
    "flow_label": "FlowLabel",
}
_IN_HEX: Final = ("q_key", "t_class", "flow_label")


def to_conf(policy: Policy, names: Mapping[int, str] | None = None) -> str:
    """Return the text of a partitions.conf with the meaning of *policy*.

    Keywords are written out, and lines are wrapped far below OpenSM's limit. Comments, and groups that OpenSM leaves
    out, are not in the text. *names*: names of ports by GUID; a definition with such a port has one port on each line,
    with its name in a comment.
    """
    return "".join(f"{_definition(definition, names or {})}\n" for definition in policy.definitions)


def _definition(definition: Definition, names: Mapping[int, str]) -> str:
    words = [_head(definition)]
    words += [flag for flag, is_set in (("ipoib", definition.ipoib), ("indx0", definition.indx0)) if is_set]
    if definition.default_membership != "limited":
        words.append(f"defmember={definition.default_membership}")
    words += [text for _, text in flags_beside(definition.flags, GroupFlags())]
    groups = [_group(group, definition.flags) for group in definition.groups if group.refused is None]
    head = f"{', '.join(words)} :"
    if any(rule.who == "GUID" and rule.guid in names for rule in definition.rules):
        listed = block(definition.rules, names, "\t").removesuffix("\n")
        return "\n".join([head, *(f"\t{group}" for group in groups), listed])
    items = [f"{rule}={rule.membership}" for rule in definition.rules] or ["NONE"]
    lines = list(_wrap(items))
    if not groups and len(lines) == 1 and len(head) + len(lines[0]) < WIDTH:
        return f"{head} {lines[0]} ;"
    return "\n".join([head, *(f"\t{line}" for line in (*groups, *lines))]) + " ;"


def _head(definition: Definition) -> str:
    name = definition.name or ""
    if definition.pkey_given:
        return f"{name}=0x{definition.base:04x}"
    return f"{name}=0" if name[:1].isdigit() else name


def _wrap(items: list[str]) -> Iterator[str]:
    line = ""
    for item in items:
        if line and len(line) + len(item) + 2 > WIDTH:
            yield line + ","
            line = ""
        line += f", {item}" if line else item
    yield line


def flags_beside(flags: GroupFlags, inherited: GroupFlags) -> Iterator[tuple[str, str]]:
    """Yield the flags of a group that differ from the *inherited* ones: the field of `GroupFlags`, and the text as in a
    partitions.conf."""
    for field, name in _NAMES.items():
        value = getattr(flags, field)
        if value != getattr(inherited, field):
            yield field, f"{name}={value:#x}" if field in _IN_HEX else f"{name}={value}"
    for scope in sorted(flags.scopes - inherited.scopes):
        yield "scopes", f"scope={scope}"


def _group(group: MgidGroup, header: GroupFlags) -> str:
    # After a GID without flags OpenSM reads the rest of its buffer as flags, so one flag is always written.
    inherited = replace(header, t_class=0)
    flags = [text for _, text in flags_beside(group.flags, inherited)] or [f"sl={group.flags.sl}"]
    return ",".join([f"mgid={ipaddress.IPv6Address(group.mgid)}", *flags])


def pin(policy: Policy) -> Policy:
    """Return *policy* with every P_Key written out. Automatic P_Keys get the numbers that OpenSM picks for this
    file."""
    return _with_bases(policy, {definition.base: definition.base for definition in policy.definitions})


def pin_random(policy: Policy, rng: random.Random | None = None) -> Policy:
    """Return *policy* with every P_Key written out, and each automatic one replaced by a random free one.

    So no number depends on the order of the file. *rng*: the source of random numbers, by default that of the system.
    Raises NoRoom if there are not enough free P_Keys.
    """
    rng = rng or random.SystemRandom()
    taken = {partition.base for partition in policy.partitions if not partition.automatic} | {0, DEFAULT_PARTITION}
    free = [base for base in range(1, DEFAULT_PARTITION) if base not in taken]
    automatic = [partition.base for partition in policy.partitions if partition.automatic]
    if len(automatic) > len(free):
        raise NoRoom(f"{policy.path}: {len(automatic)} P_Keys must be chosen, but only {len(free)} are free")
    random_bases = dict(zip(automatic, rng.sample(free, len(automatic)), strict=True))
    return _with_bases(
        policy, {partition.base: random_bases.get(partition.base, partition.base) for partition in policy.partitions}
    )


def _with_bases(policy: Policy, bases: dict[int, int]) -> Policy:
    """Return *policy* with each partition number replaced by that in *bases*, and without warnings and text."""
    return replace(
        policy,
        definitions=tuple(
            replace(
                definition,
                base=bases[definition.base],
                pkey_given=True,
                groups=tuple(_with_base(group, bases[definition.base]) for group in definition.groups),
            )
            for definition in policy.definitions
        ),
        warnings=(),
        digest="",
        data=None,
    )


def _with_base(group: MgidGroup, base: int) -> MgidGroup:
    """Return *group* with the P_Key bits of its MGID set to *base*, if it is a group of IP over InfiniBand."""
    if not is_ip_group(group.mgid):
        return group
    return replace(group, mgid=group.mgid & ~(0xFFFF << 80) | (base | FULL_BIT) << 80)

"""SELinux labels for the partitions of a policy: a table of a site, and the semanage commands that set them.

Each line of the table has a partition, by name or P_Key, its SELinux type, and if need be a range:
``lustre lustre_pkey_t s0:c1``. A line ``subnet_prefix fec0::`` sets the prefix for all. All after # is a comment.

The kernel looks a label up by all 16 bits of a table's entry (drivers/infiniband/core/security.c), and a port has the
full or the limited P_Key of a partition. So both of them get the label.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final

from ibkeys import files
from ibkeys.errors import FileFormatError
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK
from ibkeys.partitions.model import Partition, Policy
from ibkeys.similar_names import did_you_mean

DEFAULT_PREFIX: Final = "fe80::"
"""The prefix of a subnet in which OpenSM has no other one."""
_PREFIX_WORD: Final = "subnet_prefix"
_TYPE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_RANGE: Final = re.compile(r"[a-z][A-Za-z0-9:.,-]*")
_P_KEY: Final = re.compile(r"0[xX][0-9A-Fa-f]{1,4}")


@dataclass(frozen=True, slots=True)
class LabelTable:
    """The labels of a policy's partitions. ``labels``: partition (15 bits) → SELinux type, and range or "".

    ``unlabelled``: the partitions without a label. ``subnet_prefix``: as semanage takes it.
    """

    labels: Mapping[int, tuple[str, str]]
    unlabelled: tuple[Partition, ...]
    subnet_prefix: str

    def commands(self) -> Iterator[str]:
        """Yield a command for each P_Key that gets a label; all words are safe for a shell."""
        for base, (selinux_type, mls_range) in self.labels.items():
            of_range = f" -r {mls_range}" if mls_range else ""
            for p_key in (base, base | FULL_BIT):
                yield f"semanage ibpkey -a -t {selinux_type}{of_range} -x {self.subnet_prefix} 0x{p_key:04x}"


def read_labels(path: str | os.PathLike[str], policy: Policy) -> LabelTable:
    """Read the table in the file *path* for *policy*. Raises FileFormatError, also for a partition that the policy does
    not have."""
    try:
        return parse_labels(files.read_text(path, files.LIST), policy, os.fspath(path))
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"cannot be read: {error}", os.fspath(path)) from error


def parse_labels(text: str, policy: Policy, path: str = "") -> LabelTable:
    """Return the table in *text*; *path* is for messages. Raises FileFormatError."""
    labels: dict[int, tuple[str, str]] = {}
    prefix = DEFAULT_PREFIX
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        try:
            if words[:1] == [_PREFIX_WORD]:
                prefix = _parse_prefix(words)
            elif words:
                base = _find(words[0], policy)
                if base in labels:
                    raise ValueError(f"partition {words[0]!r} has a label already")
                labels[base] = _parse_label(words)
        except ValueError as error:
            raise FileFormatError(str(error), path, number) from error
    unlabelled = tuple(each for each in policy.partitions if each.base not in labels)
    return LabelTable(labels, unlabelled, prefix)


def _parse_prefix(words: list[str]) -> str:
    if len(words) != 2:
        raise ValueError(f"{_PREFIX_WORD} takes one prefix, such as {DEFAULT_PREFIX}")
    prefix = int(IPv6Address(words[1]))
    if prefix & (1 << 64) - 1:
        raise ValueError(f"{words[1]!r} is not the prefix of a subnet: its lower 64 bits are not 0")
    return str(IPv6Address(prefix))


def _parse_label(words: list[str]) -> tuple[str, str]:
    if len(words) not in (2, 3):
        raise ValueError("a line has a partition, its SELinux type and, if need be, a range")
    selinux_type, mls_range = words[1], words[2] if len(words) == 3 else ""
    if not _TYPE.fullmatch(selinux_type):
        raise ValueError(f"{selinux_type!r} is not an SELinux type")
    if mls_range and not _RANGE.fullmatch(mls_range):
        raise ValueError(f"{mls_range!r} is not an SELinux range such as s0:c1")
    return selinux_type, mls_range


def _find(word: str, policy: Policy) -> int:
    """Return the partition that *word* names. Raises ValueError."""
    by_name = {each.name: each.base for each in policy.partitions if each.name}
    if word in by_name:
        return by_name[word]
    base = int(word, 16) & PARTITION_MASK if _P_KEY.fullmatch(word) else None
    if base is None or all(each.base != base for each in policy.partitions):
        raise ValueError(f"the policy has no partition {word!r}{did_you_mean(word, by_name)}")
    return base

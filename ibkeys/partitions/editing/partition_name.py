"""Finding the partition of a policy that a user names: by its name, its number, or both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from ibkeys.arguments import require
from ibkeys.errors import UsageError
from ibkeys.keys.pkey import PKey
from ibkeys.partitions.model import DEFAULT_NAME, DEFAULT_PARTITION, Partition, Policy
from ibkeys.printable import clean, named
from ibkeys.similar_names import did_you_mean


@dataclass(frozen=True, slots=True)
class PartitionName:
    """A user's reference to a partition, by its name, its number (``base``), or both. A new partition needs the
    number."""

    name: str | None
    base: int | None

    @classmethod
    def parse(cls, text: str, parse_p_key: Callable[[str], PKey] = PKey.parse) -> Self:
        """Return the partition that a user names: ``lustre``, ``0x21`` or ``lustre=0x21``. *parse_p_key*: reads the
        number. Raises UsageError, and the errors of *parse_p_key*."""
        require("partition", text, str, "a text: a name, a P_Key ('0x21'), or both ('lustre=0x21')")
        name, equals, key = text.partition("=")
        if not equals and text.lower().startswith("0x"):
            name, key = "", text
        base = parse_p_key(key).partition if key else None
        if base == 0 or (equals and not key) or not text:
            raise UsageError(
                f"{clean(text)!r} is not a partition: give its name, its P_Key (0x21), or both (lustre=0x21)"
            )
        return cls(name.strip() or None, base)

    def __str__(self) -> str:
        number = f"0x{self.base:04x}" if self.base is not None else ""
        return "=".join(part for part in (clean(self.name or ""), number) if part)


def find_partition(policy: Policy, where: PartitionName) -> Partition | None:
    """Return the partition that *where* refers to, None if the policy does not define it.

    Raises UsageError if name and number belong to different partitions, and for a name that several partitions have.
    """
    with_name = [each for each in policy.partitions if where.name is not None and each.name == where.name]
    if where.base is None:
        if len(with_name) > 1:
            numbers = ", ".join(f"0x{each.base:04x}" for each in with_name)
            raise UsageError(
                f"{policy.path}: {where} is the name of {len(with_name)} partitions: {numbers}; give the number"
            )
        return with_name[0] if with_name else None
    partition = policy.partition(where.base)
    name = partition.name if partition is not None else DEFAULT_NAME if where.base == DEFAULT_PARTITION else None
    if where.name is not None and name is not None and name != where.name:
        raise UsageError(
            f"{policy.path}: partition 0x{where.base:04x} is called {clean(name)!r} there, not {where.name!r}"
        )
    if where.name is not None and partition is None and with_name:
        raise UsageError(f"{policy.path}: partition {where.name!r} has the number 0x{with_name[0].base:04x} there")
    return partition


def require_partition(policy: Policy, where: PartitionName) -> Partition:
    """Return the partition that *where* refers to. Raises UsageError if the policy does not define it, and for the
    reasons of `find_partition`."""
    partition = find_partition(policy, where)
    if partition is None:
        raise no_partition(policy, where)
    return partition


def no_partition(policy: Policy, where: PartitionName, otherwise: str = "") -> UsageError:
    """Return the error for a partition that does not exist. It lists similar names, or else the first partitions of the
    policy. *otherwise*: text behind "there is no partition ...", such as a way to make it."""
    similar = did_you_mean(where.name or str(where), (each.name for each in policy.partitions))
    listed = named([f"{clean(each.name)}=0x{each.base:04x}" for each in policy.partitions])
    return UsageError(f"{policy.path}: there is no partition {where}{otherwise}{similar or f'; there are {listed}'}")

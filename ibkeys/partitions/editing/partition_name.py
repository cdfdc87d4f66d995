"""The partition of a policy that a user means: by its name, its number, or both."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.errors import UsageError
from ibkeys.partitions.model import DEFAULT_NAME, DEFAULT_PARTITION, Partition, Policy
from ibkeys.printable import clean, named
from ibkeys.similar_names import did_you_mean


@dataclass(frozen=True, slots=True)
class PartitionName:
    """A user's reference to a partition: its name, its number, or both. A new partition needs the number."""

    name: str | None
    base: int | None

    def __str__(self) -> str:
        number = f"0x{self.base:04x}" if self.base is not None else ""
        return "=".join(part for part in (clean(self.name or ""), number) if part)


def find_partition(policy: Policy, where: PartitionName) -> Partition | None:
    """Return the partition that is meant, None if the policy has none.

    Raises UsageError if name and number belong to different partitions, and for a name that several have.
    """
    named_so = [each for each in policy.partitions if where.name is not None and each.name == where.name]
    if where.base is None:
        if len(named_so) > 1:
            numbers = ", ".join(f"0x{each.base:04x}" for each in named_so)
            raise UsageError(
                f"{policy.path}: {where} is the name of {len(named_so)} partitions: {numbers}; give the number"
            )
        return named_so[0] if named_so else None
    found = policy.partition(where.base)
    name = found.name if found is not None else DEFAULT_NAME if where.base == DEFAULT_PARTITION else None
    if where.name is not None and name is not None and name != where.name:
        raise UsageError(
            f"{policy.path}: partition 0x{where.base:04x} is called {clean(name)!r} there, not {where.name!r}"
        )
    if where.name is not None and found is None and named_so:
        raise UsageError(f"{policy.path}: partition {where.name!r} has the number 0x{named_so[0].base:04x} there")
    return found


def require_partition(policy: Policy, where: PartitionName) -> Partition:
    """Return the partition that is meant. Raises UsageError if the policy has none, and the errors of
    `find_partition`."""
    found = find_partition(policy, where)
    if found is None:
        raise no_partition(policy, where)
    return found


def no_partition(policy: Policy, where: PartitionName, otherwise: str = "") -> UsageError:
    """Return the error for a partition that does not exist, with similar names, or else the first names of the policy.

    *otherwise* is the end of the message.
    """
    near = did_you_mean(where.name or str(where), (each.name for each in policy.partitions))
    there = named([f"{clean(each.name)}=0x{each.base:04x}" for each in policy.partitions])
    return UsageError(f"{policy.path}: there is no partition {where}{otherwise}{near or f'; there are {there}'}")

"""Finding the partition of a P_Key in the policy file, which is read again when it changes."""

from __future__ import annotations

import os
from dataclasses import replace

from ibkeys.errors import FileFormatError
from ibkeys.files import or_none
from ibkeys.keys.pkey import PARTITION_MASK
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import read_policy
from ibkeys.watch.event import Event


class PartitionNames:
    """The names and lines of a policy's partitions."""

    def __init__(self, policy: Policy) -> None:
        self._path = policy.path
        self._leaves_open = policy.leaves_open
        self._seen = _state_of(policy.path)
        self._problem = ""
        self._learn(policy)

    def _learn(self, policy: Policy) -> None:
        has_lines = policy.says is None  # otherwise a user has no file to look into
        self._known = {
            part.base: (part.name, part.definitions[0].line if has_lines else None) for part in policy.partitions
        }

    def read_again(self) -> str:
        """Read the file again if it has changed. Return why it cannot be used, "" if it can.

        While the file cannot be used, partitions are named by the former policy, which may differ from OpenSM's.
        """
        now = _state_of(self._path)
        if now != self._seen:
            self._seen = now
            try:
                policy = read_policy(self._path)
                policy.require_accepted()
            except FileFormatError as error:
                self._problem = f"the policy has changed and cannot be used: {error}; partitions are named as before"
            else:
                self._problem = ""
                self._learn(policy)
        return self._problem

    def named(self, event: Event) -> Event:
        """Return *event* with the name and the line of its P_Key's partition, or with ``not_in_policy`` if no partition
        of the policy has the P_Key. An event without a P_Key is returned unchanged, and so is one whose partition the
        policy leaves open.
        """
        if event.p_key is None:
            return event
        known = self._known.get(event.p_key & PARTITION_MASK)
        if known is None and self._leaves_open(event.p_key):
            return event
        if known is None:
            return replace(event, not_in_policy=True)
        return replace(event, partition_name=known[0], policy_line=known[1])


def _state_of(path: str) -> tuple[int, int, int] | None:
    """Return values that change when a file is written or replaced, None for a missing file."""
    status = or_none(os.stat, path)
    return None if status is None else (status.st_ino, status.st_mtime_ns, status.st_size)

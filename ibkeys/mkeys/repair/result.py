"""The result of a repair for each port."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.managers.key_files import ExportSummary
from ibkeys.mkeys.repair.candidates import KeyOrigin
from ibkeys.topology.model import Trouble

KeyAnswer = KeyOrigin | Literal["new", "none"]
"""The origin of the key that a port showed: its state in the key store before the repair, or ``subnet``; ``new``: a key
that the key store did not have for this port; ``none``: the port has no key."""


@dataclass(frozen=True, slots=True)
class PortAnswer:
    """A port that showed its key. ``port``: its identity, as in every JSON document; ``key``: the origin of its key;
    ``m_key``: the key, which is masked when it is printed; ``m_key_lease_period``: seconds; ``violations``:
    M_KeyViolations when it answered."""

    port: dict[str, Any]
    node_guid: int
    port_guid: int
    key: KeyAnswer
    m_key: MKey
    m_key_protect_bits: int
    m_key_lease_period: int
    violations: int


@dataclass(frozen=True, slots=True)
class PortWithUnknownKey:
    """A port whose key is not known. The key file gets the first key that the key store has for it. ``port``: its
    identity as far as known; ``reason``: why its key is not known; ``is_waited_for``: False if the user has ended the
    wait for it (``keystore list --settle``).
    """

    port: dict[str, Any]
    reason: str
    is_waited_for: bool = True


@dataclass(slots=True)
class RepairResult:
    """The result of a repair. ``answers``: the ports that showed their keys, the local port first; ``own_key``: the key
    of the local port, None if it hides it; ``kept``: the ports whose key is not known; ``exported``: the files that
    were written; ``troubles``: other places that could not be read, where no known port is; ``notes``: lines for the
    user.
    """

    answers: list[PortAnswer] = field(default_factory=list)
    own_key: MKey | None = None
    kept: list[PortWithUnknownKey] = field(default_factory=list)
    exported: ExportSummary = field(default_factory=lambda: ExportSummary(0, 0, None))
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def missing(self) -> list[PortWithUnknownKey]:
        """The ports of ``kept`` that are waited for."""
        return [each for each in self.kept if each.is_waited_for]

    def count_with(self, key: MKey) -> int:
        """Return how many ports have *key*."""
        return sum(each.m_key == key for each in self.answers)

    @property
    def keys(self) -> set[MKey]:
        """The keys that the ports showed, without key 0."""
        return {each.m_key for each in self.answers} - {NO_MKEY}

"""Which item of a partition decides the membership of a port: the last item that names it by GUID or keyword."""

from __future__ import annotations

from collections.abc import Mapping

from ibkeys.partitions.membership import KIND_OF, PortKind
from ibkeys.partitions.model import DEFAULT_PARTITION, MemberRule, MemberWord, Partition


class DecidingItems:
    """The items of *partition* by the ports that they name. *kinds*: of ports that are known; others count as CA ports.

    ``SELF`` is not examined, because the file does not tell which port it is.
    """

    def __init__(self, partition: Partition, kinds: Mapping[int, PortKind]) -> None:
        self.partition = partition
        self.kinds = kinds
        self.own: dict[int, list[MemberRule]] = {}
        self._places: dict[int, int] = {}
        self._of_kind: dict[PortKind, tuple[int, MemberRule]] = {}
        for place, rule in enumerate(partition.rules):
            if rule.who == "GUID":
                self.own.setdefault(rule.guid, []).append(rule)
                self._places[rule.guid] = place
            for keyword, kind in KIND_OF.items():
                if rule.who in ("ALL", keyword):
                    self._of_kind[kind] = (place, rule)

    def decider(self, guid: int) -> MemberRule | None:
        """Return the item that decides the membership of a port, None if none names it."""
        place, rule = self._of_kind.get(self.kinds.get(guid, "ca"), (-1, None))
        return self.own[guid][-1] if self._places.get(guid, -2) > place else rule

    def membership(self, guid: int) -> MemberWord | None:
        """Return the membership of a port; None if it has none."""
        return self._word(self.decider(guid))

    def by_keyword(self, guid: int) -> MemberRule | None:
        """Return the keyword that makes a port a member where no item names it by its GUID; None for none."""
        return self._of_kind.get(self.kinds.get(guid, "ca"), (-1, None))[1]

    def without_own(self, guid: int) -> MemberWord | None:
        """Return the membership that a port has when no item names it by its GUID."""
        return self._word(self.by_keyword(guid))

    def _word(self, rule: MemberRule | None) -> MemberWord | None:
        if rule is not None:
            return rule.membership
        # OpenSM itself begins with a limited membership for all, without an item in the file.
        return "limited" if self.partition.base == DEFAULT_PARTITION else None

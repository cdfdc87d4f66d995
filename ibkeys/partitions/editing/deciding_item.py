"""Finding the item of a partition that decides the membership of a port: the last one that names it by GUID or
keyword."""

from __future__ import annotations

from collections.abc import Mapping

from ibkeys.partitions.membership import KIND_OF, PortKind
from ibkeys.partitions.model import DEFAULT_PARTITION, MemberRule, MemberWord, Partition


class DecidingItems:
    """The items of *partition*, by the ports that they name.

    *kinds*: the kind of node by port GUID; a port that is missing there counts as a CA port. ``own``: by GUID, the
    items that name the port by its GUID. ``SELF`` is ignored, because the file does not tell which port that is.
    """

    def __init__(self, partition: Partition, kinds: Mapping[int, PortKind]) -> None:
        self.partition = partition
        self.kinds = kinds
        self.own: dict[int, list[MemberRule]] = {}
        self._places: dict[int, int] = {}
        self._of_kind: dict[PortKind, tuple[int, MemberRule]] = {}
        for position, rule in enumerate(partition.rules):
            if rule.who == "GUID":
                self.own.setdefault(rule.guid, []).append(rule)
                self._places[rule.guid] = position
            for keyword, kind in KIND_OF.items():
                if rule.who in ("ALL", keyword):
                    self._of_kind[kind] = (position, rule)

    def deciding_item(self, guid: int) -> MemberRule | None:
        """Return the item that decides the membership of the port *guid*; None if no item names the port."""
        position, rule = self._of_kind.get(self.kinds.get(guid, "ca"), (-1, None))
        return self.own[guid][-1] if self._places.get(guid, -2) > position else rule

    def membership(self, guid: int) -> MemberWord | None:
        """Return the membership of the port *guid*; None if the port is no member."""
        return self._word(self.deciding_item(guid))

    def keyword_item(self, guid: int) -> MemberRule | None:
        """Return the last keyword item that names the port *guid*; None if there is none."""
        return self._of_kind.get(self.kinds.get(guid, "ca"), (-1, None))[1]

    def membership_by_keyword(self, guid: int) -> MemberWord | None:
        """Return the membership that the port *guid* would have if no item named it by its GUID; None for no
        membership."""
        return self._word(self.keyword_item(guid))

    def _word(self, rule: MemberRule | None) -> MemberWord | None:
        if rule is not None:
            return rule.membership
        # OpenSM itself makes all ports limited members of the default partition, without an item in the file.
        return "limited" if self.partition.base == DEFAULT_PARTITION else None

"""Why OpenSM changes a value when it starts: a table of likely causes, by the value that it changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from ibkeys.managers.opensm.options_file import OptionsFile
from ibkeys.rehearse.tables import PortTables, Tables, ValueDifference, differences

Cause = Literal["no-policy", "policy", "packed", "moved", "enforcement", "m-key", "lid", "standby-policy"]
IN_WORDS: Final[Mapping[Cause, str]] = {
    "no-policy": "OpenSM finds no policy, so every port is a full member of the default partition",
    "policy": "the port does not have what OpenSM's policy says: it was changed by hand, or the policy was edited and "
    "OpenSM has not read it",
    "packed": "keep_pkey_indexes is FALSE, so OpenSM packs the table and P_Keys move",
    "moved": "OpenSM puts the P_Key at another index: a restart forgets the indexes that it remembers",
    "enforcement": "the port does not enforce as OpenSM's part_enforce says",
    "m-key": "the port does not have the M_Key, level or lease of OpenSM's options",
    "lid": "OpenSM gives the port another LID",
    "standby-policy": "the standby has another policy file than the master",
}
_OF_FIELD: Final[Mapping[str, Cause]] = {
    "partition_enforcement_inbound": "enforcement",
    "partition_enforcement_outbound": "enforcement",
    "m_key": "m-key",
    "m_key_protect_bits": "m-key",
    "m_key_lease_period": "m-key",
    "lid": "lid",
}


def causes_of(before: Tables, after: Tables, options: OptionsFile, has_policy: bool) -> dict[ValueDifference, Cause]:
    """Return the likely cause of each difference that a start of OpenSM makes. *options*: OpenSM's options;
    *has_policy*: whether its policy file exists."""
    packs = options.value("keep_pkey_indexes") is not True
    return {
        each: _OF_FIELD.get(each.kind) or _of_p_key(before[each.key], after[each.key], packs, has_policy)
        for each in differences(before, after)
    }


def _of_p_key(before: PortTables, after: PortTables, packs: bool, has_policy: bool) -> Cause:
    if _keys(before) == _keys(after):
        return "packed" if packs else "moved"
    return "policy" if has_policy else "no-policy"


def _keys(tables: PortTables) -> list[int]:
    return sorted(filter(None, tables.p_keys))

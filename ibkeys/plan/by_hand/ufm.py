"""Writing the script for a person who changes UFM's partitions with curl, with the steps of `apply --via ufm:URL`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from ibkeys.errors import UsageError
from ibkeys.managers.ufm.answers import QOS, UfmMembership, membership_of
from ibkeys.managers.ufm.limits import find_full_tables, refuse_impossible
from ibkeys.managers.ufm.lost_flags import lost_flags
from ibkeys.managers.ufm.rest import Call, calls_to_change, resource
from ibkeys.partitions.model import Policy
from ibkeys.plan.by_hand.script import ScriptStage, ScriptState, refuse_cycles, script_lines
from ibkeys.plan.model import PartitionPlan, tables_by_guid
from ibkeys.plan.steps import one_partition_at_a_time, steps_between
from ibkeys.printable import clean, counted, named

_CURL: Final = 'curl --fail --silent --show-error --header @"$HEADER"'
_HEAD: Final = (
    "# Where UFM can be reached. HEADER: a file of mode 0600 with the one line `Authorization: Basic TOKEN`, the token",
    "# as UFM gave it, so that it is in no list of processes. No real UFM was reachable when this was written.",
    ': "${UFM:=https://ufm.example/ufmRestV3}" "${HEADER:=$HOME/ufm.header}"',
)
_BACK: Final = (
    "# Keep the output of each GET above: it has the members of a partition before its change. Restore them by a PUT",
    "# with that list, the last changed partition first. Where the list is empty, send DELETE instead of PUT.",
)


def ufm_script(plan: PartitionPlan, gaps: bool) -> Iterator[str]:
    """Return the lines of the script for *plan*, which has the tables of all ports (``--full``). *gaps*: allow that
    pairs temporarily lose connectivity.

    Raises UsageError for a change that no call of UFM's REST interface can make, for a table without room, and if a
    pair would be cut without *gaps*.
    """
    tables = tables_by_guid(plan.tables)
    old = {guid: frozenset(table.before.values()) for guid, table in tables.items()}
    new = {guid: frozenset(table.after.values()) for guid, table in tables.items()}
    refuse_impossible(old, new, lambda guids: [str(tables[guid].port) for guid in guids])
    if plan.enforcement:
        raise UsageError(
            f"the plan changes the enforcement of {counted(len(plan.enforcement), 'leaf port')}, which UFM's "
            "REST interface cannot do; plan with the present enforcement of the fabric"
        )
    rooms = {guid: table.capacity for guid, table in tables.items()}
    steps = steps_between(old, new, rooms, gaps=gaps)
    refuse_cycles(steps.cycles, gaps)
    policy = plan.policy.parsed()
    stages: list[ScriptStage] = []
    before: ScriptState = old
    for is_adding, state in one_partition_at_a_time(old, steps.states):
        too_full = [str(tables[guid].port) for guid in find_full_tables(before, state, rooms)]
        if too_full:
            raise UsageError(f"{named(too_full)}: its P_Key table has no room for the new P_Keys beside the old ones")
        title = "members come" if is_adding else "members go"
        stages.append((title, tuple(_calls(before, state, policy)), state))
        before = state
    return script_lines(plan, stages, (*_HEAD, *_flags_to_set(policy)), _BACK)


def _flags_to_set(policy: Policy | None) -> Iterator[str]:
    """Yield a comment for each partition with flags that no call of the script carries."""
    for partition in policy.partitions if policy is not None else ():
        lost = ", ".join(dict.fromkeys(lost_flags(partition, None)))
        if lost:
            name = f"{clean(partition.name)} ({partition.base:#x})"
            yield f"# {name}: the calls below do not carry {lost}: see to them in UFM"


def _calls(before: ScriptState, after: ScriptState, policy: Policy | None) -> Iterator[str]:
    """Yield the lines that change UFM's partitions from *before* to *after*. *policy*: that of the plan, if it can be
    read."""
    bases = sorted({key.partition for guid in after for key in before[guid] ^ after[guid]})
    for base in bases:
        old, new = _words(before, base), _words(after, base)
        yield f"# partition {base:#x}: first read its present members from UFM"
        yield f'{_CURL} "$UFM{resource(base)}?guids_data=true&qos_conf=true"'
        planned = policy.partition(base) if policy is not None else None
        ip_over_ib, index0 = (planned.ipoib, planned.indx0) if planned is not None else (True, False)
        calls = calls_to_change(base, old, new, ip_over_ib=ip_over_ib, index0=index0)
        if any(call.method == "PUT" for call in calls):
            listed = ", ".join(f"{guid:016x} {word}" for guid, word in sorted(old.items())) or "no port"
            yield f"# it must show: {listed}"
            yield "# if it shows others too, add them to guids and memberships below, or PUT removes them"
            yield f"# PUT carries no name and no {', '.join(QOS)}: check afterwards whether UFM kept them"
        if any(call.body is not None for call in calls):
            yield "# if it exists already: replace ip_over_ib and index0 below with its values"
        yield from map(_curl_line, calls)


def _curl_line(call: Call) -> str:
    words = f"{_CURL} --request {call.method}"
    if call.body is not None:
        words += f" --header 'Content-Type: application/json' --data {shlex.quote(json.dumps(call.body))}"
    return f'{words} "$UFM{call.path}"'


def _words(state: ScriptState, base: int) -> Mapping[int, UfmMembership]:
    return {guid: word for guid, keys in state.items() if (word := membership_of(keys, base)) is not None}

"""Writing the common parts of scripts that a person carries out step by step.

A script is text for a shell, with explanations in comments. After each step it lists the P_Keys that ports have to show
before the next step. It has no secret: a token is read from a file that the person writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ibkeys.arguments import given
from ibkeys.errors import UsageError
from ibkeys.keys.pkey import PKey
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.model import PartitionPlan, tables_by_guid
from ibkeys.printable import clean, counted
from ibkeys.topology.port_id import PortId

ScriptState = Mapping[int, frozenset[PKey]]
"""Port GUID → P_Keys."""


ScriptStage = tuple[str, Sequence[str], ScriptState]
"""One step, as (title, commands, P_Keys of each port afterwards). The commands are lines for a shell on the host of the
subnet manager, or on one from which UFM can be reached."""


def script_lines(
    plan: PartitionPlan, stages: Sequence[ScriptStage], head: Iterable[str], back: Iterable[str]
) -> Iterator[str]:
    """Yield the lines of the script that carries out *stages* of *plan*, in order. *head*: lines for its beginning.
    *back*: lines that explain the rollback."""
    yield (
        "# Steps by hand, made by `ibkeys plan --script`. Go to the next step only when the check after a step passes."
    )
    yield clean(f"# policy: {plan.policy.file}; digest of the plan: {plan_digest(plan)}")
    yield "# The fabric must not have changed since this was made: otherwise plan again."
    yield from head
    tables = tables_by_guid(plan.tables)
    before: ScriptState = {guid: frozenset(table.before.values()) for guid, table in tables.items()}
    for number, (title, commands, state) in enumerate(stages, 1):
        yield ""
        yield f"# === step {number} of {len(stages)}: {title}"
        yield from commands
        yield from _check({table.port: state[guid] for guid, table in tables.items() if before[guid] != state[guid]})
        before = state
    yield ""
    yield "# === to roll back"
    yield from back


def refuse_cycles(cycles: Collection[object], gaps: bool) -> None:
    """Raise UsageError if there are *cycles*, in which ports wait for each other, but *gaps* does not allow to cut
    pairs."""
    if cycles and not gaps:
        raise UsageError(
            "ports wait for each other in a circle, so that no order keeps all of them connected: "
            f"{given('--allow-break')} briefly disconnects some of them; or first apply a policy that reuses no "
            "partition"
        )


def _check(shown: Mapping[PortId, frozenset[PKey]]) -> Iterator[str]:
    """Yield the lines with the P_Keys that ports have to show after a step. *shown*: the ports that the step
    changes."""
    yield "# check, from a host that can ask the fabric; the order of the P_Keys does not count:"
    if not shown:
        yield "#   no port changes"
        return
    for port, keys in shown.items():
        listed = ", ".join(map(str, sorted(keys)))
        yield clean(f"#   ibkeys pkey-show -G 0x{port.port_guid or 0:016x}   # {port}: {listed}")
    yield f"#   continue when {counted(len(shown), 'port')} {'shows' if len(shown) == 1 else 'show'} this"

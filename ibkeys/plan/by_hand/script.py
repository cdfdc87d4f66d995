"""What a person types, step by step, and what each port has to show before the next step.

It is text for a shell, with all that is for the eye in comments. Nothing secret is in it: where a token is needed, it
is read from a file that the person makes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ibkeys.errors import UsageError
from ibkeys.keys.pkey import PKey
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.model import PartitionPlan, tables_by_guid
from ibkeys.printable import clean, counted
from ibkeys.topology.port_id import PortId

State = Mapping[int, frozenset[PKey]]
"""Port GUID → P_Keys."""


Stage = tuple[str, Iterable[str], State]
"""What comes next: the title and the commands of a step, and the P_Keys of each port after it."""


@dataclass(frozen=True, slots=True)
class HandStep:
    """One step. ``commands``: lines for a shell, on the host of the subnet manager or of UFM's client; ``shows``: the
    ports that change, and what each has to show afterwards."""

    title: str
    commands: tuple[str, ...]
    shows: tuple[tuple[PortId, tuple[PKey, ...]], ...]


@dataclass(frozen=True, slots=True)
class HandScript:
    """All of it. ``head``: what comes before the first step; ``back``: how to roll back."""

    head: tuple[str, ...]
    steps: tuple[HandStep, ...]
    back: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield the script line by line."""
        yield from self.head
        for number, step in enumerate(self.steps, 1):
            yield ""
            yield f"# === step {number} of {len(self.steps)}: {step.title}"
            yield from step.commands
            yield from _check(step)
        yield ""
        yield "# === to roll back"
        yield from self.back


def script_of(plan: PartitionPlan, stages: Iterable[Stage], head: tuple[str, ...], back: tuple[str, ...]) -> HandScript:
    """Return the script that makes *stages* one after the other. *head*: what a person needs at its beginning; *back*:
    how to roll back."""
    tables, steps = tables_by_guid(plan.tables), []
    before: State = {guid: frozenset(table.before.values()) for guid, table in tables.items()}
    for title, commands, state in stages:
        changed = (guid for guid in tables if before[guid] != state[guid])
        shows = tuple((tables[guid].port, tuple(sorted(state[guid]))) for guid in changed)
        steps.append(HandStep(title, tuple(commands), shows))
        before = state
    return HandScript(_heading(plan, head), tuple(steps), back)


def refuse_circles(circles: Collection[object], gaps: bool) -> None:
    """Raise UsageError where ports wait for each other in *circles* and pairs may not be cut (*gaps*)."""
    if circles and not gaps:
        raise UsageError(
            "ports wait for each other in a circle, so that no order keeps all of them connected: "
            "--allow-break briefly disconnects some of them; or first apply a policy that reuses no partition"
        )


def _heading(plan: PartitionPlan, head: tuple[str, ...]) -> tuple[str, ...]:
    """Return how every script begins."""
    return (
        "# Steps by hand, made by `ibkeys plan --script`. Go to the next step only when the check after a step passes.",
        clean(f"# policy: {plan.policy.file}; digest of the plan: {plan_digest(plan)}"),
        "# The fabric must not have changed since this was made: otherwise plan again.",
        *head,
    )


def _check(step: HandStep) -> Iterator[str]:
    yield "# check, from a host that can ask the fabric; the order of the P_Keys does not count:"
    if not step.shows:
        yield "#   no port changes"
        return
    for port, keys in step.shows:
        yield clean(f"#   ibkeys pkey-show -G 0x{port.port_guid or 0:016x}   # {port}: {', '.join(map(str, keys))}")
    yield f"#   continue when {counted(len(step.shows), 'port')} {'shows' if len(step.shows) == 1 else 'show'} this"

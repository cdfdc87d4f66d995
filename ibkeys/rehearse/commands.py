"""The commands that can be rehearsed, `ibkeys apply` of a plan included, and the tables that each of them promises.

A run of M_Keys says what it will change in its dry run. A command that edits partitions notes its plan in the journal.
An undo restores what the plan of the operation replaced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from ibkeys.apply.former_values import first_operation_of
from ibkeys.errors import UsageError
from ibkeys.plan.document_reader import loads
from ibkeys.plan.model import PartitionPlan
from ibkeys.rehearse.tables import PortTables, Tables, planned_tables, reversed_plan
from ibkeys.store.journal import Journal
from ibkeys.store.journal.records import KEY_COMMANDS, PARTITION_VERBS
from ibkeys.store.sqlite import guid_number

PromisedBy = Literal["dry-run", "plan", "operation"]
"""Where the promise of a command is read: in its dry run, in the plan, or in the operation that it undoes."""
COMMANDS: Final[Mapping[str, PromisedBy]] = {
    **dict.fromkeys(KEY_COMMANDS, "dry-run"),
    **dict.fromkeys(PARTITION_VERBS, "plan"),
    "undo": "operation",
}
"""The commands that can be rehearsed by their command line."""
NOT_REHEARSED: Final[Mapping[str, str]] = {
    "apply": "name its plan alone: `ibkeys rehearse PLAN`",
    "harden": (
        "some of its steps change SM keys or options of OpenSM, which a rehearsal can neither compare nor take back; "
        "`ibkeys harden --dry-run` shows the steps: rehearse that of M_Keys (`ibkeys rehearse mkey-rotate`, "
        "mkey-deploy) and that of the policy (`ibkeys rehearse --policy FILE`) by themselves"
    ),
    "smkey-rotate": (
        "it changes no value of a port, and the copy has other SM keys; `ibkeys smkey-rotate --dry-run` shows the steps"
    ),
}
"""Commands that change the fabric through OpenSM and cannot be rehearsed, with the reason."""
_FIELDS: Final = {"m_key_protect_bits": "level", "m_key_lease_period": "lease"}
_UNKNOWN_KEY: Final = 1 << 64
"""Too large for an M_Key: it stands for a promised new key that the port did not get."""


class Promise(NamedTuple):
    """The ``tables`` that a change promises, and the ``plan`` that it makes; None for an undo, a run of M_Keys, and an
    operation without a plan."""

    tables: Tables
    plan: PartitionPlan | None


class RehearsedChange(NamedTuple):
    """A change to rehearse. ``words``: its command line, without the program; ``undo``: further words of the undo;
    ``promise``: returns the promise of the change. Its arguments are the tables before the change, those after it, and
    the number of its operation in the journal. ``plan``: its plan if it is known before the change, else None."""

    words: Sequence[str]
    undo: Sequence[str]
    promise: Callable[[Tables, Tables, int | None], Promise]
    plan: PartitionPlan | None = None


def change_of_plan(plan: PartitionPlan, path: str) -> RehearsedChange:
    """Return the change that `ibkeys apply` makes with *plan*, whose file is *path*."""
    words = ["apply", path, "--via", "opensm"]
    return RehearsedChange(
        words, (), lambda before, after, operation: Promise(planned_tables(plan, before), plan), plan
    )


def change_of_command(words: Sequence[str], journal: Path, dry_run: Callable[[Sequence[str]], str]) -> RehearsedChange:
    """Return the change that the ibkeys command *words* makes. A run of M_Keys gets ``--via opensm`` if it has no
    ``--via``, and its dry run is made. *journal*: the journal of the rehearsal. *dry_run*: runs a command line, and
    returns its standard output. Raises UsageError for a command that cannot be rehearsed."""
    promised_by = COMMANDS.get(words[0])
    if promised_by is None:
        raise UsageError(f"{words[0]} cannot be rehearsed: {', '.join(COMMANDS)} can be")
    if promised_by == "dry-run":
        words = words if any(each.startswith("--via") for each in words) else [*words, "--via", "opensm"]
        said = dry_run([*words, "--dry-run", "-f", "json"])
        return RehearsedChange(
            words, ("--leave-open",), lambda before, after, _: Promise(_by_dry_run(said, before, after), None)
        )

    def by_journal(before: Tables, after: Tables, operation: int | None) -> Promise:
        return _by_journal(journal, operation, before)

    return RehearsedChange(words, (), by_journal)


def _by_journal(path: Path, operation: int | None, before: Tables) -> Promise:
    if operation is None:
        return Promise(before, None)
    with Journal.read(path) as journal:
        record = journal.find(operation)
        first = first_operation_of(journal, record)
        goes_back = False
        while record.undoes is not None:
            record, goes_back = journal.find(record.undoes), not goes_back
        kept = journal.plan_of(first.id)
    if kept is None:
        return Promise(before, None)
    plan = loads(kept.document, "the plan in the journal", bound=False)
    return (
        Promise(planned_tables(reversed_plan(plan), before), None)
        if goes_back
        else Promise(planned_tables(plan, before), plan)
    )


def _by_dry_run(output: str, before: Tables, after: Tables) -> dict[Any, PortTables]:
    """Return the tables that the dry run of a run of M_Keys promises: *output* has a line of JSON for each port. It has
    no key, so any new key that a port has in *after* counts as the promised one."""
    promised = dict(before)
    for line in output.splitlines():
        row = json.loads(line)
        for change in row.get("changes", ()):  # the last line has none
            key = guid_number(row["node_guid"]), row["port"]
            was, value = promised[key], change["after"]
            if change["kind"] == "m_key":
                found = after[key].m_key
                is_kept = found not in (0, before[key].m_key)
                promised[key] = was._replace(m_key=0 if value == "zero" else found if is_kept else _UNKNOWN_KEY)
            else:
                promised[key] = was._replace(**{_FIELDS[change["kind"]]: value})
    return promised

"""Listing the operations of the journal with their starts, steps and methods, and how they undo each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ibkeys import jsonfile
from ibkeys.errors import FileFormatError
from ibkeys.store.journal.records import KEY_COMMANDS, WANTED_VALUES, OperationRecord, Start, options_in
from ibkeys.store.origin import Origin

if TYPE_CHECKING:
    from ibkeys.store.sqlite import Database


def list_operations(database: Database, related_to: int | None = None) -> list[OperationRecord]:
    """Return all operations, the oldest first, or only *related_to*, those that it undoes, and those that undo it.
    Raises StoreError."""
    among = "IS NOT NULL"
    if related_to is not None:
        among = f"IN ({', '.join(map(str, [related_to, *relatives_of(database, related_to)]))})"
    rows = database.query(
        f"""SELECT id, command, state, started, finished,
                  (SELECT count(*) FROM (SELECT DISTINCT node_guid, port FROM entries WHERE operation = id)),
                  (SELECT count(*) FROM entries WHERE operation = id AND status != 'done')
                      + (SELECT count(*) FROM files WHERE operation = id AND status != 'done'), stage, undoes,
                  undone_by, coalesce(is_open, 0),
                  EXISTS (SELECT 1 FROM plans WHERE operation = id AND document IS NOT NULL),
                  EXISTS (SELECT 1 FROM plans WHERE operation = id AND document IS NULL AND options LIKE ?)
           FROM operations LEFT JOIN (
               SELECT undoes AS undone, max(CASE state WHEN 'done' THEN id END) AS undone_by,
                      max(state IN ('open', 'failed')) AS is_open
               FROM operations WHERE undoes IS NOT NULL GROUP BY undoes
           ) ON undone = id WHERE id {among} ORDER BY id""",
        (f'{{"{WANTED_VALUES}":%',),
        of="operations plans",
    )
    starts, of_plan, began = _starts(database, among), set[int](), dict[int, str]()
    methods = _methods(database, among)
    steps, run_ports = _steps_under_way(database, among), _ports_of_runs(database, among)
    for ident, command, *_, undoes, _, _, has_plan, _ in rows:
        if has_plan or undoes in of_plan:
            of_plan.add(ident)
        began[ident] = began.get(undoes, command)
        if undoes in methods:
            methods[ident] = methods[undoes]
    return [
        OperationRecord(
            *(ident, command, state, started, finished),
            max(ports, run_ports.get(ident, _NO_PORTS).changed),
            *(unproven, stage, undoes, undone_by),
            being_undone=bool(is_open),
            is_of_plan=ident in of_plan,
            is_of_keys=began[ident] in KEY_COMMANDS,
            undid=None if undoes is None else began[ident],
            starts=tuple(starts.get(ident, ())),
            step=steps.get(ident),
            waiting=run_ports.get(ident, _NO_PORTS).waiting,
            method=methods.get(ident),
            has_values=bool(has_values),
        )
        for (
            *(ident, command, state, started, finished, ports, unproven, stage, undoes, undone_by, is_open, _),
            has_values,
        ) in rows
    ]


def relatives_of(database: Database, operation: int) -> list[int]:
    """Return the other operations in the chains of undos of *operation*, in the order in which they began: those that
    undo it, that it undoes, that undo these, and so on. Raises StoreError."""
    rows = database.query(
        """WITH RECURSIVE family (id) AS (
               SELECT ?
               UNION SELECT operations.undoes FROM operations JOIN family ON operations.id = family.id
                   WHERE operations.undoes IS NOT NULL
               UNION SELECT operations.id FROM operations JOIN family ON operations.undoes = family.id
           ) SELECT id FROM family WHERE id != ? ORDER BY id""",
        (operation, operation),
        of="operations",
    )
    return [ident for (ident,) in rows]


# *among*, in the following functions: the condition that the number of an operation meets.


def _starts(database: Database, among: str) -> dict[int, list[Start]]:
    starts: dict[int, list[Start]] = {}
    for operation, started, user, host, overrides, options in database.query(
        f"SELECT operation, started, user, host, overrides, options FROM starts WHERE operation {among} "
        "ORDER BY operation, number",
        of="starts",
    ):
        try:
            origin = Origin(user, host, _texts(overrides), _texts(options))
        except (FileFormatError, TypeError):
            raise database.damage("the overrides or options of a start of an operation cannot be read") from None
        starts.setdefault(operation, []).append(Start(started, origin))
    return starts


def _steps_under_way(database: Database, among: str) -> dict[int, str]:
    """Return, by operation, the name of its last step if the outcome of that step is not known."""
    rows = database.query(
        f"SELECT operation, max(number) AS number, name, status FROM steps WHERE operation {among} GROUP BY operation",
        of="steps",
    )
    return {operation: name for operation, _, name, status in rows if status == "pending"}


class _RunPorts(NamedTuple):
    """The numbers of ports of a run of M_Keys that still have to get their new key, and that it changed."""

    waiting: int
    changed: int


_NO_PORTS: Final = _RunPorts(0, 0)


def _ports_of_runs(database: Database, among: str) -> dict[int, _RunPorts]:
    """Return, by operation, the numbers of ports of runs of M_Keys and of their undos. A run through OpenSM has no Sets
    in the journal, so the results of its ports are counted. A port that was undone was changed by the run if the run
    has a proven step, and by the latest undo if that has one."""
    rows = database.query(
        f"""SELECT operation, sum(state = 'waiting'), sum(state = 'done'), sum(state = 'undone') FROM run_ports
            WHERE operation {among} GROUP BY operation"""
    )
    undos = dict(database.query(f"SELECT undoes, id FROM operations WHERE undoes {among} ORDER BY id"))
    of_done = database.query(f"SELECT DISTINCT operation FROM steps WHERE operation {among} AND status = 'done'")
    proven = {operation for (operation,) in of_done}
    found = dict[int, _RunPorts]()
    for operation, waiting, done, undone in rows:
        found[operation] = _RunPorts(waiting, done + (undone if operation in proven else 0))
        undo = undos.get(operation)
        if undo is not None and undo in proven:
            found[undo] = _RunPorts(0, undone)
    return found


def _methods(database: Database, among: str) -> dict[int, str]:
    """Return, by operation, the method of each apply and each run of M_Keys. An apply of an early version has no record
    of it, and was direct."""
    plans = database.query(
        f"SELECT operation, options FROM plans WHERE operation {among} AND document IS NOT NULL", of="plans"
    )
    runs = database.query(f"SELECT operation, via IS NULL FROM runs WHERE operation {among}", of="runs")
    methods = {operation: str(options_in(options).get("carrier", "direct")) for operation, options in plans}
    return methods | {operation: "direct" if is_direct else "opensm" for operation, is_direct in runs}


def _texts(text: str) -> tuple[str, ...]:
    return tuple(map(str, jsonfile.loads(text.encode("utf-8", "surrogatepass"))))

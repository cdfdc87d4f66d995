"""Runs of mkey-deploy, mkey-rotate and mkey-remove in the key store: one that was interrupted can be
finished or undone.

A run is its options and its ports in the order of change. For each port it keeps the outcome so far, and which rows of
the key store are its new and its former key; keys themselves are in no table of this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from ibkeys import jsonfile
from ibkeys.errors import FileFormatError
from ibkeys.store.journal.records import KEY_COMMANDS, OperationRecord
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.sqlite import guid_number, guid_text

RunState = Literal["open", "ended", "undone"]
REMOVAL: Final = "mkey-remove"
"""The command whose runs give every port M_Key 0."""
PortState = Literal["waiting", "sent", "done", "skipped", "failed", "undone"]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user asked for.

    ``same``: one key for all ports. ``protect`` (0 to 3) and ``lease`` (seconds): None leaves each port its own.
    ``at_once``: most ports in change. ``first``: only so many ports until the run is continued, None for all.
    ``max_failures``: the run stops when so many ports have failed.
    """

    same: bool = False
    protect: int | None = None
    lease: int | None = None
    at_once: int = 64
    first: int | None = None
    max_failures: int = 5


@dataclass(frozen=True, slots=True)
class RunOperation:
    """The operation of a run: ``journal`` is the identity of the journal that has it, ``id`` its number there."""

    journal: str
    id: int


@dataclass(frozen=True, slots=True)
class Run:
    """One run. ``open``: ports of it wait, or it was interrupted. ``ended``: no port waits. ``undone``: it was rolled
    back.

    ``via``: of a run through a subnet manager what it needs to go on, without a key; None of one by own Sets.
    ``operation``: that of the journal; None where nothing was recorded yet, and for a run of an earlier version.
    """

    id: int
    command: str
    state: RunState
    options: RunOptions
    started: str
    finished: str | None
    via: Mapping[str, Any] | None = None
    operation: RunOperation | None = None

    def find_operation(self, operations: Iterable[OperationRecord], journal: str) -> OperationRecord | None:
        """Return its operation among all *operations* of a journal; None where that does not have it. *journal*: the
        identity of that journal.

        After a journal was restored from an older backup, another operation may have its number. A run of an earlier
        version does not know its operation: it is the newest of M_Keys, if the command is the same.
        """
        found = [each for each in operations if each.command in KEY_COMMANDS and each.started >= self.started]
        if self.operation is None:
            return found[-1] if found and found[-1].command == self.command else None
        is_here = self.operation.journal == journal
        return next((each for each in found if is_here and each.id == self.operation.id), None)


@dataclass(frozen=True, slots=True)
class RunPort:
    """One port of a run. ``sequence``: its place in the order of change, from 0.

    ``waiting``: nothing was sent to it. ``sent``: its new key is on disk, and a Set may have been sent. ``done``: a Get
    proved the new key. ``failed``: it has its old key, or its new one with another level or lease. ``skipped``: the run
    leaves it alone. ``undone``: a Get proved that it was rolled back.

    ``key_ref`` and ``old_ref``: the rows of its new and its former key, None if there is none (yet); ``old_ref`` None
    of a port that was begun means that its M_Key was 0. ``old_protect_bits`` and ``old_lease_period`` as before.
    """

    sequence: int
    node_guid: int
    port_guid: int
    port: int
    state: PortState
    key_ref: int | None
    old_ref: int | None
    old_protect_bits: int | None
    old_lease_period: int | None
    reason: str

    @property
    def is_begun(self) -> bool:
        """Whether a Set may have been sent to it."""
        return self.key_ref is not None and self.state in ("sent", "done", "failed")

    @property
    def has_found(self) -> bool:
        """Whether it is known what it had before the run: ``old_ref``, None of one without a key."""
        return self.old_protect_bits is not None


@dataclass(frozen=True, slots=True)
class NewRunPort:
    """A port as a run begins: the run leaves it alone when ``skipped`` says why."""

    node_guid: int
    port_guid: int
    port: int
    skipped: str = ""


class Runs:
    """The runs in an open key store. All methods raise StoreError; what they did is on disk when they return, or when
    the store's `KeyStore.in_one_transaction` ends."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._database = store.database

    def begin(
        self, command: str, options: RunOptions, ports: Sequence[NewRunPort], via: Mapping[str, Any] | None = None
    ) -> int:
        """Store a new run with its ports in the order of change, and return its id. *via*: see `Run`."""
        with self._database.transaction() as connection:
            cursor = connection.execute(
                f"INSERT INTO runs ({_RUN_COLUMNS}) VALUES (NULL, ?, 'open', ?, ?, ?, ?, ?, ?, ?, NULL, ?, NULL, NULL)",
                (
                    command,
                    int(options.same),
                    options.protect,
                    options.lease,
                    options.at_once,
                    options.first,
                    options.max_failures,
                    self._store.now(),
                    None if via is None else json.dumps(via),
                ),
            )
            run = cast(int, cursor.lastrowid)
            connection.executemany(
                "INSERT INTO run_ports (run, sequence, node_guid, port_guid, port, state, reason) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        run,
                        sequence,
                        guid_text(port.node_guid),
                        guid_text(port.port_guid),
                        port.port,
                        "skipped" if port.skipped else "waiting",
                        port.skipped,
                    )
                    for sequence, port in enumerate(ports)
                ],
            )
        return run

    def last(self) -> Run | None:
        """Return the newest run, or None when there was never one."""
        rows = self._database.query(f"SELECT {_RUN_COLUMNS} FROM runs ORDER BY id DESC LIMIT 1", of="runs")
        if not rows:
            return None
        ident, command, state, same, protect, lease, at_once, first, max_failures, started, finished, *rest = rows[0]
        via, journal, number = rest
        options = RunOptions(bool(same), protect, lease, at_once, first, max_failures)
        operation = None if journal is None or number is None else RunOperation(journal, number)
        return Run(ident, command, state, options, started, finished, self._via(via), operation)

    def _via(self, text: str | None) -> Mapping[str, Any] | None:
        if text is None:
            return None
        try:
            kept = jsonfile.loads(text.encode("utf-8", "surrogatepass"))
        except FileFormatError:
            kept = None
        if not isinstance(kept, dict):
            raise self._database.damage("what a run through a subnet manager needs to go on cannot be read")
        return kept

    def note_via(self, run: int, via: Mapping[str, Any]) -> None:
        """Note how far a run through a subnet manager is: see `Run`."""
        with self._database.transaction() as connection:
            connection.execute("UPDATE runs SET via = ? WHERE id = ?", (json.dumps(via), run))

    def note_operation(self, run: int, operation: RunOperation) -> None:
        """Note which operation of which journal a run is."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE runs SET journal = ?, operation = ? WHERE id = ?", (operation.journal, operation.id, run)
            )

    def ports(self, run: int) -> list[RunPort]:
        """Return the ports of a run in the order of change."""
        rows = self._database.query(
            f"SELECT {_PORT_COLUMNS} FROM run_ports WHERE run = ? ORDER BY sequence", (run,), of="run_ports"
        )
        return [RunPort(sequence, guid_number(node), guid_number(guid), *rest) for sequence, node, guid, *rest in rows]

    def note_key(
        self,
        run: int,
        sequence: int,
        key_ref: int,
        old_ref: int | None,
        old_protect_bits: int,
        old_lease_period: int,
    ) -> None:
        """Note which rows are the new and the former key of a port, and what level and lease it had before."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE run_ports SET key_ref = ?, old_ref = ?, old_protect_bits = ?, old_lease_period = ? "
                "WHERE run = ? AND sequence = ?",
                (key_ref, old_ref, old_protect_bits, old_lease_period, run, sequence),
            )

    def note_found(self, run: int, found: Iterable[tuple[int, int | None, int, int]]) -> None:
        """Note what ports had when the run began: for each its sequence, the row of its key, level and lease."""
        with self._database.transaction() as connection:
            connection.executemany(
                "UPDATE run_ports SET old_ref = ?, old_protect_bits = ?, old_lease_period = ? "
                "WHERE run = ? AND sequence = ?",
                [(old_ref, protect, lease, run, sequence) for sequence, old_ref, protect, lease in found],
            )

    def mark(self, run: int, sequence: int, state: PortState, reason: str = "") -> None:
        """Note the outcome for a port."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE run_ports SET state = ?, reason = ? WHERE run = ? AND sequence = ?",
                (state, reason, run, sequence),
            )

    def reopen(self, run: int, options: RunOptions) -> None:
        """Note that a run goes on, with other bounds than before."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE runs SET state = 'open', finished = NULL, at_once = ?, first = ?, max_failures = ? "
                "WHERE id = ?",
                (options.at_once, options.first, options.max_failures, run),
            )

    def finish(self, run: int, state: RunState) -> None:
        """Note that a run ended or was rolled back."""
        with self._database.transaction() as connection:
            connection.execute("UPDATE runs SET state = ?, finished = ? WHERE id = ?", (state, self._store.now(), run))


def shared_key_ref(ports: Iterable[RunPort]) -> int | None:
    """Return the row that holds the one key of a run with ``same``; None when no port of it was begun."""
    return next((port.key_ref for port in ports if port.key_ref is not None), None)


_RUN_COLUMNS: Final = (
    "id, command, state, same, m_key_protect_bits, m_key_lease_period, at_once, first, max_failures, started, "
    "finished, via, journal, operation"
)
_PORT_COLUMNS: Final = (
    "sequence, node_guid, port_guid, port, state, key_ref, old_ref, old_protect_bits, old_lease_period, reason"
)

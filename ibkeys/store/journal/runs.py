"""Runs of mkey-deploy, mkey-rotate and mkey-remove: the data with which their operations are finished or undone.

A run is its options and its ports in the order of change. For each port the journal has the result so far, and the
names of its new and its former key in the key store; only the key store has the keys themselves.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ibkeys import jsonfile
from ibkeys.errors import FileFormatError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.store.journal.journal import Journal
from ibkeys.store.journal.records import OperationRecord
from ibkeys.store.sqlite import guid_number, guid_text

REMOVAL: Final = "mkey-remove"
"""The command whose runs give every port M_Key 0."""
RunPortState = Literal["waiting", "sent", "done", "skipped", "failed", "undone"]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The user's options of a run.

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
class MKeyRun:
    """One run. ``operation``: its record in the journal. ``via``: for a run through a subnet manager, the data with
    which it is resumed, without a key; None for a run by Sets of ibkeys."""

    operation: OperationRecord
    options: RunOptions
    via: Mapping[str, Any] | None = None

    @property
    def id(self) -> int:
        """The number of its operation."""
        return self.operation.id

    @property
    def command(self) -> str:
        """The command that began it."""
        return self.operation.command

    @property
    def started(self) -> str:
        """The time at which it began, in the journal's form."""
        return self.operation.started

    @property
    def name(self) -> str:
        """The run in words."""
        return f"operation {self.id} ({self.command}, begun {self.started})"

    @property
    def is_open(self) -> bool:
        """Whether ports of it wait, or it or its undo was interrupted."""
        return self.operation.state == "open" or self.operation.is_half_undone

    @property
    def removes_keys(self) -> bool:
        """Whether it is open, and lets a subnet manager give every port M_Key 0: a removal, or a deployment that is
        rolled back."""
        removes = "mkey-deploy" if self.via is not None and self.via.get("goes_back") else REMOVAL
        return self.is_open and self.via is not None and self.command == removes

    @property
    def is_left_over(self) -> bool:
        """Whether it is open, or ports of it failed."""
        return self.is_open or self.operation.state == "failed"


@dataclass(frozen=True, slots=True)
class RunPort:
    """One port of a run. ``sequence``: its place in the order of change, from 0.

    ``waiting``: nothing was sent to it. ``sent``: its new key is on disk, and the port may have it: a Set was sent, or
    the key may be in OpenSM's options file. Through OpenSM a port that failed stays ``sent``, with the reason.
    ``done``: a Get proved the new key. ``failed``: it has its old key, or its new one with another level or lease.
    ``skipped``: the run does not change it. ``undone``: a Get proved that it was rolled back.

    ``key_name`` and ``old_name``: its new and its former key in the key store, None if there is none (yet);
    ``old_name`` None means M_Key 0 if ``old_protect_bits`` is known, else that its former key is not known.
    ``old_protect_bits`` and ``old_lease_period``: the values from before the run.
    """

    sequence: int
    node_guid: int
    port_guid: int
    port: int
    state: RunPortState
    key_name: str | None
    old_name: str | None
    old_protect_bits: int | None
    old_lease_period: int | None
    reason: str

    @property
    def is_begun(self) -> bool:
        """Whether it may have its new key."""
        return self.key_name is not None and self.state in ("sent", "done", "failed")


@dataclass(frozen=True, slots=True)
class NewRunPort:
    """A port at the beginning of a run. ``skipped``: the reason why the run does not change it, "" if it does."""

    node_guid: int
    port_guid: int
    port: int
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class PortKeys:
    """The former setting of a port of a run (``old``), and the names of its keys in the key store. ``sequence``: its
    place in the run; ``key_name``: None leaves the name of the new key as it is; ``old_name``: None is M_Key 0."""

    sequence: int
    key_name: str | None
    old_name: str | None
    old: KeySetting


class Runs:
    """The runs in an open journal. All methods raise StoreError; their changes are on disk when they return, or when
    the journal's `Journal.in_one_transaction` ends."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._database = journal.database

    def begin(
        self,
        operation: int,
        options: RunOptions,
        ports: Sequence[NewRunPort],
        via: Mapping[str, Any] | None = None,
    ) -> None:
        """Record *operation* as a run, with its ports in the order of change. *via*: see `MKeyRun`."""
        found = [
            RunPort(
                *(sequence, port.node_guid, port.port_guid, port.port, "skipped" if port.skipped else "waiting"),
                *(None, None, None, None, port.skipped),
            )
            for sequence, port in enumerate(ports)
        ]
        self.put(operation, options, found, via)

    def put(self, operation: int, options: RunOptions, ports: Sequence[RunPort], via: Mapping[str, Any] | None) -> None:
        """Store a run of an earlier version of ibkeys. Its *ports* have results already, unlike those of `begin`."""
        bounds = options.at_once, options.first, options.max_failures
        kept = None if via is None else json.dumps(via)
        with self._journal.in_one_transaction():
            row = (operation, int(options.same), options.protect, options.lease, *bounds, kept)
            self._database.insert_all("runs", _RUN_COLUMNS, [row])
            self._database.insert_all(
                "run_ports", f"operation, {_PORT_COLUMNS}", [(operation, *_values(port)) for port in ports]
            )

    def last(self, here: Collection[int] = ()) -> MKeyRun | None:
        """Return the newest run, None if there is none. *here*: only runs with one of these port GUIDs."""
        query = "SELECT operation FROM runs JOIN operations ON operation = id ORDER BY started DESC, id DESC"
        numbers = (number for (number,) in self._database.query(query, of="runs"))
        return next((self.find(each) for each in numbers if not here or not self.guids(each).isdisjoint(here)), None)

    def is_last(self, operation: int) -> bool:
        """Return whether *operation* is a run, and no other began on its subnet after it: no run with a port in
        common."""
        last = self.last(self.guids(operation))
        return last is not None and last.id == operation

    def find(self, operation: int) -> MKeyRun | None:
        """Return *operation* as a run, None if it is no run."""
        rows = self._database.query(f"SELECT {_RUN_COLUMNS} FROM runs WHERE operation = ?", (operation,), of="runs")
        for _, same, *rest, via in rows:
            return MKeyRun(self._journal.find(operation), RunOptions(bool(same), *rest), self._via(via))
        return None

    def guids(self, run: int) -> set[int]:
        """Return the port GUIDs of a run."""
        rows = self._database.query("SELECT port_guid FROM run_ports WHERE operation = ?", (run,), of="run_ports")
        return {guid_number(guid) for (guid,) in rows}

    def operations(self) -> set[int]:
        """Return the numbers of all operations that are runs."""
        return {number for (number,) in self._database.query("SELECT operation FROM runs", of="runs")}

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
        """Record the progress of a run through a subnet manager: see `MKeyRun`."""
        self._database.execute("UPDATE runs SET via = ? WHERE operation = ?", (json.dumps(via), run))

    def ports(self, run: int) -> list[RunPort]:
        """Return the ports of a run in the order of change."""
        rows = self._database.query(
            f"SELECT {_PORT_COLUMNS} FROM run_ports WHERE operation = ? ORDER BY sequence", (run,), of="run_ports"
        )
        return [RunPort(sequence, guid_number(node), guid_number(guid), *rest) for sequence, node, guid, *rest in rows]

    def note_keys(self, run: int, keys: Iterable[PortKeys]) -> None:
        """Store the names of the new and the former key of ports, and their former level and lease."""
        self._database.execute_all(
            "UPDATE run_ports SET key_name = coalesce(?, key_name), old_name = ?, old_protect_bits = ?, "
            "old_lease_period = ? WHERE operation = ? AND sequence = ?",
            [(each.key_name, each.old_name, each.old.protect, each.old.lease, run, each.sequence) for each in keys],
        )

    def mark(self, run: int, sequence: int, state: RunPortState, reason: str = "") -> None:
        """Store the result of a port."""
        self._database.execute(
            "UPDATE run_ports SET state = ?, reason = ? WHERE operation = ? AND sequence = ?",
            (state, reason, run, sequence),
        )

    def set_bounds(self, run: int, options: RunOptions) -> None:
        """Store the new bounds with which a run goes on: ports at once, and when it stops."""
        self._database.execute(
            "UPDATE runs SET at_once = ?, first = ?, max_failures = ? WHERE operation = ?",
            (options.at_once, options.first, options.max_failures, run),
        )


def shared_key_name(ports: Iterable[RunPort]) -> str | None:
    """Return the name of the one key of a run with ``same``; None if no port of it was begun."""
    return next((port.key_name for port in ports if port.key_name is not None), None)


def _values(port: RunPort) -> tuple[object, ...]:
    return (
        *(port.sequence, guid_text(port.node_guid), guid_text(port.port_guid), port.port, port.state),
        *(port.key_name, port.old_name, port.old_protect_bits, port.old_lease_period, port.reason),
    )


_RUN_COLUMNS: Final = "operation, same, m_key_protect_bits, m_key_lease_period, at_once, first, max_failures, via"
_PORT_COLUMNS: Final = (
    "sequence, node_guid, port_guid, port, state, key_name, old_name, old_protect_bits, old_lease_period, reason"
)

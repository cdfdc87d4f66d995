"""Runs of mkey-deploy, mkey-rotate and mkey-remove: the data with which they are resumed or undone.

A run has options, and ports in the order in which they are changed. For each port the journal has the result so far,
and the names that the new and the former key have in the key store. Only the key store has the keys themselves.
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
"""The command whose runs set M_Key 0 on every port."""
DIRECT: Final = "direct"
"""The name of the method by which ibkeys itself sends the Sets."""
RunPortState = Literal["waiting", "sent", "done", "skipped", "failed", "undone"]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The user's options of a run.

    ``same``: all ports get one key. ``protect`` (0 to 3) and ``lease`` (seconds): None leaves the value of each port as
    it is. ``at_once``: the largest number of ports that are changed at the same time. ``first``: the number of ports
    after which the run pauses until the user resumes it; None for no pause. ``max_failures``: the number of failed
    ports at which the run stops.
    """

    same: bool = False
    protect: int | None = None
    lease: int | None = None
    at_once: int = 64
    first: int | None = None
    max_failures: int = 5


@dataclass(frozen=True, slots=True)
class MKeyRun:
    """One run. ``operation``: its record in the journal. ``via``: the data with which a run through a subnet manager is
    resumed, without any key; None for a run in which ibkeys itself sends the Sets."""

    operation: OperationRecord
    options: RunOptions
    via: Mapping[str, Any] | None = None

    @property
    def id(self) -> int:
        """The number of the run's operation."""
        return self.operation.id

    @property
    def command(self) -> str:
        """The command that began the run."""
        return self.operation.command

    @property
    def started(self) -> str:
        """The time at which the run began, as the journal writes it."""
        return self.operation.started

    @property
    def name(self) -> str:
        """The run for messages: ``operation 3 (mkey-rotate, begun 2026-11-20T09:30:00Z)``."""
        return f"operation {self.id} ({self.command}, begun {self.started})"

    @property
    def is_open(self) -> bool:
        """Whether the run, or its undo, has not ended: it still runs, was interrupted, or pauses after its first ports.
        An undo that has failed counts too."""
        return self.operation.state == "open" or self.operation.is_half_undone

    @property
    def sends_sets(self) -> bool:
        """Whether ibkeys itself sends the Sets."""
        return self.via is None

    @property
    def method(self) -> str:
        """The name of the method by which the run sets the keys."""
        return DIRECT if self.via is None else str(self.via.get("name"))

    @property
    def removes_keys(self) -> bool:
        """Whether the run is open, and a subnet manager sets M_Key 0 on every port for it: a removal, or the rollback
        of a deployment."""
        removes = "mkey-deploy" if self.via is not None and self.via.get("goes_back") else REMOVAL
        return self.is_open and self.via is not None and self.command == removes

    @property
    def is_left_over(self) -> bool:
        """Whether the run is open, or ended with failed ports."""
        return self.is_open or self.operation.state == "failed"


@dataclass(frozen=True, slots=True)
class RunPort:
    """One port of a run. ``sequence``: its place in the order of change, from 0. ``port``: the port number.

    ``state`` is one of: ``waiting``: nothing was sent to the port. ``sent``: the new key is on disk, and the port may
    have it, because a Set was sent, or the key may be in OpenSM's options file; in a run through OpenSM a failed port
    stays ``sent``, with the reason. ``done``: a Get proved the new key. ``failed``: the port has its old key, or the
    new one with another level or lease. ``skipped``: the run does not change the port. ``undone``: a Get proved that
    the port was rolled back. ``reason``: why the port was skipped or failed, else "".

    ``key_name`` and ``old_name``: the names of the new and the former key in the key store. ``key_name`` is None until
    there is a new key. ``old_name`` None means M_Key 0 if ``old_protect_bits`` is known, and else that the former key
    is not known. ``old_protect_bits`` and ``old_lease_period``: the values from before the run, None if not known.
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
        """Whether the port may have its new key."""
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
    """The names of the keys of a port of a run, and the setting that the port had before.

    ``sequence``: the place of the port in the run. ``key_name``: the new key in the key store; None leaves the recorded
    name as it is. ``old_name``: the former key in the key store; None stands for M_Key 0. ``old``: the former setting.
    """

    sequence: int
    key_name: str | None
    old_name: str | None
    old: KeySetting


class Runs:
    """The runs in an open journal. All methods raise StoreError. Their changes are on disk when they return, or, inside
    `Journal.in_one_transaction`, when that ends."""

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
        run_ports = [
            RunPort(
                *(sequence, port.node_guid, port.port_guid, port.port, "skipped" if port.skipped else "waiting"),
                *(None, None, None, None, port.skipped),
            )
            for sequence, port in enumerate(ports)
        ]
        self.put(operation, options, run_ports, via)

    def put(self, operation: int, options: RunOptions, ports: Sequence[RunPort], via: Mapping[str, Any] | None) -> None:
        """Store a run with ports that may have results already, such as a run of an earlier version of ibkeys."""
        bounds = options.at_once, options.first, options.max_failures
        via_text = None if via is None else json.dumps(via)
        with self._journal.in_one_transaction():
            row = (operation, int(options.same), options.protect, options.lease, *bounds, via_text)
            self._database.insert_all("runs", _RUN_COLUMNS, [row])
            self._database.insert_all(
                "run_ports", f"operation, {_PORT_COLUMNS}", [(operation, *_values(port)) for port in ports]
            )

    def last(self, among: Collection[int] = ()) -> MKeyRun | None:
        """Return the newest run, None if there is none. *among*: port GUIDs; only a run with at least one of them
        counts."""
        query = "SELECT operation FROM runs JOIN operations ON operation = id ORDER BY started DESC, id DESC"
        numbers = (number for (number,) in self._database.query(query, of="runs"))
        return next((self.find(each) for each in numbers if not among or not self.guids(each).isdisjoint(among)), None)

    def is_last(self, operation: int) -> bool:
        """Return whether *operation* is a run, and no run that began later has a port in common with it. Runs on other
        subnets have none."""
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

    def removals(self, operation: int) -> set[int]:
        """Return the port GUIDs whose M_Key *operation* removes: a run that removes all of them, or an undo of the run
        that gave these ports their first one."""
        undone = self._journal.find(operation).undoes
        run = self.find(operation if undone is None else undone)
        if run is None or (undone is None and run.command != REMOVAL):
            return set()
        return {port.port_guid for port in self.ports(run.id) if undone is None or port.old_name is None}

    def _via(self, text: str | None) -> Mapping[str, Any] | None:
        if text is None:
            return None
        try:
            via = jsonfile.loads(text.encode("utf-8", "surrogatepass"))
        except FileFormatError:
            via = None
        if not isinstance(via, dict):
            raise self._database.damage("the data to resume a run through a subnet manager cannot be read")
        return via

    def note_via(self, run: int, via: Mapping[str, Any]) -> None:
        """Store new data to resume a run through a subnet manager. *via*: see `MKeyRun`."""
        self._database.execute("UPDATE runs SET via = ? WHERE operation = ?", (json.dumps(via), run))

    def ports(self, run: int) -> list[RunPort]:
        """Return the ports of a run in the order of change."""
        rows = self._database.query(
            f"SELECT {_PORT_COLUMNS} FROM run_ports WHERE operation = ? ORDER BY sequence", (run,), of="run_ports"
        )
        return [RunPort(sequence, guid_number(node), guid_number(guid), *rest) for sequence, node, guid, *rest in rows]

    def note_keys(self, run: int, keys: Iterable[PortKeys]) -> None:
        """Store the names of the new and the former keys of ports of a run, and the former levels and leases."""
        self._database.execute_all(
            "UPDATE run_ports SET key_name = coalesce(?, key_name), old_name = ?, old_protect_bits = ?, "
            "old_lease_period = ? WHERE operation = ? AND sequence = ?",
            [(each.key_name, each.old_name, each.old.protect, each.old.lease, run, each.sequence) for each in keys],
        )

    def mark(self, run: int, sequence: int, state: RunPortState, reason: str = "") -> None:
        """Store the state of a port, with the *reason* for ``skipped``, ``failed`` or ``sent``."""
        self._database.execute(
            "UPDATE run_ports SET state = ?, reason = ? WHERE operation = ? AND sequence = ?",
            (state, reason, run, sequence),
        )

    def set_bounds(self, run: int, options: RunOptions) -> None:
        """Store the limits with which a run is resumed: ``at_once``, ``first`` and ``max_failures``."""
        self._database.execute(
            "UPDATE runs SET at_once = ?, first = ?, max_failures = ? WHERE operation = ?",
            (options.at_once, options.first, options.max_failures, run),
        )


def shared_key_name(ports: Iterable[RunPort]) -> str | None:
    """Return the name of the common key of *ports*, those of a run with ``same``; None if no port has a new key yet."""
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

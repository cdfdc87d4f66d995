"""The interface for reading that an open fabric and a snapshot share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ibkeys.classkeys.asking import Question
from ibkeys.classkeys.reading import ClassKeyReading
from ibkeys.client.address import AddressLike
from ibkeys.discovery.port_counters import ConstraintErrors, CountersOrError
from ibkeys.discovery.wanted import OnFound, Wanted
from ibkeys.fabric.readable_port import ReadablePort
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.mad.classes.gmp import KeyClass
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port


class Source(AbstractContextManager["Source"], Protocol):
    """An open fabric (`ibkeys.fabric.live.Fabric`), or a snapshot (`ibkeys.fabric.recorded.RecordedFabric`). Use it as
    a context manager.

    ``warnings``: what the user should know about the files that were read. Of a snapshot every read raises NotRecorded
    for what could not be read when it was taken.
    """

    warnings: list[str]

    @property
    def holds_m_keys(self) -> bool:
        """Whether an M_Key that is read here is one, and not its fingerprint."""

    def sweep(self, p_keys: bool = False, progress: OnFound | None = None, wanted: Wanted | None = None) -> Topology:
        """Return all nodes, links and ports with their PortInfo; the P_Key tables too when *p_keys* is true."""

    def read_alias_guids(self, found: Topology, named: Iterable[int]) -> None:
        """Learn the alias GUIDs of *found*, which `sweep` gave, if one of the GUIDs *named* is no end port's own."""

    def find_port(self, address: AddressLike = None, portnum: int | None = None) -> ReadablePort:
        """Return one port to be read. Raises AddressError, UsageError, Unreachable."""

    def handle(self, port: Port) -> ReadablePort:
        """Return one port to be read, which a sweep found."""

    def read_port_counters(
        self, ports: Iterable[Port], pkey_index: int | None = None
    ) -> list[tuple[Port, CountersOrError]]:
        """Return PortCounters of *ports*; an error stands where one could not be read."""

    def read_constraint_errors(
        self, ports: Iterable[Port], pkey_index: int | None = None
    ) -> dict[Port, ConstraintErrors]:
        """Return of each of *ports*, which are switch ports, its constraint errors, or why there are none."""

    def class_key_questions(
        self, ports: Iterable[Port], classes: Iterable[KeyClass], *, ask_unkeyed: bool = False
    ) -> list[Question]:
        """Return what `ask_class_keys` would ask of the end ports among *ports*, so that one can say what it costs."""

    def ask_class_keys(self, questions: Sequence[Question], pkey_index: int | None = None) -> list[ClassKeyReading]:
        """Return what ports say of keys of other classes than subnet management."""

    def take_snapshot(self, progress: OnFound | None = None) -> Snapshot:
        """Return all that a snapshot holds, read in one sweep."""

    def close(self) -> None:
        """Release all resources. May be called twice."""

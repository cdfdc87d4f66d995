"""The options of a new change of OpenSMs' files, and the request for one that was begun."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ibkeys.cli import options
from ibkeys.cli.changing import writer_of
from ibkeys.cli.left_locks import remove_left_locks
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import AskedChange, SmHosts
from ibkeys.cli.options.declaring import F
from ibkeys.cli.sm.hosts import hosts_of_operation
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.change.writer import ChangeWriter
    from ibkeys.managers.hosts import SmHost
    from ibkeys.store.journal import OperationRecord


@dataclass(frozen=True, slots=True)
class AskedOfHosts(AskedChange):
    """The options of a change that may go through OpenSMs, with the hosts of the OpenSMs."""

    sm_hosts: SmHosts


@dataclass(frozen=True, slots=True)
class AskedOfManagers(AskedOfHosts):
    """The options of a change of OpenSMs' files.

    ``sm_wait``: seconds without progress after which ibkeys gives an OpenSM up.
    """

    sm_wait: int


def asked_of_managers(name: str, kind: type[AskedOfManagers]) -> Callable[[F], F]:
    """Return the decorator for a command that changes OpenSMs' files.

    It passes the options as an object of *kind*, named *name*.
    """
    return options.group(
        name, kind, options.wait_for_sm, options.sm_hosts, options.changing, options.format, options.fabric
    )


@dataclass(frozen=True, slots=True)
class FilesRequest(AskedOfManagers, ABC):
    """The request for a change of OpenSMs' files.

    ``begun``: the operation to finish, undo or close; None for a new change.
    """

    begun: OperationRecord | None = None

    @abstractmethod
    def finish(self) -> int:
        """Finish the change that was begun, and return the exit code."""

    @abstractmethod
    def take_back(self) -> int:
        """Undo the change that was begun, or finish its undo, and return the exit code."""

    @abstractmethod
    def end_record(self) -> int:
        """Close the change that was begun, and return the exit code.

        This is for a change whose values another program or administrator has changed since.
        """

    @property
    def record(self) -> OperationRecord:
        """Return the operation of the change that was begun."""
        assert self.begun is not None  # only a new change has no record
        return self.begun

    def hosts(self) -> list[SmHost]:
        """Return the hosts that the options name, or else those of the change that was begun."""
        return hosts_of_operation(self.where, self.sm_hosts, None if self.begun is None else self.begun.id)

    @contextmanager
    def open_writer(self, command: str) -> Iterator[ChangeWriter]:
        """Open the fabric, and yield the writer of *command*."""
        goes_on = None if self.begun is None else self.begun.id
        with (
            open_fabric(self.where, changing=True) as fabric,
            writer_of(fabric, command, self.consent, goes_on) as writer,
        ):
            yield writer

    def remove_locks(self, writer: ChangeWriter) -> None:
        """Remove the locks that the change left on its hosts."""
        remove_left_locks(self.where, writer.command, self.hosts())


def ended_error(record: OperationRecord) -> UsageError:
    """Return the error for an operation that has ended."""
    return UsageError(f"operation {record.id} ({record.command}) has ended")

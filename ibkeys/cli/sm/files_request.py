"""The options of a new change of OpenSMs' files, and the request to finish, undo or close an earlier change."""

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
from ibkeys.cli.options import ChangeOptions, SmHosts
from ibkeys.cli.options.declaring import F
from ibkeys.cli.sm.hosts import hosts_of_operation
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.change.writer import ChangeWriter
    from ibkeys.managers.hosts import SmHost
    from ibkeys.store.journal import OperationRecord


@dataclass(frozen=True, slots=True)
class ChangeWithHostsOptions(ChangeOptions):
    """The options of a change that may go through OpenSMs, with the hosts of the OpenSMs."""

    sm_hosts: SmHosts


@dataclass(frozen=True, slots=True)
class FilesChangeOptions(ChangeWithHostsOptions):
    """The options of a change of OpenSMs' files.

    ``sm_wait``: seconds without progress after which ibkeys gives an OpenSM up.
    """

    sm_wait: int


def files_change_options(name: str, kind: type[FilesChangeOptions]) -> Callable[[F], F]:
    """Return the decorator for a command that changes OpenSMs' files.

    The command gets the options as one object of *kind*, as its argument *name*.
    """
    return options.group(
        name, kind, options.wait_for_sm, options.sm_hosts, options.changing, options.format, options.fabric
    )


@dataclass(frozen=True, slots=True)
class FilesRequest(FilesChangeOptions, ABC):
    """The request for a change of OpenSMs' files.

    ``earlier``: the operation to finish, undo or close; None for a new change.
    """

    earlier: OperationRecord | None = None

    @abstractmethod
    def finish(self) -> int:
        """Finish the earlier change, and return the exit code."""

    @abstractmethod
    def take_back(self) -> int:
        """Undo the earlier change, or finish its undo, and return the exit code."""

    @abstractmethod
    def end_record(self) -> int:
        """Close the operation of the earlier change, and return the exit code.

        This is for a change whose values another program or administrator has changed since.
        """

    @property
    def record(self) -> OperationRecord:
        """Return the operation of the earlier change."""
        assert self.earlier is not None  # only a new change has no record
        return self.earlier

    def hosts(self) -> list[SmHost]:
        """Return the hosts that the options name; if they name none, the hosts of the earlier change."""
        return hosts_of_operation(self.where, self.sm_hosts, None if self.earlier is None else self.earlier.id)

    @contextmanager
    def open_writer(self, command: str) -> Iterator[ChangeWriter]:
        """Open the fabric, and yield the writer of *command*. Raises the errors of `open_fabric` and `writer_of`."""
        continued = None if self.earlier is None else self.earlier.id
        with (
            open_fabric(self.where, changing=True) as fabric,
            writer_of(fabric, command, self.consent, continued) as writer,
        ):
            yield writer

    def remove_locks(self, writer: ChangeWriter) -> None:
        """Remove the locks that the change left on its hosts."""
        remove_left_locks(self.where, writer.command, self.hosts())


def ended_error(record: OperationRecord) -> UsageError:
    """Return the error for an operation that has ended."""
    return UsageError(f"operation {record.id} ({record.command}) has ended")

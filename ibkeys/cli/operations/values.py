"""The work of `resume` for an operation that sets values of single ports."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ibkeys.cli.changing import MissingPorts, change, end_overtaken, writer_of
from ibkeys.cli.documents.m_key import MKEY_SET
from ibkeys.cli.documents.p_key import PKEY_ADD, PKEY_REMOVE, PKEY_SET
from ibkeys.cli.documents.port import COUNTERS_CLEAR, ENFORCE_SET
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import ChangeOptions

if TYPE_CHECKING:
    from ibkeys.cli.operations.requested import RequestedOperation

_DOCUMENTS: Final = {
    each.name: each for each in (PKEY_SET, PKEY_ADD, PKEY_REMOVE, ENFORCE_SET, COUNTERS_CLEAR, MKEY_SET)
}


def finish(requested: RequestedOperation) -> int:
    """Set the values that are left, as the command that began the operation does, and return the exit code. Raises as
    `ibkeys.cli.changing.change`."""
    from ibkeys.automation.values import plan_values

    record, given = requested.target.record, requested.command_options
    document = _DOCUMENTS.get(record.command, PKEY_SET)
    missing = MissingPorts() if document is COUNTERS_CLEAR else None
    command_options = ChangeOptions(given.where, given.consent, given.format)
    with open_fabric(given.where, changing=True) as fabric:
        return change(
            fabric, document, command_options, lambda writer: plan_values(writer, record), missing, record=record
        )


def end_record(requested: RequestedOperation) -> int:
    """End the record of the operation, and return the exit code. Raises UsageError if there is no reason to end it, and
    Refused without confirmation."""
    from ibkeys.automation.values import why_it_may_end

    record, given = requested.target.record, requested.command_options
    with (
        open_fabric(given.where, changing=True) as fabric,
        writer_of(fabric, record.command, given.consent, record.id) as writer,
    ):
        why = why_it_may_end(writer, record)
        close = partial(requested.close_record, fabric.stores.journal)
        return end_overtaken(given.consent, why, close, f"operation {record.id}: `ibkeys resume {record.id}`")

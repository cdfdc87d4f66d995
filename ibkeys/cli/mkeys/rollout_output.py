"""The output of commands that proceed port by port: rows for programs, and the steps of a run through OpenSM."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits
from ibkeys.cli.documents.field import Document
from ibkeys.cli.exits import write_exact
from ibkeys.cli.render import write_rows

if TYPE_CHECKING:
    from ibkeys.mkeys.planning_options import RunListener


@dataclass(slots=True)
class ResultRows:
    """Writes the result of each port for programs, before the ``document`` of the command.

    As JSON each result is written at once, on a line of its own. As CSV all results are written at the end:
    ``csv_rows`` holds them until then.
    """

    document: Document
    format: str
    csv_rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> bool:
        """Write *row* as JSON, or keep it for the end. Return whether the output is for programs.

        If it is, the caller writes no text for people.
        """
        if self.format == "json":
            write_exact(json.dumps(row))
            exits.flush()
        else:
            self.csv_rows.append(row)
        return self.format != "table"

    def end(self, content: dict[str, Any]) -> bool:
        """Write the JSON document with *content*, or all rows as CSV. Return whether the output is for programs."""
        if self.format == "csv":
            write_rows(self.document.rows, self.csv_rows)
            return True
        return self.format == "json" and self.add({"schema": self.document.schema, **content})


def run_listener() -> RunListener:
    """Return a listener that writes the progress of a run through OpenSM to standard error.

    It writes the user's own tasks. It writes each step after its first look, and again when a later look finds it
    complete.
    """
    from ibkeys.mkeys.planning_options import RunListener

    last_state: tuple[str, bool] = ("", False)

    def tell(step: str, done: int, whole: int) -> None:
        nonlocal last_state
        state = (step, done == whole)
        if state != last_state:
            last_state = state
            exits.warn(f"{step}: {done} of {whole}", "step")

    return RunListener(lambda text: exits.warn(text, "to do"), tell)

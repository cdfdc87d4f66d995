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
    from ibkeys.mkeys.opensm.through import RunListener


@dataclass(slots=True)
class ResultRows:
    """Writes the result of each port for programs, before the *document*.

    As JSON each result is a line at once; as CSV all are written at the end.
    """

    document: Document
    format: str
    kept: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> bool:
        """Write a row, or keep it for the end.

        Return whether the output is for programs, so that nothing else is written.
        """
        if self.format == "json":
            write_exact(json.dumps(row))
            exits.flush()
        else:
            self.kept.append(row)
        return self.format != "table"

    def end(self, content: dict[str, Any]) -> bool:
        """Write *content*, the JSON document after the rows, or all rows as CSV.

        Return whether the output is for programs.
        """
        if self.format == "csv":
            write_rows(self.document.rows, self.kept)
            return True
        return self.format == "json" and self.add({"schema": self.document.schema, **content})


def run_listener() -> RunListener:
    """Return a listener that writes the progress of a run through OpenSM to standard error.

    It writes the tasks of the user, and each step once when it begins and once when all ports have it.
    """
    from ibkeys.mkeys.opensm.through import RunListener

    last_state: tuple[str, bool] = ("", False)

    def tell(step: str, done: int, whole: int) -> None:
        nonlocal last_state
        state = (step, done == whole)
        if state != last_state:
            last_state = state
            exits.warn(f"{step}: {done} of {whole}", "step")

    return RunListener(lambda text: exits.warn(text, "to do"), tell)

"""The output of a watch: events for standard output and the user's command, messages for standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from ibkeys.change.interrupts import Interrupts
from ibkeys.cli import exits, streams
from ibkeys.cli.documents.events import WATCH
from ibkeys.cli.watch.event_lines import EventLines
from ibkeys.printable import counted
from ibkeys.watch.commands import EventCommand
from ibkeys.watch.event import Event
from ibkeys.watch.systemd import Notifier
from ibkeys.watch.watching import TURN, Summary


class ReaderGone(Exception):
    """Raised when the reader of standard output has gone."""


class EventWriter:
    """Writes events to standard output, passes them to the user's command, and writes messages to standard error.

    It is the `EventSink` of a watch. *verbose*: whether events in a table have GUIDs and LIDs. *commands*: the user's
    command for each event; None: there is none. *notifier*: tells systemd the state of the watch.
    """

    def __init__(
        self, format: str, verbose: bool, commands: EventCommand | None, interrupts: Interrupts, notifier: Notifier
    ) -> None:
        self._is_json = format == "json"
        self._lines = EventLines(verbose)
        self._commands, self._interrupts, self._notifier = commands, interrupts, notifier
        self._is_ending = False
        self._unwritten = 0

    def ready(self, text: str) -> None:
        """Write that the watch has begun, and notify systemd."""
        self.say(text)
        self._notifier.ready(text)

    def tell(self, event: Event) -> None:
        """Write *event*, and pass it to the user's command if there is one. Raises the errors of `turn`."""
        document = json.dumps({"schema": WATCH.schema, **event.to_json()})
        self._write([document] if self._is_json else self._lines.lines_of(event))
        if self._commands is not None:
            self._commands.give(document)

    def _write(self, lines: Sequence[str]) -> None:
        """Write each of *lines* when standard output has room for it; meanwhile signals are handled.

        So a reader that hangs cannot keep a signal from ending the watch. While the watch ends, a line without room is
        only counted.
        """
        for line in lines:
            while not (room := streams.takes_more(sys.stdout, 0 if self._is_ending else TURN)) and not self._is_ending:
                self.turn()
            if room:
                (exits.write_exact if self._is_json else exits.write)(line)
                exits.flush()
            self._unwritten += not room

    def say(self, text: str) -> None:
        """Write a message about the watch itself."""
        exits.note(text)

    def stopping(self) -> None:
        """Notify systemd that the watch ends. Later writes do not wait for the reader of standard output any more."""
        self._is_ending = True
        self._notifier.stopping()

    def turn(self) -> None:
        """Handle signals, the user's commands and systemd's watchdog.

        Raises KeyboardInterrupt; ReaderGone if standard output has no reader and there is no user's command.
        """
        self._interrupts.check()
        self._notifier.alive()
        streams.look_for_reader(sys.stdout)
        if self._commands is not None:
            self._commands.tend()
        elif streams.failure_of(sys.stdout) is not None:
            raise ReaderGone

    def end(self, summary: Summary) -> None:
        """Wait for the user's commands that still run, then write the summary: as JSON too if that is the format."""
        if self._commands is not None:
            self._commands.finish()
        if self._is_json:
            self._write([json.dumps({"schema": WATCH.schema, "summary": asdict(summary)})])
        if self._unwritten:
            self.say(f"standard output has no reader: {counted(self._unwritten, 'line')} not written")
        say = self.say if summary.lost or summary.failed_sweeps else exits.detail
        say(
            f"{counted(summary.told, 'line')} printed, {counted(summary.folded, 'repeat')} folded; "
            f"{counted(summary.reports, 'Report')}, {summary.lost} lost; {counted(summary.sweeps, 'sweep')}, "
            f"{summary.failed_sweeps} failed"
        )

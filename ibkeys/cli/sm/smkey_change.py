"""The requests of `smkey-rotate`, and of finishing, undoing or closing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits
from ibkeys.cli.changing import ShownChange, confirm, end_overtaken, end_record
from ibkeys.cli.documents.sm_keys import SMKEY_ROTATE
from ibkeys.cli.exits import write
from ibkeys.cli.render import write_json, write_rows
from ibkeys.cli.sm.files_request import FilesRequest, ended_error
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.change.interrupts import Interrupts
    from ibkeys.change.writer import ChangeWriter
    from ibkeys.keys.smkey import SMKey
    from ibkeys.smkeys.key_holders import SmKeyKind
    from ibkeys.smkeys.planning import KeyChange

COMMAND: Final = "smkey-rotate"
_KINDS: Final[tuple[SmKeyKind, ...]] = ("sm_key", "sa_key")
_NAME: Final = "the interrupted change of sm_key and sa_key"


class SmKeyRequest(FilesRequest):
    """The request for a change of sm_key and sa_key."""

    def begin(self, new_keys: Mapping[SmKeyKind, SMKey]) -> int:
        """Begin a change of sm_key and sa_key, and return the exit code.

        *new_keys*: the keys that the user chose; the others are generated. If the journal was lost, the change whose
        keys are in the key store is finished instead. Raises Refused for an interlock, for an open change and without
        confirmation; and the errors of the change.
        """
        from ibkeys.smkeys.recorded_changes import refuse_while_open

        with self.open_writer(COMMAND) as writer:
            refuse_while_open(writer, {writer.fabric.own_guid})
            return self._carry_out(writer, new_keys)

    def finish(self) -> int:
        """Finish the earlier change, with the same keys, and return the exit code."""
        from ibkeys.smkeys.recorded_changes import require_open

        with self.open_writer(COMMAND) as writer:
            require_open(writer, self.record.id)
            return self._carry_out(writer, {})

    def take_back(self) -> int:
        """Give up the keys of the earlier change, and return the exit code.

        Raises Refused if a file has them, and without confirmation; UsageError or StoreError if the change has ended.
        """
        from ibkeys.change.interrupts import Interrupts
        from ibkeys.smkeys.giving_up import give_up, refuse_ended, refuse_written
        from ibkeys.smkeys.recorded_changes import require_open

        refuse_ended(self.record)
        with self.open_writer(COMMAND) as writer:
            require_open(writer, self.record.id)
            change = self._plan(writer, {}, Interrupts())
            refuse_written(writer, change, self.record.id)
            if self.consent.dry_run:
                write("dry run: the new keys would be given up, because no file has them; nothing was changed")
                return exits.SAYS_NO
            confirm(self.consent, question="No file has the new keys. Give them up?")
            exits.warn_each(give_up(writer, change, self.record.id), "note")
            write(f"{_NAME} was undone: no file has the new keys, which stay in the key store")
            return exits.DONE

    def end_record(self) -> int:
        """Close the change, and return the exit code.

        This is for a change whose keys another program or administrator has changed since, or that can neither be
        finished nor undone. Raises UsageError for any other change, and for one that has ended; Refused without
        confirmation.
        """
        from ibkeys.change.interlocks.overtaken import why_overtaken
        from ibkeys.change.interrupts import Interrupts
        from ibkeys.smkeys.recorded_changes import finish_command, why_not_open

        with self.open_writer(COMMAND) as writer:
            close = partial(self._close, writer)
            if self.record.state in ("done", "undone"):
                raise ended_error(self.record)
            why = why_not_open(writer, self.record.id)
            if why is not None:
                exits.warn(str(why), "note")
                return end_record(self.consent, partial(self._close_only, writer))
            operation = f"{_NAME}: `{finish_command(self.record.id)}` finishes it"
            overtaken = why_overtaken(lambda: self._plan(writer, {}, Interrupts()))
            return end_overtaken(self.consent, overtaken, close, operation)

    def _close(self, writer: ChangeWriter) -> str:
        """Close the change and give up its keys; return its name."""
        from ibkeys.smkeys.overtaken import close_overtaken

        close_overtaken(writer, self.record.id)
        self.remove_locks(writer)
        return _NAME

    def _close_only(self, writer: ChangeWriter) -> str:
        """Close a change without giving up its keys, and return its name. Raises UsageError if it has ended."""
        from ibkeys.store.journal import Journal

        with Journal(writer.fabric.stores.journal) as journal:
            if journal.find(self.record.id).state in ("done", "undone"):  # another command has closed it since
                raise ended_error(self.record)
            journal.set_state(self.record.id, "undone")
        self.remove_locks(writer)
        return f"operation {self.record.id} ({writer.command})"

    def _plan(self, writer: ChangeWriter, new_keys: Mapping[SmKeyKind, SMKey], interrupts: Interrupts) -> KeyChange:
        from ibkeys.managers.site import reach
        from ibkeys.smkeys.planning import plan_change
        from ibkeys.smkeys.run import SmKeySettings

        with_notes = bool(self.where.verbose) or sys.stderr.isatty()
        settings = SmKeySettings(
            self.sm_wait, check=interrupts.check, say=exits.note if with_notes else lambda text: None
        )
        return plan_change(writer, reach(writer.enter, self.hosts()), new_keys, settings, self.earlier is None)

    def _carry_out(self, writer: ChangeWriter, new_keys: Mapping[SmKeyKind, SMKey]) -> int:
        from ibkeys.change.interrupts import Interrupts

        interrupts = Interrupts()
        plan = self._plan(writer, new_keys, interrupts)
        return _ShownKeyChange(writer, plan, self.consent, self.format, interrupts, self.where.show_keys).carry_out()


@dataclass
class _ShownKeyChange(ShownChange):
    """A change of the keys, shown by its files."""

    plan: KeyChange
    interrupts: Interrupts
    show_keys: bool

    def __post_init__(self) -> None:
        self.document = self.plan.to_json()

    def show(self, put: Callable[[str], None]) -> None:
        """Write the options files that change, and the time that the change may take."""
        files, window = self.document["files"], self.document["polling_seconds"]
        put(f"new sm_key and sa_key in {counted(len(files), 'options file')}:")
        for shown, file in zip(files, self.plan.managers.files, strict=True):
            changes = ", ".join(f"{kind} {shown['changes'][kind]}" for kind in _KINDS)
            put(f"  {file.name}: at present {changes}; read by {', '.join(shown['opensms'])}")
        if window is not None:
            put(f"all of them within half of {window:g} s: after that time a standby would become master")

    def apply(self) -> None:
        """Make the change. A signal that asks to stop takes effect between two steps."""
        already_written = len(self.plan.notes)
        try:
            with self.interrupts:
                self.writer.apply(self.plan)
        finally:
            exits.warn_each(self.plan.notes[already_written:], "note")

    def report(self, applied: bool) -> int:
        """Write the result, with the keys if -K was given, and return the exit code."""
        keys = {kind: self.plan.new[kind].hex() if self.show_keys and applied else None for kind in _KINDS}
        if self.format == "json":
            head: dict[str, Any] = {"dry_run": self.consent.dry_run, "applied": applied, "keys": keys}
            write_json(SMKEY_ROTATE, {**head, **self.document, "notes": self.plan.notes})
        elif self.format == "csv":
            write_rows(SMKEY_ROTATE.rows, ({**each, **each["changes"]} for each in self.document["files"]))
        elif applied:
            for kind, key in keys.items():
                if key is not None:
                    write(f"{kind}: {key}")
            write("done: the SA answers to the new sa_key and to no former one, and there is one master")
        else:
            write("dry run: nothing was changed")
        return exits.SAYS_NO if self.consent.dry_run else exits.DONE

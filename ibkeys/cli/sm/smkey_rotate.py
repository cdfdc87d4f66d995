"""New sm_key and sa_key on all hosts with an OpenSM."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits, options
from ibkeys.cli.changing import ShownChange, end_overtaken, writer_of
from ibkeys.cli.exits import write
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import Changing, SmHosts, Where
from ibkeys.cli.render import write_csv, write_json
from ibkeys.cli.secrets import read_new_sm_key
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.change.interrupts import Interrupts
    from ibkeys.change.writer import Writer
    from ibkeys.keys.smkey import SMKey
    from ibkeys.smkeys.managers import Kind
    from ibkeys.smkeys.planning import KeyChange

_COLUMNS: Final = ("host", "path", "sm_key", "sa_key")
_KINDS: Final[tuple[Kind, ...]] = ("sm_key", "sa_key")


@command("smkey-rotate")
@options.via_opensm_only("Through the options files of OpenSM")
@options.option(
    "--new-sm-key", env=False, metavar="@FILE|-", help="The sm_key: @FILE reads it, '-' asks.  [default: generated]"
)
@options.option(
    "--new-sa-key", env=False, metavar="@FILE|-", help="The sa_key: @FILE reads it, '-' asks.  [default: generated]"
)
@options.option(
    "--overtaken",
    env=False,
    is_flag=True,
    help="End the record of an interrupted change where somebody else has changed the keys since: no file is written.",
)
@options.wait_for_sm
@options.sm_hosts
@options.changing
@options.format
@options.fabric
def smkey_rotate(
    where: Where,
    consent: Changing,
    sm_hosts: SmHosts,
    sm_wait: int,
    format: str,
    new_sm_key: str | None,
    new_sa_key: str | None,
    overtaken: bool,
) -> int:
    """Set a new sm_key and sa_key for every OpenSM of the subnet.

    Subnet managers recognise each other by the sm_key; the sa_key is what the SA trusts. OpenSM's default of both is 1.
    Name every host with an OpenSM (--sm-host). The new keys are saved in the key store before any file is changed. All
    files are first written beside the old ones; then all are replaced and every OpenSM is signalled, within the time
    after which a standby would take over. At the end it verifies that the SA answers to the new key, that it answers to
    no former key, and that there is one master. Run the same command again to finish an interrupted change.
    """
    given = _given(new_sm_key, new_sa_key)
    from ibkeys.change.interrupts import Interrupts
    from ibkeys.sm.site import reach
    from ibkeys.smkeys.planning import COMMAND, Settings, plan_change

    with open_fabric(where, changing=True) as fabric, writer_of(fabric, COMMAND, consent) as writer:
        interrupts = Interrupts()
        tells = bool(where.verbose) or sys.stderr.isatty()
        settings = Settings(sm_wait, check=interrupts.check, say=_say if tells else lambda text: None)
        reached = reach(writer.enter, hosts_of(where, sm_hosts))
        make_plan = partial(plan_change, writer, reached, given, settings)
        if overtaken:
            return end_overtaken(
                consent, make_plan, partial(_close, writer), "an interrupted change: type the command without it"
            )
        plan = make_plan()
        return _ShownKeyChange(writer, plan, consent, format, interrupts, where.show_keys).carry_out()


def _close(writer: Writer) -> str:
    from ibkeys.smkeys.overtaken import close_overtaken
    from ibkeys.smkeys.planning import COMMAND

    close_overtaken(writer, COMMAND)
    return "the interrupted change of sm_key and sa_key"


def _given(new_sm_key: str | None, new_sa_key: str | None) -> dict[Kind, SMKey]:
    """Return the keys that the user gives."""
    texts: dict[Kind, str | None] = {"sm_key": new_sm_key, "sa_key": new_sa_key}
    return {
        kind: read_new_sm_key(text, f"--new-{kind.replace('_', '-')}")
        for kind, text in texts.items()
        if text is not None
    }


def _say(text: str) -> None:
    exits.warn(text, "note")


class _ShownKeyChange(ShownChange):
    """A change of the keys, shown by its files."""

    plan: KeyChange

    def __init__(
        self,
        writer: Writer,
        plan: KeyChange,
        consent: Changing,
        format: str,
        interrupts: Interrupts,
        show_keys: bool,
    ) -> None:
        super().__init__(writer, plan, consent, format)
        self._interrupts = interrupts
        self._show_keys = show_keys
        self._document = plan.to_json()

    def show(self, put: Callable[[str], None]) -> None:
        """Write which files change, and how long that may take."""
        files, window = self._document["files"], self._document["polling_seconds"]
        put(f"new sm_key and sa_key in {counted(len(files), 'options file')}:")
        for shown, file in zip(files, self.plan.managers.files, strict=True):
            changes = ", ".join(f"{kind} {shown['changes'][kind]}" for kind in _KINDS)
            put(f"  {file.name}: {changes} now; read by {', '.join(shown['opensms'])}")
        if window is not None:
            put(f"all of them within half of {window:g} s: after that time a standby would become master")

    def apply(self) -> None:
        """Make the change. A signal that asks to stop is heeded between two steps."""
        told = len(self.plan.notes)
        try:
            with self._interrupts:
                self.writer.apply(self.plan)
        finally:
            for note in self.plan.notes[told:]:
                exits.warn(note, "note")

    def report(self, applied: bool) -> int:
        """Say that it is done, with the keys if they were asked for."""
        keys = {kind: self.plan.new[kind].hex() if self._show_keys and applied else None for kind in _KINDS}
        if self.format == "json":
            head: dict[str, Any] = {"dry_run": self.consent.dry_run, "applied": applied, "keys": keys}
            write_json(self.writer.command, {**head, **self._document, "notes": self.plan.notes})
        elif self.format == "csv":
            write_csv(_COLUMNS, ({**each, **each["changes"]} for each in self._document["files"]))
        elif applied:
            for kind, key in keys.items():
                if key is not None:
                    write(f"{kind}: {key}")
            write("done: the SA answers to the new sa_key and to no former one, and there is one master")
        else:
            write("dry run: nothing was changed")
        return exits.SAYS_NO if self.consent.dry_run else exits.DONE

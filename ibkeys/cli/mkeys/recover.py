"""The command `mkey-recover`: shows the work and cost of a recovery, runs it, and reports each recovered port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits, options
from ibkeys.cli.changing import confirm, say_would_be_refused, writer_of
from ibkeys.cli.documents.key_runs import MKEY_RECOVER
from ibkeys.cli.exits import write
from ibkeys.cli.help.command import command
from ibkeys.cli.mkeys import key_options
from ibkeys.cli.mkeys.rollout_output import ResultRows
from ibkeys.cli.opening import load, open_fabric
from ibkeys.cli.options import ChangeOptions, Where
from ibkeys.cli.render import UNREADABLE, heading_of, write_document
from ibkeys.cli.screen.progress import ProgressLine
from ibkeys.cli.secrets import read_m_keys
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.fabric.live import LiveFabric
    from ibkeys.mkeys.recovery.outlook import Outlook
    from ibkeys.mkeys.recovery.recover import Recovery
    from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
    from ibkeys.mkeys.recovery.result import RecoveryResult, Status
from ibkeys.printable import counted
from ibkeys.topology.nodes import LinkEnd

_COMMAND = "mkey-recover"
_HOW_TO_CONTINUE = "leases that were started keep running: run the same command again to continue"


@dataclass(frozen=True, slots=True)
class _RecoverOptions(ChangeOptions):
    """The options of `mkey-recover`: the keys to try, the time to wait, and the values to set on recovered ports."""

    topology: str | None = options.field(
        "--topology", metavar="SNAPSHOT", help="Snapshot that has the links to nodes behind protected switches."
    )
    try_keys: tuple[str, ...] = options.repeated_field(
        "--try-keys", "FILE", "File of keys to try, one per line; repeatable."
    )
    tries: int = options.number_field(
        "--tries",
        0,
        1000,
        "N",
        "Maximum number of further keys of the store, and of --try-keys, to try on one port.",
        default=8,
    )
    wait: int | None = options.number_field(
        "--wait", 1, 1_000_000, "SECONDS", "Give up on a silent port after this time."
    )
    set_new: bool = options.flag_field("--set-new", help="Set a new, generated M_Key on each recovered port.")
    new_m_key: str | None = options.field_of(
        key_options.new_m_key("Set this M_Key: @FILE reads it, '-' asks for it without echo.")
    )
    protect: int | None = options.field_of(key_options.protect("Set M_KeyProtectBits on recovered ports."))
    lease: int | None = options.field_of(key_options.lease("Set M_KeyLeasePeriod on recovered ports."))


@command(_COMMAND)
@options.group("command_options", _RecoverOptions, options.changing, options.format, options.fabric)
def mkey_recover(command_options: _RecoverOptions) -> int:
    """Recover ports whose M_Key is lost: try keys, or wait.

    Reads the whole fabric. Shows which ports do not answer or hide an unknown key, and what probing them would cost.
    Asks before it continues. Keys that may fit are tried. The leases of all other ports are started; this is done at
    once for all ports if the links are known (--topology, --security-keys, key store). A port whose lease has run out
    shows its key, which is saved in the key store. Nothing is set on a port without --set-new, --new-m-key, --protect
    or --lease.
    """
    from ibkeys.change.plan import Plan
    from ibkeys.mkeys.recovery.recover import plan_recovery
    from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions

    where, consent, format = command_options.where, command_options.consent, command_options.format
    if command_options.set_new and command_options.new_m_key is not None:
        raise UsageError("--set-new generates a key for each port, --new-m-key gives one for all: choose one")
    keys_to_try = tuple(key for file in command_options.try_keys for key in read_m_keys(Path(file), "--try-keys"))
    key = key_options.read_new_m_key(command_options.new_m_key)
    with open_fabric(where, changing=True) as fabric, writer_of(fabric, _COMMAND, consent) as writer:
        links, names = _topology(fabric, command_options.topology)
        recovery_options = RecoveryOptions(
            command_options.set_new,
            key,
            command_options.protect,
            command_options.lease,
            keys_to_try,
            command_options.tries,
            command_options.wait,
            names,
        )
        recovery = plan_recovery(writer, links, recovery_options)
        outlook = recovery.outlook()
        if format == "table" or not consent.dry_run:
            for line in _in_words(outlook, recovery_options):
                (write if format == "table" else exits.warn)(line)
        if consent.dry_run:
            return _dry_run(writer, recovery, outlook, format)
        if outlook.is_empty:
            recovery.close_cut_off()
            return _finish(recovery, ResultRows(MKEY_RECOVER, format))
        writer.check(Plan(_COMMAND, objections=recovery.objections()))
        exits.require_stdout()
        confirm(consent, question="Recover these ports?")
        return _run(where, recovery, format)


def _topology(fabric: LiveFabric, snapshot: str | None) -> tuple[dict[LinkEnd, LinkEnd], dict[int, str]]:
    """Return the links that are known, each end with its other end, and the names of nodes by node and port GUID.

    Both come from the key ring and the node name map, and from *snapshot*, the file of --topology (None: no file).
    Raises the errors of `load`.
    """
    from ibkeys.mkeys.recovery.routes import links_of

    links, names = dict(fabric.ring.neighbors), dict(fabric.node_names)
    if snapshot is not None:
        recorded = load(Path(snapshot)).fabric
        links |= links_of(recorded)
        for node in recorded.nodes:
            for guid in {node.guid, *(port.guid for port in node.ports.values())}:
                if guid and node.description:
                    names.setdefault(guid, node.description)
    return links, names


def _in_words(outlook: Outlook, recovery_options: RecoveryOptions) -> Iterator[str]:
    if outlook.is_empty:
        yield "no key is missing: every port that answers shows a known key, or has none"
        return
    if outlook.shown:
        yield f"{counted(outlook.shown, 'port')} with an unknown key that can be read: it is stored"
    if outlook.hidden:
        never = f"; those with lease 0 never open: {outlook.never_open}" if outlook.never_open else ""
        yield (
            f"{counted(outlook.hidden, 'port')} at level 1 with a hidden key: the command starts each lease and "
            f"waits{never}"
        )
    if outlook.silent:
        yield f"{counted(outlook.silent, 'port')} without an answer: the command starts each lease and waits"
        known = "the links behind them are known: all leases run at the same time, in about the time of one"
        unknown = (
            "the links behind protected switches are not known: each lease opens two levels of switches, with at most "
            f"{outlook.blind_probes} blind probes through the known ones (--topology avoids them)"
        )
        yield known if outlook.has_links else unknown
    if outlook.tries:
        yield f"keys tried on a port before that: up to {outlook.tries}; a wrong one counts a violation there"
    if outlook.leases:
        yield f"leases known here: {', '.join(map(str, outlook.leases))} s"
    if outlook.silent:
        yield f"a silent port is given up after {outlook.seconds:.0f} s (--wait)"
    if outlook.violations:
        later = (
            f", by what is known now; if a longer lease or another port becomes known: "
            f"at most {outlook.violations_of_one} at each port"
        )
        most = f"probing adds at most {counted(outlook.violations, 'M_Key violation')} at these ports"
        yield most + (later if outlook.silent else "")
    if recovery_options.sets_something:
        yield "on recovered ports the M_Key, ProtectBits or lease are set as requested"


def _dry_run(writer: Any, recovery: Recovery, outlook: Outlook, format: str) -> int:
    objections = [each for each in recovery.objections() if not writer.consent.covers(each.interlock)]
    say_would_be_refused(objections)
    fields = outlook.to_json()
    document = {"dry_run": True, **fields, "interlocks": [objection.interlock for objection in objections]}
    row = fields | {"leases": " ".join(map(str, outlook.leases))}
    declared = MKEY_RECOVER._replace(rows=MKEY_RECOVER.other_rows)
    if not write_document(format, declared, lambda: document, [row]) and not outlook.is_empty:
        write(
            "dry run: no lease was started on purpose and no other key was tried; each silent port was queried once "
            "over each link"
        )
    is_limited = _note_limits(recovery)
    if objections and not outlook.is_empty:
        return exits.REFUSED
    if is_limited:
        return exits.NOT_COMPLETED
    return exits.DONE if outlook.is_empty else exits.SAYS_NO


def _note_limits(recovery: Recovery) -> bool:
    """Write a note about each limit of the sweep that was reached; return whether there are any."""
    notes = recovery.limits_reached()
    exits.warn_each(notes, "note")
    return bool(notes)


def _run(where: Where, recovery: Recovery, format: str) -> int:
    rows = ResultRows(MKEY_RECOVER, format)

    def on_result(result: RecoveryResult) -> None:
        if not rows.add({**result.port, "result": result.result, "reason": result.reason}):
            write(f"{result.result}: {_heading(result)}: {result.reason}")
        exits.flush()

    with ProgressLine(not where.debug) as progress:

        def on_status(status: Status) -> None:
            left = status.next_opening
            when = "no lease is known yet" if left is None else f"next lease ends in about {left:.0f} s"
            text = f"{status.waiting} silent or hiding; {when}"
            progress.show(text, status.back, status.back + status.waiting)

        progress.show("waiting for leases")
        summary = recovery.run(on_result, on_status if progress.is_drawing else None)
    if summary.done and not recovery.options.sets_something:
        exits.note("ports at ProtectBits 0 show their keys to everyone: protect them again (mkey-rotate)")
    return _finish(recovery, rows)


def _heading(result: RecoveryResult) -> str:
    port = result.port
    if port["port_guid"] is None:
        return "a silent port"
    if port["lid"] is None:
        guid = port["node_guid"] or port["port_guid"]
        return exits.clean(f"{port['node_desc'] or UNREADABLE} ({port['node_type'] or 'port'} {guid})")
    return heading_of(port)


def _finish(recovery: Recovery, rows: ResultRows) -> int:
    summary = recovery.summary
    document = {name: getattr(summary, name) for name in summary.__slots__}
    if not rows.end({"summary": document}) and (rows.csv_rows or summary.interrupted):
        write(
            f"{summary.done} recovered, {summary.skipped} without a key, {summary.failed} not recovered; "
            f"{summary.smps} SMPs, at most {summary.violations} M_Key violations counted, {summary.seconds:.0f} s"
        )
    if summary.interrupted:
        raise KeyboardInterrupt(
            f"while waiting for leases; keys that were found are in the key store; {_HOW_TO_CONTINUE}"
        )
    is_cut = _note_limits(recovery)
    if summary.failed:
        exits.warn(f"{counted(summary.failed, 'port')} not recovered, listed above", "error")
    elif is_cut:
        exits.warn("the fabric was not fully read: a limit was reached", "error")
    return exits.NOT_COMPLETED if summary.failed or is_cut else exits.DONE

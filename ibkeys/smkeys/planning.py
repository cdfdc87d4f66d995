"""Planning a change of sm_key and sa_key on all hosts: the keys, the files, and the interlocks.

A change that was interrupted left its keys ``pending`` in the key store. The next change uses the same keys and
finishes it, wherever it stopped: the keys in the files show how far it got.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ibkeys.change.consent import Objection
from ibkeys.change.interlocks.container_layer import objections_to_layers
from ibkeys.change.interlocks.file_owners import objections_to_owners
from ibkeys.change.interlocks.overtaken import OVERTAKEN, other_files
from ibkeys.change.interlocks.printed_keys import objections_to_listeners
from ibkeys.change.interlocks.unread_policy import objections_to_unread_options, objections_to_unread_policy
from ibkeys.change.plan import Plan
from ibkeys.change.subnets import ports_that_stay
from ibkeys.change.through_sm import OpensmManagers
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import Wanted
from ibkeys.errors import IbkeysError, Refused, UsageError
from ibkeys.keys.guessable import SHELL_RANDOM, TRAIT_TEXT, traits
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import NO_SM_KEY, SMKey
from ibkeys.managers.files.options_files import REFUSAL
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.managers.site import KEPT_HOSTS, ReachedHost, master_in, to_json
from ibkeys.printable import counted, named
from ibkeys.smkeys.begun import COMMAND, KEPT_PORTS, Changes, changes_on, closes, refuse_while_open
from ibkeys.smkeys.key_holders import DEFAULT, KINDS, SmKeyKind, find_sm_key_managers, keys_in
from ibkeys.smkeys.overtaken import keys_of_others, refuse_changed_files
from ibkeys.smkeys.run import SmKeyRun, SmKeySettings
from ibkeys.store.journal import Journal, OperationRecord, RunningOperation
from ibkeys.store.journal.runs import Runs
from ibkeys.store.keystore.sm_keys import StoredSmKey
from ibkeys.store.origin import Origin
from ibkeys.store.sqlite import guid_text

_FORMER_AGAIN: Final = "that OpenSM would keep its former keys, and ignore the others"


@dataclass(slots=True, kw_only=True)
class KeyChange(Plan):
    """A planned change. No port is written to.

    ``new``: the new keys; ``goes_on``: they are those of an interrupted change; ``former``: the SA_Keys that must be
    refused at the end; ``kept``: its options in the journal: the other hosts, and GUIDs of ports of this subnet;
    ``begun``: the changes of this subnet in the journal.
    """

    managers: OpensmManagers
    new: Mapping[SmKeyKind, SMKey]
    former: Sequence[SMKey]
    goes_on: bool
    settings: SmKeySettings
    kept: Mapping[str, Any]
    begun: Changes

    @property
    def pending(self) -> bool:
        """Always True: new keys are always a change."""
        return True

    def begin(self, journal: Journal, origin: Origin) -> RunningOperation:
        """Reopen the interrupted operation and return it, or return a new one."""
        found = self.begun.open if self.goes_on else None
        operation = journal.operation(COMMAND, origin, {}) if found is None else journal.reopen(found.id, origin)
        operation.kept = self.kept
        return operation

    def perform(self, writer: ChangeWriter, operation: RunningOperation) -> None:
        """Make the change, and prove it. Raises as `ibkeys.smkeys.run.SmKeyRun.make`."""
        keys = self.begun.keys(writer.keystore)
        run = SmKeyRun(writer, keys, self.managers, self.new, self.former, self.goes_on, operation, self.settings)
        try:
            run.make()
        finally:
            self.notes += run.notes

    def to_json(self) -> dict[str, Any]:
        """Return the changes of the plan as a JSON document, without keys."""
        managers = self.managers
        return {
            "goes_on": self.goes_on,
            "files": [
                {
                    "host": file.machine.name or None,
                    "path": str(file.seen.path),
                    "opensms": [each.instance.name for each in file.opensms],
                    "changes": {kind: self.state(kind, keys_in(file.data)[kind]) for kind in KINDS},
                }
                for file in managers.files
            ],
            "managers": [
                {"port_guid": f"0x{each.guid:016x}", "port": str(each.port), "state": each.state}
                for each in managers.sms
            ],
            "polling_seconds": min(managers.takeover_seconds, default=None),
            "notes": list(self.notes),
            "interlocks": [objection.interlock for objection in self.objections],
        }

    def state(self, kind: SmKeyKind, key: SMKey) -> str:
        """Return the state of one key in a file now: ``new``, ``default``, ``zero`` or ``set``."""
        if key == self.new[kind]:
            return "new"
        return "zero" if key.is_zero else "default" if key == DEFAULT else "set"


def plan_change(
    writer: ChangeWriter,
    reached: Sequence[ReachedHost],
    given: Mapping[SmKeyKind, SMKey],
    settings: SmKeySettings,
    is_new: bool = False,
) -> KeyChange:
    """Plan new keys for all SMs of the fabric, *given* or else generated, or the rest of a change that was interrupted.
    *is_new*: if a change is open on this subnet, it is not finished, but the call is refused (``open-run``).

    Raises UsageError for keys that give no protection, and if a needed option is not known; Refused if the change would
    leave the SMs without a common key, or could not be proven; FileError, HostNotReached, StoreError, StoreSealed.
    """
    if writer.fabric.is_simulated:
        raise UsageError("a simulated subnet has no OpenSM on any host, so there is no file to change")
    _refuse_while_standbys_are_stopped(writer, {writer.fabric.own_guid})
    found = writer.fabric.sweep(wanted=Wanted(sm_info=True))
    here = {port.port_guid for port in found.end_ports()}
    _refuse_while_standbys_are_stopped(writer, here)
    notes = refuse_while_open(writer, here) if is_new else []
    changes = changes_on(writer, here)
    begun = changes.open
    if writer.goes_on is not None and (begun is None or begun.id != writer.goes_on):
        raise _elsewhere("other SMs than this subnet has", writer.goes_on)
    managers = find_sm_key_managers(writer, reached, found, bool(changes.pending(writer.keystore)))
    managers.notes += notes
    changes = changes.with_files(writer.keystore, managers.files)
    rows, own = changes.keys(writer.keystore).rows(), {row.ref for row in changes.pending(writer.keystore)}
    pending: dict[SmKeyKind, SMKey] = {row.kind: row.sm_key for row in rows if row.ref in own and row.kind != "other"}
    if not pending:
        master_in(managers.report)
    if pending and begun is None and any(keys_of_others(managers.files, rows, own)):
        pending = {}  # the record of that change is lost, so no command can end it: new keys replace all
    elif pending and begun is not None:
        _refuse_other_files(writer, managers, begun)
        refuse_changed_files(managers.files, rows, own, closes(begun.id))
    new = _new_keys(given, pending)
    _refuse_without_sa(writer)
    ports = {guid_text(each.guid) for each in managers.sms}.union(ports_that_stay(writer, found))
    change = KeyChange(
        COMMAND,
        notes=managers.notes,
        managers=managers,
        new=new,
        former=_former(managers, new, rows),
        goes_on=bool(pending),
        settings=settings,
        kept={KEPT_HOSTS: to_json(reached), KEPT_PORTS: sorted(ports)},
        begun=changes,
    )
    has_new = [file for file in managers.files if pending and keys_in(file.data) == dict(new)]
    change.objections += objections_to_unread_options(managers.files, has_new.__contains__)
    change.objections += objections_to_listeners([each.running for each in managers.all])
    for master in (each for each in managers.all if each.sm.is_master):
        change.objections += objections_to_unread_policy(writer, master.running.instance, found)
    change.objections += objections_to_owners(managers.files, _FORMER_AGAIN)
    if not pending:
        change.objections += objections_to_layers(managers.files, _FORMER_AGAIN)
    change.objections += _weak(managers, given)
    change.notes += [why for file in managers.files if (why := file.why_it_stays_open)]
    if pending:
        change.notes.append("a change of the keys was interrupted; this finishes it with the same keys")
    return change


def _refuse_while_standbys_are_stopped(writer: ChangeWriter, here: Collection[int]) -> None:
    """Raise Refused (``open-run``) if a run of M_Keys has stopped standbys. They cannot be found now, so they would
    keep their former sm_key, and become second masters when that run starts them again. *here*: the GUIDs of ports of
    this subnet.
    """
    with Journal.read(writer.fabric.stores.journal) as journal:
        last = Runs(journal).last(here)
    stopped = last.via.get("stopped") if last is not None and last.is_open and last.via is not None else None
    if last is not None and stopped:
        raise Refused(
            f"{last.command} stopped {counted(len(stopped), 'standby OpenSM')} and is not finished", "open-run"
        ).unchanged(
            "first `ibkeys resume` (or `ibkeys undo`)",
            "With a new sm_key these would be second masters when it starts them again.",
        )


def _new_keys(given: Mapping[SmKeyKind, SMKey], pending: Mapping[SmKeyKind, SMKey]) -> dict[SmKeyKind, SMKey]:
    """Return the new keys. Raises UsageError for given keys that give no protection, are equal, or differ from those of
    the interrupted change."""
    for kind, key in given.items():
        if key.is_zero or key == DEFAULT:
            raise UsageError(f"the new {kind} is {'0' if key.is_zero else '1, the default'}, which gives no protection")
        if kind in pending and key != pending[kind]:
            raise UsageError(
                f"a change with another {kind} was interrupted, and some files may have that key: first "
                "finish that change, without keys on the command line"
            )
    new: dict[SmKeyKind, SMKey] = {kind: pending.get(kind) or given.get(kind) or SMKey.generate() for kind in KINDS}
    if new["sm_key"] == new["sa_key"]:
        raise UsageError(
            "the new sm_key and sa_key are the same: anyone who knows the sa_key would also know the sm_key"
        )
    return new


def _refuse_other_files(writer: ChangeWriter, managers: OpensmManagers, begun: OperationRecord) -> None:
    """Raise Refused (``overtaken``) if the change that was *begun* wrote other options files and none of these: other
    OpenSMs have replaced its own, or it belongs to another subnet (if an earlier version of ibkeys began it).
    """
    with Journal.read(writer.fabric.stores.journal) as journal:
        written = {entry.image.key for entry in journal.files(begun.id)}
    if others := other_files(written, managers.files):
        raise _elsewhere(others, begun.id)


def _elsewhere(what: str, operation: int) -> Refused:
    """Return the refusal (``overtaken``) of a change that is of another subnet, or of OpenSMs that are gone. *what*:
    the SMs or files that it concerns, in words; *operation*: its number in the journal."""
    return Refused(f"a change of the keys was interrupted, and it concerns {what}", OVERTAKEN).unchanged(
        f"finish it on its own subnet, or, where other OpenSMs have replaced those, type `{closes(operation)}`",
        "Name the port of its own subnet and its hosts as they were named then.",
        "That only ends the record of that change, and every key stays in the key store.",
        "A replaced OpenSM may have the new sm_key in its options file, and become a second master: before you start "
        "it again, put the present keys there.",
    )


def _refuse_without_sa(writer: ChangeWriter) -> None:
    try:
        writer.fabric.sa(NO_SM_KEY).class_port_info()
    except IbkeysError as error:
        raise Refused(
            f"it could not be verified that the new SA_Key is in force, because the SA does not answer here: {error}",
            REFUSAL,
        ).unchanged() from error


def _former(managers: OpensmManagers, new: Mapping[SmKeyKind, SMKey], rows: Sequence[StoredSmKey]) -> list[SMKey]:
    """Return the SA_Keys that may have been in force, and OpenSM's default: all of them must be refused at the end. 0
    is left out: a request with SA_Key 0 is one without a key, and is answered.
    """
    found = [keys_in(file.data)["sa_key"] for file in managers.files]
    found += [row.sm_key for row in rows if (row.kind, row.state) == ("sa_key", "current")]
    return [key for key in dict.fromkeys([*found, DEFAULT]) if key != new["sa_key"] and not key.is_zero]


# --- interlocks -------------------------------------------------------------------------------------------------------


def _weak(managers: OpensmManagers, given: Mapping[SmKeyKind, SMKey]) -> Iterator[Objection]:
    """Yield ``weak-key`` for keys that the user gave; generated keys are not checked."""
    m_keys = {read_options(file.data).value("m_key") for file in managers.files}
    for kind, key in given.items():
        found = [TRAIT_TEXT[trait] for trait in traits(MKey(key.reveal())) if trait != SHELL_RANDOM]
        found += ["is also the M_Key"] if MKey(key.reveal()) in m_keys else []
        if found:
            yield Objection("weak-key", f"the new {kind} {named(found)}")

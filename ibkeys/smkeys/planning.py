"""Planning a change of sm_key and sa_key on all hosts: the keys, the files, and the interlocks.

An interrupted change leaves its keys ``pending`` in the key store. The next change uses the same keys and finishes the
interrupted one, wherever that stopped: the options files show which of them already have the new keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ibkeys.change.consent import Objection
from ibkeys.change.interlocks.container_layer import objections_to_layers
from ibkeys.change.interlocks.file_owners import objections_to_owners
from ibkeys.change.interlocks.overtaken import OVERTAKEN, other_files
from ibkeys.change.interlocks.printed_keys import objections_to_listeners
from ibkeys.change.interlocks.unread_policy import (
    is_written_here,
    objections_to_unread_options,
    objections_to_unread_policy,
)
from ibkeys.change.next_commands import close_command
from ibkeys.change.plan import Plan
from ibkeys.change.subnets import subnet_guids
from ibkeys.change.through_sm import OpensmManagers
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import Wanted
from ibkeys.errors import IbkeysError, Refused, UsageError
from ibkeys.keys.guessable import SHELL_RANDOM, TRAIT_TEXT, guessable_traits
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import NO_SM_KEY, SMKey
from ibkeys.managers.files.options_files import REFUSAL
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.managers.site import KEPT_HOSTS, ReachedHost, master_in, to_json
from ibkeys.printable import counted, named
from ibkeys.smkeys.key_holders import DEFAULT, KINDS, SmKeyKind, find_sm_key_managers, keys_in
from ibkeys.smkeys.overtaken import files_with_foreign_keys, found_defaults, refuse_changed_files
from ibkeys.smkeys.recorded_changes import (
    COMMAND,
    KEPT_DEFAULTS,
    KEPT_PORTS,
    Changes,
    changes_on,
    refuse_while_open,
)
from ibkeys.smkeys.run import SmKeyRun, SmKeySettings
from ibkeys.store.journal import Journal, OperationRecord, RunningOperation
from ibkeys.store.journal.runs import Runs
from ibkeys.store.keystore.sm_keys import StoredSmKey
from ibkeys.store.origin import Origin
from ibkeys.store.sqlite import guid_text

_FORMER_AGAIN: Final = "that OpenSM would keep its former keys, and ignore the others"


@dataclass(slots=True, kw_only=True)
class KeyChange(Plan):
    """A planned change of sm_key and sa_key. It writes to no port.

    ``new``: the new keys; ``goes_on``: whether they are those of an interrupted change, which this one finishes;
    ``former``: the SA_Keys that the SA must refuse at the end; ``kept``: the options of the operation in the journal:
    the other hosts, and GUIDs of ports of this subnet; ``subnet_changes``: the changes of this subnet in the journal.
    """

    managers: OpensmManagers
    new: Mapping[SmKeyKind, SMKey]
    former: Sequence[SMKey]
    goes_on: bool
    settings: SmKeySettings
    kept: Mapping[str, Any]
    subnet_changes: Changes

    @property
    def pending(self) -> bool:
        """Always True: new keys are always a change."""
        return True

    def begin(self, journal: Journal, origin: Origin) -> RunningOperation:
        """Return the operation for the journal: the interrupted one, reopened, or a new one. Raises StoreError."""
        last = self.subnet_changes.unfinished if self.goes_on else None
        operation = journal.operation(COMMAND, origin, {}, True) if last is None else journal.reopen(last.id, origin)
        operation.kept = self.kept
        return operation

    def perform(self, writer: ChangeWriter, operation: RunningOperation) -> None:
        """Make the change, and prove it. Raises the errors of `ibkeys.smkeys.run.SmKeyRun.make`."""
        keys = self.subnet_changes.keys(writer.keystore)
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
        """Return the state of *key*, which an options file has as *kind* now: ``new``, ``default``, ``zero`` or ``set``
        (another key)."""
        if key == self.new[kind]:
            return "new"
        return "zero" if key.is_zero else "default" if key == DEFAULT else "set"


def plan_change(
    writer: ChangeWriter,
    reached: Sequence[ReachedHost],
    user_keys: Mapping[SmKeyKind, SMKey],
    settings: SmKeySettings,
    is_new: bool = False,
) -> KeyChange:
    """Plan new keys for all SMs of the fabric, or the rest of a change that was interrupted.

    *reached*: the hosts of the SMs; *user_keys*: the new keys that the user gave; the others are generated. *is_new*:
    whether the user asked for new keys: then the call is refused (``open-run``) while a change is open on this subnet,
    and does not finish that change.

    Raises UsageError on a simulated subnet, for keys that give no protection, are equal or differ from those of an
    interrupted change, and if a needed option is not known; Refused if the change would leave the SMs without a common
    key, could not be proven, or another change has to be finished first; FileError, HostNotReached, StoreError,
    StoreSealed.
    """
    if writer.fabric.is_simulated:
        raise UsageError("a simulated subnet has no OpenSM on any host, so there is no file to change")
    _refuse_while_standbys_are_stopped(writer, {writer.fabric.own_guid})
    topology = writer.fabric.sweep(wanted=Wanted(sm_info=True))
    here = {port.port_guid for port in topology.end_ports()}
    _refuse_while_standbys_are_stopped(writer, here)
    notes = refuse_while_open(writer, here) if is_new else []
    changes = changes_on(writer, here)
    begun = changes.unfinished
    if writer.continued is not None and (begun is None or begun.id != writer.continued):
        raise _refusal_of_elsewhere("other SMs than this subnet has", writer.continued)
    managers = find_sm_key_managers(writer, reached, topology, bool(changes.pending(writer.keystore)))
    managers.notes += notes
    changes = changes.with_unknown_keys_as_foreign(writer.keystore, managers.files)
    rows, new_refs = changes.keys(writer.keystore).rows(), {row.ref for row in changes.pending(writer.keystore)}
    pending: dict[SmKeyKind, SMKey] = {
        row.kind: row.sm_key for row in rows if row.ref in new_refs and row.kind != "other"
    }
    if not pending:
        master_in(managers.report)
    if pending and begun is None and any(files_with_foreign_keys(managers.files, rows, new_refs, ())):
        pending = {}  # the record of that change is lost, so no command can end it: new keys replace all
    elif pending and begun is not None:
        _refuse_other_files(writer, managers, begun)
        refuse_changed_files(managers.files, rows, new_refs, changes.last_defaults, close_command(begun.id))
    defaults = changes.last_defaults if pending and begun is not None else found_defaults(managers.files, rows)
    new = _new_keys(user_keys, pending)
    _refuse_without_sa(writer)
    ports = {guid_text(each.guid) for each in managers.sms}.union(subnet_guids(writer, topology))
    change = KeyChange(
        COMMAND,
        notes=managers.notes,
        managers=managers,
        new=new,
        former=_former_sa_keys(managers, new, rows),
        goes_on=bool(pending),
        settings=settings,
        kept={KEPT_HOSTS: to_json(reached), KEPT_PORTS: sorted(ports)}
        | ({KEPT_DEFAULTS: sorted(defaults)} if defaults else {}),
        subnet_changes=changes,
    )
    has_new = [file for file in managers.files if pending and keys_in(file.data) == dict(new)]
    # A standby that was master once has the time of a heavy sweep, and makes none when it reads its file.
    is_ours = partial(is_written_here, writer)
    change.objections += objections_to_unread_options(managers.files, lambda file: file in has_new or is_ours(file))
    change.objections += objections_to_listeners([each.running for each in managers.all])
    for master in (each for each in managers.all if each.sm.is_master):
        change.objections += objections_to_unread_policy(writer, master.running.instance, topology)
    change.objections += objections_to_owners(managers.files, _FORMER_AGAIN)
    if not pending:
        change.objections += objections_to_layers(managers.files, _FORMER_AGAIN)
    change.objections += _objections_to_weak_keys(managers, user_keys)
    change.notes += [why for file in managers.files if (why := file.why_others_keep_rights)]
    if pending:
        change.notes.append("a change of the keys was interrupted; this finishes it with the same keys")
    return change


def _refuse_while_standbys_are_stopped(writer: ChangeWriter, here: Collection[int]) -> None:
    """Raise Refused (``open-run``) if a run of M_Keys has stopped standbys. A stopped standby cannot be found now, so
    it would keep its former sm_key, and become a second master when that run starts it again. *here*: the GUIDs of
    ports of this subnet.
    """
    with Journal.read(writer.fabric.stores.journal) as journal:
        last = Runs(journal).last(here)
    stopped = last.via.get("stopped") if last is not None and last.is_open and last.via is not None else None
    if last is not None and stopped:
        raise Refused(
            f"{last.command} stopped {counted(len(stopped), 'standby OpenSM')} and is not finished", "open-run"
        ).unchanged(
            "first `ibkeys resume` (or `ibkeys undo`)",
            f"After a change of sm_key the standbys would be second masters when {last.command} starts them again.",
        )


def _new_keys(user_keys: Mapping[SmKeyKind, SMKey], pending: Mapping[SmKeyKind, SMKey]) -> dict[SmKeyKind, SMKey]:
    """Return the new sm_key and sa_key. Each is the *pending* key of the interrupted change, or else the key that the
    user gave, or else generated. Raises UsageError if a key of the user gives no protection or differs from the pending
    key, and if both new keys are equal."""
    for kind, key in user_keys.items():
        if key.is_zero or key == DEFAULT:
            raise UsageError(f"the new {kind} is {'0' if key.is_zero else '1, the default'}, which gives no protection")
        if kind in pending and key != pending[kind]:
            raise UsageError(
                f"a change with another {kind} was interrupted, and some files may have that key: first "
                "finish that change, without keys on the command line"
            )
    new: dict[SmKeyKind, SMKey] = {kind: pending.get(kind) or user_keys.get(kind) or SMKey.generate() for kind in KINDS}
    if new["sm_key"] == new["sa_key"]:
        raise UsageError(
            "the new sm_key and sa_key are the same: anyone who knows the sa_key would also know the sm_key"
        )
    return new


def _refuse_other_files(writer: ChangeWriter, managers: OpensmManagers, begun: OperationRecord) -> None:
    """Raise Refused (``overtaken``) if the unfinished change *begun* wrote options files, but none of *managers*. Then
    other OpenSMs have replaced those of the change, or the change belongs to another subnet (if an earlier version of
    ibkeys began it).
    """
    with Journal.read(writer.fabric.stores.journal) as journal:
        written = {entry.image.key for entry in journal.files(begun.id)}
    if others := other_files(written, managers.files):
        raise _refusal_of_elsewhere(others, begun.id)


def _refusal_of_elsewhere(what: str, operation: int) -> Refused:
    """Return the refusal (``overtaken``) to finish a change that is of another subnet, or whose OpenSMs were replaced.
    *what*: the SMs or files that the change concerns, in words; *operation*: its number in the journal."""
    close = close_command(operation)
    return Refused(f"a change of the keys was interrupted, and it concerns {what}", OVERTAKEN).unchanged(
        f"finish it on its own subnet, or, if other OpenSMs have replaced the OpenSMs of that change, type `{close}`",
        "To finish it, name the port of its own subnet, and its hosts as they were named then.",
        f"`{close}` only ends the record of that change, and every key stays in the key store.",
        "A replaced OpenSM may have the new sm_key in its options file, and become a second master: before you start "
        "it again, put the present keys there.",
    )


def _refuse_without_sa(writer: ChangeWriter) -> None:
    """Raise Refused (`REFUSAL`) if the SA does not answer a request without a key."""
    try:
        writer.fabric.sa(NO_SM_KEY).class_port_info()
    except IbkeysError as error:
        raise Refused(
            f"it could not be verified that the new SA_Key is in force, because the SA does not answer here: {error}",
            REFUSAL,
        ).unchanged() from error


def _former_sa_keys(
    managers: OpensmManagers, new: Mapping[SmKeyKind, SMKey], rows: Sequence[StoredSmKey]
) -> list[SMKey]:
    """Return the SA_Keys that may have been in force, and OpenSM's default: the SA must refuse all of them at the end.
    Key 0 is left out: a request with SA_Key 0 is a request without a key, and the SA answers it.
    """
    former = [keys_in(file.data)["sa_key"] for file in managers.files]
    former += [row.sm_key for row in rows if (row.kind, row.state) == ("sa_key", "current")]
    return [key for key in dict.fromkeys([*former, DEFAULT]) if key != new["sa_key"] and not key.is_zero]


# --- interlocks -------------------------------------------------------------------------------------------------------


def _objections_to_weak_keys(managers: OpensmManagers, user_keys: Mapping[SmKeyKind, SMKey]) -> Iterator[Objection]:
    """Yield ``weak-key`` for each key of the user that is easy to guess, or is also the M_Key."""
    m_keys = {read_options(file.data).value("m_key") for file in managers.files}
    for kind, key in user_keys.items():
        reasons = [TRAIT_TEXT[trait] for trait in guessable_traits(MKey(key.reveal())) if trait != SHELL_RANDOM]
        reasons += ["is also the M_Key"] if MKey(key.reveal()) in m_keys else []
        if reasons:
            yield Objection("weak-key", f"the new {kind} {named(reasons)}")

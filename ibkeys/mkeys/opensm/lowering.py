"""Rolling back an unconfirmed run through OpenSM: its level is lowered, and no key changes.

As in every step, the options files get explicit lines with the lower level; their former contents are not restored. A
lease that the run has set stays. Afterwards the run counts as unfinished, and `ibkeys resume` raises its level again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from ibkeys.change.consent import Objection
from ibkeys.change.writer import ChangeWriter
from ibkeys.fabric.handle import PortHandle
from ibkeys.mkeys.opensm.fit_managers import setting_in_options
from ibkeys.mkeys.opensm.method import OpensmMethod
from ibkeys.mkeys.opensm.planned import READING, method_of_earlier_run, reach_hosts_of_last_run
from ibkeys.mkeys.opensm.record import RunRecord
from ibkeys.mkeys.opensm.rollback import fallback_level, is_raised, lower_level
from ibkeys.mkeys.planning_options import ViaOpensm
from ibkeys.mkeys.rollout.earlier_run import last_run, refuse_strange_ports
from ibkeys.mkeys.rollout.found_ports import reachable_ports
from ibkeys.mkeys.rollout.going_back import return_of_last_run
from ibkeys.store.journal import Journal, RunningOperation
from ibkeys.store.journal.runs import MKeyRun, RunPort, Runs
from ibkeys.store.origin import Origin
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

_REASON: Final = "the run was not confirmed, so its level was lowered"


class Lowering:
    """A planned change that lowers the level of the last run, for `ibkeys.change.writer`. ``level``: the level that all
    ports get; ``unproven``: the ports of the run that were not found, or that did not answer at the end, by port GUID,
    with the reason. OpenSM sets the level on them when they are present."""

    rechecks_links = True
    pending = True

    def __init__(self, method: OpensmMethod, last: MKeyRun, ports: _RunPorts) -> None:
        self.method = method
        self.level = fallback_level(method.record)
        self.unproven = dict(ports.lost)
        self._last, self._ports = last, ports

    @property
    def objections(self) -> list[Objection]:
        """An empty list: no key changes, and the user agreed to the run."""
        return []

    def ports(self) -> list[Port]:
        """Return the ports that are to be changed."""
        return [handle.port for handle in self._ports.found.values()]

    def begin(self, journal: Journal, origin: Origin) -> RunningOperation:
        """Return the operation of the run, which stays open."""
        return journal.rollback_of(self._last.id, origin)

    def perform(self, writer: ChangeWriter, operation: RunningOperation) -> None:
        """Lower the level through OpenSM, and prove it on every port. Raises the errors of `KeySteps.make`; after an
        error the run can still be resumed or rolled back.
        """
        operation.outcome = "open"
        record, store, last = self.method.record, writer.keystore, self._last
        runs, number = Runs(operation.journal), lower_level(record)

        def note(record: RunRecord) -> None:
            runs.note_via(last.id, record.to_json(store))

        with operation.journal.in_one_transaction():
            note(record)
            for each in self._ports.begun:
                runs.mark(last.id, each.sequence, "sent", _REASON)
        key_steps = self.method.key_steps(writer, operation, self._ports.found, note)
        key_steps.make(number + 1)
        self.unproven |= {guid: str(error) for guid, error in key_steps.last.silent.items()}


def plan_lowering(writer: ChangeWriter, through: ViaOpensm) -> Lowering | None:
    """Plan to lower the level of the last run, which goes through OpenSM. Return None if neither a port nor an options
    file is above the target level, or if the run has not raised the level.

    Raises the errors of `ibkeys.mkeys.opensm.planned.plan_return` except Refused (`MIXED`), among them Refused
    (``overtaken``) if another program or administrator has changed files or ports since.
    """
    record, reached = reach_hosts_of_last_run(writer, through)
    if not is_raised(record):
        return None
    last, kept = last_run(writer)
    writer.fabric.reload_keys()  # this process may have made the run, which put its keys and links into the store
    rollback = return_of_last_run(writer, reading=READING)  # it covers every port, as OpenSM sets every port
    refuse_strange_ports(writer, rollback)
    found = rollback.found
    method = method_of_earlier_run(writer, found, record, reached, through, record.keys.wanted)
    of_run = _RunPorts.of(writer, kept, found)
    ports = [handle.port for handle in of_run.found.values()]
    if not _is_above(fallback_level(record), ports, method):
        return None
    writer.note_master_sm_lids(ports, [manager.port for manager in method.managers.report.managers or ()])
    return Lowering(method, last, of_run)


@dataclass(frozen=True, slots=True)
class _RunPorts:
    """The ports of a run that may have been set. ``begun``: all of these ports, as in the journal; ``found``: the ports
    that can be read, by port GUID; ``lost``: the other ports that are waited for, by port GUID, with the reason."""

    begun: Sequence[RunPort]
    found: Mapping[int, PortHandle]
    lost: Mapping[int, str]

    @classmethod
    def of(cls, writer: ChangeWriter, kept: Sequence[RunPort], topology: Topology) -> Self:
        begun = [each for each in kept if each.is_begun]
        reachable = reachable_ports(writer, topology)
        found, lost = dict[int, PortHandle](), dict[int, str]()
        for guid in (each.port_guid for each in begun):
            port, reason = reachable.get(guid, (None, "the sweep did not find it"))
            if port is not None and not reason:
                found[guid] = writer.fabric.handle(port)
            elif port is not None or guid not in writer.fabric.ring.settled:
                lost[guid] = reason
        return cls(begun, found, lost)


def _is_above(level: int, ports: Iterable[Port], method: OpensmMethod) -> bool:
    """Return whether a port is above *level*, or an options file has a higher level, which OpenSM would set at its next
    sweep."""
    infos = [port.port_info for port in ports]
    shown = [info.m_key_protect_bits for info in infos if info is not None]
    return max([*shown, *(setting_in_options(each).protect for each in method.managers.all)]) > level

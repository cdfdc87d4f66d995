"""Verifying that new keys are in force.

The SA must answer requests with the new SA_Key. Then only one SM may be master throughout the time after which a
standby with another sm_key would take over. When OpenSM drops a request with a wrong SM_Key, it writes its own sa_key
to its log, so the log must be closed to other users before the first request. Source: opensm osm_sa_mad_ctrl.c (ERR
1A04), osm_sm_state_mgr.c; a running OpenSM, observed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import not_
from typing import Final

from ibkeys.change.clock import LONGEST_PAUSE, look_until, look_while
from ibkeys.change.runner import Runner
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import Wanted
from ibkeys.errors import IbkeysError, MadStatusError, NoReply
from ibkeys.keys.smkey import NO_SM_KEY, SMKey
from ibkeys.mad.attributes import SMInfo
from ibkeys.mad.const import SMState
from ibkeys.mad.records import PortInfoRecord
from ibkeys.managers.subnet_managers import Manager, managers_of
from ibkeys.printable import named
from ibkeys.smkeys.key_holders import SmKeyKind
from ibkeys.topology.subnet_manager import sm_state_name

_MARGIN: Final = 2 * LONGEST_PAUSE
"""Seconds added to the polling time: OpenSM's timers and ours do not begin at the same moment."""


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """The result of one check of the new keys, or of the SMs after a rollback. ``wrong``: the fault in words, such as
    the SMs that do not have the new sm_key; "" for none; ``remaining_count``: the number of SMs, and the SA, that are
    waited for."""

    wrong: str = ""
    remaining_count: int = 0


@dataclass(slots=True)
class SmKeyProof:
    """The proof that the SMs and the SA use the new keys.

    ``managers``: the SMs; ``new``: the new keys; ``runner``: gives the clock, and the waiting time in seconds;
    ``check``: called often, raises to stop; ``is_read``: whether no SM shows another sm_key any more, so that only the
    SA is asked.
    """

    writer: ChangeWriter
    managers: Sequence[Manager]
    new: Mapping[SmKeyKind, SMKey]
    runner: Runner
    check: Callable[[], None]
    is_read: bool = False

    # --- the new keys ------------------------------------------------------------------------------------------------

    def begin_again(self, found: KeyCheck) -> None:
        """Let the next `look` ask the SMs again before the SA. *found* is not used."""
        self.is_read = False

    def look(self) -> KeyCheck:
        """Check once: ask the SMs for their sm_key, and, once none has shown another one than the new one, the SA.

        The SMInfo of an SM shows its sm_key to a requester that sends its M_Key, and to everybody if its M_Key is 0. An
        SM_Key of 0 in SMInfo says nothing about the sm_key.
        """
        if not self.is_read:
            others = [str(each.port) for each in self.managers if self._shows_another(each, self.new["sm_key"])]
            if others:
                who = f"the SM at {named(others)}"
                why = "has not read the new sm_key (was its options file there at its start?)"
                return KeyCheck(f"{who} {why}", len(others) + 1)
            self.is_read = True
        if self.is_trusted(self.new["sa_key"]):
            return KeyCheck()
        return KeyCheck("the SA does not answer to the new sa_key", 1)

    # --- the SA ------------------------------------------------------------------------------------------------------

    def is_trusted(self, key: SMKey) -> bool:
        """Return whether the SA answers a request with the SA_Key *key*, with any status: OpenSM does not answer a
        request with a wrong key."""
        fabric = self.writer.fabric
        local = fabric.local()
        try:
            fabric.sa(key, self._sa_lid()).get(PortInfoRecord, endport_lid=local.base_lid, port_num=local.port)
        except MadStatusError:
            return True
        except NoReply:
            return False
        return True

    def _sa_lid(self) -> int | None:
        """Return the LID of the master. Return None if several SMs, or none, say that they are master: the request is
        then sent to the local port's MasterSMLID."""
        masters = [each.port.lid for each in self.managers if self._state(each) == _MASTER]
        return masters[0] if len(masters) == 1 else None

    # --- the SMs -----------------------------------------------------------------------------------------------------

    def _shows_another(self, manager: Manager, key: SMKey) -> bool:
        info = self._info(manager)
        return info is not None and SMKey(info.sm_key) not in (key, NO_SM_KEY)

    def watch_until_steady(self, seconds: float) -> str:
        """Watch the SMs for *seconds*, and a margin, in which one SM must be master and all others standbys. For 0
        seconds, only wait until they are. Then a sweep must find one master.

        Return "" if they were; else the last fault, in words. A fault may pass: the time then begins again, until the
        runner's waiting time and twice *seconds* are over. Raises the errors of ``check`` and of the sweep.
        """
        seconds = seconds + _MARGIN if seconds else 0.0
        clock, wait = self.runner.clock, self.runner.wait
        end = clock.now() + wait + 2 * seconds
        while True:
            if wrong := look_until(self._find_fault, bool, clock, wait, self.check):
                return wrong
            wrong = look_while("", self._find_fault, not_, clock, seconds, self.check)
            if not wrong:
                return self._find_fault_by_sweep()
            if clock.now() >= end:
                return wrong

    def _find_fault(self) -> str:
        states = [(each, self._state(each)) for each in self.managers]
        masters = [str(each.port) for each, state in states if state == _MASTER]
        if len(masters) > 1:
            return f"{len(masters)} subnet managers say that they are master: {named(masters)}"
        others = [f"the SM at {each.port} {_in_words(state)}" for each, state in states if state not in _SETTLED]
        if others:
            return "; ".join(others)
        return "" if masters else "no subnet manager says that it is master"

    def _find_fault_by_sweep(self) -> str:
        """Sweep again, and return "" if there is one master, else the fault in words. An SM that was not known, or was
        started in the meantime, may be a second master."""
        found = managers_of(self.writer.fabric.sweep(wanted=Wanted(sm_info=True)))
        masters = [str(each.port) for each in found if each.is_master]
        return "" if len(masters) == 1 else f"{len(masters)} subnet managers say that they are master: {named(masters)}"

    def _state(self, manager: Manager) -> str | None:
        info = self._info(manager)
        return None if info is None else sm_state_name(info.sm_state)

    def _info(self, manager: Manager) -> SMInfo | None:
        try:
            return SMInfo(self.writer.fabric.handle(manager.port).get(SMInfo))
        except IbkeysError:
            return None


_MASTER: Final = sm_state_name(SMState.MASTER)
_SETTLED: Final = frozenset({_MASTER, sm_state_name(SMState.STANDBY)})


def _in_words(state: str | None) -> str:
    return "does not answer SMInfo" if state is None else f"says that it is {state}"

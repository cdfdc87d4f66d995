"""Verifying that new keys are in force: the SA answers requests with the new SA_Key, and there is only one master for
the time after which a standby with another sm_key would take over. OpenSM drops a request with a wrong SM_Key, and
writes its own sa_key to its log then: the log must be closed to other users first. Source: opensm osm_sa_mad_ctrl.c
(ERR 1A04), osm_sm_state_mgr.c; a running OpenSM, observed.
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
class SeenKeys:
    """The result of one look at the new keys. ``wrong``: the SMs or the SA without the new keys, in words, "" for none;
    ``left``: the number of things that are waited for."""

    wrong: str = ""
    left: int = 0


@dataclass(slots=True)
class SmKeyProof:
    """Asks the SA and the SMs until they show the *new* keys. ``managers``: the SMs; ``check``: called often, raises to
    stop; ``is_read``: no SM shows another sm_key any more.
    """

    writer: ChangeWriter
    managers: Sequence[Manager]
    new: Mapping[SmKeyKind, SMKey]
    runner: Runner
    check: Callable[[], None]
    is_read: bool = False

    # --- the new keys ------------------------------------------------------------------------------------------------

    def begin_again(self, found: SeenKeys) -> None:
        """Begin again: ask the SMs, then the SA."""
        self.is_read = False

    def look(self) -> SeenKeys:
        """Ask the SMs until none shows another sm_key than the new one in its SMInfo, and from then on the SA. An SM
        shows its sm_key to a requester that sends its M_Key, and to everybody if its M_Key is 0; an SM_Key of 0 in
        SMInfo is no information."""
        if not self.is_read:
            others = [str(each.port) for each in self.managers if self._shows_another(each, self.new["sm_key"])]
            if others:
                who = f"the SM at {named(others)}"
                why = "has not read the new sm_key (was its options file there at its start?)"
                return SeenKeys(f"{who} {why}", len(others) + 1)
            self.is_read = True
        if self.is_trusted(self.new["sa_key"]):
            return SeenKeys()
        return SeenKeys("the SA does not answer to the new sa_key", 1)

    # --- the SA ------------------------------------------------------------------------------------------------------

    def is_trusted(self, key: SMKey) -> bool:
        """Return whether the SA answers a request with *key*, whatever the answer is: OpenSM does not answer a request
        with a wrong key."""
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
        """Return the LID of the one master; None, so that the local port's MasterSMLID is used, if several or no SMs
        say that they are master."""
        masters = [each.port.lid for each in self.managers if self._state(each) == _MASTER]
        return masters[0] if len(masters) == 1 else None

    # --- the SMs -----------------------------------------------------------------------------------------------------

    def _shows_another(self, manager: Manager, key: SMKey) -> bool:
        info = self._info(manager)
        return info is not None and SMKey(info.sm_key) not in (key, NO_SM_KEY)

    def until_steady(self, seconds: float) -> str:
        """Watch the SMs, and return "" if in every look one SM was master and all others were standbys for *seconds*;
        else the last fault, in words."""
        seconds = seconds + _MARGIN if seconds else 0.0
        clock, wait = self.runner.clock, self.runner.wait
        end = clock.now() + wait + 2 * seconds
        while True:
            if wrong := look_until(self._wrong, bool, clock, wait, self.check):
                return wrong
            wrong = look_while("", self._wrong, not_, clock, seconds, self.check)
            if not wrong:
                return self._strangers()
            if clock.now() >= end:
                return wrong

    def _wrong(self) -> str:
        states = [(each, self._state(each)) for each in self.managers]
        masters = [str(each.port) for each, state in states if state == _MASTER]
        if len(masters) > 1:
            return f"{len(masters)} subnet managers say that they are master: {named(masters)}"
        others = [f"the SM at {each.port} {_in_words(state)}" for each, state in states if state not in _SETTLED]
        if others:
            return "; ".join(others)
        return "" if masters else "no subnet manager says that it is master"

    def _strangers(self) -> str:
        """Sweep again, and return "" if there is one master, else the fault in words: an SM that was started in the
        meantime or was not known may be a second master."""
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

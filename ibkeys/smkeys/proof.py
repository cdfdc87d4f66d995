"""Verifying that new keys are in force: the SA answers requests with the new SA_Key, and there is only one master for
as long as a standby with another sm_key needs to take over.

OpenSM drops a request with a wrong SM_Key, and writes its own sa_key to its log then: close that before it is asked.
Source: opensm osm_sa_mad_ctrl.c (ERR 1A04), osm_sm_state_mgr.c; a running OpenSM, observed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ibkeys.change.clock import LONGEST_PAUSE, Clock, ProgressTimeout, look_until
from ibkeys.change.writer import Writer
from ibkeys.discovery.wanted import Wanted
from ibkeys.errors import IbkeysError, MadStatusError, NoReply
from ibkeys.keys.smkey import NO_SM_KEY, SMKey
from ibkeys.mad.attributes import SMInfo
from ibkeys.mad.const import SMState
from ibkeys.mad.records import PortInfoRecord
from ibkeys.printable import named
from ibkeys.sm.managers import Manager, managers_of
from ibkeys.topology.subnet_manager import sm_state_name

_MARGIN: Final = 2 * LONGEST_PAUSE
"""Seconds that are watched longer than the polling time: OpenSM's timers and ours do not begin together."""


@dataclass(slots=True)
class SmKeyProof:
    """Asks the SA and the SMs until they show the expected keys. ``managers``: their ports; ``wait``: seconds without
    progress after which it is given up; ``check``: called often, raises to stop.
    """

    writer: Writer
    managers: Sequence[Manager]
    clock: Clock
    wait: float
    check: Callable[[], None]

    # --- the SA ------------------------------------------------------------------------------------------------------

    def until_trusted(self, key: SMKey) -> bool:
        """Return whether the SA of the master answers requests with *key* before the timeout."""
        return look_until(
            lambda: self.is_trusted(key), lambda is_trusted: not is_trusted, self.clock, self.wait, self.check
        )

    def is_trusted(self, key: SMKey) -> bool:
        """Return whether the SA answers a question with *key*, whatever it answers: silence is how OpenSM says no."""
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
        """Return the LID of the one master; None, for the local port's own word, where several or none say so."""
        masters = [each.port.lid for each in self.managers if self._state(each) == _MASTER]
        return masters[0] if len(masters) == 1 else None

    # --- the SMs -----------------------------------------------------------------------------------------------------

    def until_read(self, key: SMKey) -> str:
        """Return "" if no SM shows an sm_key other than *key* in its SMInfo, waiting up to the patience; otherwise
        which SMs do, in words. An SM shows it to a requester that knows its M_Key, and to everybody where that is 0; 0
        shows nothing.
        """

        def others_shown() -> list[str]:
            return [str(each.port) for each in self.managers if self._shows_another(each, key)]

        others = look_until(others_shown, len, self.clock, self.wait, self.check)
        if not others:
            return ""
        return f"the SM at {named(others)} has not read the new sm_key (was its options file there at its start?)"

    def _shows_another(self, manager: Manager, key: SMKey) -> bool:
        info = self._info(manager)
        return info is not None and SMKey(info.sm_key) not in (key, NO_SM_KEY)

    def until_steady(self, seconds: float) -> str:
        """Return "" when one SM was master and all others standbys for *seconds*, as far as the asking tells; else what
        was wrong last, in words."""
        seconds = seconds + _MARGIN if seconds else 0.0
        end = self.clock.now() + self.wait + 2 * seconds
        waiting = ProgressTimeout(self.clock, self.wait)
        since: float | None = None
        while True:
            self.check()
            wrong, now = self._wrong(), self.clock.now()
            if wrong:
                since = None
                if now >= end or not waiting.pause(1):
                    return wrong
                continue
            since = now if since is None else since
            if now - since >= seconds:
                return self._strangers()
            waiting = ProgressTimeout(self.clock, self.wait)
            self.clock.sleep(min(LONGEST_PAUSE, since + seconds - now))

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
        """Sweep again: an SM that came in the meantime, or one that nobody knew of, may be a second master."""
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

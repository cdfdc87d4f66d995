"""The writes of a loopback: each is made, proven by a read, and, but for cleared violation counters, restored and
proven again.

They are the changes of `ibkeys pkey-set`, `mkey-set` and `counters-clear`, with the interlocks, the journal and the key
store of those commands. The writes of a run that was killed are restored by the next run, before it writes anything. A
cable may be moved at any time, so the far port is proven again before each write and before each restoration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ibkeys.change.consent import Objection
from ibkeys.change.counters import plan_clear
from ibkeys.change.pkeys import plan_set
from ibkeys.change.plan import Plan
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError, NotStored, Refused
from ibkeys.fabric.handle import PortHandle
from ibkeys.hardware.check import CheckAnswer, DeviceCheck, Finding, differs, not_checked, same
from ibkeys.hardware.loopback.putting_back import restore_all
from ibkeys.hardware.reading import FabricReading
from ibkeys.keys.mkey import MKey
from ibkeys.keys.pkey import EMPTY, PARTITION_MASK, PKey
from ibkeys.mad.attributes import counted_violations
from ibkeys.mkeys.set import plan_mkey_set

_FIRST_TRIED: Final = 0x7FF0
"""Partitions are tried from this number downwards."""


@dataclass(slots=True)
class Loopback:
    """The writes to the far port of a loopback. ``own_guids``: the GUIDs of the two ports.

    ``prove``: returns a handle on the far port; raises IbkeysError unless it is still this host's own.
    ``is_unrestored``: a write could not be restored; the journal has it. ``refusals``: the number of writes that were
    refused by an interlock, or not made because ``prove`` failed. ``far``: the far port, as last proven.
    """

    reading: FabricReading
    writer: ChangeWriter
    prove: Callable[[], PortHandle]
    own_guids: frozenset[int]
    is_unrestored: bool = False
    refusals: int = 0
    far: PortHandle = field(init=False)

    def findings(self) -> Iterator[Finding]:
        """Restore the writes of an earlier run, then make the writes one after the other; yield a finding for each.

        Raises the errors of the first ``prove`` and of the restoration.
        """
        self.prove()
        earlier = restore_all(self.reading, self.writer, self.own_guids)
        if earlier:
            text = f"operation {', '.join(map(str, earlier))} of the journal was put back"
            yield Finding("write.earlier", "standard", "a run that was cut off is put back", same(text))
        for each in (
            DeviceCheck("write.p-key", "standard", "a P_Key that is set is read back, and removed again", self._p_key),
            DeviceCheck(
                "write.m-key", "standard", "an M_Key at level 0 is read back, and taken away again", self._m_key
            ),
            DeviceCheck("write.counters", "standard", "a 0 resets the violation counters", self._counters),
        ):
            yield each.finding(self._make(each))

    def _make(self, each: DeviceCheck) -> CheckAnswer:
        if self.is_unrestored:
            return not_checked("an earlier write could not be put back")
        try:
            self.far = self.prove()
        except IbkeysError as error:
            self.refusals += 1
            return not_checked(f"the second port was not proven again: {error}")
        try:
            return each.ask(self.reading)
        except IbkeysError as error:
            if isinstance(error, Refused) and not self.is_unrestored:
                self.refusals += 1
                option = Objection(error.interlock, "").how_to_override
                return not_checked(f"{_cause_text(error)}; to do it anyway: {option}")
            return differs(_cause_text(error))

    def _p_key(self, reading: FabricReading) -> CheckAnswer:
        """Set the P_Key of a partition without members, at the last free entry, and restore the table."""
        before = self.far.read_p_keys()
        index = max((index for index, key in enumerate(before) if index and not int(key)), default=None)
        if index is None:
            return not_checked("no entry of the P_Key table is free")
        key = PKey(_unused_p_key(reading))
        plan = plan_set(self.writer, self.far, {index: key})
        return self._write(plan, self.far.read_p_keys, before, {"index": index, "capacity": len(before)})

    def _m_key(self, reading: FabricReading) -> CheckAnswer:
        """Give the port an M_Key, level 0 and lease 0, and remove it."""
        info = self.far.read_port_info()
        if self.far.port.end_port.m_key_state != "zero":
            return not_checked("the port has an M_Key, which stays as it is")
        plan = plan_mkey_set(self.writer, self.far, MKey.generate(), 0, 0)

        def state() -> tuple[str, int, int]:
            now = self.far.read_port_info()
            return self.far.port.end_port.m_key_state, now.m_key_protect_bits, now.m_key_lease_period

        before = ("zero", info.m_key_protect_bits, info.m_key_lease_period)
        return self._write(plan, state, before, {"level": before[1], "lease": before[2]})

    def _write(self, plan: Plan, read: Callable[[], Any], before: Any, values: dict[str, Any]) -> CheckAnswer:
        """Make *plan*, restore its changes in any case, and compare the result of *read* with *before*."""
        self.writer.check(plan)
        try:
            self.writer.apply(plan)
            has_changed = read() != before
        finally:
            self._restore()
        if read() != before:
            return differs("put back, but the port is not as before: did a subnet manager write it too?", **values)
        text = "set, read back, restored, and read again"
        return (
            same(text, **values)
            if has_changed
            else differs("the Set was answered, and the port did not change", **values)
        )

    def _restore(self) -> None:
        """Prove the far port again, then restore every unrestored write of the journal. If either fails, set
        ``is_unrestored``, so that nothing more is written."""
        try:
            self.prove()
            restore_all(self.reading, self.writer, self.own_guids)
        except BaseException:
            self.is_unrestored = True
            raise

    def _counters(self, reading: FabricReading) -> CheckAnswer:
        """Reset the violation counters that are not 0. The journal has their values, but they cannot be restored."""
        info = self.far.read_port_info()
        counted = counted_violations(info)
        if not counted:
            return not_checked("all three counters are 0, so there is nothing to reset")
        plan = plan_clear(self.writer, [self.far])
        self.writer.check(plan)
        self.writer.apply(plan)
        return same("reset, and read as 0; counters cannot be restored", before=counted)


def _cause_text(error: IbkeysError) -> str:
    """Return the text about *error* for a report. Reports are published, so messages that may have P_Keys are left
    out."""
    if isinstance(error, Refused):
        return f"refused by interlock {error.interlock}"
    return "a fresh read does not show the value that was set" if isinstance(error, NotStored) else str(error)


def _unused_p_key(reading: FabricReading) -> int:
    """Return the limited P_Key of a partition that no port of the sweep is a member of."""
    used = {int(key) & PARTITION_MASK for port in reading.topology.ports() for key in port.p_keys or () if key != EMPTY}
    return next(number for number in range(_FIRST_TRIED, 0, -1) if number not in used)

"""What a port shall have, and which key it has after a Set whose answer may have been lost (IBA 14.2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ibkeys.client.smp import Route, SmpClient, Task
from ibkeys.errors import MadStatusError, NoReply, SendRefused
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import Method


@dataclass(frozen=True, slots=True)
class KeySetting:
    """M_Key, M_KeyProtectBits and M_KeyLeasePeriod (seconds) that a port has or shall have. They travel in one Set."""

    key: MKey
    protect: int
    lease: int

    def fields(self) -> dict[str, int]:
        """Return the two that are no secret, by their names in PortInfo."""
        return {"m_key_protect_bits": self.protect, "m_key_lease_period": self.lease}


@dataclass(frozen=True, slots=True)
class Answer:
    """PortInfo as read after a Set, and the key that the port has."""

    info: PortInfo
    key: MKey

    def violations(self, asked: Sequence[MKey]) -> int:
        """Return how many violations the SMPs with the keys *asked* have counted, if all of them arrived."""
        counts = self.info.m_key_protect_bits >= 2 and not self.key.is_zero
        return sum(other != self.key for other in asked) if counts else 0


def shown_key(info: PortInfo) -> MKey | None:
    """Return the key that PortInfo of an end port shows; None where a zero may be a hidden key (level 1)."""
    key = MKey(info.m_key)
    return None if key.is_zero and info.m_key_protect_bits == 1 else key


def who_answers(
    client: SmpClient, route: Route, num: int, old_key: MKey, new_key: MKey, replied: bool, asked: list[MKey]
) -> Task:
    """Task: return the `Answer` of a port after a Set, or None when it answers to neither key.

    Each Get is a single attempt: at level 2 and 3 one with the wrong key counts a violation, so the new key, which a
    port that took the Set has, comes first. After a reply to the Set the new key gets all its attempts first. The keys
    that were sent are added to *asked*.
    """
    rounds = client.timing.retries + 1
    order = [new_key] * rounds + [old_key] if replied else [new_key, old_key] * rounds
    for key in order:
        asked.append(key)
        info = yield from _get_once(client, route, num, key)
        if info is None:
            continue
        shown = shown_key(info)
        if shown is None:
            # Level 1 shows zero to everybody who does not send the key: only the other key can tell. This counts
            # nothing.
            second = yield from _get_once(client, route, num, old_key if key == new_key else new_key)
            if second is None:
                continue
            info, shown = second, MKey(second.m_key)
        return Answer(info, shown)
    return None


def _get_once(client: SmpClient, route: Route, num: int, key: MKey) -> Task:
    # A name of its own for each: the scheduler asks nobody again who was silent to the SMP before.
    request = client.request(Method.GET, PortInfo, num, route, node=object(), m_key=key, retries=0)
    try:
        return PortInfo((yield request))
    except (NoReply, MadStatusError, SendRefused):
        return None  # a busy agent has not answered the question either

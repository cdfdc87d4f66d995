"""Setting M_Key, ProtectBits and lease of one port without ever losing a key (IBA 14.2.4).

The engine's steps (`ibkeys.change.engine`) for an M_Key:

1. PortInfo is read right before the Set, and must be as it was shown;
2. the new key goes into the key store, and the old one stays there; the journal gets the former PortInfo, without keys;
3. the Set carries the old key in its header;
4. a Get with the new key verifies it. If the Set got no reply, the new key is tried first and the old one second: a
   port that took the new key counts a violation only if the Get with the new key gets no reply either. An answer to the
   old key proves that the Set never arrived. When the key is removed (set to 0), only the old key is tried: a port
   without a key accepts it and shows 0 in PortInfo, so neither outcome counts a violation.

At every point the store holds every key that the port may have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ibkeys.change.consent import Objection
from ibkeys.change.edits import what_changed, wrong_fields
from ibkeys.change.pending_set import PendingSet, SetProof
from ibkeys.change.portinfo import set_image, with_valid_lids, without_key, without_volatile_fields
from ibkeys.change.target import PortTarget
from ibkeys.client.smp import SmpClient, Task
from ibkeys.errors import MadStatusError, MKeyNeeded, NoReply, NotStored, SendRefused
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import Attribute, PortInfo
from ibkeys.mad.const import Method
from ibkeys.port_text import PortText, at_port
from ibkeys.topology.nodes import Port

ASK_LATER = "both are in the key store: query the port again later with that key store: both are tried"


@dataclass(slots=True, eq=False, repr=False)
class KeyEdit:
    """The change of M_Key, level and lease of one end port, from ``old`` to ``wanted``.

    ``shown``: the PortInfo for which the plan was made. ``ref`` and ``key_name``: number and name of the key store's
    row with the wanted key, None while it is not stored. ``takes_over``: PortInfo may have changed since it was shown.
    ``max_sends``: see `Edit`. ``who``: the beginning of an error text, if nothing else names the port. ``advice``:
    advice for a port that answers to neither key.

    State of the run: ``asked``: keys tried since the Set; ``has``: which of the two the last proof found, None for
    neither; ``replies_lost``, ``sets_lost``: Sets whose reply was lost, or that never arrived; ``violations``: upper
    limit of the violations that these Gets have counted.
    """

    name: ClassVar[str] = "PortInfo"
    attribute: ClassVar[type[Attribute]] = PortInfo
    is_alone: ClassVar[bool] = True

    target: PortTarget
    shown: PortInfo
    old: KeySetting
    wanted: KeySetting
    ref: int | None = None
    key_name: str | None = None
    takes_over: bool = False
    max_sends: int = 1
    who: str = ""
    advice: str = ASK_LATER
    asked: list[MKey] = field(default_factory=list)
    has: Literal["wanted", "old"] | None = None
    replies_lost: int = 0
    sets_lost: int = 0
    violations: int = 0

    @property
    def port(self) -> Port:
        """The end port."""
        return self.target.port

    @property
    def modifier(self) -> int:
        """The AttributeModifier of PortInfo: the port's number."""
        return self.port.num

    @property
    def keeps_key(self) -> bool:
        """Whether only level or lease change."""
        return self.wanted.key == self.old.key

    def build(self, now: bytes) -> bytes:
        """Return *now* with the three fields set; everything else stays. The Set's header carries the key that the port
        has now.

        Raises Refused (``stale``), and MKeyNeeded if the port hides a key that has changed.
        """
        info = PortInfo(now)
        changed = what_changed(self.shown, info)
        if changed and not self.takes_over:
            text = at_port(self.port, f"PortInfo changed since it was shown ({changed})")
            raise Objection("stale", text).refusal()
        key = shown_key(info)
        if key is None:
            key = self.old.key  # the key of the request; if it were the port's key, the port would show it
            if not (key.is_zero and self.target.handle.fabric.ring.for_all == NO_MKEY):
                raise MKeyNeeded(at_port(self.port, "it hides its M_Key, which has changed"))
        self.old = KeySetting(key, info.m_key_protect_bits, info.m_key_lease_period)
        self.target.m_key = key
        return set_image(info, self.wanted.key, **self.wanted.fields()).raw

    def changed_meanwhile(self, read: bytes, now: bytes) -> bool:
        """Return whether fields other than states, speeds and counters changed between two reads."""
        return without_volatile_fields(PortInfo(read)) != without_volatile_fields(PortInfo(now))

    def without_secrets(self, raw: bytes) -> bytes:
        """PortInfo without its M_Key."""
        return without_key(PortInfo(raw))

    def fallback(self, sent: bytes) -> bytes | None:
        """Return the same PortInfo with stand-ins for LIDs, or None: an agent that no SM has configured refuses a Set
        with its own LID 0, and ibportstate sends a stand-in too."""
        image = with_valid_lids(PortInfo(sent)).raw
        return None if image == sent else image

    # --- the proof ---------------------------------------------------------------------------------------------------

    def prove(self, client: SmpClient, each: PendingSet) -> Task:
        """Task: find out which of its two keys the port has, and return the `SetProof`."""
        self.has = None
        replied = each.set_error is None
        answer = yield from self._who_answers(client, replied)
        if answer is None:
            why = () if replied else (" (", str(each.set_error), ")")
            text = f"{self.who}after the Set it answers neither to the new nor to the old M_Key"
            return SetProof(NoReply(PortText.joined(text, *why, f"; {self.advice}")), is_silent=True)
        info, key = answer
        if info.m_key_protect_bits >= 2 and not key.is_zero:  # if all SMPs with another key arrived
            self.violations += sum(other != key for other in self.asked)
        self.asked.clear()
        return self._judge(each, info, key)

    def _judge(self, each: PendingSet, info: PortInfo, key: MKey) -> SetProof:
        error, wrong = each.set_error, wrong_fields(info, self.wanted.fields())
        if key == self.wanted.key and not wrong:
            self.has = "wanted"
            self.replies_lost += isinstance(error, NoReply)
            return SetProof()
        if key not in (self.wanted.key, self.old.key):
            return self._not_stored("it has an M_Key that is neither its old nor its new one")
        if key == self.wanted.key and not self.keeps_key:
            self.has = "wanted"
            return self._not_stored(f"it has its new M_Key, but {wrong}")
        self.has = "old"
        if isinstance(error, NoReply):
            self.sets_lost += 1
            # A Set that may be sent again was made from an earlier Get. This Get must show the same, except for fields
            # that a Set leaves alone.
            if changed := what_changed(PortInfo(each.before), info):
                return self._not_stored(f"the Set was lost, then PortInfo changed ({changed})")
            rest = (
                " each time; its old M_Key stays" if self.max_sends > 1 else "; it still has its old M_Key: try again"
            )
            return self._not_stored(f"Set(PortInfo) was lost on its way{rest}", never_arrived=True)
        if error is not None:
            return self._not_stored(f"{error}; its old M_Key stays", changed_nothing=True)
        missing = "; ".join(filter(None, ("" if self.keeps_key else "M_Key is the old one", wrong)))
        return self._not_stored(f"Set(PortInfo) was accepted but not stored: {missing}")

    def _not_stored(self, why: str, changed_nothing: bool = False, never_arrived: bool = False) -> SetProof:
        return SetProof(NotStored(self.who + why), changed_nothing, never_arrived)

    def _who_answers(self, client: SmpClient, replied: bool) -> Task:
        """Task: return PortInfo as read after a Set, and the key that the port has; None if it answers to neither key.
        Each Get is a single attempt: at levels 2 and 3 a Get with the wrong key counts a violation, so the new key,
        which a port that took the Set has, comes first. After a reply to the Set the new key gets all its attempts
        first. A port whose key was removed accepts the old one too, so only the old one is sent then.
        """
        rounds = client.timing.retries + 1
        old, new = self.old.key, self.wanted.key
        course = [new] * rounds + [old] if replied else [new, old] * rounds
        for key in [old] * rounds if new.is_zero else course:
            self.asked.append(key)
            info = yield from self._get_once(client, key)
            if info is None:
                continue
            shown = shown_key(info)
            if shown is None:
                # Level 1 shows zero to everybody who does not send the key: only the other key can tell. This counts
                # nothing.
                second = yield from self._get_once(client, old if key == new else new)
                if second is None:
                    continue
                info, shown = second, MKey(second.m_key)
            return info, shown
        return None

    def _get_once(self, client: SmpClient, key: MKey) -> Task:
        # Each Get has a node of its own: the scheduler sends nothing more to a node that was silent to the SMP before.
        route, num = self.target.handle.route, self.port.num
        request = client.request(Method.GET, PortInfo, num, route, node=object(), m_key=key, retries=0)
        try:
            return PortInfo((yield request))
        except (NoReply, MadStatusError, SendRefused):
            return None  # a busy status is not an answer either


def shown_key(info: PortInfo) -> MKey | None:
    """Return the key that PortInfo of an end port shows; None if a zero may be a hidden key (level 1)."""
    key = MKey(info.m_key)
    return None if key.is_zero and info.m_key_protect_bits == 1 else key

"""Setting M_Key, ProtectBits and lease of one port without ever losing a key (IBA 14.2.4).

The steps of the engine (`ibkeys.change.engine`) for an M_Key:

1. PortInfo is read right before the Set, and must be the same as when the change was planned, unless the user takes it
   over;
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
    row with the wanted key, None while it is not stored. ``takes_over``: whether PortInfo may have changed since the
    plan was made. ``max_sends``: see `Edit`. ``error_prefix``: the beginning of an error text, if nothing else names
    the port. ``advice``: advice for a port that answers to neither key.

    The result so far: ``tried_keys``: the keys of the Gets since the Set; ``proven_key``: the key that the last proof
    found, the wanted one, the old one, or None for neither; ``replies_lost``: number of Sets that took effect although
    no reply came; ``sets_lost``: number of Sets that never arrived; ``violations``: upper limit of the M_Key violations
    that the Gets have counted.
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
    error_prefix: str = ""
    advice: str = ASK_LATER
    tried_keys: list[MKey] = field(default_factory=list)
    proven_key: Literal["wanted", "old"] | None = None
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

    def build(self, present: bytes) -> bytes:
        """Return the PortInfo to send: M_Key, ProtectBits and lease as wanted, "no change" in the fields that act when
        they are written (`set_image`), and the others as in *present*. Note the key that the port has now, which the
        Set's header carries.

        Raises Refused (``stale``) if PortInfo has changed since the plan was made, unless ``takes_over``; MKeyNeeded if
        the port hides a key that has changed.
        """
        info = PortInfo(present)
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

    def changed_meanwhile(self, read: bytes, present: bytes) -> bool:
        """Return whether fields of PortInfo that do not change by themselves differ between two reads."""
        return without_volatile_fields(PortInfo(read)) != without_volatile_fields(PortInfo(present))

    def without_secrets(self, raw: bytes) -> bytes:
        """Return the PortInfo *raw* with its M_Key zeroed, for the journal."""
        return without_key(PortInfo(raw))

    def fallback(self, sent: bytes) -> bytes | None:
        """Return the PortInfo *sent* with stand-ins for LID and MasterSMLID where they are not unicast LIDs; None if
        both are.

        A port that no SM has configured has LID 0, and its agent refuses a Set with it. ibportstate sends the same
        stand-in.
        """
        image = with_valid_lids(PortInfo(sent)).raw
        return None if image == sent else image

    # --- the proof ---------------------------------------------------------------------------------------------------

    def prove(self, client: SmpClient, pending: PendingSet) -> Task:
        """Task: read which of the two keys the port has after the Set *pending*, and return the `SetProof`."""
        self.proven_key = None
        replied = pending.set_error is None
        answer = yield from self._read_back(client, replied)
        if answer is None:
            why = () if replied else (" (", str(pending.set_error), ")")
            text = f"{self.error_prefix}after the Set it answers neither to the new nor to the old M_Key"
            return SetProof(NoReply(PortText.joined(text, *why, f"; {self.advice}")), is_silent=True)
        info, key = answer
        if info.m_key_protect_bits >= 2 and not key.is_zero:  # an upper limit: some of these SMPs may be lost
            self.violations += sum(other != key for other in self.tried_keys)
        self.tried_keys.clear()
        return self._judge(pending, info, key)

    def _judge(self, pending: PendingSet, info: PortInfo, key: MKey) -> SetProof:
        """Return the proof of the Set *pending*. *info*, *key*: PortInfo of the port after it, and the key that the
        port has."""
        error, wrong = pending.set_error, wrong_fields(info, self.wanted.fields())
        if key == self.wanted.key and not wrong:
            self.proven_key = "wanted"
            self.replies_lost += isinstance(error, NoReply)
            return SetProof()
        if key not in (self.wanted.key, self.old.key):
            return self._not_stored("it has an M_Key that is neither its old nor its new one")
        if key == self.wanted.key and not self.keeps_key:
            self.proven_key = "wanted"
            return self._not_stored(f"it has its new M_Key, but {wrong}")
        self.proven_key = "old"
        if isinstance(error, NoReply):
            self.sets_lost += 1
            # A Set that may be sent again was made from an earlier Get. This Get must show the same, except for fields
            # that a Set leaves alone.
            if changed := what_changed(PortInfo(pending.before), info):
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
        return SetProof(NotStored(self.error_prefix + why), changed_nothing, never_arrived)

    def _read_back(self, client: SmpClient, replied: bool) -> Task:
        """Task: read PortInfo after a Set, and return it with the key that the port has; None if the port answers to
        neither key. *replied*: whether the Set got a reply.

        Each Get is a single attempt. At levels 2 and 3 a Get with the wrong key counts a violation, so the new key is
        tried first, because a port that took the Set has it. After a reply to the Set, the new key gets all its
        attempts before the old key is tried. If the key was removed, only the old key is sent: a port without a key
        accepts it too.
        """
        rounds = client.timing.retries + 1
        old, new = self.old.key, self.wanted.key
        attempts = [new] * rounds + [old] if replied else [new, old] * rounds
        for key in [old] * rounds if new.is_zero else attempts:
            self.tried_keys.append(key)
            info = yield from self._get_once(client, key)
            if info is None:
                continue
            shown = shown_key(info)
            if shown is None:
                # At level 1 a port shows 0 to a requester without its key, so a Get with the other key is needed. At
                # this level it counts no violation.
                second = yield from self._get_once(client, old if key == new else new)
                if second is None:
                    continue
                info, shown = second, MKey(second.m_key)
            return info, shown
        return None

    def _get_once(self, client: SmpClient, key: MKey) -> Task:
        # Each Get names a node of its own, because the scheduler sends no more SMPs to a node that did not answer one.
        route, num = self.target.handle.route, self.port.num
        request = client.request(Method.GET, PortInfo, num, route, node=object(), m_key=key, retries=0)
        try:
            return PortInfo((yield request))
        except (NoReply, MadStatusError, SendRefused):
            return None  # an error status, such as busy, does not show the key either


def shown_key(info: PortInfo) -> MKey | None:
    """Return the key that PortInfo of an end port shows; None if a zero may be a hidden key (level 1)."""
    key = MKey(info.m_key)
    return None if key.is_zero and info.m_key_protect_bits == 1 else key

"""Bringing back ports whose M_Key is lost (IBA 14.2.4): by keys that are still somewhere, else by their leases.

1. The survey reads what can be read and finds who is silent or hides a key. It asks each silent port once.
2. The interlock ``mkey-under-sm`` speaks: an SM that knows the keys stops every lease with every SMP it sends.
3. Keys that may fit are tried: further ones of the key store, the key files, those that the user gives.
4. The leases of all others are started and waited for (`ibkeys.mkeys.recovery.search`). When one has run out,
   ProtectBits are 0 and the port shows its key to everybody.
5. A key that was found goes into the key store before anything else happens with it. Then, where the user wants it, a
   new key, ProtectBits or lease are set as `ibkeys.mkeys.set` does.

A port whose lease is 0 never opens. Who stays closed is named, and what is reached only through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from ibkeys.change.consent import Objection
from ibkeys.change.plan import Plan
from ibkeys.change.writer import Writer
from ibkeys.client.address import DirectedAddress
from ibkeys.discovery.bounds import limit_notes
from ibkeys.errors import IbkeysError, UsageError
from ibkeys.fabric.subnet_manager import find_subnet_manager
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mkeys.recovery.hidden_nodes import BLIND_PROBES, MOST_BLIND_WAVES
from ibkeys.mkeys.recovery.locked_ports import Closed, Hidden
from ibkeys.mkeys.recovery.routes import Links, hidden_behind, links_of
from ibkeys.mkeys.recovery.search import Search
from ibkeys.mkeys.recovery.timing import most_questions, patience
from ibkeys.mkeys.set import plan_mkey_set
from ibkeys.mkeys.stored_links import remember_topology
from ibkeys.store.journal import Entry
from ibkeys.topology.model import LinkEnd, Port
from ibkeys.topology.subnet_manager import SubnetManager

MOST_TRIES: Final = 8
"""Keys that are tried on one port unless the user says otherwise."""
_NAMED: Final = 8
_LEAST_PAUSE: Final = 0.05
"""Seconds between two rounds of questions."""
_TICK: Final = 1.0
"""Seconds between two words to the progress bar."""

_LEFT: Final = (
    "what is left: the key from elsewhere (--security-keys, --try-keys), a power cycle (without IsMKeyNVRAM the key is "
    "0 afterwards), or the maker's tool on the node itself"
)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user wants.

    ``set_new``: a new key for each port, ``new_key`` or else a generated one; ``protect`` (0..3) and ``lease`` (in
    seconds) are set with it, or with the key that was found; None leaves a value. ``try_keys``: keys to try on every
    port that does not open; each port is tried with at most ``tries`` of them, and of the further keys that are known
    for it. ``wait``: seconds after which a silent port is given up. ``names``: NodeDescription by node GUID, for nodes
    that do not tell it.
    """

    set_new: bool = False
    new_key: MKey | None = None
    protect: int | None = None
    lease: int | None = None
    try_keys: tuple[MKey, ...] = ()
    tries: int = MOST_TRIES
    wait: float | None = None
    names: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.protect is not None and not 0 <= self.protect <= 3:
            raise UsageError(f"ProtectBits {self.protect} is not in 0..3")
        if self.lease is not None and not 0 <= self.lease <= 0xFFFF:
            raise UsageError(f"lease {self.lease} s is not in 0..65535")
        if self.new_key is not None and self.new_key.is_zero:
            raise UsageError("the new M_Key is 0: that is none; take protection away with mkey-set, port by port")

    @property
    def sets_something(self) -> bool:
        """Whether a port that came back is changed."""
        return self.set_new or self.new_key is not None or self.protect is not None or self.lease is not None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one port. ``port`` is what every document says of a port; of one that never answered most of it is
    None. ``reason`` is for people and holds no key."""

    port: dict[str, Any]
    result: Literal["done", "skipped", "failed"]
    reason: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a recovery would do.

    ``shown``: keys that can be read and are not known; ``hidden``: ports at level 1 that hide theirs, ``never`` of them
    with lease 0; ``silent``: ports that do not answer, as far as known. ``leases``: seconds, where known.
    ``has_links``: the links behind silent switches are known. ``tries``: keys tried on one port at most.
    ``violations``: most M_Key violations at the ports counted here; ``blind_probes``: most SMPs through closed switches
    to ports of which nothing is known. ``seconds``: until a silent port is given up.
    """

    shown: int
    hidden: int
    never: int
    silent: int
    leases: tuple[int, ...]
    has_links: bool
    tries: int
    violations: int
    blind_probes: int
    seconds: float

    @property
    def is_empty(self) -> bool:
        """Whether no key is missing."""
        return not (self.shown or self.hidden or self.silent)

    def to_json(self) -> dict[str, Any]:
        """Return the same as a document."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Account:
    """The whole account of a recovery. ``violations``: M_Key violations that it counted at most (a lost SMP or reply
    looks as a refused one does). ``seconds`` on the port's clock. ``interrupted``: the user ended it."""

    done: int = 0
    skipped: int = 0
    failed: int = 0
    smps: int = 0
    violations: int = 0
    seconds: float = 0.0
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """Where a recovery is: ports that came back and that are waited for, seconds so far, seconds until the next lease
    should be over (None while no lease is known)."""

    back: int
    waiting: int
    seconds: float
    next_opening: float | None


Report = Callable[[Result], None]
Progress = Callable[[Status], None]


class Recovery:
    """One recovery; made by `plan_recovery`, which has done the survey."""

    def __init__(self, writer: Writer, links: Links, wishes: Wishes) -> None:
        fabric = writer.fabric
        self.writer = writer
        self.wishes = wishes
        self.search = Search(fabric.client, fabric.ring, links, fabric.node_names, wishes.wait)
        self.account = Account()
        self._links = links
        self._started = self.search.now
        self._spares = fabric.ring.spares
        self._to_change: list[Port] = []
        self._new: list[tuple[Port, bool]] = []

    # --- before ------------------------------------------------------------------------------------------------------

    def survey(self) -> None:
        """Read what can be read. Raises TransportError."""
        ring = self.writer.fabric.ring
        ring.spares = {}  # further keys are tried when the user has heard what that costs
        try:
            self.search.survey()
        finally:
            ring.spares = self._spares
        self.search.waiting.leases |= self._stored_leases()
        self.search.waiting.add_routes()
        self._new = self.search.waiting.take_found()

    def _stored_leases(self) -> set[int]:
        """Return the leases that this tool has set, in seconds, as the key store has them."""
        path = self.writer.fabric.stores.keystore
        if path is None or not path.exists():
            return set()
        return {row.m_key_lease_period for row in self.writer.keystore.rows() if row.m_key_lease_period}

    def limits_reached(self) -> list[str]:
        """Return a note for each limit that was reached so far: what it left out was not looked at."""
        return limit_notes(self.search.fabric, self.writer.fabric.client.limits)

    def outlook(self) -> Outlook:
        """Return what `run` would do, and what it would cost at most."""
        search, wishes = self.search, self.wishes
        leases = tuple(sorted(search.waiting.leases))
        seconds = patience(leases, wishes.wait)
        tries = min(wishes.tries, len(wishes.try_keys) + max(map(len, self._spares.values()), default=0))
        each = tries + 2 + most_questions(leases, seconds, len(search.waiting.closed)) if search.waiting.closed else 0
        blind = search.may_be_switches
        return Outlook(
            shown=sum(self._is_news(port, locked) for port, locked in self._new),
            hidden=len(search.waiting.hidden),
            never=sum(not hidden.lease for hidden in search.waiting.hidden.values()),
            silent=len(search.waiting.closed),
            leases=leases,
            has_links=bool(self._links),
            tries=tries,
            violations=each * len(search.waiting.closed) + 3 * len(search.waiting.hidden),
            blind_probes=blind * BLIND_PROBES * MOST_BLIND_WAVES,
            seconds=seconds,
        )

    def objections(self) -> list[Objection]:
        """Return the interlocks that it sets off: none while no lease is needed and nothing is set."""
        search, writer = self.search, self.writer
        if not (
            search.waiting.closed
            or search.waiting.hidden
            or (self.wishes.sets_something and not self.outlook().is_empty)
        ):
            return []
        for port in search.fabric.end_ports():
            writer.note_master_sm_lid(writer.fabric.handle(port))
        manager = self._subnet_manager
        if not manager.may_be_master:
            return []
        names = ", ".join(map(str, (port for port in search.fabric.end_ports() if port.is_sm)))
        return [
            Objection(
                "mkey-under-sm",
                f"{manager.evidence}{f' (IsSM is set on {names})' if names else ''}; an SM that knows an M_Key stops "
                "the lease of its port with every SMP, so the port would never open: read the keys from that SM "
                "(ibkeys mkey-import of its guid2mkey, or its m_key option), or stop every SM first",
            )
        ]

    @cached_property
    def _subnet_manager(self) -> SubnetManager:
        """The master SM, asked but once or twice: leases run meanwhile."""
        writer = self.writer
        writer.subnet_manager = find_subnet_manager(
            writer.fabric, writer.master_sm_lids, own_answers=not self.search.own_is_silent, retries=1
        )
        return writer.subnet_manager

    # --- doing it ----------------------------------------------------------------------------------------------------

    def run(self, report: Report, progress: Progress | None = None) -> Account:
        """Recover what can be recovered, and return the whole account. *report* hears of each port as it happens.

        Ctrl-C ends it early: what was found is in the key store, and leases that were started run on. Raises Refused,
        TransportError, StoreError.
        """
        self.writer.check(Plan(self.writer.command, objections=self.objections()))
        account, ring = self.account, self.writer.fabric.ring
        ring.spares = {guid: keys[: self.wishes.tries] for guid, keys in self._spares.items()}
        try:
            with self.writer.journaled():
                self._take(report)
                self.search.given = self.wishes.try_keys[: self.wishes.tries]
                self.search.try_keys()
                self._take(report)
                self.search.provoke(self._record)
                self._take(report)
                while not self.search.is_over:
                    self._pause(progress)
                    self.search.ask_due(self._record)
                    self._take(report)
                self._store_links()
                self._change(report)
        except KeyboardInterrupt:
            account.interrupted = True
        finally:
            ring.spares = self._spares
            self._store_links()
        self._report_closed(report)
        account.smps = self.search.smps
        account.violations = self.search.violations
        account.seconds = self.search.now - self._started
        return account

    def _pause(self, progress: Progress | None) -> None:
        search = self.search
        until = max(search.next_time(), search.now + _LEAST_PAUSE)
        while (left := until - search.now) > 0:
            if progress is not None:
                opening = search.next_opening()
                progress(
                    Status(
                        self.account.done + len(self._to_change),
                        len(search.waiting.closed) + len(search.waiting.hidden),
                        search.now - self._started,
                        None if opening is None else opening - search.now,
                    )
                )
            search.client.wait(min(left, _TICK) if progress is not None else left)

    def _record(self, port: Port, block: bytes) -> Entry:
        handle = self.writer.fabric.handle(port)
        return self.writer.record(handle, "P_KeyTable", 0, block, block)

    # --- keys that were found ----------------------------------------------------------------------------------------

    def _is_news(self, port: Port, was_locked: bool) -> bool:
        """Whether a port that shows its key was lost, or its key is not the one that the ring has for it."""
        ring, state = self.writer.fabric.ring, port.m_key_state
        if state != "set":
            return was_locked
        info = port.port_info
        assert info is not None
        known = ring.for_all or ring.by_guid.get(port.guid) or ring.fallback
        return was_locked or MKey(info.m_key) != known

    def _take(self, report: Report) -> None:
        """Put the keys that were found into the key store, together and before anything else; then report."""
        found, self._new = [*self._new, *self.search.waiting.take_found()], []
        news = [(port, locked) for port, locked in found if self._is_news(port, locked)]
        with_key = [port for port, _ in news if port.m_key_state == "set"]
        if with_key:
            self._store(with_key)
        for port, locked in news:
            info = PortInfo(port.info or b"")
            if port not in with_key:
                reason = "it answers and has no M_Key: there is nothing to recover"
                self._count(report, Result(port.identity(), "skipped", reason))
            elif self.wishes.sets_something:
                self._to_change.append(port)
            else:
                self._count(report, Result(port.identity(), "done", _how(info, locked)))

    def _store(self, ports: Sequence[Port]) -> None:
        store, ring = self.writer.keystore, self.writer.fabric.ring
        with store.together():
            for port in ports:
                key = MKey(PortInfo(port.info or b"").m_key)
                ref = store.put_imported(
                    port.guid, key, node_guid=port.node.guid, port=port.num, note="recovered: the port showed it"
                )
                store.promote(ref)
        for port in ports:
            port.m_key = MKey(PortInfo(port.info or b"").m_key)
            ring.by_guid[port.guid] = port.m_key
            ring.learn(port.guid, port.m_key)

    def _store_links(self) -> None:
        """Store links and LIDs where keys were found: a later run sends a key only over a link that it knows."""
        if self.writer.fabric.ring.learned:
            remember_topology(self.writer.fabric, self.writer.keystore, self.search.fabric)

    def _change(self, report: Report) -> None:
        """Set what the user wants on the ports that came back: the farthest first, the own port last."""
        wishes, writer = self.wishes, self.writer
        self._to_change.sort(key=lambda port: -len(port.path if port.path is not None else port.node.path))
        while self._to_change:
            port = self._to_change[0]
            key = wishes.new_key or (MKey.generate() if wishes.set_new else None)
            try:
                plan = plan_mkey_set(
                    writer, writer.fabric.handle(port), key, wishes.protect, wishes.lease, links_are_stored=True
                )
                writer.check(plan)
                if plan.pending:
                    plan.perform()
            except IbkeysError as error:
                result = Result(port.identity(), "failed", f"its key is in the key store, but setting failed: {error}")
            else:
                what = "; ".join(map(str, plan.changes)) or "nothing to change"
                result = Result(port.identity(), "done", f"its key was found; {what}")
            self._to_change.remove(port)
            self._count(report, result)

    def _count(self, report: Report, result: Result) -> None:
        name = result.result
        setattr(self.account, name, getattr(self.account, name) + 1)
        report(result)

    # --- who stays closed --------------------------------------------------------------------------------------------

    def _report_closed(self, report: Report) -> None:
        search = self.search
        for port in self._to_change:
            reason = "its key is in the key store; what was to be set was not, the run was interrupted"
            self._count(report, Result(port.identity(), "failed", reason))
        waiting = [*search.waiting.closed.values(), *search.waiting.hidden.values()]
        closed = [
            each
            for each in (*search.waiting.given_up, *waiting)
            if isinstance(each, Closed) and not self._is_back(each)
        ]
        links, ids = self._links_with(closed)
        for spot in closed:
            behind = hidden_behind(links, search.waiting.start, [ids[spot.path]])
            self._count(report, Result(self._identity(spot), "failed", self._why_closed(spot, behind)))
        for hidden in (*search.waiting.given_up, *waiting):
            if isinstance(hidden, Hidden):
                self._count(report, Result(hidden.port.identity(), "failed", self._why_hidden(hidden)))

    def _is_back(self, spot: Closed) -> bool:
        return (spot.guid in self.search.waiting.reached) or (spot.near is not None and spot.near.peer is not None)

    def _why_closed(self, spot: Closed, behind: set[int]) -> str:
        search = self.search
        route = DirectedAddress(spot.path)
        where = f"{route}{f', behind {spot.near}' if spot.near is not None else ''}"
        if self.account.interrupted and spot.path in search.waiting.closed:
            why = "still silent when the run was interrupted; a lease that was started runs on"
        else:
            known = (
                f"the longest known here is {max(search.waiting.leases)} s"
                if search.waiting.leases
                else "none is known here"
            )
            why = (
                f"silent for {search.now - spot.started:.0f} s since its lease should have begun ({known}): its lease "
                "is 0 or longer than was waited for (--wait), or its agent is dead, which looks the same"
            )
        return f"{where}: {why}; {self._what_is_behind(behind)}{_LEFT}"

    def _what_is_behind(self, behind: set[int]) -> str:
        if not behind:
            return ""
        silent = behind - self.search.waiting.reached
        names = ", ".join(self._name(guid) for guid in sorted(behind)[:_NAMED])
        more = f" and {len(behind) - _NAMED} more" if len(behind) > _NAMED else ""
        how = f"{len(silent)} of them silent" if silent else "all of them back"
        return f"{len(behind)} ports are reached only through it, {how}: {names}{more}; "

    def _why_hidden(self, hidden: Hidden) -> str:
        if not hidden.lease:
            return f"level 1 with lease 0: it hides its key and never opens by itself; {_LEFT}"
        if self.account.interrupted and hidden.port in self.search.waiting.hidden:
            return f"at level 1, lease {hidden.lease} s, still waiting when the run was interrupted; its lease runs on"
        return (
            f"at level 1, lease {hidden.lease} s: it did not open; something sends it SMPs with its right key (an SM, "
            f"another tool), or its agent starts no lease; {_LEFT}"
        )

    def _name(self, guid: int) -> str:
        port = next((port for port in self.search.fabric.end_ports() if guid in (port.guid, port.node.guid)), None)
        name = port.node.description if port is not None else self.wishes.names.get(guid)
        return f"{name!r} 0x{guid:016x}" if name else f"0x{guid:016x}"

    def _identity(self, spot: Closed) -> dict[str, Any]:
        guid = spot.guid
        ports = {num for near, num in self._links if near == guid} if guid is not None else set()
        is_switch = len(ports) > 1
        return {
            "node_guid": f"0x{guid:016x}" if guid is not None and is_switch else None,
            "port_guid": f"0x{guid:016x}" if guid is not None else None,
            "node_desc": self.wishes.names.get(guid) if guid is not None else None,
            "node_type": "switch" if is_switch else None,
            "port": 0 if is_switch else min(ports, default=None),
            "lid": None,
        }

    def _links_with(self, closed: Sequence[Closed]) -> tuple[dict[LinkEnd, LinkEnd], dict[tuple[int, ...], int]]:
        """Return all known links, and the number by which each of *closed* stands in them: its GUID, or one made up."""
        links: dict[LinkEnd, LinkEnd] = {**self._links, **links_of(self.search.fabric)}
        ids = {spot.path: -number if spot.guid is None else spot.guid for number, spot in enumerate(closed, 1)}
        for spot in closed:
            if spot.guid is None and spot.near is not None:
                far = (ids[spot.path], -1)  # nobody knows which of its ports this link is at
                links[spot.near.link_end], links[far] = far, spot.near.link_end
        for end, blind in self.search.waiting.blind_ends.items():
            if blind.path in ids:
                links[end], links[ids[blind.path], blind.num] = (ids[blind.path], blind.num), end
        return links, ids


def plan_recovery(writer: Writer, links: Links | None = None, wishes: Wishes | None = None) -> Recovery:
    """Survey the subnet for ports whose M_Key is not known. *links*: see `ibkeys.mkeys.recovery.routes`; by default
    those of the key ring. Sends only Gets, each once to a silent port. Raises TransportError, StoreError."""
    recovery = Recovery(writer, writer.fabric.ring.neighbors if links is None else links, wishes or Wishes())
    recovery.survey()
    return recovery


def _how(info: PortInfo, was_locked: bool) -> str:
    if not was_locked:
        return f"it shows its key to everybody (ProtectBits {info.m_key_protect_bits}); the key store has it now"
    if info.m_key_protect_bits:
        return "it answered to one of the keys that were tried; the key store has it as its current one"
    return "its lease ran out: ProtectBits are 0 and it shows its key to everybody; the key store has it now"

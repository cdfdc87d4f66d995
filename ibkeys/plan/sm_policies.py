"""Turning a plan into a series of policies for OpenSM that, within the limits below, disconnects no pair and connects
no pair wrongly.

OpenSM writes the changes of a new policy port by port, additions and removals at once, in an order of its own. So
ibkeys goes from the present state to the planned one through the states of `ibkeys.plan.steps`, and writes each of them
as a policy. The last policy is that of the plan, byte for byte. Most plans need no intermediate policy.

An intermediate policy names every port by its GUID, also the subnet manager's, so that a takeover changes nothing. It
has the groups of the new policy, and those of the present policy for partitions in which a former member stays. It has
these limits:

- A port that is connected in the meantime, and that neither policy names by its GUID, gets only the limited default
  P_Key until OpenSM reads the last policy. If both policies name it, it gets the P_Keys that it has in both.
- OpenSM gives every port a P_Key of the default partition. A port that has none gets one with the first policy
  (``given_default``), which may connect it to other members.
- A P_Key that moves to another block of 32 entries is briefly absent between two Sets (``torn``). OpenSM moves a P_Key
  for ``indx0``, when the default P_Key gets index 0 back, and with keep_pkey_indexes off. With allow_both_pkeys, a
  membership that changes takes a new index.
- OpenSM 3.3.23 crashes two or three changes after a policy that gives the MGID of an ``mgid=`` line to another
  partition, and at the same time removes the last port of the former partition. No intermediate policy does that, but
  the policy of the plan may (``moved_groups``).
- The tables of the ports are assumed to be those that OpenSM has written. If they are not, see the interlock ``drift``.

The functions are pure. Sources: opensm osm_pkey_mgr.c, osm_prtn.c; IBA 10.9.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from ibkeys.change.wanted import Entries, TableChange
from ibkeys.errors import FileFormatError, UsageError
from ibkeys.keys.pkey import DEFAULT_LIMITED, FULL_BIT, PKey
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.partitions.explicit import explicit_policy
from ibkeys.partitions.export import to_conf
from ibkeys.partitions.membership import EndPort, PortKind, Resolution, resolve
from ibkeys.partitions.model import Definition, Policy
from ibkeys.partitions.opensm_tables import Placement
from ibkeys.partitions.reader import parse_policy
from ibkeys.partitions.sweeps import Sweeps
from ibkeys.plan.courses import WaitCycle
from ibkeys.plan.model import SmOptions, tables_by_guid
from ibkeys.plan.port_kinds import memberships_of
from ibkeys.plan.steps import steps_between
from ibkeys.printable import named

State = Mapping[int, frozenset[PKey]]
"""Port GUID → P_Keys."""
_NO_FILE: Final = parse_policy("Default=0x7fff, ipoib : ALL=full ;", "<no file>")
"""The policy that OpenSM applies without a file, or with a file that it refuses."""


@dataclass(frozen=True, slots=True)
class SmPolicies:
    """The policies of a change, and the tables that OpenSM makes from each.

    ``texts``: the policies in order; the last is that of the plan. ``states``: for each policy, the P_Keys of each end
    port afterwards. ``tables``: for each policy, by port GUID, the whole tables of the ports whose tables are known;
    P_Keys without room are in `Placement.dropped`. Since OpenSM remembers more than the present tables, a new P_Key may
    get another index than here. ``cycles``: the cycles in which a step cuts pairs. ``given_default``: the GUIDs of
    ports that had no P_Key of the default partition. ``torn``: (number of the policy from 0, port GUID, partition) for
    each P_Key that OpenSM moves between two blocks. ``moved_groups``: (MGID, former partition, new partition) of each
    group because of which OpenSM 3.3.23 may crash at a later change.
    """

    texts: tuple[bytes, ...]
    states: tuple[State, ...]
    tables: tuple[Mapping[int, Placement], ...]
    cycles: tuple[WaitCycle[int], ...] = ()
    given_default: tuple[int, ...] = ()
    torn: tuple[tuple[int, int, int], ...] = ()
    moved_groups: tuple[tuple[int, int, int], ...] = ()


def policies_between(
    old: Policy | None,
    new: Policy,
    tables: Iterable[TableChange],
    sm_port_guid: int,
    options: SmOptions,
    digest: str,
    *,
    others: Iterable[EndPort] = (),
    gaps: bool = False,
    rewrite: int | None = None,
) -> SmPolicies:
    """Return the policies that lead from the present tables to those that *new*, the policy of the plan, gives.

    *old*: the policy that OpenSM uses now, None for no file. *tables*: the tables of the plan of all end ports of the
    fabric, also of those that stay as they are, and of leaf ports. *sm_port_guid*: the port GUID of the subnet manager.
    *options*: those of OpenSM. *digest*: that of the plan, for the comment at the beginning of each intermediate
    policy. *others*: end ports whose tables are not known; they are assumed to have the P_Keys that *old* gives them.
    *gaps*: allow that pairs are briefly cut; even then no pair is wrongly connected. *rewrite*: the number of an unused
    partition; a first policy makes every port whose table has room a limited member of it, and no later one does. So
    OpenSM writes every table again, whatever it remembers, when the partition is added and when it is removed; no pair
    can talk by it.

    Raises FileFormatError if OpenSM would refuse *new*, if *new* has no text, or if no policy gives a port the P_Keys
    of an intermediate state; UsageError if OpenSM would make other tables from *new* than the plan has, or if the
    subnet manager's port is not among the ports.
    """
    return _PolicySequence(old, new, list(tables), sm_port_guid, options, list(others)).policies(digest, gaps, rewrite)


class _PolicySequence:
    def __init__(
        self,
        old: Policy | None,
        new: Policy,
        tables: list[TableChange],
        sm_port_guid: int,
        options: SmOptions,
        others: list[EndPort],
    ) -> None:
        new.require_accepted()
        if new.data is None:
            raise FileFormatError("the policy has no text to give to OpenSM", new.path)
        self.text = new.data
        self.new, self.options, self.sm_port_guid = new, options, sm_port_guid
        self.old = old if old is not None and old.accepted else _NO_FILE
        self.leaves = {table.peer: table for table in tables if table.port.is_external and table.peer is not None}
        self.tables = tables_by_guid(tables)
        self.ports = [EndPort(guid, cast(PortKind, table.port.node_type)) for guid, table in self.tables.items()]
        self.ports += [port for port in others if port.guid not in self.tables]
        if sm_port_guid not in {port.guid for port in self.ports}:
            raise UsageError(
                f"the subnet manager's port 0x{sm_port_guid:016x} is not an end port of the plan's fabric; plan again"
            )
        self.present, self.planned = self.resolve(self.old, self.ports), self.resolve(new, self.ports)
        self.old_keys = {port.guid: self.present_keys(port.guid) for port in self.ports}
        self.new_keys = {port.guid: frozenset(self.planned.by_port.get(port.guid, ())) for port in self.ports}
        self.absent_keys = self.keys_of_absent_ports()
        self.owners = _owners(self.old)

    def resolve(self, policy: Policy, ports: Iterable[EndPort]) -> Resolution:
        return resolve(policy, ports, self.sm_port_guid, self.options.allow_both_pkeys, emulate_fallback=True)

    def present_keys(self, guid: int) -> frozenset[PKey]:
        """Return the present P_Keys of a port as a policy can express them: always with a P_Key of the default
        partition, and without allow_both_pkeys never with both P_Keys of a partition."""
        table = self.tables.get(guid)
        keys = set(table.before.values() if table is not None else self.present.by_port.get(guid, ()))
        if not any(key.is_default for key in keys):
            keys.add(DEFAULT_LIMITED)
        if not self.options.allow_both_pkeys:
            keys = {key for key in keys if key.is_full or PKey(key | FULL_BIT) not in keys}
        return frozenset(keys)

    def keys_of_absent_ports(self) -> dict[int, frozenset[PKey]]:
        """Return, by GUID, the P_Keys for ports that a policy names by GUID but that are absent: those that both
        policies give.

        If such a port appears in the meantime, no pair is connected wrongly, because it can only talk to ports to which
        it may talk before or after the change too.
        """
        present = {port.guid for port in self.ports}
        named = {
            rule.guid
            for policy in (self.old, self.new)
            for partition in policy.partitions
            for rule in partition.rules
            if rule.who == "GUID" and rule.guid not in present
        }
        # Their node type is not known, so ALL_CAS and the like do not apply to them.
        absent = [EndPort(guid, cast(PortKind, "absent")) for guid in sorted(named)]
        before, after = (self.resolve(policy, absent).by_port for policy in (self.old, self.new))
        keys = {}
        for port in absent:
            old, new = memberships_of(before.get(port.guid, ())), memberships_of(after.get(port.guid, ()))
            least = {base: min(old[base], new[base]) for base in old.keys() & new.keys()}
            keys[port.guid] = frozenset(PKey(base | (FULL_BIT if level == 2 else 0)) for base, level in least.items())
        return keys

    # --- the texts ---------------------------------------------------------------------------------------------------

    def policies(self, digest: str, gaps: bool, rewrite: int | None) -> SmPolicies:
        self.check_outcome()
        rooms = self.rooms()
        steps = steps_between(self.old_keys, self.new_keys, rooms, gaps=gaps)
        states = steps.states or (self.new_keys,)
        if rewrite is not None:
            # Ports without room do not get it: a leaf port whose table is full to the end would enforce nothing
            # meanwhile.
            with_room = {guid for guid, keys in self.old_keys.items() if len(keys) < rooms.get(guid, 0)}
            initial = {
                guid: keys | {PKey(rewrite)} if guid in with_room else keys for guid, keys in self.old_keys.items()
            }
            states = (initial, *states)
        between = states[:-1]
        texts = [
            _comment(number, len(between) + 1, digest)
            + to_conf(self.policy_of(state)).encode("utf-8", "surrogateescape")
            for number, state in enumerate(between, 1)
        ]
        policies = [*map(parse_policy, texts), self.new]
        self.check_picked_keys(policies[:-1])
        placed, torn = self.predict(policies)
        return SmPolicies(
            (*texts, self.text),
            states,
            tuple(placed),
            steps.cycles,
            tuple(
                guid
                for guid, table in self.tables.items()
                if table.capacity and not any(key.is_default for key in table.before.values())
            ),
            tuple(torn),
            tuple(self.moved_groups(states)),
        )

    def check_outcome(self) -> None:
        """Raise UsageError if the new policy gives a port other P_Keys than the plan has, although its table has
        room."""
        for guid, table in self.tables.items():
            planned = set(table.after.values())
            if planned != self.new_keys[guid] and len(self.new_keys[guid]) < table.capacity:
                listed = [named(sorted(keys)) or "nothing" for keys in (self.new_keys[guid], planned)]
                raise UsageError(
                    f"{table.port}: by the policy OpenSM would write {listed[0]}, but the plan has {listed[1]}; "
                    "plan again"
                )

    def check_picked_keys(self, between: Sequence[Policy]) -> None:
        """Raise UsageError if OpenSM would pick other P_Keys for partitions of the new policy than the plan has, or in
        a rollback other ones for those of the present policy.

        The plan has those that OpenSM picks when it starts. A running OpenSM keeps a partition, with the name that it
        got first, as long as it has a member (opensm osm_prtn.c).
        """
        names = self.names_after(self.old, {})
        present = []
        for policy in between:
            names = self.names_after(policy, names)
            present.append(names)
        for planned, base in _picked_otherwise(self.new, names):
            raise UsageError(
                f"{self.new.path}:{planned.line}: OpenSM picks the P_Key of {planned.name or 'this partition'} by "
                f"itself: the plan has 0x{planned.base:04x}, but the running OpenSM, which knows its present "
                f"partitions, would pick 0x{base:04x}; write the P_Key into the policy, and plan again"
            )
        # A rollback goes back through the same policies, or at once.
        for policy in (self.new, *reversed(between)):
            names = self.names_after(policy, names)
            present.append(names)
        with_members = {key.partition for keys in self.present.by_port.values() for key in keys}
        for names in present:
            for planned, base in _picked_otherwise(self.old, names):
                if planned.base not in with_members:
                    continue
                raise UsageError(
                    f"{self.old.path}:{planned.line}: OpenSM picks the P_Key of {planned.name or 'this partition'} by "
                    f"itself: it is 0x{planned.base:04x} now, but in a rollback it would pick 0x{base:04x}; write "
                    f"0x{planned.base:04x} into this policy first, let OpenSM read it (SIGHUP), and plan again"
                )

    def names_after(self, policy: Policy, before: Mapping[int, str]) -> dict[int, str]:
        """Return the names, by number, of the partitions that a running OpenSM has after *policy*. *before*: those that
        it had."""
        now = {each.base: each.name for each in policy.partitions} | dict(before)
        members = self.resolve(policy, self.ports).memberships
        return {each.base: now[each.base] for each in members if each.base in now}

    def rooms(self) -> dict[int, int]:
        """Return, by port GUID, the number of P_Keys that fit both into the table of the port and that of its leaf port
        in an intermediate state."""
        rooms = {}
        for guid, table in self.tables.items():
            most = max(len(self.old_keys[guid]), len(self.new_keys[guid]))
            room = table.capacity
            if self.options.allow_both_pkeys and most < room:
                room -= 1  # OpenSM leaves index 0 empty where 0xffff is missing
            leaf = self.leaves.get(table.port.key)
            if leaf is not None and self.options.enforce != "off":
                # A leaf port whose table is full to the end of its last block does not enforce.
                blocks = -(-leaf.capacity // P_KEYS_PER_BLOCK) * P_KEYS_PER_BLOCK
                fits = min(leaf.capacity, blocks - 1)
                room = min(room, fits) if most <= fits else room
            rooms[guid] = room
        return rooms

    def policy_of(self, state: State) -> Policy:
        """Return the policy that gives each port the P_Keys of *state*. Raises FileFormatError if no policy does
        that."""
        stays = {
            base
            for guid, keys in state.items()
            for base in memberships_of(keys).keys() & memberships_of(self.old_keys[guid]).keys()
        }
        policy = explicit_policy(
            {**self.absent_keys, **state},
            dict(self.index0(state)),
            lambda base: self.heads(base, base in stays),
        )
        resolved = self.resolve(parse_policy(to_conf(policy)), self.ports).by_port
        wrong = next((guid for guid, keys in state.items() if keys != frozenset(resolved.get(guid, ()))), None)
        if wrong is not None:
            raise FileFormatError(
                f"no policy gives port 0x{wrong:016x} the P_Keys that it needs in an intermediate step", self.new.path
            )
        return policy

    def heads(self, base: int, stays: bool) -> Iterator[Definition]:
        """Yield the definitions of the partition *base* for an intermediate policy: those of the present policy if a
        former member *stays* in the partition, then those of the new one.

        Groups that move from another partition to this one are left out, because they move with the last policy.
        """
        present, planned = self.old.partition(base), self.new.partition(base)
        if present is not None and (stays or planned is None):
            yield from present.definitions
        owners = self.owners
        for definition in planned.definitions if planned is not None else ():
            groups = (g for g in definition.groups if all(owners.get(mgid, base) == base for mgid in g.mgids()))
            yield replace(definition, groups=tuple(groups))

    def moved_groups(self, states: Sequence[State]) -> Iterator[tuple[int, int, int]]:
        """Yield (MGID, former partition, new partition) of each group that the last policy moves away from a partition
        whose last member it removes."""
        before, after = (
            {key.partition for keys in state.values() for key in keys} for state in (self.old_keys, *states)[-2:]
        )
        for mgid, base in _owners(self.new).items():
            source = self.owners.get(mgid, base)
            if source != base and source in before and source not in after:
                yield mgid, source, base

    def index0(self, state: State) -> Iterator[tuple[int, PKey]]:
        """Yield (port GUID, P_Key) for each ``indx0`` in an intermediate policy: the P_Key that the present policy
        pins, else that of the new one, if the port has it in *state* with the same membership."""
        for guid, keys in state.items():
            for pins, as_in in ((self.present.index0, self.old_keys), (self.planned.index0, self.new_keys)):
                pin = pins.get(guid)
                if pin is not None and pin in keys and _same_partition(pin, keys) == _same_partition(pin, as_in[guid]):
                    yield guid, pin
                    break

    # --- the result --------------------------------------------------------------------------------------------------

    def predict(self, policies: Iterable[Policy]) -> tuple[list[Mapping[int, Placement]], list[tuple[int, int, int]]]:
        """Return the tables after each policy, and the P_Keys that move between blocks: ``tables`` and ``torn`` of
        `SmPolicies`."""
        now: dict[int, Entries] = {guid: table.before for guid, table in self.tables.items()}
        sweeps = Sweeps(
            self.ports,
            self.sm_port_guid,
            dict(now),
            {guid: table.capacity for guid, table in self.tables.items()},
            self.options.allow_both_pkeys,
            self.options.keep_pkey_indexes,
            {guid: dict(table) for guid, table in now.items()},
        )
        placed: list[Mapping[int, Placement]] = []
        torn: list[tuple[int, int, int]] = []
        for number, policy in enumerate(policies):
            placed.append(sweeps.sweep(policy))
            for guid, placement in placed[-1].items():
                torn += [(number, guid, base) for base in _torn_partitions(now[guid], placement.entries)]
                now[guid] = placement.entries
        return placed, torn


def _same_partition(key: PKey, keys: Collection[PKey]) -> set[PKey]:
    """Return those of *keys* that are of the partition of *key*."""
    return {each for each in keys if each.partition == key.partition}


def groups_that_move(present: Policy | None, later: Policy | None) -> list[tuple[int, int, int]]:
    """Return (MGID, present partition, later partition) of each ``mgid=`` group that the policy *later* gives to
    another partition than *present*: see `SmPolicies.moved_groups`. A policy may be None, which has no groups."""
    present_owners, later_owners = (_owners(policy) if policy is not None else {} for policy in (present, later))
    return [
        (mgid, base, later_owners[mgid])
        for mgid, base in present_owners.items()
        if later_owners.get(mgid, base) != base
    ]


def _owners(policy: Policy) -> dict[int, int]:
    """Return the partition, by MGID, of each group that an ``mgid=`` line makes."""
    return {
        mgid: partition.base
        for partition in policy.partitions
        for group in partition.groups
        if group.refused is None
        for mgid in group.mgids()
    }


def _picked_otherwise(policy: Policy, names: Mapping[int, str]) -> Iterator[tuple[Definition, int]]:
    """Yield each definition of *policy* for which a running OpenSM, that has partitions with these *names*, would pick
    another number than one that was just started; and that number."""
    if policy.data is None or all(each.pkey_given for each in policy.definitions):
        return
    running = parse_policy(policy.data, policy.path, names)
    for planned, picked in zip(policy.definitions, running.definitions, strict=False):
        if planned.base != picked.base:
            yield planned, picked.base


def _torn_partitions(before: Entries, after: Entries) -> list[int]:
    """Return the partitions of which a port briefly loses its membership when its table is written block by block."""
    if before == after:
        return []
    stays = memberships_of(after.values())
    least = {base: min(level, stays[base]) for base, level in memberships_of(before.values()).items() if base in stays}
    lost: dict[int, None] = {}
    for block in range(1, -(-(max((*before, *after)) + 1) // P_KEYS_PER_BLOCK)):
        written = {at: key for at, key in after.items() if at < block * P_KEYS_PER_BLOCK}
        written |= {at: key for at, key in before.items() if at >= block * P_KEYS_PER_BLOCK}
        present = memberships_of(written.values())
        lost |= dict.fromkeys(base for base, level in least.items() if present.get(base, 0) < level)
    return list(lost)


def _comment(number: int, count: int, digest: str) -> bytes:
    return (
        f"# Step {number} of {count} of a change that ibkeys makes; digest of its plan: {digest}\n"
        "# An intermediate state, for the ports of the fabric when the change began: the policy itself follows.\n"
    ).encode("ascii", "replace")

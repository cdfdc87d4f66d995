"""The result of `ibkeys.open`: an open fabric, with the changes that a script may make to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from ibkeys.arguments import require
from ibkeys.errors import StoreError
from ibkeys.fabric.handle import PortHandle
from ibkeys.fabric.live import LiveFabric as OpenFabric
from ibkeys.keys.mkey import MKey
from ibkeys.keys.pkey import PKey
from ibkeys.topology.nodes import Port

if TYPE_CHECKING:
    from ibkeys.automation.making import How, NewKeys
    from ibkeys.automation.operations import Operation
    from ibkeys.automation.partition_verbs import Partitions
    from ibkeys.automation.result import ChangeResult
    from ibkeys.change.consent import Consent, Objection
    from ibkeys.change.plan import Plan
    from ibkeys.change.writer import ChangeWriter
    from ibkeys.discovery.wanted import OnFound
    from ibkeys.fabric.snapshot import Snapshot
    from ibkeys.partitions.model import Policy
    from ibkeys.plan.model import Enforce, PartitionPlan

Place = PortHandle | Port
"""A port to be changed: a handle, or a port of a sweep of the same run."""


class Fabric(OpenFabric):
    """A subnet as seen from one open local port, with methods to change it. See `ibkeys.fabric.live.LiveFabric`."""

    def take_snapshot(self, progress: OnFound | None = None, *, make_secret: bool = True) -> Snapshot:
        """Sweep for all values of a snapshot, and return the snapshot. `ibkeys.save` writes it to a file.

        Fingerprints of M_Keys are made with the user's own secret, so that several snapshots can be compared. If that
        secret cannot be read, ``warnings`` has the reason. *make_secret*: whether to create the secret if there is none
        yet; without a secret, fingerprints can be compared within this snapshot only. *progress*: called with the
        numbers of nodes and ports that were found so far. Raises the errors of `sweep`.
        """
        from ibkeys.arguments import flag, refuse_wrong
        from ibkeys.fabric.snapshot import take_snapshot
        from ibkeys.keys.fingerprint import Fingerprints
        from ibkeys.store.fingerprint import load_fingerprints

        refuse_wrong({"make_secret": make_secret}, {"make_secret": flag()})
        try:
            fingerprints = load_fingerprints(self.stores.fingerprints, make_secret)
        except StoreError as error:
            self.warnings.append(f"{error}: the fingerprints of this run cannot be compared with those of others")
            fingerprints = None
        return take_snapshot(self, fingerprints or Fingerprints.generate(), progress)

    def change(
        self, command: str, consent: Consent | None = None, *, dry_run: bool = False, options: Sequence[str] = ()
    ) -> ChangeRun:
        """Return an object that changes ports; use it as a context manager.

        *command*: the name of this change in the journal. *consent*: the interlocks that are overridden, none by
        default. *dry_run*: nothing is locked or written, and only Gets are sent. *options*: the options of this change
        for the journal; no key may be among them. Raises UsageError for a value of a wrong type.
        """
        from ibkeys.arguments import flag, one_of, refuse_wrong
        from ibkeys.change.consent import Consent
        from ibkeys.change.writer import ChangeWriter

        rules = {"consent": one_of((Consent,), "an ibkeys.Consent"), "dry_run": flag()}
        refuse_wrong({"consent": consent, "dry_run": dry_run}, rules)
        return ChangeRun(ChangeWriter(self, command, consent, dry_run, options))

    def operations(self, *, open_only: bool = False) -> tuple[Operation, ...]:
        """Return the operations of this fabric's journal, see `ibkeys.operations`."""
        from ibkeys.automation.operations import operations_in

        return operations_in(self.stores, open_only=open_only)

    @property
    def partitions(self) -> Partitions:
        """The partitions of the policy in force, which its methods change and show."""
        from ibkeys.automation.partition_verbs import Partitions

        return Partitions(self)

    # --- changes of the whole fabric -----------------------------------------------------------------------------

    def plan(
        self,
        policy: Policy | str | Path,
        *,
        enforce: Enforce = "both",
        allow_both_pkeys: bool = False,
        disconnect_unconfigured: bool = False,
        allow_index_moves: Iterable[PKey | int] = (),
        progress: OnFound | None = None,
    ) -> PartitionPlan:
        """Plan the changes for a partition policy; nothing is written.

        The plan is a value: ``changes``, ``ports``, ``problems`` and ``breaks`` describe it, and `ibkeys.write_plan`
        writes it to a file for review.

        *policy*: the file, or the result of `ibkeys.partitions.read_policy` or ``parse_policy``. *enforce*: the
        enforcement of leaf switch ports. *allow_index_moves*: P_Keys of partitions that may move to another index. The
        other arguments have the meaning of the options of `ibkeys plan`. Raises FileFormatError for a policy that
        cannot be read or that OpenSM would refuse, EncodeError for a P_Key outside 0 to 0xffff, UsageError, and the
        errors of `sweep`.

        Unlike a plan of `ibkeys plan`, the plan names no ``method``, because planning examines no host. `apply` only
        uses a method that the script names as ``via``, or that its ``consent`` function learned before it agreed.
        """
        from ibkeys.arguments import refuse_wrong
        from ibkeys.automation.arguments import RULES
        from ibkeys.partitions.model import Policy
        from ibkeys.partitions.reader import read_policy
        from ibkeys.plan.from_fabric import plan_of_sweep, sweep_for_plan
        from ibkeys.plan.model import PlanOptions

        flags = {"allow_both_pkeys": allow_both_pkeys, "disconnect_unconfigured": disconnect_unconfigured}
        refuse_wrong({"enforce": enforce, **flags}, RULES)
        read = read_policy(policy) if isinstance(policy, str | Path) else policy
        require("policy", read, Policy, "a file or an ibkeys.partitions.Policy")
        read.require_accepted()
        moves = tuple(sorted({key.partition for key in _p_keys("allow_index_moves", allow_index_moves)}))
        options = PlanOptions(enforce, allow_both_pkeys, disconnect_unconfigured, moves)
        return plan_of_sweep(read, *sweep_for_plan(self, read, progress), options)

    def apply(
        self,
        plan: PartitionPlan | str | Path,
        *,
        allow_removals: bool = False,
        allow_break: bool = False,
        first: int | None = None,
        **how: Unpack[How],
    ) -> ChangeResult:
        """Apply a plan, or the file of a plan, as `ibkeys apply` does.

        The change is recorded in the journal, made in an order that disconnects no pair, and proven by a fresh read of
        every port. *allow_removals*: whether P_Keys may be removed. *allow_break*: whether pairs may temporarily lose
        connectivity. *first*: how many leaf switches to change now (None: all); `Operation.resume` continues.

        Ports that could not be written are in the result: check ``proven``. Raises Refused for an interlock, for a
        missing permission, and if consent is not given; UsageError, and FileFormatError for the file of a plan;
        MKeyNeeded, StoreError, HostNotReached, UfmNotReached, UfmRefused. An error after the change began has its
        ``operation``.
        """
        from ibkeys.apply.apply import Permissions
        from ibkeys.automation.making import ChangeArguments
        from ibkeys.automation.partitions import apply_policy_plan

        asked = ChangeArguments.of(self, how, allow_removals=allow_removals, allow_break=allow_break, first=first)
        return apply_policy_plan(asked, plan, Permissions(allow_removals, allow_break, first))

    def deploy_m_keys(self, **keys: Unpack[NewKeys]) -> ChangeResult:
        """Give every port of the fabric its first M_Key, as `ibkeys mkey-deploy` does. See `rotate_m_keys`."""
        from ibkeys.automation.m_keys import give_keys
        from ibkeys.automation.making import ChangeArguments, NewKeys

        return give_keys("mkey-deploy", ChangeArguments.of(self, keys, NewKeys), keys)

    def rotate_m_keys(self, **keys: Unpack[NewKeys]) -> ChangeResult:
        """Give a new M_Key to every port of the fabric that has one, as `ibkeys mkey-rotate` does.

        Each key is saved in the key store before it is sent, and proven by a Get with the new key. Give ``same=True``
        or ``per_port=True``; the other arguments are those of `NewKeys` and `How`. Results and errors are those of
        `apply`.
        """
        from ibkeys.automation.m_keys import give_keys
        from ibkeys.automation.making import ChangeArguments, NewKeys

        return give_keys("mkey-rotate", ChangeArguments.of(self, keys, NewKeys), keys)

    def remove_m_keys(self, *, leave_open: bool = False, first: int | None = None, **how: Unpack[How]) -> ChangeResult:
        """Remove the M_Key of every port of the fabric, as `ibkeys mkey-remove` does.

        *leave_open*: confirms that ports stay without a key; without it the change needs consent. *first*: how many
        ports to change now (None: all). The other arguments are those of `How`. Results and errors are those of
        `apply`.
        """
        from ibkeys.automation.m_keys import remove_keys
        from ibkeys.automation.making import ChangeArguments

        asked = ChangeArguments.of(self, how, leave_open=leave_open, first=first)
        return remove_keys(asked, first, leaves_open=leave_open)


class ChangeRun:
    """Changes to the ports of one fabric, by one script. `Fabric.change` makes it. It is a context manager.

    Inside the ``with`` block it holds the lock of journal and key store (not in a dry run), so that no other command
    changes anything in the meantime. Entering raises StoreLocked if another command holds the lock, and StoreError.
    Each method ``plan_…`` reads the port and returns a `Plan`; nothing is changed before `apply`. A plan is valid for
    the ports as they were read: make it, check it, apply it. Not thread-safe.

    The reads raise NoReply, MadStatusError, SendRefused and Unreachable; a plan raises UsageError for values that
    the port cannot have, EncodeError for a P_Key outside 0 to 0xffff, and MKeyNeeded where the port hides a key that
    is not known.
    """

    def __init__(self, writer: ChangeWriter) -> None:
        self.writer = writer
        self.fabric = writer.fabric
        self.dry_run = writer.dry_run

    def __enter__(self) -> Self:
        self.writer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.__exit__(kind, error, trace)

    # --- kinds of change -----------------------------------------------------------------------------------------

    def plan_add_p_keys(self, port: Place, keys: Iterable[PKey | int]) -> Plan:
        """Return a plan, for `apply`, that puts each P_Key into the first free entry.

        A P_Key that is in the table already is not moved. Raises NoRoom if the table has too few free entries.
        """
        from ibkeys.change.pkeys import plan_add

        return plan_add(self.writer, self._handle(port), _p_keys("keys", keys))

    def plan_set_p_keys(self, port: Place, entries: Mapping[int, PKey | int]) -> Plan:
        """Return a plan, for `apply`, that writes P_Keys by index. *entries*: P_Keys by index; 0 empties an entry."""
        from ibkeys.change.pkeys import plan_set

        require("entries", entries, Mapping, "P_Keys by index")
        keys = _p_keys("entries", entries.values())
        return plan_set(self.writer, self._handle(port), dict(zip(entries, keys, strict=True)))

    def plan_remove_p_keys(self, port: Place, keys: Iterable[PKey | int]) -> Plan:
        """Return a plan, for `apply`, that empties each entry that holds one of *keys*.

        A full and a limited P_Key of one partition are two P_Keys. All other entries stay.
        """
        from ibkeys.change.pkeys import plan_remove

        return plan_remove(self.writer, self._handle(port), _p_keys("keys", keys))

    def plan_set_enforcement(self, port: Place, *, inbound: bool | None = None, outbound: bool | None = None) -> Plan:
        """Return a plan, for `apply`, that switches partition enforcement of an external port of a switch.

        None leaves a direction unchanged. Inbound is for packets from the attached node, outbound for packets to it.
        """
        from ibkeys.arguments import one_of, refuse_wrong
        from ibkeys.change.enforce import plan_enforce

        rule = one_of((bool,), "True, False or None")
        refuse_wrong({"inbound": inbound, "outbound": outbound}, dict.fromkeys(("inbound", "outbound"), rule))
        return plan_enforce(self.writer, self._handle(port), inbound, outbound)

    def plan_clear_counters(self, ports: Iterable[Place]) -> Plan:
        """Return a plan, for `apply`, that sets to 0 the violation counters of *ports* that are not 0.

        If one of several ports cannot be read, it is left out, and is in ``Plan.troubles``. If *ports* is a single port
        that cannot be read, the error is raised.
        """
        from ibkeys.change.counters import plan_clear

        require("ports", ports, Iterable, "several ports")
        return plan_clear(self.writer, [self._handle(port) for port in ports])

    def plan_set_m_key(
        self, port: Place, key: MKey | None = None, *, protect: int | None = None, lease: int | None = None
    ) -> Plan:
        """Return a plan, for `apply`, that sets the M_Key, ProtectBits and lease of an end port.

        *protect*: 0 to 3; *lease*: seconds, 0 to 65535. None leaves a value unchanged. The key is in the key
        store before it is sent.
        """
        from ibkeys.arguments import refuse_wrong
        from ibkeys.automation.arguments import RULES
        from ibkeys.mkeys.set import plan_mkey_set

        refuse_wrong({"new_key": key, "protect": protect, "lease": lease}, RULES)
        return plan_mkey_set(self.writer, self._handle(port), key, protect, lease)

    # --- checking and applying -----------------------------------------------------------------------------------

    def refusals(self, plan: Plan) -> list[Objection]:
        """Return the interlocks that would refuse *plan*: it triggers them, and the consent does not override them.

        Raises UsageError for anything but a `Plan`.
        """
        from ibkeys.change.plan import Plan

        require("plan", plan, Plan, "an ibkeys.Plan, the result of a plan_ method")
        return self.writer.not_overridden(plan)

    def apply(self, plan: Plan) -> bool:
        """Make the change: store the old values in the journal, set the new ones, and read them back.

        Return whether anything was changed. Nothing is changed in a dry run, or if the ports have the values already.
        Raises Refused for an interlock (in a dry run too), NotStored, NoReply, MadStatusError, SendRefused, StoreError,
        and UsageError as `refusals`.
        """
        self.refusals(plan)
        self.writer.check(plan)
        if self.dry_run or not plan.pending:
            plan.close_if_complete(self.writer)
            return False
        self.writer.apply(plan)
        return True

    def _handle(self, port: Place) -> PortHandle:
        require("port", port, (PortHandle, Port), "a port of this run's sweep, or the result of find_port")
        return port if isinstance(port, PortHandle) else self.fabric.handle(port)


def _p_keys(name: str, keys: Iterable[PKey | int]) -> list[PKey]:
    """Return the P_Keys of the argument *name*. Raises UsageError for another value, EncodeError for a number that is
    no P_Key."""
    require(name, keys, Iterable, "several P_Keys")
    given = list(keys)
    for key in given:
        require(name, key, (PKey, int), "P_Keys or numbers")
    return [PKey(key) for key in given]

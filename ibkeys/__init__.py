"""ibkeys: show, set and check the keys of an InfiniBand fabric (P_Keys, M_Keys, Q_Keys and their violation counters).

    import ibkeys

    with ibkeys.open() as fabric:                        # the first active port of this host
        print(fabric.find_port("0,1", 3).read_p_keys())  # directed route 0,1, port 3
        for port in fabric.sweep(p_keys=True).ports():
            print(port, port.m_key_state, port.p_keys)
        with fabric.change("my-script") as change:
            change.apply(change.plan_add_p_keys(fabric.find_port(14), [ibkeys.PKey(0x8010)]))
        plan = fabric.plan("partitions.conf")            # a value; look at plan.changes
        result = fabric.apply(plan, via=ibkeys.ThroughOpenSM(["sm2"]))
        print(result.proven, result.failed, result.left)

Every use of a fabric starts with `open`; `load` reads a snapshot in its place. A method whose name is a verb may send.
A property, or a method whose name is a noun, never sends: the result of a sweep is data. Errors are those of
`ibkeys.errors`. `ibkeys.audit` runs rules, `ibkeys.mkeys` recovers lost M_Keys, `ibkeys.partitions` reads OpenSM's
policy file. The public names are those of ``ibkeys.__all__`` and of these four modules, and the pytest plugin
`ibkeys.testing`. All other names are internal and may change with any version. Each name is loaded when it is first
used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # nothing is imported with the package, not even typing: see ibkeys/__main__.py
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from ibkeys import audit as audit
    from ibkeys import errors as errors
    from ibkeys import mkeys as mkeys
    from ibkeys import partitions as partitions
    from ibkeys.automation.confirming import Confirmed as Confirmed
    from ibkeys.automation.making import How as How
    from ibkeys.automation.making import NewKeys as NewKeys
    from ibkeys.automation.methods import Direct as Direct
    from ibkeys.automation.methods import ThroughOpenSM as ThroughOpenSM
    from ibkeys.automation.methods import ThroughUFM as ThroughUFM
    from ibkeys.automation.operations import Operation as Operation
    from ibkeys.automation.partition_verbs import Partitions as Partitions
    from ibkeys.automation.result import ChangeResult as ChangeResult
    from ibkeys.automation.result import PortOutcome as PortOutcome
    from ibkeys.automation.result import Progress as Progress
    from ibkeys.automation.result import Proposal as Proposal
    from ibkeys.automation.shown_partitions import ShownPartition as ShownPartition
    from ibkeys.automation.shown_partitions import ShownPolicy as ShownPolicy
    from ibkeys.change.consent import Consent as Consent
    from ibkeys.change.consent import Objection as Objection
    from ibkeys.change.plan import Change as Change
    from ibkeys.change.plan import Plan as Plan
    from ibkeys.change.wanted import PlannedChange as PlannedChange
    from ibkeys.client.limits import Limits as Limits
    from ibkeys.client.smp import Timing as Timing
    from ibkeys.discovery.wanted import Wanted as Wanted
    from ibkeys.fabric.compare import Comparison as Comparison
    from ibkeys.fabric.compare import compare as compare
    from ibkeys.fabric.handle import PortHandle as PortHandle
    from ibkeys.fabric.readable_port import ReadablePort as ReadablePort
    from ibkeys.fabric.recorded import RecordedFabric as RecordedFabric
    from ibkeys.fabric.recorded import RecordedPort as RecordedPort
    from ibkeys.fabric.snapshot import Snapshot as Snapshot
    from ibkeys.keys.mkey import MKey as MKey
    from ibkeys.keys.pkey import PKey as PKey
    from ibkeys.keys.smkey import SMKey as SMKey
    from ibkeys.mkeys.key_sources import Keys as Keys
    from ibkeys.mkeys.key_sources import SaAccess as SaAccess
    from ibkeys.opening import Local as Local
    from ibkeys.opening import Stores as Stores
    from ibkeys.opening import load as load
    from ibkeys.opening import open as open
    from ibkeys.opening import open_port as open_port
    from ibkeys.plan.document import write_plan as write_plan
    from ibkeys.plan.document_reader import read_plan as read_plan
    from ibkeys.plan.model import PartitionPlan as PartitionPlan
    from ibkeys.reach.reach import Reach as Reach
    from ibkeys.scripting import ChangeRun as ChangeRun
    from ibkeys.scripting import Fabric as Fabric
    from ibkeys.sim.subnet import Subnet as Subnet
    from ibkeys.source import Source as Source
    from ibkeys.topology.model import Topology as Topology
    from ibkeys.topology.model import Trouble as Trouble
    from ibkeys.topology.nodes import Node as Node
    from ibkeys.topology.nodes import Port as Port
    from ibkeys.topology.port_id import PortId as PortId
    from ibkeys.version import __version__ as __version__

_ROOMS = ("audit", "errors", "mkeys", "partitions")
_MODULES = {
    "automation.confirming": ("Confirmed",),
    "automation.making": ("How", "NewKeys"),
    "automation.methods": ("Direct", "ThroughOpenSM", "ThroughUFM"),
    "automation.operations": ("Operation",),
    "automation.partition_verbs": ("Partitions",),
    "automation.result": ("ChangeResult", "PortOutcome", "Progress", "Proposal"),
    "automation.shown_partitions": ("ShownPartition", "ShownPolicy"),
    "change.consent": ("Consent", "Objection"),
    "change.plan": ("Change", "Plan"),
    "change.wanted": ("PlannedChange",),
    "client.limits": ("Limits",),
    "client.smp": ("Timing",),
    "discovery.wanted": ("Wanted",),
    "fabric.compare": ("Comparison", "compare"),
    "fabric.handle": ("PortHandle",),
    "fabric.recorded": ("RecordedFabric", "RecordedPort"),
    "fabric.snapshot": ("Snapshot",),
    "fabric.readable_port": ("ReadablePort",),
    "keys.mkey": ("MKey",),
    "keys.pkey": ("PKey",),
    "keys.smkey": ("SMKey",),
    "mkeys.key_sources": ("Keys", "SaAccess"),
    "opening": ("Local", "Stores", "load", "open", "open_port"),
    "plan.document": ("write_plan",),
    "plan.document_reader": ("read_plan",),
    "plan.model": ("PartitionPlan",),
    "reach.reach": ("Reach",),
    "scripting": ("ChangeRun", "Fabric"),
    "source": ("Source",),
    "sim.subnet": ("Subnet",),
    "topology.nodes": ("Node", "Port"),
    "topology.port_id": ("PortId",),
    "topology.model": ("Topology", "Trouble"),
    "version": ("__version__",),
}
"""Module → the names that are loaded from it when they are first used."""
_EXPORTED = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted((*_ROOMS, *_EXPORTED, "operations", "save"))


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    if name not in _EXPORTED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_EXPORTED[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def save(snapshot: Snapshot, path: str | Path, *, with_keys: bool = False) -> None:
    """Write a snapshot, from ``fabric.take_snapshot()``, to a file of mode 0600; `load` reads it.

    The file has fingerprints of the M_Keys or, *with_keys*, the M_Keys themselves. An existing snapshot is replaced in
    one step. Raises StoreError if the path has another kind of file, or if the file cannot be written; UsageError for
    an argument of a wrong type.
    """
    from ibkeys.arguments import file_path, flag, refuse_wrong, require
    from ibkeys.fabric.snapshot import Snapshot
    from ibkeys.fabric.snapshot_file import save_snapshot

    require("snapshot", snapshot, Snapshot, "an ibkeys.Snapshot")
    refuse_wrong({"with_keys": with_keys}, {"with_keys": flag()})
    save_snapshot(file_path("path", path), snapshot, with_keys)


def operations(stores: Stores | None = None, *, open_only: bool = False) -> tuple[Operation, ...]:
    """Return the operations of the journal, the oldest first. They have methods to resume, undo and confirm them.

    *stores*: names the file of the journal, by default the user's own. Scripts read no site file, so a journal that a
    site file names is not used. *open_only*: return only unfinished operations. Needs neither fabric nor key store. If
    the journal does not exist, there are no operations. Raises StoreError if it cannot be read; UsageError for an
    argument of a wrong type.
    """
    from ibkeys.arguments import require
    from ibkeys.automation.operations import operations_in
    from ibkeys.opening import Stores as Given

    require("stores", stores, (Given, type(None)), "an ibkeys.Stores")
    return operations_in((stores or Given()).paths(), open_only=open_only)

"""The functions with which each use of a fabric or snapshot starts, and the values for their arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, cast

from ibkeys.arguments import ArgumentRule, Checked, file_path, number, one_of, refuse_wrong, require
from ibkeys.client.limits import Limits
from ibkeys.client.smp import Timing
from ibkeys.discovery.keyring import KeyRing
from ibkeys.errors import StoreError, UsageError
from ibkeys.mkeys.key_sources import Keys, SaAccess, load_ring
from ibkeys.printable import counted, named
from ibkeys.scripting import Fabric
from ibkeys.store.paths import StorePaths, store_paths
from ibkeys.topology.names.node_names import read_node_name_map
from ibkeys.umad.port import UmadPort, innermost

if TYPE_CHECKING:
    from ibkeys.dumps.importing import TableOf
    from ibkeys.fabric.recorded import RecordedFabric
    from ibkeys.fabric.snapshot import Snapshot
    from ibkeys.keys.fingerprint import Fingerprints
    from ibkeys.mkeys.sa_keys import SaKeys
    from ibkeys.sim.subnet import Subnet

NodeNames = Mapping[int, str] | str | Path
"""Node GUID → name, or the path of a node name map file."""


@dataclass(frozen=True, slots=True)
class Local(Checked):
    """The local port. ``ca`` and ``port``: by default the first active port of this host, else the first with a
    link. ``at``: the node of a simulated subnet, by NodeDescription or GUID; by default the one that the environment
    variable ``SIM_HOST`` names, else its first one."""

    ca: str | None = None
    port: int | None = None
    at: str | int | None = None
    _rules: ClassVar = {
        "ca": one_of((str,), "the name of a CA"),
        "port": number(0, 254),
        "at": one_of((str, int), "a NodeDescription or a GUID"),
    }


@dataclass(frozen=True, slots=True)
class Stores(Checked):
    """The files of key store and journal.

    ``keystore``: the file with the keys. ``journal``: the file in which changes save the values that they overwrite. By
    default both are the user's own; with a simulated subnet they are beside the subnet's state file, or in memory if
    there is no state file. What is in memory is lost at the end of each change. ``passphrase``: a function that returns
    the passphrase; it is called once, if the key store is encrypted. Scripts read no site file: pass the files that
    ``ibkeys.toml`` names here.
    """

    keystore: str | Path | None = None
    journal: str | Path | None = None
    passphrase: Callable[[], str] | None = None
    _rules: ClassVar = {
        **dict.fromkeys(("keystore", "journal"), one_of((str, Path), "the path of a file")),
        "passphrase": ArgumentRule(
            lambda value: value is None or callable(value), "a function that returns the passphrase", is_secret=True
        ),
    }

    def paths(self, simulated: bool = False, state: Path | None = None) -> StorePaths:
        """Return the files to use. *simulated*: whether the subnet is simulated. *state*: the file of its state."""
        return store_paths(self.keystore, self.journal, simulated=simulated, state=state, ask=self.passphrase)


def open_port(backend: str | Subnet, local: Local | None = None) -> UmadPort:
    """Open the local port that `ibkeys.open` would open. A caller can wrap the port, to observe its MADs.

    *backend*: as for `ibkeys.open`; ``sim:FILE`` takes any file that `ibkeys.replica.sources.read_subnet` reads.
    Raises TransportError, UsageError, FileFormatError, AddressError, StoreError.
    """
    refuse_wrong({"local": local}, _OPEN_RULES)
    local = local or Local()
    if backend == "umad":
        from ibkeys.umad.libibumad import open_port

        return open_port(local.ca, local.port)
    from ibkeys.umad.simulated import open_simulated, port_on

    if not isinstance(backend, str):
        if not hasattr(backend, "nodes"):
            raise UsageError(f"backend= takes umad, sim:FILE, a simulated subnet or an open port, not {backend!r}")
        return port_on(backend, local.ca, local.port, local.at)
    from ibkeys.replica.sources import read_subnet

    return open_simulated(backend, local.ca, local.port, local.at, read_subnet)


_OPEN_RULES: Final = {
    each.__name__.lower(): one_of((each,), f"an ibkeys.{each.__name__}")
    for each in (Local, Keys, Stores, Timing, Limits)
}
"""The rules for the arguments of `ibkeys.open`."""


def open(
    backend: str | Subnet | UmadPort = "umad",
    *,
    local: Local | None = None,
    keys: Keys | None = None,
    stores: Stores | None = None,
    timing: Timing | None = None,
    limits: Limits | None = None,
    node_names: NodeNames | None = None,
) -> Fabric:
    """Open a local port and return the subnet as seen from it. Close the result, or use it as a context manager.

    *backend*: ``umad`` means the real stack. ``sim:FILE[,option=value...]`` means a simulated subnet, made of a net
    file, a snapshot or another file about a fabric; ``sim:`` alone means a small demo fabric. It may also be a
    simulated subnet that the caller made, or an open port, which the fabric then owns and closes.

    *local*: the local port. *keys*: the M_Keys, and the nodes they are sent to. *stores*: the files of key store and
    journal. *timing*: timeout and retries of queries. *limits*: the limits of a sweep, of the queries to a node, and of
    an answer of the SA. *node_names*: node GUID → name, or a file in the form of infiniband-diags' node name map.

    Nothing is sent yet, unless *keys* has ``from_sa``: then the SA is queried, which also raises NoReply,
    MadStatusError, SendRefused, TransferFailed, MalformedMad and Unreachable. Raises TransportError (with advice),
    UsageError, AddressError, FileFormatError, StoreError.
    """
    refuse_wrong({"local": local, "keys": keys, "stores": stores, "timing": timing, "limits": limits}, _OPEN_RULES)
    keys, stores = keys or Keys(), stores or Stores()
    if hasattr(backend, "recv"):
        port = cast(UmadPort, backend)
        if local is not None:
            port.close()
            raise UsageError("omit local=: the port that you pass is open already")
        return fabric_at(port, keys, stores, timing, limits, node_names)
    names = _names(node_names) if node_names else None
    fabric = fabric_at(open_port(backend, local), keys, stores, timing, limits, names)
    if isinstance(backend, str):
        fabric.as_options = partial(_as_options, backend, local or Local(), keys, fabric, node_names)
    return fabric


def fabric_at(
    umad: UmadPort,
    keys: Keys,
    stores: Stores,
    timing: Timing | None,
    limits: Limits | None,
    node_names: NodeNames | None,
) -> Fabric:
    """Return the subnet as seen from *umad*, an open port, which it owns: after an error the port is closed too.

    The arguments and errors are those of `ibkeys.open`.
    """
    try:
        names = _names(node_names) if node_names else {}
        port = innermost(umad)
        subnet: Subnet | None = getattr(port, "subnet", None)
        paths = stores.paths(subnet is not None, getattr(port, "state_path", None))
        ring, warnings = load_ring(keys, paths)
        fabric = Fabric(umad, ring, timing, names, limits)
        sa_keys = _query_sa_keys(fabric, keys.from_sa) if keys.from_sa is not None else None
    except BaseException:
        umad.close()
        raise
    fabric.stores = paths
    fabric.is_simulated = subnet is not None
    simulated = subnet.warnings if subnet is not None else ()
    fabric.warnings = [*simulated, *warnings, *(sa_keys.warnings if sa_keys is not None else ())]
    fabric.reload_keys = partial(_reload_keys, fabric, ring, keys, paths, sa_keys)
    return fabric


def _as_options(backend: str, local: Local, keys: Keys, fabric: Fabric, names: NodeNames | None) -> list[str] | None:
    """Return the options for a command that opens the same fabric at the same port.

    None if no command can do so: an argument, such as an M_Key for all nodes, or the key store is in this process only,
    or the key store is encrypted. A script reads no ibdiag.conf, so the options keep the command from taking a CA or an
    m_key from there.
    """
    from ibkeys.store.keystore.keystore import is_encrypted

    if keys.default is not None or keys.from_sa is not None or isinstance(names, Mapping):
        return None
    paths = fabric.stores
    if paths.keystore is None or is_encrypted(paths.keystore):
        return None
    timing, opened = fabric.client.timing, fabric.local()
    ca, port = (local.ca, local.port) if fabric.is_simulated else (opened.ca_name, opened.port)
    values = {
        **{"backend": backend, "Ca": ca, "Port": port or None, "at": local.at, "config": "none"},
        **{"journal": paths.journal, "keystore": paths.keystore, "security-keys": keys.security_keys},
        **{"node-name-map": names or None, "timeout": _between(1, timing.timeout * 1000, 3_600_000)},
        "retries": _between(0, timing.retries, 1000),
        "outstanding_smps": timing.outstanding and _between(1, timing.outstanding, 1024),
    }
    flags = {"--trust-topology": keys.trust_topology, "--ask-unproven": keys.ask_unproven}
    return [
        *(flag for flag, given in flags.items() if given),
        *(f"--{name}={value}" for name, value in values.items() if value is not None),
        *(f"--limit={word}" for word in fabric.client.limits.words()),
    ]


def _between(least: int, value: float, most: int) -> int:
    """Return *value* as an integer within the bounds of an option."""
    return math.ceil(min(max(value, least), most))


def _query_sa_keys(fabric: Fabric, access: SaAccess) -> SaKeys:
    """Query the SA for M_Keys with *access*, add the keys to the fabric's key ring, and return them."""
    from ibkeys.mkeys.sa_keys import read_sa_keys

    sa_keys = read_sa_keys(fabric.sa(access.sm_key, access.sm_lid, access.pkey_index))
    sa_keys.add_to(fabric.ring)
    return sa_keys


def _names(names: NodeNames) -> dict[int, str]:
    if isinstance(names, str | Path):
        return read_node_name_map(names)
    require("node_names", names, Mapping, "names by node GUID, or the path of a file")
    for guid in names:
        if not isinstance(guid, int):
            raise UsageError(f"node_names= has names by node GUID, which is a number, not {guid!r}")
    return dict(names)


def _reload_keys(fabric: Fabric, opened_with: KeyRing, keys: Keys, paths: StorePaths, sa_keys: SaKeys | None) -> None:
    """Read the sources of keys again, and put the keys into the key ring with which the fabric was opened.

    If the fabric has another key ring by now, nothing is done.
    """
    if fabric.ring is not opened_with:  # the caller has set another key ring, which must stay as it is
        return
    fresh, _ = load_ring(keys, paths)
    if sa_keys is not None:
        sa_keys.add_to(fresh)
    opened_with.by_guid, opened_with.spares = fresh.by_guid, fresh.spares
    opened_with.in_change = fresh.in_change
    opened_with.confirmed, opened_with.class_keys = fresh.confirmed, fresh.class_keys
    opened_with.neighbors, opened_with.lids = fresh.neighbors, fresh.lids
    opened_with.from_sa = fresh.from_sa
    opened_with.levels, opened_with.link_downed = fresh.levels, fresh.link_downed
    opened_with.settled = fresh.settled
    opened_with.fallback = fresh.fallback


def import_snapshot(paths: Sequence[Path], tables: Sequence[TableOf] = ()) -> tuple[Snapshot, list[str]]:
    """Return one snapshot made of *paths*, files of other tools, and warnings for the user.

    *tables*: files of ``smpquery pkeys``, each with its port. Fingerprints of M_Keys are made with the user's own
    secret, so that they can be compared with other snapshots. Raises FileFormatError, UsageError.
    """
    from ibkeys.dumps.importing import import_files
    from ibkeys.keys.fingerprint import Fingerprints
    from ibkeys.store.fingerprint import load_fingerprints

    warnings: list[str] = []
    fingerprints: Fingerprints | None = None
    try:
        fingerprints = load_fingerprints(store_paths().fingerprints)
    except StoreError as error:
        warnings.append(f"{error}: the fingerprints of this run cannot be compared with those of others")
    snapshot = import_files(paths, fingerprints or Fingerprints.generate(), tables)
    for each in snapshot.files:
        if each.m_keys:
            warnings.append(
                f"{each.name} holds the M_Keys of {counted(each.m_keys, 'port')} in clear: the snapshot has only their "
                "fingerprints, but anyone who can read that file has the keys"
            )
    return snapshot, warnings + _warn_of_import(snapshot)


def load(path: str | Path, *, node_names: NodeNames | None = None) -> RecordedFabric:
    """Read a snapshot and return it in place of an open fabric: it has the same reading interface.

    Reading a value that was not recorded raises NotRecorded. ``warnings`` of the result: facts that the user should
    know about the file. Raises StoreError if the file is missing, damaged, no snapshot, or of a later version;
    FileFormatError for a mistake in *node_names*; UsageError for an argument of a wrong type.
    """
    from ibkeys.fabric.recorded import RecordedFabric
    from ibkeys.fabric.snapshot_file import load_snapshot
    from ibkeys.store.fingerprint import load_fingerprints

    warnings: list[str] = []

    def own_fingerprints() -> Fingerprints | None:
        try:
            return load_fingerprints(store_paths().fingerprints, create=False)
        except StoreError as error:
            warnings.append(f"{error}; without it M_Keys of this snapshot are not compared with other files")
            return None

    recorded = RecordedFabric(
        load_snapshot(file_path("path", path), own_fingerprints), _names(node_names) if node_names else {}
    )
    recorded.warnings = warnings + _warn_of_import(recorded.snapshot)
    return recorded


def _warn_of_import(snapshot: Snapshot) -> list[str]:
    """Return a warning if a snapshot has values that the SM reported and not the ports; else an empty list."""
    sm = [(name, file) for (_, name), file in snapshot.origins.items() if snapshot.files[file].is_sm]
    if not sm:
        return []
    names = [name for name, _ in sm]
    ports = " and ".join(f"{name} of {counted(names.count(name), 'port')}" for name in dict.fromkeys(names))
    files = named([snapshot.files[file].name for file in sorted({file for _, file in sm})])
    return [f"{ports}: as the SM reported it at its last sweep ({files}); the ports were not queried"]

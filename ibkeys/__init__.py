"""ibkeys: show, set and check the keys of an InfiniBand subnet (P_Keys, M_Keys, Q_Keys and their violation counters).

    import ibkeys

    with ibkeys.open() as fabric:                   # the first active port of this host
        print(fabric.find_port("0,1", 3).read_p_keys())  # directed route 0,1, port 3
        for port in fabric.sweep(p_keys=True).ports():
            print(port, port.m_key_state, port.p_keys)

Everything that talks to a fabric starts with `open`. Errors are those of `ibkeys.errors`.
"""

from __future__ import annotations

from ibkeys.version import __version__ as __version__

TYPE_CHECKING = False  # nothing is imported with the package, not even typing: see ibkeys/__main__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibkeys.client.limits import Limits
    from ibkeys.fabric.live import Fabric
    from ibkeys.keys.mkey import MKey
    from ibkeys.sim.subnet import Subnet
    from ibkeys.umad.port import UmadPort


def open(
    backend: str = "umad",
    *,
    subnet: Subnet | None = None,
    ca: str | None = None,
    port: int | None = None,
    at: str | None = None,
    m_key: MKey | int | None = None,
    default_m_key: MKey | None = None,
    security_keys: str | Path | None = None,
    keystore: str | Path | None = None,
    journal: str | Path | None = None,
    passphrase: Callable[[], str] | None = None,
    trust_topology: bool = False,
    ask_unproven: bool = False,
    timeout: float = 1.0,
    retries: int = 2,
    outstanding: int | None = None,
    limits: Limits | None = None,
    node_name_map: str | Path | None = None,
    wrap: Callable[[UmadPort], UmadPort] | None = None,
) -> Fabric:
    """Open a local port and return the subnet as seen from it; close it, or use it as a context manager.

    *backend*: ``umad`` is the real stack, ``sim:FILE[,option=value...]`` a simulated subnet (``sim:`` alone a small
    demo fabric); *subnet* is a simulated one that the caller made. *ca*, *port*: local CA and port, by default the
    first active port, else the first with a link. *at*: the node the tool sits on in a simulated subnet.

    *m_key* is sent to every node addressed, *default_m_key* to those for which no other key is known.
    *security_keys*: directory with OpenSM's key files. *keystore*: key store file, by default the user's own where it
    exists (with a simulated subnet, the one beside its state file). *journal*: where changes put what they overwrite,
    by default beside the user's own key store. *passphrase* is called, once, when the key store turns out to be
    encrypted.

    *trust_topology* sends known keys over links that could not be proven; *ask_unproven* asks once, without a key,
    where a protected port may be: it counts a violation there, and its lease may start.

    *timeout*: seconds for each attempt; *retries*: attempts after the first; *outstanding*: most SMPs in flight, None
    for the adaptive default. *limits*: what a sweep, a node and an answer of the SA may take at most. *wrap* may put
    something between the tool and the port (a capture, a trace).

    Raises TransportError (with advice), UsageError, FileFormatError, StoreError.
    """
    from pathlib import Path

    from ibkeys.client.smp import Timing
    from ibkeys.fabric.live import Fabric
    from ibkeys.keys.mkey import MKey
    from ibkeys.mkeys.key_sources import KeySources, load_ring
    from ibkeys.store.keys.sealing import Passphrase
    from ibkeys.store.paths import store_paths
    from ibkeys.topology.node_names import read_node_name_map

    secret = Passphrase(passphrase) if passphrase else None
    names = read_node_name_map(node_name_map) if node_name_map else {}
    own_keystore, own_journal = Path(keystore) if keystore else None, Path(journal) if journal else None
    umad: UmadPort
    if subnet is not None or backend.startswith("sim:"):
        from ibkeys.umad.simulated import open_simulated, parse_spec, port_on

        if subnet is not None:
            state, umad = None, port_on(subnet, ca, port, at)
        else:
            spec = parse_spec(backend)
            state, umad = spec.state, open_simulated(spec, ca, port, at)
        paths = store_paths(simulated=True, state=state, keystore=own_keystore, journal=own_journal, passphrase=secret)
    elif backend == "umad":
        from ibkeys.umad.libibumad import open_port

        umad = open_port(ca, port)
        paths = store_paths(keystore=own_keystore, journal=own_journal, passphrase=secret)
    else:
        from ibkeys.errors import UsageError

        raise UsageError(f"backend {backend!r} is not known: use umad, or sim:FILE for a simulated subnet")
    try:
        sources = KeySources(
            MKey(m_key) if isinstance(m_key, int) else m_key,
            default_m_key,
            Path(security_keys) if security_keys else None,
            paths.keystore,
            trust_topology,
            ask_unproven,
            secret,
        )
        ring, warnings = load_ring(sources)
        fabric = Fabric(wrap(umad) if wrap else umad, ring, Timing(timeout, retries, outstanding), names, limits)
    except BaseException:
        umad.close()
        raise
    fabric.stores = paths
    fabric.is_simulated = subnet is not None or backend.startswith("sim:")
    fabric.warnings = warnings

    opened_with = fabric.ring

    def reload_keys() -> None:
        if fabric.ring is opened_with:  # a ring that the caller put there is the caller's
            fresh = load_ring(sources)[0]
            opened_with.by_guid, opened_with.spares = fresh.by_guid, fresh.spares
            opened_with.neighbors, opened_with.lids = fresh.neighbors, fresh.lids
            opened_with.levels, opened_with.link_downed = fresh.levels, fresh.link_downed
            opened_with.settled = fresh.settled
            opened_with.fallback = fresh.fallback

    fabric.reload_keys = reload_keys
    return fabric

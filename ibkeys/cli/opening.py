"""Opening the fabric, snapshot, key store or journal that the options name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

import ibkeys
from ibkeys.cli import exits
from ibkeys.cli.config import DEFAULT_CONFIG, DEFAULT_NAME_MAP, Config, read_config
from ibkeys.cli.given import is_from_environment, is_from_site, is_typed
from ibkeys.cli.options import AskSa, StoreOptions, Where
from ibkeys.cli.screen.lines import keep_whole
from ibkeys.cli.secrets import check_passphrase_option, read_key, read_passphrase
from ibkeys.cli.site import refuse_other_subnet
from ibkeys.cli.site.settings import NO_FILE
from ibkeys.errors import FileFormatError, MKeyNeeded, NoReply, SendRefused, UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.printable import counted
from ibkeys.simulated_host import own_simulated_host

if TYPE_CHECKING:
    from ibkeys.client.sa import SaClient
    from ibkeys.fabric.recorded import RecordedFabric
    from ibkeys.fabric.snapshot import Snapshot
    from ibkeys.scripting import Fabric
    from ibkeys.source import Source
    from ibkeys.store.keystore.keystore import KeyStore
    from ibkeys.store.paths import StorePaths
    from ibkeys.topology.model import Topology
    from ibkeys.umad.port import UmadPort

DEFAULT_TIMEOUT_MS: Final = 1000
_NOT_WITH_A_FILE: Final = {
    "backend": "--backend",
    "at": "--at",
    "pcap": "--pcap",
    "m_key": "-y",
    "sa_keys": "--sa-keys",
    "smkey": "--smkey",
}
"""Options that have no meaning with a snapshot, by the names of their parameters."""
_SM_KEY: Final = "ibkeys.sm_key"
"""Key in the ``meta`` of click's context: the SM_Key that was read."""


@contextmanager
def open_fabric(
    where: Where, changing: bool = False, around: Callable[[UmadPort], UmadPort] | None = None
) -> Iterator[Fabric]:
    """Open the fabric that the options name; write its warnings and notes to standard error.

    *changing*: whether the command changes the fabric. It then creates the key store of --keystore if there is none;
    any other command warns. *around*: a function that wraps the local port. Raises as `_open` does.
    """
    if where.debug:
        exits.show_frames()
    if where.at and not is_simulated(where) and is_typed("at"):
        raise UsageError("--at is for a simulated subnet (--backend sim:...); on a real one choose with -C and -P")
    if where.keystore and not changing:
        _warn_of_missing_keystore(where.keystore)
    if where.ask_unproven:
        exits.warn(
            "--ask-unproven: each protected port that is queried without its key counts an M_Key violation, and opens "
            "when its lease has run out"
        )
    with _open(where, config_of(where), around) as fabric:
        if where.sa_keys:
            exits.detail("--sa-keys: any host that has this SM_Key can read every M_Key from the SA too")
        exits.warn_each(fabric.warnings)
        already_written = len(fabric.warnings)
        fabric.routes = "where checked" if where.routes else "none"
        if not fabric.is_simulated:
            _set_more_notes(where, fabric)
        try:
            yield fabric
        except (NoReply, SendRefused, MKeyNeeded):
            exits.set_more_notes(None if fabric.is_simulated else lambda: what_host_knows(where))
            raise
        finally:
            exits.warn_each(fabric.warnings[already_written:])
            if fabric.swept is not None:
                _save_names(where, fabric.swept)
            if where.verbose:
                _say_statistics(fabric)


def _open(where: Where, config: Config, around: Callable[[UmadPort], UmadPort] | None) -> Fabric:
    """Open the fabric. With --debug or --pcap the local port is tapped; *around* then wraps it (None: it does not).

    Raises Refused if the site file is for another subnet, UsageError for options that do not go together, and the
    errors of `ibkeys.open`.
    """
    # Not at the top: commands that open no fabric need none of it.
    from ibkeys.client.limits import Limits
    from ibkeys.client.smp import Timing
    from ibkeys.mkeys.key_sources import Keys
    from ibkeys.opening import Local, Stores, fabric_at, open_port

    m_key = None
    if where.m_key is not None:
        m_key = read_key(MKey, where.m_key, "--m_key", is_from_environment("m_key"))
    from_sa = _sa_access(where) if where.sa_keys or where.smkey is not None else None
    keys = Keys(m_key, config.m_key, where.security_keys, where.trust_topology, where.ask_unproven, from_sa)
    stores = Stores(where.keystore, where.journal, passphrase_of(where.keystore_passphrase))
    timeout = (where.timeout or config.timeout or DEFAULT_TIMEOUT_MS) / 1000
    timing = Timing(timeout, where.retries, where.outstanding_smps)
    limits = Limits.parse(where.limit) if where.limit else None
    names = name_map_of(where)
    local = Local(where.ca or config.ca, where.port or config.port, where.at)
    port = open_port(where.backend, local)
    try:
        refuse_other_subnet(port.attributes().port_guid)
        if where.debug or where.pcap:
            port = _tapped(port, where)
        port = around(port) if around is not None else port
        return fabric_at(port, keys, stores, timing, limits, names)
    except BaseException:
        port.close()
        raise


def _save_names(where: Where, topology: Topology) -> None:
    """Save the node names of a sweep for completion. A failure is only a note with -v."""
    from ibkeys.cli.completing import names

    list_name = names.list_of_last_sweep(where.backend)
    try:
        names.save_names(list_name, (node.description for node in topology.nodes if node.description))
    except (OSError, RuntimeError) as error:
        if where.verbose:
            exits.note(f"names of nodes are not saved for completion: {error}")


def _set_more_notes(where: Where, fabric: Fabric) -> None:
    """Make notes ready about keys and files of this host that may open silent ports.

    They are written if the command cannot complete and the sweep had ports without an answer.
    """

    def lines() -> Iterable[str]:
        found = fabric.swept
        if found is None or not any(trouble.reading != "refused" for trouble in found.troubles):
            return []
        return what_host_knows(where)

    exits.set_more_notes(lines)


def what_host_knows(where: Where) -> list[str]:
    """Return descriptions of keys and files of this host that may open ports which do not answer.

    A description says so if this command has used the key file already.
    """
    from ibkeys.managers.opensm.on_this_host import describe_locked_out

    return describe_locked_out(Path(where.security_keys) if where.security_keys else None)


def stores_of(where: Where) -> StorePaths:
    """Return the journal and the key store that the options name, without opening a fabric."""
    from ibkeys.umad import sim_spec

    return sim_spec.stores_of(where.backend, where.keystore, where.journal)


def journal_of(where: Where) -> Path:
    """Return the journal that the options name, without opening a fabric. Raises UsageError if it is in memory only."""
    path = stores_of(where).journal
    if path is None:
        raise UsageError("a simulated subnet without state= has no permanent journal: use sim:FILE,state=PATH")
    return path


@contextmanager
def open_keystore(options: StoreOptions | Where, command: str, changing: bool = False) -> Iterator[KeyStore]:
    """Open the key store that the options name, without a fabric.

    *command*: the name of the command for the lock. *changing*: whether it changes the key store. It then creates the
    key store if there is none, and holds its lock. Raises UsageError for a key store in memory, because its contents
    would be lost; StoreError if the key store cannot be opened or is locked.
    """
    from ibkeys.store.keystore.keystore import KeyStore
    from ibkeys.store.keystore.sealing import Passphrase
    from ibkeys.store.lock import exclusive
    from ibkeys.store.private_files import is_there

    path = keystore_path(options)
    if path is None:
        raise UsageError("this simulated subnet has its key store in memory: name one, or keep it with state=PATH")
    passphrase = Passphrase(passphrase_of(options.keystore_passphrase))
    with exclusive(path if changing else None, command=command):
        if not changing and not is_there(path, "key store"):
            exits.warn(f"{path}: there is no such file: the key store is empty")
        with KeyStore(path, create=changing, upgrade=changing, passphrase=passphrase) as store:
            yield store


def keystore_path(options: StoreOptions | Where) -> Path | None:
    """Return the file of the key store; None if it is in memory."""
    from ibkeys.umad import sim_spec

    return sim_spec.stores_of(options.backend, options.keystore).keystore


def passphrase_of(text: str | None) -> Callable[[], str]:
    """Return a function that reads the passphrase of --keystore-passphrase when it is needed.

    *text*: the value of the option; None without it. Raises UsageError for a value that is neither ``@FILE`` nor ``-``.
    """
    option = "--keystore-passphrase"
    if text is not None:
        check_passphrase_option(text, option, from_environment=is_from_environment("keystore_passphrase"))
    return lambda: read_passphrase(text, option)


def open_source(where: Where) -> AbstractContextManager[Source]:
    """Open the source of a reading command: the fabric that the options name, or the snapshot of ``--from``."""
    return open_fabric(where) if where.snapshot is None else nullcontext(open_recorded(where))


def open_recorded(where: Where) -> RecordedFabric:
    """Return the snapshot of ``--from``; write its warnings to standard error.

    Raises UsageError for options that only a live fabric has, and the errors of `load`.
    """
    assert where.snapshot is not None
    if where.debug:
        exits.show_frames()
    for name, option in _NOT_WITH_A_FILE.items():
        if is_typed(name):
            raise UsageError(f"--from reads a file, not the fabric: omit {option}")
    if where.keystore:
        _warn_of_missing_keystore(where.keystore)
    recorded = ibkeys.load(where.snapshot, node_names=name_map_of(where))
    exits.warn_each(recorded.warnings)
    if where.show_keys and not recorded.holds_m_keys:
        exits.warn("the snapshot was taken without -K: it holds fingerprints of the M_Keys, not the keys")
    return recorded


def load(path: Path) -> Snapshot:
    """Return the snapshot in *path*; write its warnings to standard error.

    Raises StoreError for a file that cannot be read or is no snapshot.
    """
    recorded = ibkeys.load(path)
    exits.warn_each(recorded.warnings)
    keep_whole(node.description for node in recorded.snapshot.fabric.nodes)
    return recorded.snapshot


def open_sa(fabric: Fabric, where: Where, sa: AskSa) -> SaClient:
    """Return a client for the SA that the options name. It sends the SM_Key of the options, or else of ibdiag.conf."""
    return fabric.sa(sm_key_of(where), sa.sm_port, sa.pkey_idx)


def sm_key_of(where: Where) -> SMKey | None:
    """Return the SM_Key of the options, or else of ibdiag.conf; None if neither has one.

    The user is asked for it only once.
    """
    if where.smkey is None:
        return config_of(where).sa_key
    context = click.get_current_context()
    if _SM_KEY not in context.meta:
        from_environment = is_from_environment("smkey")
        context.meta[_SM_KEY] = read_key(SMKey, where.smkey, "--smkey", from_environment)
    key: SMKey = context.meta[_SM_KEY]
    return key


def _sa_access(where: Where) -> ibkeys.SaAccess | None:
    """Return the SM_Key and the address with which to query the SA for M_Keys; None without --sa-keys.

    Raises UsageError for --sa-keys with -y or without an SM_Key, and for --smkey if the SA is not asked.
    """
    params = click.get_current_context().params
    if not where.sa_keys:
        if "sm_port" not in params and is_typed("smkey"):
            raise UsageError(
                "--smkey is sent to the SA, and this command queries the SA only with --sa-keys: give --sa-keys too"
            )
        return None
    if where.m_key is not None:
        raise UsageError("-y sends one M_Key to every port, so those of the SA would not be used: omit --sa-keys")
    key = sm_key_of(where)
    if key is None or key.is_zero:
        raise UsageError("--sa-keys: the SA gives M_Keys only to a requester with its SM_Key: give --smkey @FILE")
    return ibkeys.SaAccess(key, params.get("sm_port"), params.get("pkey_idx"))


def is_simulated(where: Where) -> bool:
    """Return whether the options name a simulated subnet."""
    return where.backend.startswith("sim:")


def _warn_of_missing_keystore(keystore: str) -> None:
    from ibkeys.store.private_files import is_there

    is_named = is_typed("keystore") or is_from_site("keystore")
    if is_named and not is_there(Path(keystore), "key store"):
        exits.warn(f"--keystore: {keystore}: there is no such file, so its keys will not be used")


def config_of(where: Where) -> Config:
    """Return the ibdiag.conf that -z names; for ``none`` an empty one.

    Without -z it is the system's ibdiag.conf if that can be read; on a simulated host or subnet it is empty. Raises
    FileFormatError.
    """
    if where.config == NO_FILE:
        return Config()
    if where.config:
        return read_config(Path(where.config))
    if is_simulated(where) or own_simulated_host() is not None or not os.access(DEFAULT_CONFIG, os.R_OK):
        return Config()
    return read_config(DEFAULT_CONFIG)


def name_map_of(where: Where) -> str | Path | None:
    """Return the node name map of the options, or else that of infiniband-diags on this host; None if there is none."""
    from ibkeys.topology.names.node_names import read_node_name_map

    if where.node_name_map:
        return where.node_name_map
    if is_simulated(where) or own_simulated_host() is not None or not os.access(DEFAULT_NAME_MAP, os.R_OK):
        return None
    try:
        read_node_name_map(DEFAULT_NAME_MAP)
    except FileFormatError as error:
        exits.warn(f"{error}; names are taken from the nodes")
        return None
    return DEFAULT_NAME_MAP


def _tapped(port: UmadPort, where: Where) -> UmadPort:
    from ibkeys.umad.pcap import PcapFile
    from ibkeys.umad.tap import Observer, Tap, Trace

    observers: list[Observer] = []
    if where.pcap:
        observers.append(PcapFile(Path(where.pcap), port.attributes().base_lid, where.show_keys))
    if where.debug:
        observers.append(Trace(lambda line: click.echo(exits.clean(line), err=True)))
    return Tap(port, observers, exits.warn)


def _say_statistics(fabric: Fabric) -> None:
    local, counts = fabric.local(), fabric.client.statistics
    click.echo(
        f"ibkeys: {local.ca_name} port {local.port}: {counted(counts.sent, 'SMP')} sent, {counts.keyed} of them with "
        f"an M_Key, {counts.replies} replies, {counted(counts.timeouts, 'timeout')}, {counts.strays} late or foreign "
        f"replies, {counts.refused} refused; at most {counts.widest} in flight",
        err=True,
    )
    cost = fabric.last_sweep
    if cost is not None:
        click.echo(f"ibkeys: the sweep: {cost}", err=True)

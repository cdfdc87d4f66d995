"""Building a simulated subnet from a file of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibkeys import files
from ibkeys.dumps.kinds import KINDS, NETDISCOVER, kind_if_known
from ibkeys.errors import FileFormatError
from ibkeys.replica.assumed import NET_FILE
from ibkeys.sim.netfile.build import InitialState, PortGuids
from ibkeys.sim.netfile.reader import NoNodeRecord
from ibkeys.sim.subnet import Subnet

if TYPE_CHECKING:  # for a net file neither snapshots nor their reader are imported
    from ibkeys.fabric.snapshot import Snapshot

_DATABASE: Final = b"SQLite format 3\0"


def read_subnet(
    source: str | Path | Sequence[Path],
    port_guids: PortGuids = "file",
    seed: int = 0,
    link_state: InitialState | None = None,
    net_file_links: InitialState = "active",
) -> Subnet:
    """Return the simulated subnet of *source*.

    *source* is a net file, a snapshot, a folder of snapshots (the newest is used), or one or several files of one
    fabric that `ibkeys.dumps` reads. *port_guids*, *seed*: as in `Subnet.from_file`. *link_state*: the state of links
    that are up; None: the recorded state, and *net_file_links* for a net file, which records no states. Raises
    FileFormatError, StoreError, UsageError.
    """
    paths = [Path(source)] if isinstance(source, str | Path) else list(source)
    snapshot = _snapshot_of(paths)
    if snapshot is None:
        try:
            net = Subnet.from_file(paths[0], port_guids, seed, link_state or net_file_links)
        except NoNodeRecord as error:
            kinds = ", ".join(kind.name for kind in KINDS)
            raise FileFormatError(
                "is no file about a fabric; these can be read: a net file (records Switch, Ca and Rt), a snapshot, a "
                f"folder of snapshots, and files of {kinds}",
                error.path,
            ) from None
        net.assumed = NET_FILE
        return net
    from ibkeys.replica.recorded import records_of

    return Subnet(records_of(snapshot, str(paths[0])), port_guids, seed, link_state)


def _snapshot_of(paths: Sequence[Path]) -> Snapshot | None:
    """Return the snapshot in *paths*, or one made from files of other tools; None for a net file."""
    if len(paths) > 1:
        return _import(paths)
    path = paths[0]
    if path.is_dir():
        from ibkeys.fabric.snapshot_folder import newest_snapshot

        path = newest_snapshot(path)
    if not path.is_file():  # a pipe can be read once only, and must be a net file
        return None
    with files.os_errors_as(partial(FileFormatError, path=str(path)), "cannot be read"):
        if files.read_head(path, len(_DATABASE)) == _DATABASE:  # only then is SQLite imported
            from ibkeys.store.snapshot import is_snapshot

            if is_snapshot(path):
                from ibkeys.fabric.snapshot_file import load_snapshot

                return load_snapshot(path, keys=False)
    # The reader of net files accepts ibnetdiscover's output, and more of it than an import does.
    return None if kind_if_known(path) in (None, NETDISCOVER) else _import([path])


def _import(paths: Sequence[Path]) -> Snapshot:
    from ibkeys.dumps.importing import import_files
    from ibkeys.keys.fingerprint import Fingerprints

    # The M_Keys of this snapshot are not stored, so the secret of their fingerprints does not matter.
    return import_files(paths, Fingerprints.generate())

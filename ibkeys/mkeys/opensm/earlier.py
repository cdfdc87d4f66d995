"""What earlier runs through OpenSM left behind: the record of the last one, and ports that were away.

A port that was away keeps its former key. Back at its place it gets the new one from OpenSM alone, which nobody tells
the key store: to ask it with the former key would count a violation. OpenSM notes in its guid2mkey whom it gave a key.
Source: opensm osm_lid_mgr.c, osm_db_pack.c; a running OpenSM, observed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from ibkeys import files
from ibkeys.change.writer import Writer
from ibkeys.errors import UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.opensm.record import RunRecord
from ibkeys.mkeys.rollout.earlier_run import last_run, name_of, open_store
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.sm.report import look_at_host
from ibkeys.sm.site import Reached, Running
from ibkeys.store.keys.keystore import KeyRow, KeyStore
from ibkeys.store.keys.runs import NewRunPort, Runs
from ibkeys.store.opensm import MKEY_FILE, parse_m_keys
from ibkeys.store.sqlite import guid_text
from ibkeys.topology.model import Topology


def goes_through_opensm(writer: Writer) -> bool:
    """Return whether the last run of the key store goes through OpenSM."""
    with open_store(writer) as store:
        last = Runs(store).last()
    return last is not None and last.via is not None


def record_of_last_run(writer: Writer) -> RunRecord:
    """Return what the key store remembers of the last run. Raises UsageError for none, and for one by own Sets."""
    with open_store(writer) as store:
        last, _ = last_run(store)
        if last.via is None:
            raise UsageError(f"{name_of(last)} does not go through OpenSM: leave --via out to go on with it")
        return RunRecord.of_json(last.via, store)


def take_keys_that_opensm_gave(writer: Writer, reached: Sequence[Reached]) -> None:
    """Let the sweep that follows ask each port with the key of the last run that OpenSM's guid2mkey has for it.

    Only the key that this run gives is taken from there: OpenSM notes it when it has set it, while another key in that
    file may be older than what the key store knows. Raises what `Running.place_of` raises, FileFormatError,
    HostNotReached.
    """
    if not goes_through_opensm(writer):
        return
    given, ring = record_of_last_run(writer).keys.wanted.key, writer.fabric.ring
    for each in reached:
        for guid, key in _key_files(each):
            if key == given and guid in ring.by_guid:
                ring.by_guid[guid] = key


def _key_files(reached: Reached) -> Iterator[tuple[int, MKey]]:
    """Yield (port GUID, key) of the guid2mkey of each OpenSM of a host; nothing where one has none yet."""
    host = look_at_host(reached.hands.files, reached.host.named, os.environ.get("IBSIM_SOCKNAME", ""))
    for instance in host.instances:
        _, cache = Running(instance, reached.hands, None).place_of("cache")
        path = cache / MKEY_FILE
        try:
            data = reached.hands.files.read(path, files.LIST)
        except OSError:
            continue  # it is not there before the first key; that a file of the master can be read is seen to later
        yield from parse_m_keys(data, str(path)).items()


def away(store: KeyStore, found: Topology) -> Iterator[NewRunPort]:
    """Yield the ports that have a key as far as the store knows, that this sweep did not find, and that are waited
    for."""
    there = {port.port_guid for port in found.end_ports()} | store.settled()
    current = {row.port_guid: row for row in store.rows() if row.state == "current" and not row.m_key.is_zero}
    yield from (_new_port(row) for guid, row in current.items() if guid not in there)


def _new_port(row: KeyRow) -> NewRunPort:
    return NewRunPort(row.node_guid or row.port_guid, row.port_guid, row.port or 0)


def away_result(port: NewRunPort) -> PortResult:
    """Return what is said of a port that is away when a run begins."""
    identity = {
        "node_guid": guid_text(port.node_guid),
        "port_guid": guid_text(port.port_guid),
        "node_desc": None,
        "node_type": None,
        "port": port.port,
        "lid": None,
    }
    reason = "it is away and keeps its former M_Key; when it is back, --resume gives it the new one"
    return PortResult(identity, "skipped", reason, unread=True)

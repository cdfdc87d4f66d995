"""Repairing OpenSM's key files after OpenSM crashed in the middle of a change of M_Keys.

OpenSM writes guid2mkey only at the end of a sweep, and reads it only when it starts. After a crash during a sweep, the
file does not have the keys of the ports, and at levels 2 and 3 OpenSM then cannot read even its own port. A repair
reads each port, the local port first, with the keys that the port may have by the key store, once with each, until it
answers. The keys to which ports answered go into the key store, and then into the files. No SMP of a repair changes a
port.

Source: opensm osm_state_mgr.c (do_sweep), osm_lid_mgr.c; observed with opensm 3.3.23.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from ibkeys.change.consent import Objection
from ibkeys.change.interlocks.m_keys import objections_to_key_files_under_sm
from ibkeys.change.plan import Plan
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.bounds import limit_notes
from ibkeys.discovery.discover import run_sweep
from ibkeys.discovery.frugal_sweep import FrugalSweep
from ibkeys.discovery.wanted import OnFound, Wanted
from ibkeys.errors import AgentRefused, IbkeysError, MadStatusError, Refused, TransportError, UsageError
from ibkeys.fabric.live import LiveFabric
from ibkeys.host.file_access import stat_file
from ibkeys.mad.const import MAX_UNICAST_LID, CapabilityMask
from ibkeys.managers.files.journaled import remove_left_overs
from ibkeys.managers.files.listeners import hindrance_to_closing
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.key_files import export_key_files, import_links, refuse_to_overwrite
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.mkeys.opensm.key_files import COPIED, give_key_file
from ibkeys.mkeys.repair.answers import sort_answers
from ibkeys.mkeys.repair.candidates import candidates_of, ring_of
from ibkeys.mkeys.repair.outlook import RepairOutlook, outlook_of
from ibkeys.mkeys.repair.result import RepairResult
from ibkeys.mkeys.stored_links import remember_topology
from ibkeys.store.cut_off_operations import close_cut_off
from ibkeys.store.private_files import DIRECTORY_MODE, make_directory, named_errors
from ibkeys.topology.subnet_manager import SubnetManager, shown_subnet_manager

_WANTED: Final = Wanted(sm_info=True, link_downed=True)
_STORED_NOTE: Final = "sm-repair: the port showed it"


class Repair:
    """One repair of the key files in *directory*, made by `plan_repair`. *processes*: returns the running OpenSMs."""

    def __init__(self, writer: ChangeWriter, directory: Path, processes: Callable[[], Iterable[OpensmProcess]]) -> None:
        self.writer = writer
        self.directory = directory
        self._store = writer.keystore
        self._processes = processes
        self.candidates = candidates_of(self._store)
        self._ring = ring_of(writer.fabric.ring, self.candidates)

    def outlook(self, conf_leases: Iterable[int] = ()) -> RepairOutlook:
        """Return the ports that `run` would read, and the maximum cost. *conf_leases*: the lease of each opensm.conf,
        in seconds. Sends nothing."""
        return outlook_of(self._store, self._ring, self.candidates, conf_leases)

    def objections(self) -> list[Objection]:
        """Return the objections to the repair. Asks the SA for the master SM, and sends no SMP. Raises
        TransportError."""
        return objections_to_key_files_under_sm(_presence_by_sa(self.writer.fabric))

    def run(self, progress: OnFound | None = None) -> RepairResult:
        """Read the ports, store their keys, write the files, and return the result for each port. *progress*: called
        with the progress of the sweep.

        Raises Refused if an SM was found, or if in the meantime an OpenSM was started or the files got keys that the
        key store does not have; NoReply or SendRefused if the local port answers to none of its keys, and nothing is
        written then; TransportError, StoreError, FileError, FileFormatError.
        """
        fabric, store = self.writer.fabric, self._store
        kinds = {guid: {each.m_key: each.origin for each in keys} for guid, keys in self.candidates.items()}
        sweep = FrugalSweep(fabric.client, self._ring, _WANTED, progress, fabric.node_names, kinds)
        found = run_sweep(sweep)
        self._check(objections_to_key_files_under_sm(shown_subnet_manager(found)))
        done = sort_answers(sweep, self.candidates, store)
        self._keep(done)
        remember_topology(fabric, store, found)
        refuse_to_overwrite(store, self.directory, self._processes())
        make_private(self.directory)
        with self.writer.journaled() as operation:
            give = partial(give_key_file, user=os.geteuid(), machine=THIS, operation=operation)
            done.exported = export_key_files(store, self.directory, None, self._processes(), give)
            written = [OpensmFile.at(THIS, self.directory / name) for name in COPIED]
            files = [file.key for file in written]
            close_cut_off(operation.journal, [self.writer.command], "done", but=operation.id, files=files)
            done.notes += remove_left_overs(operation.journal, written, store)
        done.notes += limit_notes(found, fabric.client.limits)
        return done

    def check(self) -> None:
        """Raise Refused for the first interlock that the repair triggers and the user has not overridden."""
        self._check(self.objections())

    def _check(self, objections: list[Objection]) -> None:
        self.writer.check(Plan(self.writer.command, objections=objections))

    def _keep(self, done: RepairResult) -> None:
        """Put the keys that the ports showed into the key store, as current keys, before any file is written."""
        with self._store.in_one_transaction():
            for each in done.answers:
                guid = each.port_guid
                if each.key == "none" and guid not in self.candidates:
                    continue
                where = {"node_guid": each.node_guid, "port": each.port["port"]}
                self._store.promote(self._store.put_imported(guid, each.m_key, **where, note=_STORED_NOTE))


def plan_repair(writer: ChangeWriter, directory: Path, processes: Callable[[], Iterable[OpensmProcess]]) -> Repair:
    """Return the repair of the key files in *directory*, OpenSM's cache folder. Sends nothing.

    *processes*: returns the running OpenSMs. Except in a dry run, the links of the folder's ``neighbors`` file are put
    into the key store. Raises Refused if a running OpenSM has its files there, if the files have keys that the key
    store does not have, and for a folder that belongs to another user or that others may write to; UsageError if the
    key store has no key of any port; StoreError, FileFormatError.
    """
    store = writer.keystore
    refuse_to_overwrite(store, directory, processes())
    _refuse_folder_of_others(directory)
    if not writer.dry_run:
        import_links(store, directory)
        writer.fabric.reload_keys()
    repair = Repair(writer, directory, processes)
    if not repair.candidates:
        raise UsageError(
            f"{store.path or 'the key store'} has no M_Key of any port, so there is no key to query with: "
            f"`ibkeys keystore import {directory} --opensm-conf FILE` first"
        )
    return repair


def _refuse_folder_of_others(directory: Path) -> None:
    if directory.exists() and directory.stat().st_uid != os.geteuid():
        user = directory.stat().st_uid
        raise Refused(
            f"{directory} belongs to another user (UID {user}); nothing was sent: run this as that user, or name a "
            "folder of your own: `ibkeys sm-repair --cache-dir FOLDER`",
            "foreign-folder",
        ).explained(
            "An OpenSM of that user could not read what is written there.",
            f"A folder of your own: type `chown -R {user} FOLDER` when this is done, and start OpenSM with it "
            "(OSM_CACHE_DIR).",
        )
    if directory.exists() and (hindrance := hindrance_to_closing(directory, stat_file(directory), os.geteuid())):
        raise Refused(f"{hindrance}; nothing was sent", "foreign-folder")


def make_private(directory: Path) -> None:
    """Create *directory* with mode 0700, or set that mode if it exists. Raises StoreError."""
    with named_errors(directory, "cache folder of OpenSM"):
        make_directory(directory)
        os.chmod(directory, DIRECTORY_MODE)


def _presence_by_sa(fabric: LiveFabric) -> SubnetManager:
    """Return whether a master SM is active. The SA at the local port's MasterSMLID shows it; if that LID is the local
    port's own, its IsSM bit shows it. Both values come from this host's driver.

    The SA is asked by a GMP, which needs no M_Key, and the SA of a master answers. An SA that does not answer proves
    little, so a sweep has to look for SMs too. Raises TransportError.
    """
    local = fabric.local()
    lid = local.sm_lid
    if not 1 <= lid <= MAX_UNICAST_LID:
        return SubnetManager(0, "none", "the local port has no MasterSMLID")
    if lid == local.base_lid:
        if local.capability_mask & CapabilityMask.IS_SM:
            return SubnetManager(lid, "active", f"an SM runs on the local port, LID {lid}: its IsSM bit is set")
        return SubnetManager(lid, "none", f"no SM runs on the local port, LID {lid}: its IsSM bit is clear")
    try:
        fabric.sa().class_port_info()
    except MadStatusError:
        pass  # an error status is an answer too
    except IbkeysError as error:
        if isinstance(error, TransportError) and not isinstance(error, AgentRefused):
            raise
        return SubnetManager(lid, "none", f"the SA at LID {lid} does not answer: {error}")
    return SubnetManager(lid, "active", f"the SA at LID {lid} answers, so its SM is master")

"""The interlock ``stale`` for a policy or an options file that was edited and that OpenSM has not read since. OpenSM
would read both files at the signal for this change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ibkeys.change.consent import Objection
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.tables import AT_ONCE, gets_to, read_p_key_table
from ibkeys.keys.pkey import DEFAULT_FULL
from ibkeys.managers.files.journaled import is_written_by_ibkeys
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.instance import CHECK_FIRST, HOW_TO_MEND, Instance
from ibkeys.managers.reading import WORDS
from ibkeys.store.journal import Journal
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port


def objections_to_unread_policy(writer: ChangeWriter, master: Instance, topology: Topology) -> Iterator[Objection]:
    """Yield an objection if the policy of this OpenSM was edited and OpenSM has not read the edit, or if the policy
    file is missing now and was there at the last sweep.

    The file was there if a port of *topology* has P_Keys that OpenSM gives only by a policy. SMPs: only if the file is
    missing: the P_Key tables of host ports until one has such a P_Key.
    """
    file = master.files["policy"]
    if file.reading == "not-read":
        yield objection_to_edits([f"{file.path}: {WORDS['not-read']}"])
    elif file.no_facts_reason == "absent" and file.reading != "absent-since-start":
        port = _port_of_a_policy(writer, topology)
        if port is not None:
            yield Objection(
                "stale",
                f"{file.path}, the policy, is missing, and {port} has P_Keys that only a policy gives: put the file "
                f"back, and {CHECK_FIRST}",
                "The SIGHUP for this change makes OpenSM look for its policy. Without one every port becomes a full "
                "member of the default partition, and of no other.",
            )


def objections_to_unread_options(
    files: Iterable[OpensmFile], is_ours: Callable[[OpensmFile], bool]
) -> Iterator[Objection]:
    """Yield an objection if options files were edited, and an OpenSM has not read the edit. *is_ours*: returns whether
    ibkeys wrote the present bytes of a file; called only for files that were not read."""
    edits = []
    for file in files:
        read = {each.instance.files["options"].reading for each in file.opensms}
        edits += [f"{file.name}: {WORDS['not-read']}"] if "not-read" in read and not is_ours(file) else []
    if edits:
        yield objection_to_edits(edits)


def is_written_here(writer: ChangeWriter, file: OpensmFile) -> bool:
    """Return whether, according to this journal, ibkeys wrote the present contents of a file. If the change that wrote
    them was interrupted, OpenSM may not have read the file, and the change may still be resumed or undone. Raises
    FileFormatError, StoreError."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        return is_written_by_ibkeys(file, journal, writer.keystore)


def objection_to_edits(edits: Iterable[str], faulty: str = "") -> Objection:
    """Return the objection to *edits* of files, each described in words. *faulty*: the fault of the edited policy, or
    ""."""
    text = "; ".join(edits)
    advice = f"revert it, or {CHECK_FIRST}, then let OpenSM read it"
    text = f"{text}: {faulty}: {HOW_TO_MEND}" if faulty else f"{text}: {advice}"
    return Objection("stale", text, "The SIGHUP for this change would also activate that edit.")


def _port_of_a_policy(writer: ChangeWriter, topology: Topology) -> Port | None:
    """Return a host's port whose P_Key table differs from the one that OpenSM gives every port without a policy; None
    if there is none. Source: opensm osm_prtn.c (osm_prtn_make_partitions)."""
    client = writer.fabric.client
    ports = [port for port in topology.end_ports() if not port.node.is_switch]
    for start in range(0, len(ports), AT_ONCE):
        some = ports[start : start + AT_ONCE]
        client.run(read_p_key_table(port, gets_to(client, port)) for port in some if port.p_key_raw is None)
        for port in some:
            if {key for _, key in port.occupied or ()} - {DEFAULT_FULL}:
                return port
    return None

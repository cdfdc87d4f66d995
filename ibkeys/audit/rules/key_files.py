"""Rules about key files. They examine the host that the audit runs on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ibkeys.audit.inputs import AuditInput
from ibkeys.audit.rule import RuleVerdict, rule
from ibkeys.managers.host_facts import KeyFile


@rule(
    id="KF001",
    title="key file readable",
    severity="critical",
    evidence=(
        "mode and owner of guid2mkey, guid2vskey, guid2cckey, guid2_m2n_key, opensm.conf, ibdiag.conf and the key "
        "store, and of the directories above them"
    ),
    why="Anyone who can read the file has the keys. OpenSM writes its "
    "files with the umask, and packages install them as 0644.",
    sources=("OSM", "PUP"),
    remedy="`ibkeys harden` for OpenSM's files. Others: chmod 600, owner root; folders above writable by root only.",
    false_positives="A configuration in which no key is set (it is left out here).",
    needs="host",
    over_fabric=False,
    if_empty="no file with a key on this host",
)
def readable(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail files with keys on this host that other users may read (KF001)."""
    assert data.host is not None
    for each in data.host.facts.key_files:
        label = (str(each.file.path),)
        problems = _problems(each)
        if each.holds_key is None:
            message = f"{each.file.path}: it is not known whether it holds a key"
            verdict.unknown(None, message, _file(each), labels=label)
        elif each.holds_key and problems:
            verdict.fail(None, f"{each.file.path}: {', and '.join(problems)}", _file(each), labels=label)
        elif each.holds_key:
            verdict.passed += 1


def _problems(each: KeyFile) -> list[str]:
    found = []
    if each.file.others_can_read:
        found.append(f"its mode {each.file.mode:04o} lets others read it")
    if each.file.others_can_write:
        found.append("others can write it or replace it")
    if each.file.strange_owners:
        owners = ", ".join(map(str, each.file.strange_owners))
        found.append(f"a directory above it belongs to user {owners}")
    return found


def _file(each: KeyFile) -> dict[str, Mapping[str, Any]]:
    file = each.file
    return {"file": {"path": str(file.path), "kind": each.kind, "mode": f"{file.mode:04o}", "uid": file.uid}}


@rule(
    id="KF002",
    title="key file out of date",
    severity="medium",
    evidence="port GUIDs of the fabric, compared with those in guid2mkey",
    why="A port that is not in the file will be slow to recover, and diagnostics that use the file cannot read it.",
    sources=("OSM",),
    remedy="Let the SM write its files (a sweep), then audit again; ibkeys keystore import imports them.",
    false_positives="Nodes that were added since the last sweep.",
    lower_in_cloud=True,
    needs="host",
)
def out_of_date(data: AuditInput, verdict: RuleVerdict) -> RuleVerdict:
    """Fail ports without a key in a guid2mkey of this host, and keys there for ports that are not on the fabric
    (KF002)."""
    assert data.host is not None
    if not data.host.guid2mkey:
        return RuleVerdict(data, note="no guid2mkey on this host")
    on_fabric = {port.guid for port in data.end_ports if port.guid}
    for path, guids in data.host.guid2mkey.items():
        label = (str(path),)
        if guids is None:
            verdict.unknown(None, f"{path}: cannot be read", _path(path), labels=label)
            continue
        for port in data.end_ports:
            if port.guid and port.guid not in guids:
                verdict.fail(port, f"{path} has no key for it", _path(path), labels=label)
            else:
                verdict.passed += 1
        for guid in sorted(guids - on_fabric):
            message = f"{path} has a key for port GUID 0x{guid:016x}, which is not on the fabric"
            evidence = {"file": {"path": str(path), "port_guid": f"0x{guid:016x}"}}
            if data.hidden:  # it may be behind a link whose far end did not answer
                verdict.unknown(None, f"{message}, as far as the fabric was read", evidence, labels=label)
            else:
                verdict.fail(None, message, evidence, labels=label)
    return verdict


def _path(path: Path) -> dict[str, Mapping[str, Any]]:
    return {"file": {"path": str(path)}}

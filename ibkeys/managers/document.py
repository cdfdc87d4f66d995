"""The report on subnet managers as a JSON document. It has no key, only whether a key is zero, the default or set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ibkeys.managers.dangers.danger import FoundDanger
from ibkeys.managers.instance import Instance, InstanceFile
from ibkeys.managers.opensm.effective_options import EffectiveOption
from ibkeys.managers.report import HostReport, SmReport
from ibkeys.managers.subnet_managers import Manager


def to_json(report: SmReport, dangers: Iterable[FoundDanger]) -> dict[str, Any]:
    """Return the document, without its schema's name, for a *report* and the *dangers* found in it. A value that is not
    known, or was not read, is None."""
    by_guid = {each.port_guid: each for each in report.instances() if each.port_guid is not None}
    managers = report.managers
    return {
        "managers": None if managers is None else [_manager(each, by_guid.get(each.guid)) for each in managers],
        "hosts": [_host(host) for host in report.hosts],
        "dangers": [asdict(found) for found in dangers],
    }


def time_text(seconds: float | None) -> str | None:
    """Return a time, given in seconds since 1970, as ``2026-11-22T06:15:14Z``. Return None if it is not known, or is no
    valid time: it may come from another host, which can answer anything."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None


def guid_text(guid: int | None) -> str | None:
    """Return a GUID as the JSON documents spell it; None for None."""
    return None if guid is None else f"0x{guid:016x}"


def _manager(manager: Manager, instance: Instance | None) -> dict[str, Any]:
    return {
        **manager.port.identity(),
        "sm_guid": guid_text(manager.guid),
        "state": manager.state,
        "priority": manager.priority,
        "act_count": manager.act_count,
        "host": instance.host if instance is not None else None,
        "pid": instance.process.pid if instance is not None else None,
    }


def _host(host: HostReport) -> dict[str, Any]:
    return {
        "host": host.name,
        "error": host.error or None,
        "ports": [{**asdict(port), "guid": guid_text(port.guid)} for port in host.ports],
        "instances": [_instance(each) for each in host.instances],
    }


def _instance(instance: Instance) -> dict[str, Any]:
    process = instance.process
    return {
        "pid": process.pid,
        "unit": process.unit,
        "program_known": process.program_known,
        "started": time_text(process.started),
        "state": instance.state,
        "port_guid": guid_text(instance.port_guid),
        "arguments": [str(each) for each in process.command.given],
        "not_understood": process.command.not_understood,
        "cwd": str(process.cwd) if process.cwd is not None else None,
        "environment": dict(process.environment) if process.environment is not None else None,
        "umask": f"{process.umask:04o}" if process.umask is not None else None,
        "last_sweep": time_text(instance.last_sweep),
        "files": [_file(each) for each in instance.files.values()],
        "options": [_setting(each) for each in instance.options.shown()],
    }


def _file(file: InstanceFile) -> dict[str, Any]:
    fact = file.fact
    return {
        "role": file.role,
        "path": str(file.path) if file.path is not None else None,
        "place": str(file.place) if file.place is not None else None,
        "source": file.source,
        "certain": file.is_certain,
        "doubt": file.doubt or None,
        "there": file.is_there,
        "mode": f"{fact.mode:04o}" if fact is not None else None,
        "uid": fact.uid if fact is not None else None,
        "written": time_text(fact.written) if fact is not None else None,
        "others_can_read": fact.others_can_read if fact is not None else None,
        "others_can_write": fact.others_can_write if fact is not None else None,
        "digest": file.digest,
        "reading": file.reading,
        "written_by": file.written_by,
        "problem": file.problem or None,
    }


def _setting(setting: EffectiveOption) -> dict[str, Any]:
    return {
        "name": setting.name,
        "value": setting.shown,
        "source": setting.source,
        "certain": setting.is_certain,
        "needs_restart": setting.needs_restart,
    }

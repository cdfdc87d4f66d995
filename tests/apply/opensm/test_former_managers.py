"""SMs that the journal knows: whose policy is not known on this host."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from ibkeys.apply.opensm.former_managers import check_managers_elsewhere
from ibkeys.managers.report import HostReport
from ibkeys.store.journal import Journal
from tests.apply.opensm.bench import MORE, Bench


def test_doctor_names_the_managers_whose_policy_is_not_known_here(bench: Bench, tmp_path: Path) -> None:
    here = HostReport("", (cast(Any, SimpleNamespace(port_guid=bench.opensm.sm_guid)),))
    other = f"0x{0x2C903000A1021:016x}"
    managers = {f"0x{bench.opensm.sm_guid:016x}": "node01 port 1", other: "node02 port 1"}
    bench.opensm.managers = managers
    bench.apply(MORE)
    with Journal.read(bench.journal) as journal:
        [check] = check_managers_elsewhere(here, journal)
        assert (check.ok, "is not on this host" in check.detail) == (None, True)
        assert f"node02 port 1 (port GUID {other})" in check.detail
        assert "sm-show --sm-host" in check.advice
        assert len(list(check_managers_elsewhere(HostReport(""), journal))) == 2
        untold = cast(Any, SimpleNamespace(port_guid=None, name="OpenSM (process 9)"))
        for check in check_managers_elsewhere(HostReport("", (untold,)), journal):
            assert "may be OpenSM (process 9), which does not show its port" in check.detail
            assert "not on this host" not in check.detail
    with Journal(tmp_path / "empty.db") as journal:
        assert list(check_managers_elsewhere(here, journal)) == []

"""Beside a running OpenSM: the interlocks active-sm and mkey-under-sm."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.corpus import DATA
from tests.integration.ibsim import RUN_TIMEOUT, Ibsim, parse_pkeys
from tests.integration.policy_opensm import running_opensm

PORT = ("-G", "0x248a070300b10300", "1")
LEAF = ("-G", "0x248a070300f00100", "3")
OTHER_HOST = "H-248a070300b40000"


@pytest.fixture
def fabric(ibsim: Callable[..., Ibsim]) -> Ibsim:
    fabric = ibsim(DATA / "fabrics" / "dual-home.net")
    (fabric.folder / "key").write_text("0x83f1c05e9a2d7b46\n")
    (fabric.folder / "key").chmod(0o600)
    return fabric


def table_of(fabric: Ibsim) -> list[int]:
    done = fabric.ibkeys("pkey-show", *PORT, "-f", "json", check=True)
    lid = json.loads(done.stdout)["ports"][0]["lid"]
    return parse_pkeys(fabric.smpquery("pkeys", lid, 1))


@pytest.mark.parametrize("host", [None, OTHER_HOST], ids=["on-the-sm-host", "elsewhere"])
def test_active_sm(fabric: Ibsim, host: str | None) -> None:
    with running_opensm(fabric):
        before = table_of(fabric)
        refused = fabric.ibkeys("pkey-add", *PORT, "0x8123", "--yes", sim_host=host)
        assert refused.returncode == 4
        (line,) = refused.stderr.splitlines()
        assert line.startswith("ibkeys: error: refused by interlock active-sm: ")
        assert "says it is master" in line
        assert "--force" in line
        assert table_of(fabric) == before
        forced = fabric.ibkeys("pkey-add", *PORT, "0x8123", "--yes", "--force", sim_host=host)
        assert (forced.returncode, forced.stderr) == (0, "")
        assert "done, verified by a fresh read" in forced.stdout
        # OpenSM looks at P_Key tables only in a heavy sweep, and nothing here brings one about
        assert table_of(fabric) == [*before[:1], 0x8123, *before[2:]]


def test_force_does_not_speak_for_another_interlock(fabric: Ibsim) -> None:
    with running_opensm(fabric):
        before = table_of(fabric)
        done = fabric.ibkeys("pkey-set", *PORT, "0=", "--yes", "--force")
        assert done.returncode == 4
        assert "refused by interlock index-0" in done.stderr
        assert table_of(fabric) == before


@pytest.mark.parametrize(
    "line",
    [("enforce-set", *LEAF, "--inbound", "on"), ("mkey-set", *PORT, "--protect", "1"), ("mkey-set", "--lease", "60")],
)
def test_active_sm_guards_port_info_too(fabric: Ibsim, line: tuple[str, ...]) -> None:
    with running_opensm(fabric):
        done = fabric.ibkeys(*line, "--yes")
        assert done.returncode == 4
        assert "refused by interlock active-sm" in done.stderr


def test_mkey_under_sm(fabric: Ibsim) -> None:
    line = ("mkey-set", *PORT, "--new-m-key", "@key", "--protect", 0, "--yes")
    with running_opensm(fabric):
        for force in ((), ("--force",), ("--override", "active-sm")):
            done = fabric.ibkeys(*line, *force)
            assert done.returncode == 4
            error = done.stderr.splitlines()[-1]
            assert error.startswith("ibkeys: error: refused by interlock mkey-under-sm: ")
            assert "mkey-deploy --via opensm" in error
            assert "--override mkey-under-sm" in error
        # this OpenSM's own configuration has no m_key: it would take the key away again
        done = fabric.ibkeys(*line, "--override", "mkey-under-sm")
        assert (done.returncode, "refused by interlock sm-wipes-keys" in done.stderr) == (4, True)
        # overridden it is sent; ibsim takes it and stores nothing
        done = fabric.ibkeys(*line, "--override", "mkey-under-sm", "--override", "sm-wipes-keys")
        assert done.returncode == 3
        assert "accepted but not stored" in done.stderr


def test_a_dry_run_names_the_interlock_and_an_sm_that_has_gone_does_not_count(fabric: Ibsim) -> None:
    with running_opensm(fabric) as manager:
        done = fabric.ibkeys("pkey-add", *PORT, "0x8123", "--dry-run")
        assert done.returncode == 4
        assert "would be refused: by interlock active-sm" in done.stderr
        manager.terminate()
        assert manager.wait(RUN_TIMEOUT) == 0
        done = fabric.ibkeys("pkey-add", *PORT, "0x8123", "--yes")
        assert (done.returncode, done.stderr) == (0, "")

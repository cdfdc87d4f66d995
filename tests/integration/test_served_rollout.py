"""mkey-deploy, mkey-rotate and mkey-remove on the served simulator, beside the real OpenSM and smpquery."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.corpus import DATA
from tests.integration.brought_up import brought_up, running_opensm
from tests.integration.ibsim import Ibsim
from tests.integration.subnet import END_PORT_LIDS, KEY, LEASE, SHOWN, Subnet

DIRECT = ("--via", "direct")
VIOLATIONS = "m_key_violations"


@pytest.fixture
def served() -> Iterator[Subnet]:
    with brought_up() as fabric:
        yield fabric


def lines(done: subprocess.CompletedProcess[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the lines for the ports, and the last one."""
    *ports, last = map(json.loads, done.stdout.splitlines())
    return ports, last


def deployed(served: Subnet, *options: Any) -> list[dict[str, Any]]:
    options = options or ("--per-port",)
    done = served.ibkeys("mkey-deploy", *DIRECT, "--protect", 2, "--lease", LEASE, "--yes", "-f", "json", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    ports, last = lines(done)
    assert last["summary"]["done"] == len(ports) == len(END_PORT_LIDS)
    return ports


def test_one_key_for_all_at_level_2_and_opensm_takes_over_without_a_refused_smp(served: Subnet) -> None:
    deployed(served, "--same", "--new-m-key", f"@{served.folder / 'key'}")
    ports = served.mkeys("-K")
    assert set(ports) == set(END_PORT_LIDS)
    for port in ports.values():
        assert (port["m_key"], port["m_key_protect_bits"], port["m_key_lease_period"]) == (SHOWN, 2, LEASE)
        assert port[VIOLATIONS] == 0
    exported = served.folder / "cache"
    exported.mkdir()
    done = served.ibkeys("keystore", "export", exported)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("guid2mkey", "neighbors"):
        (served.folder / name).write_text((exported / name).read_text())
    conf = f"m_key {KEY:#x}\nm_key_protection_level 2\nm_key_lease_period {LEASE}\n"
    with running_opensm(served, conf):
        for lid in END_PORT_LIDS:
            shown = served.portinfo(lid, "-y", SHOWN)
            assert (int(shown["Mkey"], 16), shown["MkeyViolations"]) == (KEY, "0"), lid
    served.wait_until_no_sm()
    for lid in END_PORT_LIDS:
        assert served.query(lid).returncode != 0


@pytest.mark.soak
def test_keys_of_their_own_open_each_port_and_no_other(served: Subnet) -> None:
    deployed(served)
    first = {lid: port["m_key"] for lid, port in served.mkeys("-K").items()}
    done = served.ibkeys("mkey-rotate", *DIRECT, "--per-port", "--yes", "-f", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    second = {lid: port["m_key"] for lid, port in served.mkeys("-K").items()}
    assert len({*first.values(), *second.values()}) == 2 * len(END_PORT_LIDS)
    for lid, key in second.items():
        shown = served.portinfo(lid, "-y", key)
        assert (shown["Mkey"], shown["ProtectBits"], shown["MkeyViolations"]) == (key, "2", "0")
    assert served.query(2, "-y", first[2]).returncode != 0
    assert served.query(2, "-y", second[3]).returncode != 0


def refused(served: Subnet, command: str) -> subprocess.CompletedProcess[str]:
    """Run the command. A rotation shall find a key, which OpenSM takes away if it sweeps just then: then once more."""
    for _ in range(5):
        if command == "mkey-rotate":
            served.run(["ibportstate", "2", "1", "mkey", SHOWN], check=True)
        done = served.ibkeys(command, *DIRECT, "--per-port", "--protect", 2, "--lease", LEASE, "--yes")
        if command != "mkey-rotate" or "nothing to change" not in done.stdout:
            break
    return done


def test_under_a_running_opensm_it_refuses_and_says_how(served: Subnet) -> None:
    with running_opensm(served, "sweep_interval 0\n"):
        for command in ("mkey-deploy", "mkey-rotate"):
            done = refused(served, command)
            assert done.returncode == 4, done.stdout + done.stderr
            assert "mkey-under-sm" in done.stderr
            assert "runs an SM: 'node01 mlx4_0'" in done.stderr
            assert f"`ibkeys {command} --via opensm --protect 2 --lease {LEASE}`" in done.stderr
            assert f"{KEY:x}" not in done.stderr + done.stdout
    served.wait_until_no_sm()
    assert {int(served.portinfo(lid, "-y", SHOWN)["Mkey"], 16) for lid in set(END_PORT_LIDS) - {2}} == {0}


def test_without_keys_any_smpquery_reads_each_port_and_an_opensm_without_m_key_starts(served: Subnet) -> None:
    deployed(served)
    assert served.query(2).returncode != 0
    done = served.ibkeys("mkey-remove", *DIRECT, "--yes", "-f", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines(done)[1]["summary"]["done"] == len(END_PORT_LIDS)
    with running_opensm(served, "sweep_interval 0\n"):
        for lid in END_PORT_LIDS:
            shown = served.portinfo(lid)
            assert (int(shown["Mkey"], 16), shown["ProtectBits"], shown["MkeyLeasePeriod"]) == (0, "0", "0"), lid
        done = served.ibkeys("undo", "2", "--yes")
        assert done.returncode == 4, done.stdout + done.stderr
    served.wait_until_no_sm()
    done = served.ibkeys("undo", "2", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert served.query(2).returncode != 0
    assert {port["m_key_state"] for port in served.mkeys().values()} == {"set"}


@pytest.mark.soak
def test_under_losses_each_port_is_in_the_account_and_resume_finishes(served: Subnet) -> None:
    deployed(served)
    served.steer("drop 20")
    done = served.ibkeys(
        *("mkey-rotate", *DIRECT, "--per-port", "--yes", "-f", "json", "-t", 200, "--override", "mkey-under-sm")
    )
    served.steer("drop 0")
    ports, last = lines(done)
    summary = last["summary"]
    assert done.returncode in (0, 3)
    assert len(ports) == summary["done"] + summary["failed"] + summary["skipped"]
    if done.returncode == 3:
        done = served.ibkeys("resume", "2", "--yes", "-f", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {port["m_key_state"] for port in served.mkeys().values()} == {"set"}


def test_a_fabric_that_accepts_keys_and_does_not_store_them_stops_the_run(ibsim: Callable[..., Ibsim]) -> None:
    """ibsim answers with success and keeps nothing: every proof fails, and no port is said to be done."""
    fabric = ibsim(DATA / "fabrics" / "two-switch.net")
    fabric.opensm()
    done = fabric.ibkeys(
        *("mkey-deploy", *DIRECT, "--per-port", "--protect", 1, "--lease", LEASE),
        *("--yes", "-f", "json", "--at-once", 1),
    )
    assert done.returncode == 3, done.stdout + done.stderr
    ports, last = lines(done)
    assert {port["result"] for port in ports} == {"failed"}
    assert all("accepted but not stored: M_Key is the old one" in port["reason"] for port in ports)
    assert (last["summary"]["failed"], last["summary"]["done"], last["summary"]["waiting"]) == (5, 0, 3)
    done = fabric.ibkeys("undo", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr

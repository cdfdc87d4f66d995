"""Replies that are lost, late or doubled: the exact tables, or a list of what is missing and exit 3."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ibkeys.client.in_flight import LEAST_PATIENCE
from ibkeys.client.request import Request
from ibkeys.client.scheduler import Scheduler
from tests import corpus
from tests.integration.ibsim import Ibsim, ibkeys

FABRICS = {file.stem: file for file in reversed(corpus.files("fabrics/*.net"))}
SAMPLE = ("two-switch", "dual-home", "ring-router")
LARGE = ("ft2048", "dgx-pod-2025", "ft648", "torus444")

Place = tuple[str, int]


def place(port: dict[str, Any]) -> Place:
    return port["node_guid"], port["port"]


def check(code: int, text: str, calm: dict[str, Any], links: dict[Place, Place]) -> None:
    """Hold a result against that without losses: what is there is exact, and what is not there is accounted for."""
    document = json.loads(text)
    if code == 0:
        assert document == calm
        return
    assert code == 3
    assert document["errors"]
    named = {place(error) for error in document["errors"]}
    expected = {place(port): port for port in calm["ports"]}
    seen = {place(port): port for port in document["ports"]}
    assert seen.keys() <= expected.keys()
    for where, port in seen.items():
        if port["pkeys"] is None:
            assert where in named
        else:
            assert port["pkeys"] == expected[where]["pkeys"]
            assert port["capacity"] == expected[where]["capacity"]
    # A node that is not there at all was behind a port that is named, or behind such a node.
    missing = {where[0] for where in expected.keys() - seen.keys()}
    behind = {far[0] for near, far in links.items() if near in named}
    while True:
        further = {far[0] for near, far in links.items() if near[0] in behind & missing} - behind
        if not further:
            break
        behind |= further
    silent = {guid for guid, _ in named}
    assert missing <= behind | silent


def links_of(discovered: dict[str, Any]) -> dict[Place, Place]:
    return {
        (node["node_guid"], port["port"]): (port["peer"]["node_guid"], port["peer"]["port"])
        for node in discovered["nodes"]
        for port in node["ports"]
        if port["peer"]
    }


def both(*spec: str) -> tuple[dict[str, Any], dict[Place, Place]]:
    calm = ibkeys("pkey-show", "--all", "-f", "json", *spec)
    known = ibkeys("discover", "-f", "json", *spec)
    assert (calm.returncode, known.returncode) == (0, 0)
    return json.loads(calm.stdout), links_of(json.loads(known.stdout))


def cases() -> list[Any]:
    """Return (fabric, seeds): few in a test, many or large in a soak."""
    sampled = [pytest.param(name, range(4), id=name) for name in SAMPLE]
    soaked = [
        pytest.param(name, range(4, 7 if name in LARGE else 40), id=f"{name}-soak", marks=pytest.mark.soak)
        for name in sorted(FABRICS)
    ]
    return sampled + soaked


@pytest.mark.parametrize(("name", "seeds"), cases())
def test_thirty_percent(name: str, seeds: range) -> None:
    spec = f"sim:{FABRICS[name]}"
    calm, links = both("--backend", spec)
    codes = []
    for seed in seeds:
        done = ibkeys(
            "pkey-show", "--all", "-f", "json", "--backend", f"{spec},seed={seed},drop=10,duplicate=10,delay=10"
        )
        assert "Traceback" not in done.stderr
        check(done.returncode, done.stdout, calm, links)
        codes.append(done.returncode)
    if name in SAMPLE:
        assert 0 in codes  # for so few SMPs three attempts are enough, most of the time


def test_a_virtual_clock_is_never_told_to_wait_for_now() -> None:
    """When `longest_wait` is over, there is something to do, whatever rounding makes of the sum."""
    for start in (count / 7 for count in range(500)):
        scheduler = Scheduler()
        for node in range(scheduler.window.size + 1):
            scheduler.submit(Request.of_mad(node, bytes(256), 0xFFFF))
        assert len(scheduler.to_send(start)) == scheduler.window.size
        now = start + LEAST_PATIENCE
        assert scheduler.longest_wait(now) > 0 or scheduler.to_send(now)


@pytest.mark.parametrize("seed", range(3))
def test_more_attempts_read_everything(seed: int) -> None:
    spec = f"sim:{FABRICS['dual-home']}"
    calm, _ = both("--backend", spec)
    options = ("--retries", 12, "--backend", f"{spec},seed={seed},drop=10,duplicate=10,delay=10")
    done = ibkeys("pkey-show", "--all", "-f", "json", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == calm


def test_what_is_missing_is_named() -> None:
    """So much is lost that no run can be complete: each must say so."""
    spec = f"sim:{FABRICS['dual-home']}"
    calm, links = both("--backend", spec)
    partial = 0
    for seed in range(6):
        done = ibkeys(
            "pkey-show", "--all", "-f", "json", "--backend", f"{spec},seed={seed},drop=45", "--retries", 1, "-v"
        )
        if not done.stdout:  # not even the local port
            assert done.returncode == 3
            assert done.stderr.count("ibkeys: error: ") == 1
            continue
        assert done.returncode == 3
        check(done.returncode, done.stdout, calm, links)
        assert done.stderr.count("ibkeys: not read: ") == len(json.loads(done.stdout)["errors"])
        partial += 1
    assert partial >= 3


@pytest.fixture
def lossy(ibsim: Callable[..., Ibsim]) -> Ibsim:
    fabric = ibsim(FABRICS["two-switch"], console=True)
    fabric.opensm()
    return fabric


def on(fabric: Ibsim, *arguments: str | int) -> tuple[int, str]:
    done = fabric.ibkeys(*arguments, "-f", "json")
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def test_a_port_of_ibsim_that_loses_every_table(lossy: Ibsim) -> None:
    calm = json.loads(on(lossy, "pkey-show", "--all")[1])
    links = links_of(json.loads(on(lossy, "discover")[1]))
    lossy.command('Error "H-0002c903000a1020"[1] 100 0x16')
    code, text = on(lossy, "pkey-show", "--all")
    document = json.loads(text)
    assert code == 3
    check(code, text, calm, links)
    assert [place(error) for error in document["errors"]] == [("0x0002c903000a1020", 1)]
    assert "P_KeyTable" in document["errors"][0]["error"]
    assert len(document["ports"]) == len(calm["ports"])


@pytest.mark.parametrize("rate", [15, 40])
def test_a_port_of_ibsim_that_loses_some(lossy: Ibsim, rate: int) -> None:
    """ibsim's dice are not ours, so either outcome must hold."""
    calm = json.loads(on(lossy, "pkey-show", "--all")[1])
    links = links_of(json.loads(on(lossy, "discover")[1]))
    lossy.command(f'Error "H-0002c903000a1020"[1] {rate}')
    check(*on(lossy, "pkey-show", "--all"), calm, links)
    check(*on(lossy, "pkey-show", "--all", "--retries", 20), calm, links)

"""Ports that are away while OpenSM changes the M_Key: none is asked with a key that it may not have, and each gets its
new one in the end: back at its place, at another one, or after it had only been silent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ibkeys.mad.const import AttributeID, Method
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.server.outbox import PassedMad
from tests.corpus import DATA
from tests.fattree import fat_tree
from tests.integration.hosted import is_of_opensm
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.keyed_opensm import CONF, KeyedOpensm, keyed
from tests.sample import in_soak

LEASE = 60
BACK, ELSEWHERE, GONE = 10, 6, 4
"""What becomes of twenty hosts that are away while the key changes."""
SMALL = DATA / "fabrics" / "two-switch.net"
HOST = "node03 mlx4_0"


def host(number: int) -> str:
    return f"node{number:05} mlx5_0"


def key_of(port: SimPort) -> int:
    return int.from_bytes(port.info[:8])


@contextmanager
def closed(net: Path, conf: str = CONF) -> Iterator[KeyedOpensm]:
    """A fabric whose ports have an M_Key at level 2, and whose OpenSM has the options *conf*."""
    with keyed(net, conf) as opensm:
        run(opensm, 0, "mkey-deploy", "--protect", "2", "--lease", str(LEASE))
        yield opensm


def run(opensm: KeyedOpensm, code: int, *words: str) -> dict[str, Any]:
    """Run a command through OpenSM; return what became of the ports by port GUID, and the account as ``summary``."""
    found, said = opensm.ibkeys(*words, "-f", "json")
    assert found == code, said
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    ports = {int(line["port_guid"], 16): line for line in lines if "port_guid" in line}
    return {**ports, "summary": lines[-1]["summary"]}


def settle(opensm: KeyedOpensm) -> dict[str, Any]:
    done = opensm.served.ibkeys("keystore", "list", "--settle", "--yes", "-f", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.soak
def test_twenty_ports_away_get_the_key_at_their_place_and_elsewhere(tmp_path: Path) -> None:
    net = tmp_path / "fabric.net"
    net.write_text(fat_tree(5, 15, 5, pods=2, cores=3, radix=36))
    with closed(net) as opensm:
        served = opensm.served
        names = [host(number) for number in range(5, 5 + BACK + ELSEWHERE + GONE)]
        away = {served.net.port(name, 1).guid: name for name in names}
        guids = list(away)
        for name in names:
            served.steer(f'link "{name}"[1] down')
        opensm.running.sweep()
        opensm.unanswered.clear()  # the traps of the first links let OpenSM ask at the others as they went
        [former] = {key_of(port) for port in opensm.end_ports()}

        account = run(opensm, 3, "mkey-rotate")
        assert account["summary"]["unread"] == len(names)
        assert all(
            "keeps its former M_Key: when it answers, `ibkeys resume`" in account[guid]["reason"] for guid in guids
        )
        assert {port.guid for port in opensm.end_ports() if key_of(port) == former} == set(guids)

        for name in names[:BACK]:
            served.steer(f'link "{name}"[1] up')
        opensm.running.sweep()
        account = run(opensm, 3, "resume")
        assert [account[guid]["result"] for guid in guids] == ["done"] * BACK + ["skipped"] * (ELSEWHERE + GONE)
        assert all("keystore list --settle" in account[guid]["reason"] for guid in guids[BACK:])
        assert (opensm.refused, opensm.violations(), opensm.traps) == ([], 0, 0)

        # OpenSM itself cannot read a port at a new place, and brings it up only when its lease is over.
        free = [served.net.port(host(30 + 15 * at + 1), 1).peer for at in range(ELSEWHERE)]
        for name, peer in zip(names[BACK : BACK + ELSEWHERE], free, strict=True):
            assert peer is not None
            served.steer(f'link "{name}"[1] "{peer.node.description}"[36]')
        opensm.running.sweep()
        served.steer(f"time +{LEASE}")
        opensm.running.sweep()
        account = run(opensm, 3, "resume")
        assert account["summary"]["unread"] == ELSEWHERE + GONE
        settled = settle(opensm)
        assert {int(each["port_guid"], 16) for each in settled["moved"]} == set(guids[BACK : BACK + ELSEWHERE])
        assert {int(guid, 16) for guid in settled["vanished"]} == set(guids[-GONE:])
        account = run(opensm, 0, "resume")  # those that are gone are not waited for
        assert [account[guid]["result"] for guid in guids[BACK:]] == ["done"] * ELSEWHERE + ["skipped"] * GONE
        assert opensm.refused == []
        assert {port.guid for port in opensm.end_ports() if key_of(port) == former} == set(guids[-GONE:])


def test_the_next_run_takes_in_ports_that_came_back_and_were_not_resumed(tmp_path: Path) -> None:
    with closed(SMALL) as opensm:
        opensm.served.steer(f'link "{HOST}"[1] down')
        opensm.running.sweep()
        run(opensm, 3, "mkey-rotate")
        opensm.served.steer(f'link "{HOST}"[1] up')
        opensm.running.sweep()
        run(opensm, 0, "mkey-rotate")
        assert len(opensm.keys()) == 1
        assert (opensm.refused, opensm.violations(), opensm.traps) == ([], 0, 0)


@pytest.mark.soak
def test_a_port_that_was_away_loses_its_key_too_when_it_is_back() -> None:
    with closed(SMALL) as opensm:
        opensm.served.steer(f'link "{HOST}"[1] down')
        opensm.running.sweep()
        run(opensm, 3, "mkey-remove", "--leave-open")
        opensm.served.steer(f'link "{HOST}"[1] up')
        opensm.running.sweep()
        run(opensm, 0, "resume")
        assert opensm.keys() == {(0, 0, 0)}
        assert (opensm.refused, opensm.violations(), opensm.traps) == ([], 0, 0)


def test_a_way_back_reaches_ports_that_came_back_in_between() -> None:
    with closed(SMALL) as opensm:
        former = opensm.keys()
        run(opensm, 0, "mkey-rotate")
        opensm.served.steer(f'link "{HOST}"[1] down')
        opensm.running.sweep()
        run(opensm, 3, "undo", "2")
        opensm.served.steer(f'link "{HOST}"[1] up')
        opensm.running.sweep()
        run(opensm, 0, "undo", "2")
        assert opensm.keys() == former
        assert (opensm.refused, opensm.violations(), opensm.traps) == ([], 0, 0)


def test_a_port_that_opensm_has_not_looked_at_again_is_not_asked_with_a_key_that_it_has_not_got() -> None:
    """It answers again, with its former key at level 2, and the user says that it is where it was.

    OpenSM sweeps by itself rarely: such a sweep gives the port the new key, perhaps just after ibkeys has read which
    one it has.
    """
    with closed(SMALL, CONF.replace("sweep_interval 3", "sweep_interval 30")) as opensm:
        opensm.served.steer(f'silent "{HOST}" on')
        run(opensm, 3, "mkey-rotate")
        opensm.served.steer(f'silent "{HOST}" off')
        assert len(opensm.keys()) == 2
        run(opensm, 0, "resume", "--trust-topology")
        assert len(opensm.keys()) == 1
        assert (opensm.refused, opensm.violations(), opensm.traps) == ([], 0, 0)


def test_a_port_that_opensm_cannot_reach_gets_its_key_directly_and_opensm_takes_it_in() -> None:
    """OpenSM lost its guid2mkey while the port was away: it asks it with the new key, which that port refuses."""
    with closed(SMALL) as opensm:
        opensm.served.steer(f'link "{HOST}"[1] down')
        opensm.running.sweep()
        run(opensm, 3, "mkey-rotate")
        opensm.running.kill()
        (opensm.served.folder / "guid2mkey").unlink()
        opensm.running.start()
        opensm.served.steer(f'link "{HOST}"[1] up')
        opensm.running.sweep()
        assert len(opensm.keys()) == 2
        run(opensm, 0, "resume", "--trust-topology", "--wait", "1")
        assert len(opensm.keys()) == 1
        assert opensm.refused == []
        counted = opensm.violations()  # those of OpenSM
        opensm.running.sweep()
        assert "Active" in opensm.served.steer(f'show "{HOST}"')
        assert opensm.violations() == counted


class At:
    """Steers the served subnet once, when OpenSM sets something of a kind for the first time; OpenSM waits so long."""

    def __init__(self, opensm: KeyedOpensm, when: Callable[[bytes], bool], *lines: str) -> None:
        self._opensm, self._when, self._lines = opensm, when, lines
        self._begun, self.is_done = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._steer, daemon=True)
        self._thread.start()
        opensm.served.watchers.append(self._watch)

    def _watch(self, seen: PassedMad) -> None:
        if seen.out and is_of_opensm(seen) and self._when(seen.mad):
            self._begun.set()

    def _steer(self) -> None:
        if self._begun.wait(RUN_TIMEOUT):
            for line in self._lines:
                self._opensm.served.steer(line)
            self.is_done.set()


def is_set_of_port_info(mad: bytes) -> bool:
    return mad[3] == Method.SET and int.from_bytes(mad[16:18], "big") == AttributeID.PORT_INFO


@pytest.mark.parametrize("how", ["link down", in_soak("silent")])
def test_a_port_that_goes_away_in_the_middle_is_named_and_gets_its_key_later(how: str) -> None:
    lines = {
        "link down": (f'link "{HOST}"[1] down', f'link "{HOST}"[1] up'),
        "silent": (f'silent "{HOST}" on', f'silent "{HOST}" off'),
    }[how]
    with closed(SMALL) as opensm:
        at = At(opensm, is_set_of_port_info, lines[0])
        [port] = [port for port in opensm.end_ports() if port.node.description == HOST]
        account = run(opensm, 3, "mkey-rotate")
        assert at.is_done.is_set()
        assert account["summary"]["failed"] == 1
        assert account[port.guid]["result"] == "failed"
        opensm.served.steer(lines[1])
        opensm.running.sweep()
        run(opensm, 0, "resume")
        assert len(opensm.keys()) == 1
        assert (opensm.refused, opensm.violations(), opensm.traps) == ([], 0, 0)


def test_a_port_that_comes_new_in_the_middle_gets_the_key_from_opensm_and_is_found_with_it() -> None:
    with keyed(SMALL) as opensm:
        opensm.served.steer(f'link "{HOST}"[1] down')
        opensm.running.sweep()
        at = At(opensm, is_set_of_port_info, f'link "{HOST}"[1] up')
        run(opensm, 0, "mkey-deploy", "--protect", "2", "--lease", str(LEASE))
        assert at.is_done.is_set()
        opensm.running.sweep()
        assert len(opensm.keys()) == 1
        run(opensm, 0, "mkey-rotate")
        assert len(opensm.keys()) == 1
        assert opensm.refused == []  # OpenSM itself may be refused once by a port that comes while it sweeps

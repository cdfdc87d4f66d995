"""watch beside a real OpenSM, through libibumad and libumad2sim: wrong keys, restarts, rivals, bursts, no secret."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ibkeys.mad.const import Method, MgmtClass
from ibkeys.sim.server.outbox import PassedMad
from ibkeys.watch.opensm_log import NO_SENDER
from tests.corpus import DATA
from tests.integration import hosted, opensms
from tests.integration.hosted import Hosted
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.opensms import Log, NodesOpensm, attached
from tests.integration.reports import CONF, KEYED, M_KEY, OFFERED, OTHER, SA_KEY, SUBSCRIBER, Answered, port_of

_INFORM_INFO = 0x0003
_WRONG_SET = """
import sys
import ibkeys
from ibkeys.client.address import as_address
from ibkeys.errors import NoReply
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
with ibkeys.open(timing=ibkeys.Timing(0.3, 0)) as fabric:
    try:
        fabric.set(PortInfo, 1, as_address(sys.argv[1]), bytes(64), MKey(int(sys.argv[2])))
    except NoReply:
        sys.exit(0)
sys.exit(3)
"""
"""A Set(PortInfo) with a wrong M_Key along a directed route, once."""


@pytest.fixture
def served(stack: ExitStack) -> Hosted:
    """The fabric of two switches for programs on our libibumad."""
    return stack.enter_context(Hosted(DATA / "fabrics" / "two-switch.net"))


class Watched:
    """A running ``ibkeys watch``; it is ended with *stack*."""

    def __init__(
        self,
        served: Hosted,
        stack: ExitStack,
        *options: str | Path,
        node: str = SUBSCRIBER,
        environment: dict[str, str] | None = None,
    ) -> None:
        command = [sys.executable, "-m", "ibkeys", "watch", *options]
        self.process, self.log = attached(served, stack, "watch", command, {**served.at(node), **(environment or {})})

    def begun(self) -> Watched:
        """Wait until it watches."""
        self.log.wait("ibkeys: note: watching ")
        return self

    def event(self, kind: str, after: int = 0, timeout: float = RUN_TIMEOUT) -> dict[str, Any]:
        """Wait for the first event of a kind from line *after* on."""
        line: dict[str, Any] = json.loads(self.log.wait(f'"kind": "{kind}"', after, timeout))
        return line

    def end(self, number: int = signal.SIGTERM) -> dict[str, Any]:
        """End it, and return the summary."""
        self.process.send_signal(number)
        summary: dict[str, Any] = json.loads(self.log.wait('"summary"'))["summary"]
        assert self.process.wait(RUN_TIMEOUT) == 0
        return summary

    @property
    def events(self) -> list[dict[str, Any]]:
        documents = [json.loads(line) for line in self.log.lines if line.startswith("{")]
        return [document for document in documents if "kind" in document]

    @property
    def resident(self) -> int:
        """KiB of memory that it has."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])


class Subscriptions:
    """The InformInfos that the SA answered: 1 for each that began, 0 for each that ended."""

    def __init__(self) -> None:
        self.answered: list[int] = []

    def __call__(self, seen: PassedMad) -> None:
        mad = seen.mad
        is_answer = mad[1] == MgmtClass.SUBN_ADM and mad[3] == Method.GET_RESP and not seen.out
        if is_answer and int.from_bytes(mad[16:18]) == _INFORM_INFO and not seen.note:
            self.answered.append(mad[56 + 23])


@pytest.fixture
def key(served: Hosted) -> str:
    file = served.folder / "sa_key"
    file.touch(0o600)
    file.write_text(f"{SA_KEY:#x}\n")
    return f"@{file}"


def wrong_p_key(served: Hosted, p_key: int = 0x8123) -> None:
    served.pass_time(10)
    served.steer(f'packet "node02 mlx4_0" "node03 mlx4_0" pkey={p_key:#x}')


def offer_wrong_key(served: Hosted) -> None:
    """Let a stranger on node05 offer `OFFERED` to node02, by a directed route."""
    served.pass_time(10)  # the victim's traps have to be some time apart
    source, victim = port_of(served, "node05 mlx4_0"), port_of(served, "node02 mlx4_0")
    assert victim.m_key == M_KEY
    leaf, far = source.peer.node, victim.peer.node
    between = [port.number for port in leaf.ports if leaf is not far and port.peer and port.peer.node is far]
    route = ",".join(map(str, (0, 1, *between[:1], victim.peer.number)))
    done = served.run([sys.executable, "-c", _WRONG_SET, route, str(OFFERED)], sim_host="H-0002c903000a1050")
    assert done.returncode == 0, done.stderr


def ends(event: dict[str, Any]) -> tuple[tuple[str, int], tuple[str, int]]:
    return (event["from"]["node_desc"], event["from"]["port"]), (event["to"]["node_desc"], event["to"]["port"])


def test_each_wrong_key_is_one_event_that_names_both_nodes_and_ports(
    served: Hosted, stack: ExitStack, key: str
) -> None:
    passed = Answered()
    with hosted.opensm(served, None, KEYED):
        watching = Watched(served, stack, "--smkey", key, "--interval", "0").begun()
        served.watchers.append(passed)
        wrong_p_key(served)
        p_key = watching.event("bad-p_key")
        served.steer('packet "node03 mlx4_0" "node02 mlx4_0" qkey=0x77 expects=0x1234')
        q_key = watching.event("bad-q_key")
        offer_wrong_key(served)
        m_key = watching.event("bad-m_key")
        summary = watching.end()
    assert ends(p_key) == (("node02 mlx4_0", 1), ("node03 mlx4_0", 1))
    assert ends(q_key) == (("node03 mlx4_0", 1), ("node02 mlx4_0", 1))
    assert ends(m_key) == (("node05 mlx4_0", 1), ("node02 mlx4_0", 1))
    assert (p_key["pkey"], q_key["q_key"], m_key["method"]) == ("0x8123", "0x00000077", "Set")
    assert p_key["from"]["port_guid"] == f"0x{port_of(served, 'node02 mlx4_0').guid:016x}"
    assert p_key["from"]["lid"] == port_of(served, "node02 mlx4_0").lid
    assert (summary["told"], summary["reports"], len(watching.events)) == (3, 3, 3)
    assert len(passed.reports) == passed.answers == 3, "OpenSM repeats none"


def test_a_switch_that_stops_a_p_key_is_named_with_its_port(served: Hosted, stack: ExitStack, key: str) -> None:
    with hosted.opensm(served, None, f"sa_key {SA_KEY:#x}\n"):
        watching = Watched(served, stack, "--smkey", key, "--interval", "1").begun()
        wrong_p_key(served)
        event = watching.event("bad-p_key-at-switch")
        leaf = port_of(served, "node02 mlx4_0").peer
        assert (event["at"]["node_guid"], event["at"]["port"]) == (f"0x{leaf.node.guid:016x}", leaf.number)
        assert ends(event) == (("node02 mlx4_0", 1), ("node03 mlx4_0", 1))


def test_after_opensm_was_killed_and_started_it_still_hears(served: Hosted, stack: ExitStack, key: str) -> None:
    subscriptions = Subscriptions()
    with hosted.opensm(served, None, CONF) as running:
        watching = Watched(served, stack, "--smkey", key, "--interval", "1").begun()
        wrong_p_key(served)
        watching.event("bad-p_key")
        running.kill()
        watching.log.wait("traps may be missed")
        before = len(watching.log.lines)
        running.start()
        watching.log.wait("the SA has the subscriptions again", before)
        wrong_p_key(served, 0x8456)
        assert watching.event("bad-p_key", before)["pkey"] == "0x8456"
        served.watchers.append(subscriptions)
        watching.end()
    assert subscriptions.answered[-4:] == [0, 0, 0, 0], "it has ended its subscriptions"


@pytest.mark.soak
def test_it_follows_to_the_opensm_that_takes_over(served: Hosted, stack: ExitStack, key: str) -> None:
    first = NodesOpensm(served, "node01 mlx4_0", 9, stack, options=CONF)
    first.log.wait("SUBNET UP")
    second = NodesOpensm(served, "node05 mlx4_0", 3, stack, options=CONF)
    second.log.wait("ENTERING SM STANDBY STATE")
    watching = Watched(served, stack, "--smkey", key, "--interval", "1").begun()
    first.process.kill()
    watching.log.wait("traps may be missed")
    watching.log.wait("the SA has the subscriptions again")
    before = len(watching.log.lines)
    wrong_p_key(served)
    assert ends(watching.event("bad-p_key", before)) == (("node02 mlx4_0", 1), ("node03 mlx4_0", 1))


def test_two_on_one_port_and_one_on_another_host(served: Hosted, stack: ExitStack, key: str) -> None:
    with hosted.opensm(served, None, CONF):
        first = Watched(served, stack, "--smkey", key, "--interval", "0").begun()
        second = Watched(served, stack, "--smkey", key, "--interval", "0")
        second.log.wait("ibkeys: error: .*another program receives the SA's Reports")
        assert second.process.wait(RUN_TIMEOUT) == 3
        elsewhere = Watched(served, stack, "--smkey", key, "--interval", "0", node=OTHER).begun()
        wrong_p_key(served)
        assert ends(first.event("bad-p_key")) == ends(elsewhere.event("bad-p_key"))


@contextmanager
def opensm_with_a_log_file(served: Hosted, conf: str, log: Path) -> Iterator[None]:
    """Run OpenSM with its log in a file; the subnet is up when the block begins."""
    log.touch()
    words = served.opensm_arguments("sweep_interval 0\n" + conf, None, ("-f", str(log)))
    tail = subprocess.Popen(["tail", "-n", "+1", "-F", log], stdout=subprocess.PIPE, text=True)
    process, said = opensms.start(served, words, served.folder)
    followed = Log(tail)
    try:
        followed.wait("SUBNET UP", timeout=180)
        yield
    finally:
        for each in (process, tail):
            each.kill()
            each.wait(RUN_TIMEOUT)
        for lines in (said, followed):
            lines.close()


def test_opensm_s_log_tells_the_same_without_an_sm_key(served: Hosted, stack: ExitStack) -> None:
    log = served.folder / "real.log"
    # without force_log_flush the last lines, SUBNET UP too, would stay in OpenSM's buffer
    with opensm_with_a_log_file(served, KEYED + "force_log_flush TRUE\n", log):
        watching = Watched(served, stack, "--opensm-log", log, "--interval", "0").begun()
        wrong_p_key(served)
        p_key = watching.event("bad-p_key")
        offer_wrong_key(served)
        m_key = watching.event("bad-m_key")
        watching.end()
    assert ends(p_key) == (("node02 mlx4_0", 1), ("node03 mlx4_0", 1))
    assert (m_key["at"]["node_desc"], m_key["from"], m_key["method"]) == ("node02 mlx4_0", None, "Set")
    assert m_key["doubtful"] == [NO_SENDER]
    assert f"{OFFERED:016x}" in log.read_text(), "OpenSM does write the key, and the watch has read that line"
    assert f"{OFFERED:x}" not in "".join(watching.log.lines).lower()


def test_the_offered_key_is_nowhere(served: Hosted, stack: ExitStack, key: str) -> None:
    heard, capture = served.folder / "heard", served.folder / "capture.pcap"
    script = served.folder / "hear.py"
    script.write_text(
        "import os,sys; open(sys.argv[1],'a').write(sys.stdin.read() + str(sys.argv) + str(dict(os.environ)))"
    )
    with hosted.opensm(served, None, KEYED):
        options = ("--smkey", key, "--interval", "1", "-d", "-v", "--pcap", capture)
        watching = Watched(served, stack, *options, "--exec", f"{sys.executable} {script} {heard}").begun()
        offer_wrong_key(served)
        watching.event("bad-m_key")
        limits = Path(f"/proc/{watching.process.pid}/limits").read_text()
        watching.end()
    core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
    assert core.split()[4] == "0"
    assert '"bad-m_key"' in heard.read_text()
    secrets = [form for number in (OFFERED, SA_KEY) for form in (f"{number:x}".encode(), str(number).encode())]
    secrets += [number.to_bytes(8, order) for number in (OFFERED, SA_KEY) for order in ("big", "little")]  # type: ignore[arg-type]
    for data in ("".join(watching.log.lines).encode(), heard.read_bytes(), capture.read_bytes()):
        assert not [secret for secret in secrets if secret in data.lower()]


def test_systemd_hears_when_it_begins_and_ends(served: Hosted, stack: ExitStack, key: str) -> None:
    listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    listener.bind(str(served.folder / "notify"))
    listener.settimeout(RUN_TIMEOUT)
    environment = {"NOTIFY_SOCKET": str(served.folder / "notify"), "WATCHDOG_USEC": "1000000"}
    with hosted.opensm(served, None, CONF):
        watching = Watched(served, stack, "--smkey", key, environment=environment)
        heard = []
        while not any("READY=1" in message for message in heard):
            heard.append(listener.recv(4096).decode())
        while not any("WATCHDOG=1" in message for message in heard[1:]):
            heard.append(listener.recv(4096).decode())
        watching.begun().end(signal.SIGINT)
        while "STOPPING=1" not in heard:
            heard.append(listener.recv(4096).decode())
    assert "STATUS=watching 4 traps of the SA at LID 1" in "".join(heard)


@pytest.mark.parametrize("number", [500, pytest.param(100_000, marks=pytest.mark.soak)])
def test_a_burst_of_traps_is_folded_and_memory_stays_flat(
    served: Hosted, stack: ExitStack, key: str, number: int
) -> None:
    passed = Answered()
    with hosted.opensm(served, None, CONF) as running:
        watching = Watched(served, stack, "--smkey", key, "--interval", "0", "--repeats", "3600").begun()
        port_of(served, "node03 mlx4_0").subnet_timeout = 0  # so its traps may follow each other at once
        served.watchers.append(passed)
        resident = 0
        for place in range(number):
            if place == number // 5:
                resident = watching.resident
            # OpenSM passes on the very same trap ten times only, so each is another one
            served.steer(f'packet "node02 mlx4_0" "node03 mlx4_0" qkey={0x100 + place:#x} expects=1')
        deadline = time.monotonic() + RUN_TIMEOUT
        while len(passed.reports) < number * 0.9 or passed.answers < len(passed.reports):
            assert time.monotonic() < deadline, f"{len(passed.reports)} Reports, {passed.answers} answers"
            served.steer("counts")  # OpenSM may be slower than whoever sends packets
        grown = watching.resident - resident
        summary = watching.end()
        assert running.process.poll() is None
    assert len(watching.events) <= 40, "16 keys apart, the others as one, and the counts"
    assert summary["reports"] >= number * 0.9, "as many as OpenSM passed on"
    assert summary["lost"] == 0
    assert len(passed.reports) == len(set(passed.reports)), "OpenSM repeats none"
    assert grown < 4096, f"{grown} KiB for {number} Reports"

"""Reports of a real OpenSM, through libibumad and libumad2sim, at a program that is no SM."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import ExitStack
from typing import Any

import pytest

from ibkeys.mad.const import Method, MgmtClass
from tests.corpus import DATA
from tests.integration import hosted
from tests.integration.hosted import Hosted
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.opensms import NodesOpensm, attached
from tests.integration.reports import CONF, KEYED, M_KEY, OFFERED, OTHER, SA_KEY, SUBSCRIBER, Answered, port_of
from tests.sample import in_soak

# Subscribes with the SM_Key of its first argument and says each thing in a line of JSON, until SIGTERM.
_SUBSCRIBER = """
import json, signal, sys
import ibkeys
from ibkeys.client.reports import Subscriber
from ibkeys.client.smp import Timing
from ibkeys.errors import IbkeysError
from ibkeys.fabric.subnet_manager import OwnSmLid
from ibkeys.keys.smkey import SMKey
from ibkeys.opening import open_port

def say(**what):
    print(json.dumps(what), flush=True)

ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
subscriber = Subscriber(open_port("umad"), sm_key=SMKey.parse(sys.argv[1]), timing=Timing(0.5, 2), renew_every=0.5)
with ibkeys.open(subscriber.port) as fabric:
    fabric.sweep()
    subscriber.ask_sm_lid = OwnSmLid(fabric)
    try:
        subscriber.subscribe()
    except IbkeysError as error:
        say(refused=type(error).__name__, why=str(error))
        sys.exit(1)
    say(subscribed=True)
    troubled = False
    while not ended:
        for report in subscriber.poll(0.2):
            details = report.notice.details.to_json()
            say(trap=report.trap, lid=report.lid, issuer=f"{report.issuer_gid & (1 << 64) - 1:#x}", details=details)
        if troubled != (subscriber.trouble is not None):
            troubled = not troubled
            say(troubled=troubled, renewals=subscriber.renewals)
    say(closed=str(subscriber.close()), repeats=subscriber.port.repeats)
"""

# A Set(PortInfo) with a wrong M_Key, once.
_SET = """
import sys
import ibkeys
from ibkeys.client.address import LidAddress
from ibkeys.errors import NoReply
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
with ibkeys.open(timing=ibkeys.Timing(0.3, 0)) as fabric:
    try:
        fabric.set(PortInfo, 1, LidAddress(int(sys.argv[1])), bytes(64), MKey(int(sys.argv[2])))
    except NoReply:
        sys.exit(0)
sys.exit(3)
"""


@pytest.fixture
def served(stack: ExitStack) -> Hosted:
    """The fabric of two switches for programs on our libibumad."""
    return stack.enter_context(Hosted(DATA / "fabrics" / "two-switch.net"))


class Watching:
    """A subscriber that goes on; it is ended with *stack*."""

    def __init__(self, served: Hosted, stack: ExitStack, node: str = SUBSCRIBER, key: int = SA_KEY) -> None:
        command = [sys.executable, "-c", _SUBSCRIBER, hex(key)]
        self.process, self.log = attached(served, stack, f"at-{node}", command, served.at(node))

    def said(self, what: str, after: int = 0) -> dict[str, Any]:
        """Wait for the line that says *what*, and return it."""
        line: dict[str, Any] = json.loads(self.log.wait(f'"{what}":', after))
        return line

    def report(self, trap: int, after: int = 0) -> dict[str, Any]:
        line: dict[str, Any] = json.loads(self.log.wait(f'"trap": {trap},', after))
        return line

    def end(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        closed = self.said("closed")
        assert self.process.wait(RUN_TIMEOUT) == 0
        return closed

    @property
    def reports(self) -> list[int]:
        return [json.loads(line)["trap"] for line in self.log.lines if '"trap"' in line]


def offer_wrong_key(served: Hosted, description: str) -> None:
    """Let a stranger on node05 offer `OFFERED` to the port, which has another M_Key."""
    port = port_of(served, description)
    assert port.m_key == M_KEY
    done = served.run([sys.executable, "-c", _SET, str(port.lid), str(OFFERED)], sim_host="H-0002c903000a1050")
    assert done.returncode == 0, done.stderr


def test_each_refused_key_is_one_report_at_the_subscriber_and_is_acknowledged(served: Hosted, stack: ExitStack) -> None:
    passed = Answered()
    with hosted.opensm(served, None, KEYED) as running:
        watching = Watching(served, stack)
        watching.said("subscribed")
        served.watchers.append(passed)
        served.steer('packet "node02 mlx4_0" "node03 mlx4_0" pkey=0x8123')
        bad_p_key = watching.report(257)
        served.steer('packet "node03 mlx4_0" "node02 mlx4_0" qkey=0x77 expects=0x1234')
        bad_q_key = watching.report(258)
        offer_wrong_key(served, "node06 mlx4_0")
        bad_m_key = watching.report(256)
        lids = {number: port_of(served, f"node0{number} mlx4_0").lid for number in range(1, 7)}
        assert {each["lid"] for each in (bad_p_key, bad_q_key, bad_m_key)} == {lids[1]}
        assert (bad_p_key["details"]["lid_addr1"], bad_p_key["details"]["lid_addr2"]) == (lids[2], lids[3])
        assert bad_p_key["details"]["p_key"] == "0x8123"
        assert (bad_q_key["details"]["lid_addr1"], bad_q_key["details"]["lid_addr2"]) == (lids[3], lids[2])
        assert bad_q_key["details"]["key"] == "0x00000077"
        assert int(bad_m_key["issuer"], 16) == port_of(served, "node06 mlx4_0").guid
        assert bad_m_key["details"]["method"] == 2
        # one more event, and what OpenSM would have sent again of the others has come before its Report
        served.pass_time(10)
        served.steer('packet "node02 mlx4_0" "node05 mlx4_0" pkey=0x8456')
        watching.log.wait('"0x8456"')
        assert watching.end() == {"closed": "None", "repeats": 0}
        assert watching.reports == [257, 258, 256, 257]
        assert len(passed.reports) == len(set(passed.reports)) == passed.answers == 4
        assert served.server.counts().get("reports repeated", 0) == 0
        text = "".join(watching.log.lines)
        assert f"{OFFERED:x}" not in text.lower()
        assert str(OFFERED) not in text
        timed_out = f"Class {MgmtClass.SUBN_ADM:#x}, Method 0x{Method.REPORT:X}, Attr"
        assert [line for line in running.log.lines if timed_out in line] == []


def test_a_new_opensm_reports_to_the_old_subscriber(served: Hosted, stack: ExitStack) -> None:
    with hosted.opensm(served, None, CONF) as running:
        watching = Watching(served, stack)
        watching.said("subscribed")
        served.steer('packet "node02 mlx4_0" "node03 mlx4_0" pkey=0x8123')
        watching.report(257)
        running.kill()
        watching.said("troubled")
        before = len(watching.log.lines)
        running.start()
        assert json.loads(watching.log.wait('"troubled": false', before))["renewals"] == 1
        served.pass_time(10)
        served.steer('packet "node02 mlx4_0" "node03 mlx4_0" pkey=0x8123')
        watching.report(257, before)
        assert watching.end()["closed"] == "None"


def test_the_subscription_follows_to_the_opensm_that_takes_over(served: Hosted, stack: ExitStack) -> None:
    first = NodesOpensm(served, "node01 mlx4_0", 9, stack, options=CONF)
    first.log.wait("SUBNET UP")
    second = NodesOpensm(served, "node05 mlx4_0", 3, stack, options=CONF)
    second.log.wait("ENTERING SM STANDBY STATE")
    watching = Watching(served, stack)
    watching.said("subscribed")
    first.process.kill()
    before = len(watching.log.lines)
    watching.log.wait('"troubled": true', before)
    assert json.loads(watching.log.wait('"troubled": false', before))["renewals"] == 1
    served.steer('packet "node02 mlx4_0" "node03 mlx4_0" pkey=0x8123')
    assert watching.report(257)["lid"] == port_of(served, "node05 mlx4_0").lid
    assert watching.end()["closed"] == "None"


def test_two_programs_on_one_port_and_one_on_another(served: Hosted, stack: ExitStack) -> None:
    with hosted.opensm(served, None, CONF):
        first = Watching(served, stack)
        first.said("subscribed")
        second = Watching(served, stack)
        refused = second.said("refused")
        assert refused["refused"] == "AgentRefused"
        assert "another program receives the SA's Reports" in refused["why"]
        elsewhere = Watching(served, stack, OTHER)
        elsewhere.said("subscribed")
        served.steer('packet "node02 mlx4_0" "node03 mlx4_0" pkey=0x8123')
        first.report(257)
        elsewhere.report(257)
        first.end()
        third = Watching(served, stack)
        third.said("subscribed")
        third.end()


def test_a_subscriber_on_the_sms_own_port_hears_too(served: Hosted, stack: ExitStack) -> None:
    with hosted.opensm(served, None, CONF):
        watching = Watching(served, stack, "H-0002c903000a1010")
        watching.said("subscribed")
        served.steer('packet "node02 mlx4_0" "node03 mlx4_0" pkey=0x8123')
        assert watching.report(257)["lid"] == port_of(served, "node01 mlx4_0").lid
        assert watching.end()["closed"] == "None"


@pytest.mark.parametrize(("key", "error"), [(0, "MadStatusError"), in_soak(SA_KEY + 1, "NoReply")])
def test_who_has_no_sa_key_is_told_so(served: Hosted, stack: ExitStack, key: int, error: str) -> None:
    with hosted.opensm(served, None, CONF):
        watching = Watching(served, stack, key=key)
        refused = watching.said("refused")
        assert refused["refused"] == error
        assert "sm_key=" in refused["why"] or "a wrong SM_Key" in refused["why"]
        assert f"{key:x}" not in refused["why"] or not key


# Rule SM004


def sm004(served: Hosted) -> tuple[str, list[str], int]:
    """Return what ``audit --probe-sa`` makes of the rule: result, messages, exit status."""
    done = served.ibkeys("audit", "--check", "SM004", "--probe-sa", "-f", "json", "-t", 300)
    (result,) = json.loads(done.stdout)["results"]
    return result["result"], [subject["message"] for subject in result["subjects"]], done.returncode


_SUBSCRIPTIONS = f"""
import ibkeys
from ibkeys.mad.inform import InformInfoRecord
with ibkeys.open() as fabric:
    print([(each.trap_number, each.qpn) for each in fabric.sa({SA_KEY}).get_table(InformInfoRecord)])
"""


def test_a_stock_opensm_fails_sm004_and_the_probe_leaves_no_subscription(served: Hosted) -> None:
    with hosted.opensm(served, None, CONF):
        result, (message,), _ = sm004(served)  # the list of all nodes does not come whole through libumad2sim: status 3
        assert result == "fail"
        assert "a subscription to all traps, ended again" in message
        done = served.run([sys.executable, "-c", _SUBSCRIPTIONS])
        assert done.stdout == "[]\n", done.stderr


def test_an_sa_that_refuses_strangers_passes_sm004(served: Hosted) -> None:
    served.steer('sm "node01 mlx4_0" on')
    assert sm004(served)[0] == "fail"
    served.steer('sa "node01 mlx4_0" wildcards refused')
    assert sm004(served) == ("pass", [], 0)

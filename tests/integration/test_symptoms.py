"""What the real OpenSM logs about a fault of the fabric is in the table of `explain`, with the right cause."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from ibkeys.mad.const import AttributeID, Method
from ibkeys.sim.subnet import Subnet
from ibkeys.symptoms.explain import explain
from ibkeys.symptoms.table import BY_NAME
from tests.corpus import DATA
from tests.integration.hosted import Hosted
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.opensms import NodesOpensm

ERROR = re.compile(r"ERR ([0-9A-F]{4})\b")
KEY = 0x5A17C0DE90B1E2F3
MANY = "".join(f"P{number:x}=0x{number:x} : 0x2c903000a1021=full ;\n" for number in range(0x100, 0x150))
ALL = "Default=0x7fff : ALL=limited, SELF=full ;\n"
FULL = "Default=0x7fff : ALL=full ;\n"
OSMTEST = ("/bin/sh", "-c", "osmtest -f c -i inventory && osmtest -f m -M 1 -i inventory")
"""OpenSM's own test of an SA: it asks for paths, and joins groups that cannot be."""

WATCH = (sys.executable, "-m", "ibkeys", "watch", "--for", "1", "--interval", "0")


def _nothing(net: Subnet) -> None:
    """The fault is in the policy, the options, or what is asked."""


def _hides_key(net: Subnet) -> None:
    port = net.port("node05 mlx4_0", 1)
    port.m_key, port.protect_bits = KEY, 1


def _answers_nothing(net: Subnet) -> None:
    port = net.port("node05 mlx4_0", 1)
    port.m_key, port.protect_bits = KEY, 2


def _silent(net: Subnet) -> None:
    net.silence("node05 mlx4_0")


def _sm_cut_off(net: Subnet) -> None:
    net.unplug("node01 mlx4_0", 1)


def _loses_sets(net: Subnet) -> None:
    net.faults.lose_next("request", method=Method.SET, attribute=AttributeID.P_KEY_TABLE, count=100)


@dataclass(frozen=True)
class Fault:
    """A fault, the error that OpenSM logs because of it, and the cause that `explain` must name among the first two.

    ``asks``: a command of another program that is run once the subnet is up, on node02. ``other``: the options of an
    OpenSM that is started then on node04.
    """

    error: str
    cause: str
    make: Callable[[Subnet], None] = _nothing
    policy: str = ALL
    options: str = ""
    asks: tuple[str, ...] = ()
    other: str = ""


FAULTS = [
    Fault("ERR 3120", "m-key-protected", _answers_nothing),
    Fault("ERR 3120", "node-gone", _silent),
    Fault("ERR 3113", "node-gone", _silent),
    Fault("ERR 5411", "m-key-protected", _answers_nothing),
    Fault("ERR 3119", "m-key-wrong", _hides_key),
    Fault("unknown M_Key, protection level 1", "m-key-unknown", _hides_key, options="log_flags 0x07\n"),
    Fault("ERR 0512", "table-full", policy=ALL + MANY),
    Fault("ERR 3119", "set-lost", _loses_sets),
    Fault("ERR 1A04", "sa-key-wrong", asks=("saquery", "--smkey", "0x1234567812345678", "NR")),
    Fault("ERR 4608", "untrusted-query", asks=("saquery", "--smkey", "0", "PKTR")),
    Fault(
        "ERR 1F1A",
        "no-shared-partition",
        policy=FULL + "A=0x10 : 0x2c903000a1021=full ;\n",
        asks=("saquery", "PR", "--slid", "2", "--dlid", "3", "--pkey", "0x10"),
    ),
    Fault("ERR 1F1B", "no-shared-partition", asks=OSMTEST),
    Fault("ERR 1B11", "group-missing", policy=FULL, asks=OSMTEST),
    Fault("ERR 1B26", "group-missing", policy=FULL, asks=OSMTEST),
    pytest.param(
        Fault(
            "ERR 430B", "sa-key-wrong", asks=(sys.executable, "-m", "ibkeys", "watch", "--for", "1", "--interval", "0")
        ),
        marks=pytest.mark.soak,
    ),
    Fault("ERR 2F18", "two-sms", other="sm_key 0x5a5a000012340002\n"),
    Fault("SM port is down", "sm-link-down", _sm_cut_off),
    Fault("Partition configuration in error", "policy-file", policy="X=0x5 : ALL_VCAS=full ;\n"),
]


@pytest.mark.integration
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.error}-{fault.cause}")
def test_what_opensm_logs_about_a_fault_is_explained(fault: Fault) -> None:
    with ExitStack() as stack:
        served = stack.enter_context(Hosted(DATA / "fabrics" / "two-switch.net"))
        fault.make(served.net)
        opensm = NodesOpensm(served, "node01 mlx4_0", 1, stack, fault.policy, options=fault.options)
        if fault.asks or fault.other:
            opensm.log.wait("SUBNET UP")
        if fault.other:
            NodesOpensm(served, "node04 mlx4_0", 2, stack, fault.policy, options=fault.other)
        if fault.asks:
            subprocess.run(
                served.arguments(fault.asks),
                env={**served.environment, **served.at("node02 mlx4_0")},
                cwd=served.folder,
                capture_output=True,
                timeout=RUN_TIMEOUT,
                check=False,
            )
        line = opensm.log.wait(fault.error)
    causes = explain(line).answers[0].causes[:2]
    assert fault.cause in {each.cause.name for each in causes}, line
    logged = {number for each in opensm.log.lines for number in ERROR.findall(each)}
    unknown = {number for number in logged if explain(f"ERR {number}").answers[0].symptom.name not in BY_NAME}
    assert unknown == set(), [each for each in opensm.log.lines if ERROR.search(each)]


@pytest.mark.integration
def test_what_a_second_opensm_on_a_port_says_is_explained() -> None:
    with ExitStack() as stack:
        served = stack.enter_context(Hosted(DATA / "fabrics" / "two-switch.net"))
        NodesOpensm(served, "node01 mlx4_0", 1, stack, ALL).log.wait("SUBNET UP")
        said = served.run(["opensm", "-o", "-f", "stdout"], sim_host="node01 mlx4_0").stdout
    line = next(each for each in said.splitlines() if "ERR 5426" in each)
    assert "agent-taken" in {each.cause.name for each in explain(line).answers[0].causes[:2]}

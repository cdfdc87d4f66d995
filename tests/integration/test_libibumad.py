"""The binding on the real libibumad, under libumad2sim on ibsim. The children print JSON; the fabric is the oracle."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ibsim import Ibsim, parse_dump

NET = """\
caguid=0xf4521400aa0010
Ca 2 "H-1" # "login01 HCA-1"
[1] "S-1"[1]

caguid=0xf4521400aa0020
Ca 1 "H-2" # "node01 HCA-1"
[1] "S-1"[2]

switchguid=0xf4521400aa0030
Switch 8 "S-1" # "leaf01"
[1] "H-1"[1]
[2] "H-2"[1]
"""

PRELUDE = """
import json, sys
from ibkeys import errors
from ibkeys.umad.libibumad import list_cas, open_port
from ibkeys.umad.port import Outgoing

def get(attribute, tid, *path, modifier=0):
    mad = bytearray(256)
    mad[:4] = 1, 0x81, 1, 1
    mad[7] = len(path) - 1
    mad[8:16] = tid.to_bytes(8, "big")
    mad[16:18] = attribute.to_bytes(2, "big")
    mad[20:24] = modifier.to_bytes(4, "big")
    mad[32:36] = b"\\xff" * 4
    mad[128:128 + len(path)] = bytes(path)
    return Outgoing(bytes(mad))

def collect(port, count):
    replies = []
    while len(replies) < count and (came := port.recv(5)):
        replies += came
    return replies
"""


@pytest.fixture
def child(ibsim: Callable[..., Ibsim], tmp_path: Path) -> Callable[..., Any]:
    """Run code on a small fabric and return what it printed, from JSON."""
    (tmp_path / "small.net").write_text(NET)
    fabric = ibsim(tmp_path / "small.net", sim_host="H-1")

    def run(code: str) -> Any:
        done = fabric.run([sys.executable, "-c", PRELUDE + textwrap.dedent(code)])
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    run.fabric = fabric  # type: ignore[attr-defined]
    return run


def test_local_port(child: Any) -> None:
    ca = child("""
        (ca,) = list_cas()
        (port,) = ca.ports
        print(json.dumps([ca.name, ca.node_type, ca.node_guid, port.port, port.state, port.phys_state, port.port_guid,
            port.link_layer, port.pkeys[:2]]))
        """)
    assert ca == ["ibsim0", 1, 0xF4521400AA0010, 1, 2, 5, 0xF4521400AA0011, "IB", [0xFFFF, 0]]


def test_batch_of_requests_is_answered(child: Any) -> None:
    replies = child("""
        with open_port() as port:
            assert port.send([get(0x11, 1, 0), get(0x11, 2, 0, 1), get(0x11, 3, 0, 1, 2)]) == []
            replies = collect(port, 3)
            assert port.recv(0) == port.recv(0.01) == []
        print(json.dumps([[r.status, r.lid, r.qpn, len(r.mad), r.mad[15], r.mad[76:84].hex()] for r in replies]))
        """)
    assert replies == [
        [0, 0xFFFF, 0, 256, 1, "00f4521400aa0010"],
        [0, 0xFFFF, 0, 256, 2, "00f4521400aa0030"],
        [0, 0xFFFF, 0, 256, 3, "00f4521400aa0020"],
    ]


def test_port_info_is_what_smpquery_shows(child: Any) -> None:
    payload = child("""
        with open_port() as port:
            port.send([get(0x15, 1, 0, modifier=1)])
            print(json.dumps(collect(port, 1)[0].mad[64:128].hex()))
        """)
    shown = parse_dump(child.fabric.smpquery("portinfo", "-D", "0", 1))
    info = bytes.fromhex(payload)
    assert int.from_bytes(info[16:18], "big") == int(shown["Lid"])
    assert int.from_bytes(info[20:24], "big") == int(shown["CapMask"], 16)
    assert int.from_bytes(info[26:28], "big") == int(shown["MkeyLeasePeriod"])


def test_dead_port_gives_the_timeout_status(child: Any) -> None:
    status, low = child("""
        with open_port() as port:
            port.send([get(0x11, 7, 0, 1, 5)])
            (reply,) = collect(port, 1)
            print(json.dumps([reply.status, int.from_bytes(reply.mad[12:16], "big")]))
        """)
    assert (status, low) == (110, 7)


def test_more_requests_than_queues_hold(child: Any) -> None:
    assert child("""
        with open_port() as port:
            assert port.send([get(0x11, n, 0, 1) for n in range(1, 2001)]) == []
            print(json.dumps(sorted(int.from_bytes(r.mad[12:16], "big") for r in collect(port, 2000))))
        """) == list(range(1, 2001))


def test_closing_with_requests_on_the_way(child: Any) -> None:
    assert (
        child("""
        for _ in range(20):
            with open_port() as port:
                port.send([get(0x11, n, 0, 1) for n in range(1, 65)])
        print(json.dumps("alive"))
        """)
        == "alive"
    )


def test_opening_and_closing_uses_nothing_up(child: Any) -> None:
    """libumad2sim has 8 descriptors and 32 agents; a binding that leaked one would fail soon."""
    before, after = child("""
        import gc, os
        open_port().close()
        before = len(os.listdir("/proc/self/fd"))
        for turn in range(100):
            port = open_port()
            port.register(0x03, 2)
            port.send([get(0x11, 1, 0)])
            assert len(collect(port, 1)) == 1
            if turn % 2:
                port.close()
            del port
            gc.collect()
        print(json.dumps([before, len(os.listdir("/proc/self/fd"))]))
        """)
    assert before == after


def test_signal_while_waiting_loses_no_reply(child: Any) -> None:
    assert child("""
        import signal
        seen = []
        signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
        with open_port() as port:  # libumad2sim ends where a signal comes while it attaches to ibsim, or leaves it
            port.send([get(0x11, 501, 0, 1)])
            collect(port, 1)
            signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
            assert port.recv(0.1) == []
            got = 0
            for n in range(1, 501):
                port.send([get(0x11, n, 0, 1)])
                got += len(collect(port, 1))
            signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps([got, len(seen) > 0]))
        """) == [500, True]


@pytest.mark.parametrize(
    ("ca", "port", "message"),
    [
        ("mlx5_0", None, "no channel adapter mlx5_0: there is ibsim0 (port 1 Initialize)"),
        ("ibsim0", 2, "no port 2 on ibsim0: there is ibsim0 (port 1 Initialize)"),
    ],
)
def test_wrong_name_or_number_lists_what_exists(child: Any, ca: str, port: int | None, message: str) -> None:
    code = f"""
        try:
            open_port({ca!r}, {port!r})
        except errors.NoDevice as error:
            print(json.dumps(str(error)))
        """
    assert child(code) == message


def test_host_without_hca(tmp_path: Path) -> None:
    """Without the preload library this machine has no device, unless it has one."""
    import os
    import subprocess

    if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
        return
    code = PRELUDE + textwrap.dedent("""
        try:
            open_port()
        except errors.NoDevice as error:
            print(error)
        """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("this host has no InfiniBand device")

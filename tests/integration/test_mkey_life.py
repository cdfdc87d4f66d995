"""The life of an M_Key on a simulated subnet that lasts from one run to the next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ibkeys.errors import NoReply
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.set import plan_mkey_set
from ibkeys.store.keystore.keystore import KeyStore
from tests.corpus import DATA
from tests.fabricsim import subnet, tool, writer
from tests.integration.ibsim import ibkeys

NET = DATA / "fabrics" / "dual-home.net"
CA = ("-D", "0,1,3")
KEY, NEXT, WRONG = 0xA94F13D02E7C5B68, 0x5B7D00E1C38F926A, 0x0BADBADBADBADBAD
LEASE = 300


class Life:
    """One simulated subnet, and its runs; each is a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        with KeyStore(folder / "empty.db"):
            pass
        for name, key in {"key": KEY, "next": NEXT, "wrong": WRONG, "zero": 0}.items():
            (folder / name).touch(0o600)
            (folder / name).write_text(f"{key:#x}\n")

    def run(self, code: int, *arguments: Any) -> Any:
        backend = ("--backend", f"sim:{NET},state={self.state}")
        done = ibkeys(*arguments, *backend, "-f", "json", cwd=self.folder)
        assert done.returncode == code, done.stderr
        if code == 3:
            assert done.stdout == ""
            return done.stderr
        return json.loads(done.stdout)

    def protect(self, level: int = 2) -> None:
        self.run(0, "mkey-set", *CA, "--new-m-key", "@key", "--protect", level, "--lease", LEASE, "--yes")

    def show(self, *options: Any) -> dict[str, Any]:
        (port,) = self.run(0, "mkey-show", *CA, "-K", *options)["ports"]
        return {name: value for name, value in port.items() if name.startswith("m_key")}

    def wait(self, seconds: float) -> None:
        """Let time pass between two runs: the last line of the state file says when it was written."""
        *earlier, last = self.state.read_text().splitlines(keepends=True)
        document = json.loads(last)
        document["wall"] -= seconds
        self.state.write_text("".join([*earlier, json.dumps(document) + "\n"]))


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)


def is_(state: str, key: int | None, protect: int, lease: int) -> dict[str, Any]:
    return {
        "m_key_state": state,
        "m_key": None if key is None else f"0x{key:016x}",
        "m_key_protect_bits": protect,
        "m_key_lease_period": lease,
        "m_key_violations": 0,
    }


STRANGER = ("--keystore", "empty.db")


def test_from_birth_to_the_next_key_and_back(life: Life) -> None:
    assert life.show() == is_("zero", 0, 0, 0)
    life.protect()
    assert life.show() == is_("set", KEY, 2, LEASE)  # by the key store
    assert life.show(*STRANGER, "-y", "@key") == is_("set", KEY, 2, LEASE)
    life.run(0, "mkey-set", *CA, "--new-m-key", "@next", "--yes")
    assert life.show() == is_("set", NEXT, 2, LEASE)
    life.run(0, "mkey-set", *CA, "--new-m-key", "@zero", "--protect", 0, "--lease", 0, "--yes")
    assert life.show(*STRANGER) == is_("zero", 0, 0, 0)
    assert life.show() == is_("zero", 0, 0, 0)


def test_without_the_key_or_with_another(life: Life) -> None:
    life.protect()
    assert "no reply" in life.run(3, "mkey-show", *CA, *STRANGER)
    assert life.show()["m_key_violations"] == 3  # one for each attempt
    assert "no reply" in life.run(3, "mkey-show", *CA, "-y", "@wrong")
    life.run(3, "pkey-add", *CA, "0x8010", "--yes", *STRANGER)
    life.run(3, "mkey-set", *CA, "--new-m-key", "@next", "--yes", "-y", "@wrong")
    shown = life.show()
    assert (shown["m_key"], shown["m_key_violations"]) == (f"0x{KEY:016x}", 12)
    ports = life.run(0, "pkey-show", *CA)["ports"]
    assert [key["pkey"] for key in ports[0]["pkeys"]] == ["0xffff"]


def test_work_goes_on_with_the_key_store(life: Life) -> None:
    life.protect()
    life.run(0, "pkey-add", *CA, "0x8010", "--yes")
    ports = life.run(0, "pkey-show", "--all")["ports"]
    (port,) = [port for port in ports if port["node_desc"] == "db03 mlx5_0" and port["port"] == 1]
    assert [key["pkey"] for key in port["pkeys"]] == ["0xffff", "0x8010"]
    assert life.show() == is_("set", KEY, 2, LEASE)


def test_a_stranger_sees_all_but_the_protected_port(life: Life) -> None:
    everything = life.run(0, "pkey-show", "--all")["ports"]
    life.protect()
    backend = ("--backend", f"sim:{NET},state={life.state}")
    done = ibkeys("pkey-show", "--all", "-f", "json", *STRANGER, *backend, cwd=life.folder)
    assert done.returncode == 3
    document = json.loads(done.stdout)
    seen = {(port["node_guid"], port["port"]): port["pkeys"] for port in document["ports"] if port["pkeys"] is not None}
    missing = [port for port in everything if (port["node_guid"], port["port"]) not in seen]
    assert [(port["node_desc"], port["port"]) for port in missing] == [("db03 mlx5_0", 1)]
    assert document["errors"]


def test_level_1_shows_all_but_the_key(life: Life) -> None:
    life.protect(1)
    assert life.show(*STRANGER) == is_("hidden", None, 1, LEASE)
    assert life.show() == is_("set", KEY, 1, LEASE)
    # a Set without the key is not even tried
    assert "hides its M_Key" in life.run(3, "pkey-add", *CA, "0x8010", "--yes", *STRANGER)
    assert life.show()["m_key_violations"] == 0


def test_the_lease_runs_out_between_two_runs(life: Life) -> None:
    """A violation starts the lease; when it has run out the port is open to everybody."""
    life.protect()
    life.wait(10 * LEASE)
    assert "no reply" in life.run(3, "mkey-show", *CA, *STRANGER)  # nothing had started it
    life.wait(LEASE - 30)
    assert "no reply" in life.run(3, "mkey-show", *CA, *STRANGER)
    life.wait(31)
    shown = life.show(*STRANGER)
    assert (shown["m_key_state"], shown["m_key"], shown["m_key_protect_bits"]) == ("set", f"0x{KEY:016x}", 0)
    life.run(0, "mkey-set", *CA, "--new-m-key", "@next", "--protect", 2, "--yes", *STRANGER)
    assert life.show(*STRANGER)["m_key"] == f"0x{NEXT:016x}"


def test_the_right_key_stops_the_lease(life: Life) -> None:
    life.protect()
    life.run(3, "mkey-show", *CA, *STRANGER)
    life.wait(LEASE - 30)
    assert life.show()["m_key_protect_bits"] == 2
    life.wait(LEASE - 30)
    assert "no reply" in life.run(3, "mkey-show", *CA, *STRANGER)
    assert life.show()["m_key_protect_bits"] == 2


def test_a_reset_port_is_taken_for_what_it_is(life: Life) -> None:
    """The hardware was switched off and on and has lost its key; the key store still has it."""
    life.protect()
    life.state.unlink()
    assert life.show() == is_("zero", 0, 0, 0)
    done = life.run(1, "mkey-set", *CA, "--lease", 60, "--dry-run")
    assert [change["kind"] for change in done["ports"][0]["changes"]] == ["m_key_lease_period"]
    life.protect()
    assert life.show() == is_("set", KEY, 2, LEASE)


@pytest.mark.parametrize(("level", "open_after"), [(2, True), (3, True), (2, False)])
def test_the_lease_on_a_virtual_clock(level: int, open_after: bool) -> None:
    """The same through the library, with the clock in the test's hand."""
    net = subnet("dual-home")
    with tool(net, timeout=0.1) as fabric, writer(fabric) as changing:
        changing.apply(plan_mkey_set(changing, fabric.find_port("0,1,3"), MKey(KEY), level, LEASE))
    with tool(net, timeout=0.1, retries=0) as stranger:
        with pytest.raises(NoReply):
            _ = stranger.find_port("0,1,3").read_port_info()
        started = net.now
        net.advance(LEASE - 1)
        if open_after:
            net.advance(2)
            info = stranger.find_port("0,1,3").read_port_info()
            assert (info.m_key, info.m_key_protect_bits, net.now - started < LEASE + 5) == (KEY, 0, True)
        else:
            with pytest.raises(NoReply):
                _ = stranger.find_port("0,1,3").read_port_info()

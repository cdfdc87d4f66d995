"""classkey-show: what it prints of each answer, what it says of the cost before, its exit codes, and no key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibkeys.mad.classes.gmp import ClassName
from ibkeys.sim.state.file import StateFile
from ibkeys.sim.steering.commands import execute
from ibkeys.sim.subnet import Subnet
from ibkeys.store.opensm import KeyFiles, write_key_files
from tests.cli.conftest import TWO_SWITCH, Result, run
from tests.corpus import DATA
from tests.protectedsim import ring_of

CLASS_KEY = 0xA1A2A3A4A5A6A7A8
HEX = f"{CLASS_KEY:016x}"
FAST = ("-t", 1, "--retries", 0)
SETTLED = "nothing to settle: no port with a key was found at another place than its known one\n"
EVERY = tuple(f"classrule {name} absent status" for name in ("cc", "vs", "n2n", "b"))
"""Ports that answer for classes that they do not have, as a Linux host does."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "fabric"


def steer(place: Path, *lines: str) -> None:
    """Do what *lines* of `sim ctl` say to the subnet that is kept in *place*."""
    net = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    state = StateFile(place, net)
    for line in lines:
        execute(net, line)
    state.save_if_changed()
    state.close()


def show(place: Path, *words: object) -> Result:
    return run("classkey-show", "--backend", f"{TWO_SWITCH},state={place}", *FAST, *words)


def rows(place: Path, *words: object) -> dict[str, dict[str, Any]]:
    """Return what is said of each class of one port."""
    return {row["class"]: row for row in show(place, *words, "-f", "json").json["ports"]}


def place_all(folder: Path) -> None:
    """Write into *folder* the file ``neighbors`` that says where every port is."""
    net = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    write_key_files(folder, KeyFiles(neighbors=ring_of(net).neighbors), ["neighbors"])


def key(name: ClassName, words: str) -> str:
    return f'classkey "node03 mlx4_0" {name} on {words}'


def test_without_consent_only_b_keys_are_asked_for(place: Path) -> None:
    steer(place, *EVERY, key("b", f"key=0x{HEX} protect=1 lease=60 violations=7"))
    result = show(place, 3)
    assert result.code == 0
    assert result.err == (
        "ibkeys: note: 1 port not queried for cc, vs, n2n: no key is known for them here, and the cost of a query "
        "without one is not known (--ask-unkeyed queries once)\n"
    )
    said = rows(place, 3)
    assert {name: row["class_key_state"] for name, row in said.items()} == {
        "cc": "not-asked",
        "vs": "not-asked",
        "n2n": "not-asked",
        "b": "hidden",
    }
    assert said["b"]["key_info"] == {
        "b_key": None,
        "b_key_masked": True,
        "b_key_protect_bit": 1,
        "b_key_lease_period": 60,
        "b_key_violations": 7,
    }
    assert said["cc"]["key_info"] is None


def test_what_it_may_cost_is_said_before_and_counted_once(place: Path) -> None:
    steer(place, *EVERY, "classrule vs gets drops", key("vs", f"key=0x{HEX} protect=1 lease=60"))
    result = run(
        "classkey-show", "--backend", f"{TWO_SWITCH},state={place}", "--ask-unkeyed", "--class", "vs", "--class", "b", 3
    )
    assert result.err.startswith("ibkeys: warning: --ask-unkeyed: 1 port will be queried without a key, once for each")
    assert "count one violation" in result.err
    net = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    state = StateFile(place, net)
    assert "violations: 1" in execute(net, 'show "node03 mlx4_0"[1]')
    state.close()
    assert result.code == 3


def test_four_answers_in_words_and_their_exit_codes(place: Path) -> None:
    steer(place, *EVERY, key("cc", ""))
    ask = ("--ask-unkeyed", "--class")
    zero = show(place, *ask, "cc", 3)
    assert (zero.code, "  Key:         not set (0): the class is not protected\n" in zero.out) == (0, True)
    steer(place, key("cc", f"key=0x{HEX} protect=1"))
    hidden = show(place, *ask, "cc", 3)
    assert (hidden.code, "  Key:         set, and not shown\n" in hidden.out) == (0, True)
    absent = show(place, *ask, "n2n", 3)
    assert (absent.code, "  Key:         the port does not have this class\n" in absent.out) == (0, True)
    steer(place, "classrule n2n absent silence")
    silent = show(place, *ask, "n2n", 3)
    assert (silent.code, "  Key:         unknown: no answer\n" in silent.out) == (3, True)
    assert "the result is partial" in silent.err


def test_the_key_is_shown_with_k_only(place: Path) -> None:
    steer(place, key("cc", f"key=0x{HEX}"))
    words = ("--ask-unkeyed", "--class", "cc", 3)
    for format in ("table", "json", "csv"):
        for extra in ((), ("-d",), ("--all",)):
            result = show(place, *words[:3], *(extra if extra == ("--all",) else (3, *extra)), "-f", format)
            assert HEX not in (result.out + result.err).lower(), (format, extra)
    assert f"0x{HEX}" in show(place, *words, "-K").out
    assert rows(place, *words, "-K")["cc"]["key_info"]["cc_key"] == f"0x{HEX}"


def test_keys_of_a_directory_are_used_for_their_own_port(place: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    place_all(keys)
    steer(place, *EVERY, *(f"classrule {name} gets drops" for name in ("cc", "vs", "n2n")))
    guid = 0x0002C903000A1031
    for name, file in (("cc", "guid2cckey"), ("vs", "guid2vskey"), ("n2n", "guid2_m2n_key")):
        (keys / file).write_text(f"0x{guid:016x} 0x{HEX}\n")
        (keys / file).chmod(0o600)
        steer(place, f'classkey "node03 mlx4_0" {name} on key=0x{HEX} protect=1 lease=60')
    said = show(place, "--all", "--security-keys", keys, "-f", "json")
    assert said.code == 0, said.err
    states = {(row["lid"], row["class"]): (row["class_key_state"], row["known_key"]) for row in said.json["ports"]}
    for name in ("cc", "vs", "n2n"):
        assert {port for (port, of), state in states.items() if of == name and state == ("set", True)} == {3}
        assert {state for (port, of), state in states.items() if of == name and port != 3} == {("not-asked", None)}
    assert all(row["violations"] in (0, None) for row in said.json["ports"])
    one = rows(place, "--security-keys", keys, "-N", "node03 mlx4_0")
    assert [one[name]["class_key_state"] for name in ("cc", "vs", "n2n")] == ["set"] * 3
    assert rows(place, "--security-keys", keys, 3)["cc"]["known_key"] is True


def test_a_key_without_a_known_place_is_not_sent_and_the_note_says_what_to_do(place: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "guid2cckey").write_text(f"0x0002c903000a1031 0x{HEX}\n")
    (keys / "guid2cckey").chmod(0o600)
    steer(place, *EVERY, key("cc", f"key=0x{HEX} protect=1"))
    words = ("--class", "cc", "--security-keys", keys)
    refused = show(place, *words, "--all")
    assert refused.code == 0
    note = next(line for line in refused.err.splitlines() if "0x0002c903000a1031 has no known place" in line)
    assert note.startswith("ibkeys: note: 1 port not queried, although a key is known; 'node03 mlx4_0' 0x")
    assert note.endswith(
        "put this link into the file neighbors in the directory of --security-keys, or use --trust-topology"
    )
    one = rows(place, *words, 3)["cc"]
    assert (one["class_key_state"], one["known_key"]) == ("not-asked", None)
    assert "its key is not sent there" in one["detail"]
    trusted = rows(place, *words, "--trust-topology", 3)["cc"]
    assert (trusted["class_key_state"], trusted["known_key"]) == ("set", True)
    place_all(keys)
    placed = rows(place, *words, 3)["cc"]
    assert (placed["class_key_state"], placed["known_key"]) == ("set", True)


def test_a_table_folds_ports_that_say_the_same(place: Path) -> None:
    steer(place, *EVERY, key("cc", f"key=0x{HEX} protect=1 lease=60"))
    out = show(place, "--all", "--ask-unkeyed", "--class", "cc", "--fold").out
    assert "node[01-02,04-06] mlx4_0" in out
    assert "1 port" in out
    assert "hidden" in out


def test_a_port_of_a_switch_has_none_and_port_0_has(place: Path) -> None:
    wrong = show(place, 7, 3)
    assert (wrong.code, "the keys of a switch are at port 0" in wrong.err) == (2, True)
    steer(place, *EVERY)
    ports = show(place, "--all", "-f", "json").json["ports"]
    assert {row["port"] for row in ports if row["node_type"] == "switch"} == {0}
    assert len(ports) == 8 * 4


def test_a_class_that_is_none_names_those_that_are(place: Path) -> None:
    result = show(place, "--class", "am", 3)
    assert result.code == 2
    assert "cc" in result.error


def test_the_trace_names_the_class_and_masks_the_key(place: Path) -> None:
    steer(place, key("b", f"key=0x{HEX}"))
    said = show(place, "--class", "b", 3, "-d").err
    assert "BKeyInfo" in said
    assert HEX not in said.lower()


def test_snapshot_holds_them_and_classkey_show_reads_it(place: Path, tmp_path: Path) -> None:
    steer(place, *EVERY, key("cc", f"key=0x{HEX} protect=1 lease=60"), "classrule n2n absent silence")
    file = tmp_path / "a.db"
    at = ("--backend", f"{TWO_SWITCH},state={place}", *FAST)
    taken = run("snapshot", file, "--class-keys", "--ask-unkeyed", *at, "-f", "json")
    assert taken.code == 0
    assert taken.json["class_keys"] == 1
    assert "once for each class" in taken.err
    assert "8 ports did not answer for a class" in taken.err
    ports = run("classkey-show", "--all", "--from", file, "-f", "json").json["ports"]
    assert [row["lid"] for row in ports if row["class_key_state"] == "hidden"] == [3]
    assert {row["class_key_state"] for row in ports if row["class"] == "n2n"} == {"silent"}
    asking = run("classkey-show", "--all", "--ask-unkeyed", "--from", file)
    assert (asking.code, "sends no queries" in asking.err) == (2, True)
    plain = run("snapshot", tmp_path / "b.db", *at, "-f", "json")
    assert plain.json["class_keys"] is None
    alone = run("snapshot", tmp_path / "c.db", "--ask-unkeyed", *at)
    assert (alone.code, "requires --class-keys" in alone.err) == (2, True)


def test_the_documents_of_sdn04(place: Path, tmp_path: Path) -> None:
    steer(place, *EVERY, key("cc", f"key=0x{HEX} protect=1 lease=60"))
    tenants = tmp_path / "tenants"
    tenants.write_text("0x10 alpha\n")
    at = ("--backend", f"{TWO_SWITCH},state={place}", *FAST, "--site-id", "lab", "--platform", "cloud")
    keys = run("audit", "-f", "sdn04-05", "--class-keys", "--ask-unkeyed", *at)
    assert keys.code == 0
    document = keys.json
    assert (document["platform"], document["site_id"]) == ("cloud", "lab")
    assert document["keys"]["congestion_control_key"]["configured"] is True
    assert document["keys"]["vendor_specific_key"]["detail"] == "no port has this class"
    assert HEX not in keys.out
    partitions = run("audit", "-f", "sdn04-04", "--tenants", tenants, *at)
    assert [(each["tenant_id"], each["status"]) for each in partitions.json["partitions"]] == [("alpha", "missing")]
    for words in (("--site-id", "x"), ("--tenants", tenants), ("--ask-unkeyed",), ("-f", "sdn04-05", "--hosts")):
        assert run("audit", *words, "--backend", TWO_SWITCH).code == 2
    file = tmp_path / "a.db"
    run("snapshot", file, "--class-keys", "--ask-unkeyed", *at[:6])
    again = run("audit", "-f", "sdn04-05", "--from", file, *at[-4:])
    assert again.out == keys.out
    assert run("audit", "--class-keys", "--from", file).code == 2


def test_an_audit_without_class_keys_is_complete(place: Path) -> None:
    result = run("audit", "--group", "CK", "--backend", TWO_SWITCH, "-f", "json")
    assert result.code == 0
    assert result.json["summary"]["unknown"] == 4


def test_a_moved_port_with_only_the_key_of_a_class_is_settled(place: Path, tmp_path: Path) -> None:
    keys, store = tmp_path / "keys", ("--keystore", tmp_path / "keys.db")
    keys.mkdir(mode=0o700)
    place_all(keys)
    (keys / "guid2cckey").write_text(f"0x0002c903000a1031 0x{HEX}\n")
    (keys / "guid2cckey").chmod(0o600)
    settle = ("keystore", "list", "--settle", "--yes", "--backend", f"{TWO_SWITCH},state={place}", *FAST, *store)
    steer(place, key("cc", f"key=0x{HEX}"))
    assert "no key is known" in run(*settle).error
    assert run("keystore", "import", keys, *store).code == 0
    assert run(*settle).out == SETTLED
    steer(place, 'link "node03 mlx4_0"[1] down', 'link "node03 mlx4_0"[1] "MF0;switch-a:IS5023/U1"[5]')
    moved = run(*settle).out
    assert "moved: port GUID 0x0002c903000a1031 is now behind" in moved
    assert run(*settle).out == SETTLED

"""Keys between ibkeys and the real OpenSM, by its files: nobody is refused one SMP, and who changed keys is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ibkeys.keys.mkey import MKey
from tests.corpus import DATA
from tests.integration.opensms import Log
from tests.integration.subnet import END_PORT_LIDS, KEY, LEASE, Subnet, opensm

OTHER = 0x99AABBCCDDEEFF00


@pytest.fixture
def served() -> Iterator[Subnet]:
    """A subnet with LIDs, whose SM is gone."""
    with Subnet(DATA / "fabrics" / "two-switch.net") as fabric:
        fabric.opensm()
        yield fabric


def key_of(lid: int, per_port: bool) -> int:
    return KEY + lid if per_port else KEY


def deploy(served: Subnet, per_port: bool) -> None:
    """Set a key on every port at level 2, the local port last."""
    for lid in sorted(END_PORT_LIDS, reverse=True):
        file = served.folder / f"key{lid}"
        file.touch(0o600)
        file.write_text(f"{key_of(lid, per_port):#x}\n")
        done = served.ibkeys(*("mkey-set", lid, "--new-m-key", f"@{file}", "--protect", 2, "--lease", LEASE, "--yes"))
        assert done.returncode == 0, done.stderr


def violations(served: Subnet, *options: str | Path) -> set[int]:
    return {port["m_key_violations"] for port in served.mkeys(*options).values()}


@contextmanager
def opensm_on(served: Subnet, folder: Path) -> Iterator[Log]:
    """Run OpenSM with its files in *folder* and `KEY` as its m_key."""

    served.opensm_cache = folder
    try:
        with opensm(served, 2) as log:
            yield log
    finally:
        served.opensm_cache = served.folder


def export(served: Subnet) -> tuple[Path, str]:
    folder = served.folder / "exported"
    done = served.ibkeys("keystore", "export", folder, "--guid2lid")
    assert done.returncode == 0, done.stderr
    assert "8 keys, 8 links, 8 LIDs" in done.stdout
    return folder, done.stderr


@pytest.mark.soak
def test_opensm_takes_over_one_key_without_a_refused_smp(served: Subnet) -> None:
    deploy(served, per_port=False)
    folder, said = export(served)
    assert "one key: OpenSM keeps it when opensm.conf has the same m_key" in said
    with opensm_on(served, folder):
        ports = served.mkeys("-K")
        assert {port["m_key"] for port in ports.values()} == {MKey(KEY).hex()}
        assert {port["m_key_protect_bits"] for port in ports.values()} == {2}
        assert violations(served) == {0}
        assert "number=256" not in served.steer("events 200")
    done = served.ibkeys("keystore", "import", folder)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "8 ports: the key store has the same key")


@pytest.mark.soak
def test_opensm_reaches_ports_with_keys_of_their_own_and_sets_its_own(served: Subnet) -> None:
    deploy(served, per_port=True)
    folder, said = export(served)
    assert "sets its own m_key on them at its first sweep" in said
    with opensm_on(served, folder):
        done = served.ibkeys("keystore", "import", folder, "-f", "json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert {port["result"] for port in document["ports"]} == {"changed"}
        assert document["one_key_for_changed"]
        # what was imported is used, and nothing was refused meanwhile
        assert {port["m_key"] for port in served.mkeys("-K").values()} == {MKey(KEY).hex()}
        assert violations(served) == {0}
    rows = json.loads(served.ibkeys("keystore", "list", "-f", "json", "-K").stdout)["keys"]
    states = {(row["port_guid"], row["state"]) for row in rows}
    assert {state for _, state in states} == {"imported", "former"}
    assert {row["m_key"] for row in rows} == {MKey(key_of(lid, True)).hex() for lid in END_PORT_LIDS} | {
        MKey(KEY).hex()
    }


def judged(served: Subnet, *options: str | Path) -> dict[str, dict[str, Any]]:
    """Return what each rule says."""
    done = served.ibkeys("audit", "-f", "json", "--fail-on", "never", *options)
    assert done.returncode in (0, 3), done.stderr
    return {result["rule"]: result for result in json.loads(done.stdout)["results"]}


@pytest.mark.soak
def test_audit_tells_afterwards_that_opensm_has_set_its_own_key(served: Subnet) -> None:
    deploy(served, per_port=True)
    assert judged(served)["MK010"]["result"] == "pass"
    folder, _ = export(served)
    with opensm_on(served, folder):
        # alone with the key store it cannot even ask the local port, and says why
        done = served.ibkeys("audit", "-f", "json")
        assert (done.returncode, done.stdout) == (3, "")
        assert "it was queried with its known M_Key" in done.stderr
        assert f"{KEY:x}" not in done.stderr
        checks = json.loads(served.ibkeys("doctor", "-f", "json").stdout)["checks"]
        [own] = [check for check in checks if check["name"] == "local port"]
        assert (own["ok"], "keystore import" in own["advice"]) == (False, True)
        # OpenSM's files open the ports, and show that the store's keys are theirs no more
        rules = judged(served, "--security-keys", folder)
        assert {rule: rules[rule]["result"] for rule in ("MK004", "MK010", "MK011")} == {
            "MK004": "fail",
            "MK010": "fail",
            "MK011": "pass",
        }
        subjects = rules["MK010"]["subjects"]
        assert {subject["lid"] for subject in subjects} == set(END_PORT_LIDS)
        assert all("differs from the one in the key store" in subject["message"] for subject in subjects)
        done = served.ibkeys("keystore", "import", folder)
        assert "8 ports: the key store had a different key" in done.stdout
        assert "a subnet manager has set its own key on them" in done.stdout
        rules = judged(served)
        assert (rules["MK010"]["result"], rules["MK004"]["result"]) == ("pass", "fail")


def test_what_opensm_set_is_imported_and_opens_every_port(served: Subnet) -> None:
    with opensm(served, 2):
        done = served.ibkeys("keystore", "import", served.folder, "--opensm-conf", served.folder / "opensm.conf")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "8 ports: no key was known before",
            "8 keys, 8 links, 8 LIDs read",
            "m_key of opensm.conf: kept for ports without a key of their own",
        ]
        ports = served.mkeys("-K")
        assert {port["m_key"] for port in ports.values()} == {MKey(KEY).hex()}
        assert violations(served) == {0}


@pytest.mark.soak
def test_the_m_key_of_opensm_alone_opens_every_port_too(served: Subnet) -> None:
    with opensm(served, 2):
        done = served.ibkeys("keystore", "import", "--opensm-conf", served.folder / "opensm.conf")
        assert done.returncode == 0, done.stderr
        assert {port["m_key"] for port in served.mkeys("-K").values()} == {MKey(KEY).hex()}
        assert violations(served) == {0}


def test_the_directory_of_a_running_opensm_is_refused(served: Subnet) -> None:
    with opensm(served, 2):
        before = {file.name: file.read_bytes() for file in served.folder.glob("guid2*")}
        done = served.ibkeys("keystore", "export", served.folder)
        assert done.returncode == 4
        assert "is where the running OpenSM" in done.stderr
        assert {file.name: file.read_bytes() for file in served.folder.glob("guid2*")} == before
    done = served.ibkeys("keystore", "export", served.folder)
    assert done.returncode == 4  # stopped, but its keys are not in the store
    assert "keystore import" in done.stderr
    assert f"{KEY:x}" not in done.stderr
    served.ibkeys("keystore", "import", served.folder, check=True)
    assert served.ibkeys("keystore", "export", served.folder).returncode == 0

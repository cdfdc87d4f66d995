"""sm-show beside real OpenSMs, started with different spellings."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ibkeys.managers.instance import DUMP_FILE
from tests.corpus import DATA
from tests.integration.served import Served
from tests.integration.sm_files import KEY, SM_KEY, UP_SECONDS, opensm, write


def shown(fabric: Served, *arguments: str | Path) -> dict[str, Any]:
    done = fabric.ibkeys("sm-show", "-f", "json", *arguments)
    assert done.returncode == 0, done.stderr
    for key in (KEY, SM_KEY):
        assert key[2:] not in done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def instance_of(document: dict[str, Any]) -> dict[str, Any]:
    [instance] = document["hosts"][0]["instances"]
    assert isinstance(instance, dict)
    return instance


def files_of(instance: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["role"]: each for each in instance["files"]}


@pytest.fixture
def fabric(serve: Callable[[Path], Served]) -> Served:
    return serve(DATA / "fabrics" / "two-switch.net")


@pytest.mark.parametrize(
    "words",
    [
        ["-F", "o.conf", "-P", "p.conf", "-s", "7"],
        ["-conf=o.conf", "-Pp.conf", "--swe", "7"],
        ["--config", "o.conf", "--Pconfig=p.conf", "-s7"],
        ["-Fo.conf", "--Pc", "p.conf", "-sweep=7"],
    ],
)
def test_a_running_opensm_is_found_however_it_was_started(fabric: Served, words: list[str]) -> None:
    folder = fabric.folder / "osm"
    write(folder / "o.conf", f"m_key {KEY}\nsm_key {SM_KEY}\nqos true\nsweep_interval 9\n")
    write(folder / "p.conf", "Default=0x7fff : ALL=full ;\n")
    with opensm(fabric, *words) as process:
        document = shown(fabric, "--security-keys", folder)
    [manager] = document["managers"]
    instance = instance_of(document)
    assert (manager["state"], manager["pid"], manager["host"]) == ("master", process.pid, "")
    assert (instance["pid"], instance["state"], instance["cwd"]) == (process.pid, "master", str(folder))
    files = files_of(instance)
    assert {role: each["path"] for role, each in files.items() if each["path"]} == {
        "options": f"{folder}/o.conf",
        "policy": f"{folder}/p.conf",
        "log": f"{folder}/log",
        "output": f"{folder}/out",
        "dumps": str(folder),
        "cache": str(folder),
        "keys": f"{folder}/guid2mkey",
    }
    options = {each["name"]: (each["value"], each["source"]) for each in instance["options"]}
    assert options["sweep_interval"] == (7, "command line")
    assert options["m_key"] == ("set", "options file")
    assert options["sa_key"] == ("default", "default")
    assert options["qos"] == (False, "options file")
    assert {"not-true", "sa-key-default", "keys-in-output"} <= {each["danger"] for each in document["dangers"]}


def test_opensm_prints_its_keys_where_sm_show_says_it_does(fabric: Served) -> None:
    """What the danger keys-in-output rests on."""
    write(fabric.folder / "osm" / "o.conf", f"m_key {KEY}\n")
    with opensm(fabric, "-F", "o.conf"):
        document = shown(fabric, "--security-keys", fabric.folder / "osm")
    [seen] = [each["seen"] for each in document["dangers"] if each["danger"] == "keys-in-output"]
    assert f"to {fabric.folder}/osm/out" in seen
    assert KEY.encode() in (fabric.folder / "osm" / "out").read_bytes()


def test_a_changed_policy_is_armed_until_a_heavy_sweep_and_an_options_file_that_came_late_is_never_read(
    fabric: Served,
) -> None:
    folder = fabric.folder / "osm"
    write(folder / "p.conf", "Default=0x7fff : ALL=full ;\n")
    with opensm(fabric, "-P", "p.conf", "-F", "late.conf", "-s", "0") as process:
        dump = folder / DUMP_FILE
        assert files_of(instance_of(shown(fabric)))["options"]["there"] is False
        before = dump.stat().st_mtime_ns
        (folder / "new").write_text("Default=0x7fff : ALL=full ;\nA=0x10 : ALL=full ;\n")
        later = before + 10**9  # a second later, for whoever judges by times
        os.utime(folder / "new", ns=(later, later))
        write(folder / "late.conf", "sm_priority 7\n")
        os.utime(folder / "late.conf", ns=(later, later))
        (folder / "new").rename(folder / "p.conf")
        found = shown(fabric)
        assert files_of(instance_of(found))["policy"]["reading"] == "not-read"
        assert [each["seen"] for each in found["dangers"] if each["danger"] == "armed"] == [
            f"{folder}/{name} was changed after the last heavy sweep that ended without errors"
            for name in ("late.conf", "p.conf")
        ]
        process.send_signal(1)
        deadline = time.monotonic() + UP_SECONDS
        while dump.stat().st_mtime_ns == before:
            assert time.monotonic() < deadline
            time.sleep(0.05)  # polls a condition
        ended = max(later, (folder / "p.conf").stat().st_ctime_ns) + 10**9
        os.utime(dump, ns=(ended, ended))  # as if the sweep had ended later than the made-up change
        found = shown(fabric)
        assert files_of(instance_of(found))["policy"]["reading"] == "may-have-been-read"
        manager = found["managers"][0]
        assert manager["priority"] == 0, "the late options file has no effect"


def test_two_opensms_with_one_standby(fabric: Served) -> None:
    write(fabric.folder / "osm" / "p.conf", "Default=0x7fff : ALL=full ;\n")
    write(fabric.folder / "two" / "p.conf", "Default=0x7fff : ALL=limited, SELF=full ;\n")
    for name in ("osm", "two"):  # that of the host is everybody's
        write(fabric.folder / name / "o.conf", "sweep_interval 10\n")
    files = ("-F", "o.conf", "-P", "p.conf")
    with opensm(fabric, *files, "-p", "5", "-g", "0x0002c903000a1011") as master:
        second = opensm(fabric, *files, "-g", "0x0002c903000a1021", name="two", **fabric.at("H-0002c903000a1020"))
        with second as standby:
            document = shown(fabric)
            text = fabric.ibkeys("sm-show").stdout
    assert [(each["state"], each["pid"]) for each in document["managers"]] == [
        ("master", master.pid),
        ("standby", standby.pid),
    ]
    dangers = {(each["danger"], each["pid"]): each["seen"] for each in document["dangers"]}
    assert dangers["standby-differs", standby.pid].endswith("in its policy")
    assert ("self-takeover", standby.pid) in dangers
    digests = [
        file["digest"]
        for host in document["hosts"]
        for each in host["instances"]
        for file in each["files"]
        if file["role"] == "policy"
    ]
    assert len(set(digests)) == 2
    assert all(f"p.conf: 1 partition, SHA-256 {digest[:16]}" in text for digest in digests)
    assert [seen for (danger, _), seen in dangers.items() if danger == "shared-files"] == []


def test_commands_take_the_policy_that_the_master_uses(fabric: Served) -> None:
    """What OpenSM made of the policy and its options is what plan and audit want: nothing is left to change."""
    folder = fabric.folder / "osm"
    write(folder / "o.conf", "partition_config_file hidden.conf\npart_enforce in\nallow_both_pkeys TRUE\n")
    write(
        folder / "hidden.conf",
        "Default=0x7fff,ipoib : ALL=limited, SELF=full ;\nA=0x10 : 0x2c903000a1021=both, 0x2c903000a1031=full ;\n",
    )
    hidden = str(folder / "hidden.conf")
    with opensm(fabric, "-F", "o.conf"):
        done = fabric.ibkeys("plan", "--policy", "opensm", "-f", "json", "-v")
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout)["policy"]["file"] == hidden
        assert f"ibkeys: note: the policy is {hidden}, of OpenSM" in done.stderr
        done = fabric.ibkeys("audit", "--policy", "opensm", "-f", "json", "--fail-on", "never", "--group", "PK")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["policy"] == hidden
        assert fabric.ibkeys("policy-check", "opensm", "-f", "json").returncode in (0, 1)
        done = fabric.ibkeys("compare", "--ipoib", "--policy", "opensm", "-f", "json", "-v")
        assert f"the policy is {hidden}" in done.stderr
        done = fabric.ibkeys("matrix", "-f", "json", "--partition", "0x7fff")
        assert [each["name"] for each in json.loads(done.stdout)["partitions"]] == ["Default"]
        assert "the policy is" not in done.stderr
        assert f"the policy is {hidden}, of OpenSM" in fabric.ibkeys("matrix", "-v").stderr
        done = fabric.ibkeys("matrix", "-v", sim_host="H-0002c903000a1020")
        assert "no names of partitions: the master (port GUID" in done.stderr
        elsewhere = fabric.ibkeys("plan", "--policy", "opensm", sim_host="H-0002c903000a1020")
        assert elsewhere.returncode == 2
        assert "is not one of the OpenSMs found on this host" in elsewhere.stderr

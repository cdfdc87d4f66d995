"""Every policy of the corpora through the real OpenSM: the wire is as planned, and after undo all is as before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.document import dumps
from ibkeys.plan.model import PartitionPlan, PolicySource
from tests import corpus
from tests.integration.hosted import Hosted, RunningOpensm, Wire, facts, left_over, opensm, plan_for, planned, undo, via
from tests.integration.ibsim import Ibsim
from tests.integration.recordings import first_node, recordings
from tests.owners import GROUP, OWNER, give_away

START = "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n"
MODE = 0o640
SAMPLE = (
    "churn-1+churn-2--free-indexes",
    "merge-override--enforce-off",
    "both-members--both-pkeys",
    "overflow-64",
    "syntax-bad-guid",
)
ON_IBSIM = ("two-switch--overflow-64",)
FILL_LEAF_PORTS = ("overflow-64", "overflow-indx0")
"""Policies that fill the tables of leaf ports: OpenSM switches their enforcement off, which no plan says."""
MOST_SWEEPS = 3
"""Heavy sweeps of OpenSM that one policy may cost."""


def rows() -> list[Any]:
    """Return the recorded runs that have a policy; those of the sample, and all under soak."""
    found = []
    for parameter in recordings():
        file = parameter.values[0]
        if corpus.load(file)["meta"]["policy"] is not None:
            is_sampled = corpus.DATA in file.parents and file.stem.partition("--")[2] in SAMPLE
            found.append(pytest.param(file, id=file.stem, marks=() if is_sampled else pytest.mark.soak))
    return found


class Row:
    """One recorded run: its fabric, its options, and its policies one after the other."""

    def __init__(self, file: Path) -> None:
        self.expected = corpus.load(file)
        meta = self.expected["meta"]
        self.netfile = next(path for path in corpus.files("fabrics/*.net") if path.name == meta["fabric"])
        self.sim_host = meta["sim_host"] or first_node(self.netfile)
        self.conf = "".join(f"{name} {value}\n" for name, value in meta["opensm_conf"].items())
        options = meta["opensm_conf"]
        self.words = ["--enforce", options["part_enforce"]]
        if options["allow_both_pkeys"] == "TRUE":
            self.words.append("--allow-both-pkeys")
        self.steps = [
            (file.parents[1] / step["policy"], step)
            for step in self.expected.get("steps") or [{**self.expected, "policy": meta["policy"]}]
        ]
        self.keeps_indexes = options["keep_pkey_indexes"] == "TRUE"
        self.is_accepted = meta["accepted"] is not False


@pytest.mark.parametrize("file", rows())
def test_on_the_served_fabric(file: Path) -> None:
    row = Row(file)
    with Hosted(row.netfile, sim_host=row.sim_host) as served, opensm(served, START, row.conf) as running:
        running.policy.chmod(MODE)
        give_away(running.policy)
        if row.is_accepted:
            there_and_back(served, running, row)
        else:
            assert_refused(served, running, row)


def there_and_back(served: Hosted, running: RunningOpensm, row: Row) -> None:
    former = []
    for policy, recorded in row.steps:
        wire, file = served.wire(), facts(running.policy)
        plan = plan_for(served, policy, *row.words)
        assert served.wire() == wire
        before = running.heavy_sweeps
        done = via(served)
        if policy.stem in FILL_LEAF_PORTS:
            assert done.returncode == 2
            assert "enforce partitions" in done.stderr or "OpenSM and the plan leave out different ones" in done.stderr
            assert (served.wire(), facts(running.policy), journal(served)) == (wire, file, [])
            return
        assert done.returncode == 0, done.stdout + done.stderr
        keeps = row.keeps_indexes and b"indx0" not in policy.read_bytes()
        assert_as_planned(served.wire(), plan, wire, keeps)
        assert_as_recorded(served, recorded)
        assert facts(running.policy) == (policy.read_bytes(), MODE, OWNER, GROUP)
        assert running.heavy_sweeps - before <= MOST_SWEEPS * steps_of(served)
        former.append((wire, file))
    for wire, file in reversed(former):
        before = running.heavy_sweeps
        done = undo(served)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (served.wire(), facts(running.policy)) == (wire, file)
        assert running.heavy_sweeps - before <= MOST_SWEEPS * steps_of(served)
    assert not left_over(running.policy)
    states = [each["state"] for each in journal(served)]
    assert states == ["undone"] * len(row.steps) + ["done"] * len(row.steps)


def ibsim_rows() -> list[Any]:
    """Return the recorded runs again, for ibsim: the sample, and all under soak."""
    return [
        pytest.param(file, id=file.stem, marks=() if file.stem in ON_IBSIM else pytest.mark.soak)
        for file in (each.values[0] for each in rows())
    ]


@pytest.mark.parametrize("file", ibsim_rows())
def test_on_ibsim(file: Path) -> None:
    """ibsim keeps no enforcement bits, so this is about tables of end ports."""
    row = Row(file)
    with Ibsim(row.netfile, sim_host=row.sim_host) as fabric, opensm(fabric, START, row.conf) as running:
        if not row.is_accepted:
            tables, file_before = end_tables(fabric), facts(running.policy)
            done = fabric.ibkeys("plan", "--policy", row.steps[0][0], "--out", fabric.folder / "plan.json")
            assert done.returncode == 2, done.stdout + done.stderr
            assert (end_tables(fabric), facts(running.policy)) == (tables, file_before)
            return
        former = []
        for policy, _ in row.steps:
            tables, file_before = end_tables(fabric), facts(running.policy)
            plan = plan_for(fabric, policy, *row.words)
            done = via(fabric)
            if policy.stem in FILL_LEAF_PORTS and done.returncode == 2:
                assert "OpenSM and the plan leave out different ones" in done.stderr
                assert (end_tables(fabric), facts(running.policy)) == (tables, file_before)
                return
            assert done.returncode == 0, done.stdout + done.stderr
            wanted = {each.port.key: sorted(each.after.values()) for each in plan.tables if not each.port.is_external}
            assert {key: sorted(table.values()) for key, table in end_tables(fabric).items()} == wanted
            assert facts(running.policy) == (policy.read_bytes(), *(file_before or ())[1:])
            former.append((tables, file_before))
        for tables, file_before in reversed(former):
            # OpenSM never clears the further blocks of a leaf port that was full. Undo says so; end ports are right.
            done = undo(fabric, *(["--override", "drift"] if row.steps[0][0].stem in FILL_LEAF_PORTS else []))
            assert done.returncode == 0, done.stdout + done.stderr
            assert (end_tables(fabric), facts(running.policy)) == (tables, file_before)
        assert not left_over(running.policy)


def end_tables(fabric: Ibsim) -> dict[tuple[int, int], dict[int, int]]:
    """Return the tables of CA and router ports, and of each switch's port 0."""
    done = fabric.ibkeys("pkey-show", "--all", "-f", "json")
    assert (done.returncode, done.stderr) == (0, "")
    return {
        (int(port["node_guid"], 16), port["port"]): {key["index"]: int(key["pkey"], 16) for key in port["pkeys"]}
        for port in json.loads(done.stdout)["ports"]
        if port["node_type"] != "switch" or not port["port"]
    }


def journal(served: Ibsim) -> list[dict[str, Any]]:
    """Return the operations, the first one first."""
    done = served.ibkeys("journal", "-f", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(json.loads(done.stdout)["operations"], key=lambda each: each["id"])


def steps_of(served: Ibsim) -> int:
    """How many files the last operation wrote: each was one step."""
    last = journal(served)[-1]["id"]
    done = served.ibkeys("journal", last, "-f", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    return max(1, len(json.loads(done.stdout)["files"]))


def assert_as_planned(wire: Wire, plan: PartitionPlan, before: Wire, keeps_indexes: bool) -> None:
    """Each port has the planned P_Keys and enforcement bits, and at its index what stays, where OpenSM keeps indexes.

    Leaf ports have the order of their end ports; where a new P_Key comes to depends on the policies in between.
    """
    wanted = planned(plan, before)
    assert {key: bits for key, (_, bits) in wire.items()} == {key: bits for key, (_, bits) in wanted.items()}
    for key, (table, _) in wire.items():
        assert sorted(table.values()) == sorted(wanted[key][0].values()), key
        if keeps_indexes and wanted[key][1] == 0:
            stays = before[key][0].items() & wanted[key][0].items()
            assert stays <= table.items(), key


def assert_as_recorded(served: Hosted, recorded: dict[str, Any]) -> None:
    """OpenSM gave each end port the P_Keys that it gave it when it was recorded: from what ibkeys never touched."""
    for node in served.net.nodes:
        for port in node.end_ports:
            table = recorded["end_ports"].get(f"0x{port.guid:016x}")
            if table is not None:
                assert {key for key in port.p_keys if key & 0x7FFF} == {int(key, 16) for key in table.values()}


def assert_refused(served: Hosted, running: RunningOpensm, row: Row) -> None:
    """Both the planner and apply, which is given a plan that somebody else made, refuse it and touch nothing."""
    wire, file = served.wire(), facts(running.policy)
    plan = plan_for(served, "Default=0x7fff, ipoib : ALL=full ;\n", *row.words)
    [(policy, _)] = row.steps
    done = served.ibkeys("plan", "--policy", policy, "--out", served.folder / "refused.json")
    assert done.returncode == 2, done.stdout + done.stderr
    assert not (served.folder / "refused.json").exists()
    source = PolicySource(str(policy), parse_policy(policy.read_bytes()).digest, policy.read_bytes())
    (served.folder / "plan.json").write_text(dumps(replace(plan, policy=source)))
    sweeps = running.heavy_sweeps
    done = via(served)
    assert done.returncode == 2, done.stdout + done.stderr
    assert (served.wire(), facts(running.policy), running.heavy_sweeps) == (wire, file, sweeps)
    assert not left_over(running.policy)
    assert journal(served) == []

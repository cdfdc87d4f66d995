"""The ways in which a running OpenSM loses a fabric, and ``apply --via opensm`` does not: numbers as in the facts."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from ibkeys.mad.const import AttributeID, Method
from ibkeys.sim.server.outbox import PassedMad
from tests.integration.hosted import (
    Hosted,
    Wire,
    facts,
    is_of_opensm,
    left_over,
    opensm,
    plan_for,
    planned,
    undo,
    via,
)
from tests.integration.tenants import GREEN, TENANTS
from tests.sample import in_soak, sampled

FAULTY = b"Red=0x10 : 0x2c903000a1021=full, nonsense ;\n"
OPEN = {0: 0xFFFF}
"""The table of every end port where OpenSM finds no policy that it takes."""


def state(path: Path) -> tuple[bytes, os.stat_result]:
    """Bytes and status of a file, without the time of access."""
    status = os.stat(path)
    return path.read_bytes(), os.stat_result((*status[:7], 0, *status[8:]))


def operations(served: Hosted) -> list[str]:
    done = served.ibkeys("journal", "-f", "json")
    assert done.returncode == 0, done.stderr
    return [each["state"] for each in sorted(json.loads(done.stdout)["operations"], key=lambda each: int(each["id"]))]


# --- 1: to write a file is to apply it --------------------------------------------------------------------------------


EDITS = {"opensm.conf": "sweep_on_trap FALSE\n", "partitions.conf": "Mine=0x70 : ALL=limited ;\n"}


def after_every_sweep(file: Path) -> None:
    """Give a file a time after every sweep of OpenSM, as it has if it was edited long after the last one."""
    os.utime(file, (time.time() + 60,) * 2)


@pytest.mark.parametrize("name", sampled(EDITS, ["partitions.conf"]))
def test_1_an_edit_that_opensm_has_not_read_stops_it(served: Hosted, name: str) -> None:
    with opensm(served, TENANTS) as running:
        plan_for(served, GREEN)
        with (served.folder / name).open("a") as edited:
            edited.write(EDITS[name])
        after_every_sweep(served.folder / name)
        wire, before = served.wire(), state(running.policy)
        done = via(served)
        assert done.returncode == 4, done.stdout + done.stderr
        assert "stale" in done.stderr
        assert name in done.stderr
        assert (served.wire(), state(running.policy), operations(served)) == (wire, before, [])


def test_1_nothing_advises_to_read_a_policy_that_opensm_would_refuse(served: Hosted) -> None:
    with opensm(served, TENANTS) as running:
        plan_for(served, GREEN)
        running.policy.write_text(TENANTS + "Mine=0x70 ALL=limited ;\n")
        after_every_sweep(running.policy)
        wire, before = served.wire(), state(running.policy)
        words = {"apply": via(served), "doctor": served.ibkeys("doctor"), "sm-show": served.ibkeys("sm-show")}
        for name, done in words.items():
            said = done.stdout + done.stderr
            assert f"{running.policy}:{TENANTS.count(chr(10)) + 1}:" in said, name
            assert "no ':' after the head of the definition" in said, name
            assert "put the former file back, before anything starts a heavy sweep" in said, name
            assert "SIGHUP if" not in said, name
            assert "then send SIGHUP" not in said, name
            assert "let OpenSM read it" not in said, name
        assert (words["apply"].returncode, words["doctor"].returncode) == (4, 1)
        assert "no problem found" not in words["doctor"].stdout
        assert (served.wire(), state(running.policy), operations(served)) == (wire, before, [])


REFUSED = {
    "an interlock": ["--allow-removals", "--yes"],
    "removals that were not allowed": ["--yes", "--override", "index-0", "--override", "index-move"],
    "nobody who says yes": ["--allow-removals", "--override", "index-0", "--override", "index-move"],
    "a dry run": ["--allow-removals", "--dry-run", "--override", "index-0", "--override", "index-move"],
}


@pytest.mark.parametrize("why", sampled(REFUSED, ["an interlock", "a dry run"]))
def test_1_nothing_is_written_before_all_checks_have_passed(served: Hosted, why: str) -> None:
    with opensm(served, TENANTS) as running:
        plan_for(served, TENANTS.replace("Red=0x10", "Red=0x11, indx0"))
        wire, before, sweeps = served.wire(), state(running.policy), running.heavy_sweeps
        done = served.ibkeys("apply", served.folder / "plan.json", "--via", "opensm", *REFUSED[why])
        assert done.returncode not in (0, 3), done.stdout + done.stderr
        assert (served.wire(), state(running.policy), running.heavy_sweeps) == (wire, before, sweeps)
        assert (operations(served), left_over(running.policy)) == ([], [])


# --- 2: everybody is full where the policy is faulty ------------------------------------------------------------------


class Swapped:
    """Gives OpenSM a faulty policy in the place of each new one; *back*: only until OpenSM has read it."""

    def __init__(self, policy: Path, back: bool) -> None:
        self.policy, self.back = policy, back
        self.former = policy.read_bytes()
        self.aside = policy.with_name("aside")
        self.is_done = False

    def __call__(self, seen: PassedMad) -> None:
        if not seen.out or not is_of_opensm(seen) or self.is_done:
            return
        is_set = seen.mad[3] == Method.SET and int.from_bytes(seen.mad[16:18], "big") == AttributeID.P_KEY_TABLE
        if self.aside.exists():
            if is_set and self.back:
                self.aside.replace(self.policy)
            self.is_done = is_set
        elif seen.mad[3] == Method.GET and self.policy.read_bytes() != self.former:
            os.rename(self.policy, self.aside)
            self.policy.write_bytes(FAULTY)


def is_open(wire: Wire, served: Hosted) -> bool:
    return all(wire[port.node.guid, port.number][0] == OPEN for node in served.net.nodes for port in node.end_ports)


def test_2_the_fallback_is_noticed_and_the_former_policy_put_back_in_one_step(served: Hosted) -> None:
    with opensm(served, TENANTS) as running:
        plan_for(served, GREEN)
        wire, file, sweeps = served.wire(), facts(running.policy), running.heavy_sweeps
        swapped = Swapped(running.policy, back=True)
        served.watchers = [swapped]
        done = via(served)
        assert swapped.is_done
        assert done.returncode == 3, done.stdout + done.stderr
        assert "full members of the default partition" in done.stderr
        assert "the former policy is restored" in done.stderr
        assert (served.wire(), facts(running.policy)) == (wire, file)
        assert running.heavy_sweeps - sweeps <= 4
        assert (operations(served), left_over(running.policy)) == (["undone", "done"], [])


def test_2_what_somebody_else_wrote_is_not_overwritten_even_then(served: Hosted) -> None:
    with opensm(served, TENANTS) as running:
        plan_for(served, GREEN)
        served.watchers = [Swapped(running.policy, back=False)]
        done = via(served)
        assert done.returncode in (3, 4), done.stdout + done.stderr
        assert "full members of the default partition" in done.stderr
        assert "nothing was rolled back, because another user or program has changed a policy file" in done.stderr
        assert is_open(served.wire(), served)
        assert running.policy.read_bytes() == FAULTY
        assert "open" in operations(served)


# --- 3: OpenSM does not repair drift ----------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [in_soak("end port"), "leaf port"])
def test_3_drift_is_refused_and_rewritten_on_request(served: Hosted, at: str) -> None:
    with opensm(served, TENANTS) as running:
        wire = served.wire()
        port = served.net.port("node02 mlx4_0", 1)
        assert port.peer is not None
        drifted = port if at == "end port" else port.peer
        drifted.p_keys = [0x7FFF, 0x8666]
        plan = plan_for(served, TENANTS)
        drift, before = served.wire(), state(running.policy)
        done = via(served)
        assert done.returncode == 4, done.stdout + done.stderr
        assert "drift" in done.stderr
        assert (served.wire(), state(running.policy), operations(served)) == (drift, before, [])
        running.sweep()
        assert served.wire() == drift  # as the facts have it: OpenSM itself does not mend it
        done = via(served, served.folder / "plan.json", "--rewrite")
        assert done.returncode == 0, done.stdout + done.stderr
        assert served.wire() == wire
        assert keys(wire) == keys(planned(plan, drift))
        assert running.policy.read_text() == TENANTS


# --- 7 and 9: options -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [in_soak(0), 10])
def test_7_the_options_file_is_not_touched(served: Hosted, seconds: int) -> None:
    with opensm(served, TENANTS, f"sweep_interval {seconds}\n") as running:
        options = served.folder / "opensm.conf"
        before = state(options)
        plan_for(served, GREEN)
        for done in (via(served), undo(served)):
            assert done.returncode == 0, done.stdout + done.stderr
            assert state(options) == before
        assert running.process.poll() is None


BOOLEANS = "allow_both_pkeys true\nno_partition_enforcement yes\nkeep_pkey_indexes true\n"
"""Only TRUE is true: all of these are FALSE."""
BOTH = GREEN + "Both=0x60 : 0x2c903000a1061=both ;\n"


def test_9_booleans_that_are_not_the_word_true_are_false(served: Hosted) -> None:
    with opensm(served, TENANTS, BOOLEANS) as running:
        both = plan_for(served, BOTH, "--allow-both-pkeys")
        assert both.options.allow_both_pkeys
        wire, file = served.wire(), facts(running.policy)
        done = via(served)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "the plan was made for options that differ from those of OpenSM" in done.stderr
        plan = plan_for(served, BOTH, "--enforce", "off")
        done = via(served)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "the plan was made for options that differ from those of OpenSM" in done.stderr
        assert (served.wire(), facts(running.policy), operations(served)) == (wire, file, [])
        plan = plan_for(served, BOTH)
        done = via(served)
        assert done.returncode == 0, done.stdout + done.stderr
        assert keys(served.wire()) == keys(planned(plan, wire))
        assert all(list(table) == [*range(len(table))] for table, _ in served.wire().values())
        done = undo(served)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (served.wire(), facts(running.policy)) == (wire, file)


def keys(wire: Wire) -> dict[tuple[int, int], tuple[list[int], int]]:
    """Return a wire without indexes: where keep_pkey_indexes is FALSE, OpenSM packs its tables."""
    return {key: (sorted(table.values()), bits) for key, (table, bits) in wire.items()}


def test_the_options_are_those_of_the_running_opensm_not_of_a_later_start(served: Hosted) -> None:
    """An option that the file got after OpenSM read it is an edit that nobody has read."""
    with opensm(served, TENANTS) as running:
        plan_for(served, GREEN)
        with (served.folder / "opensm.conf").open("a") as options:
            options.write("keep_pkey_indexes FALSE\n")
        after_every_sweep(served.folder / "opensm.conf")
        file = facts(running.policy)
        done = via(served)
        assert done.returncode == 4, done.stdout + done.stderr
        assert facts(running.policy) == file

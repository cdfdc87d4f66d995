"""Run by test_rotate_crash.py: M_Keys over a fabric of 50 nodes, killed or without a disk from the n-th point on.

    crash_driver.py WHAT MODE DROP DIRECTORY [POINT...]

The points are those of `run_apart`, with crashpoint.c preloaded.

WHAT is what the child does: deploy, rotate, remove, abort or resume. MODE: kill, full (the disk is full from that point
on) or sync (fsync fails). DROP is the share of SMPs that are lost once the run is planned, and while it is finished.
Without points their number is printed, and nothing is broken.

After each point: every port's key is in the key store, and what was begun can be finished. When the disk fails, also:
no Set left whose key was not in the store at that moment.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ibkeys.errors import NoReply, StoreError
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.const import AttributeID, Method
from ibkeys.mkeys.rollout.going_back import plan_return
from ibkeys.mkeys.rollout.new_keys import plan_run
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.removal import OF_REMOVAL, plan_removal
from ibkeys.mkeys.rollout.rest_of_run import plan_rest
from ibkeys.mkeys.rollout.run_plan import carry_out
from ibkeys.sim.state.document import dump_state, load_state
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import RunOptions, Runs
from ibkeys.store.keystore.keystore import KeyStore
from tests.crashpoints.apart import Ended, run_apart
from tests.fabricsim import tool, writer
from tests.fattree import fat_tree

NET = fat_tree(leaves=4, hosts=11, spines=2)
PROTECTED = RunOptions(protect=2, lease=600, at_once=16, max_failures=1000)
STORE_FAILED = 3
HALF_WAY = 25


class Place:
    """A fabric and the directory with the tool's files."""

    def __init__(self, directory: Path, state: dict[str, Any] | None = None) -> None:
        self.directory = directory
        self.net = Subnet.from_text(NET)
        if state is not None:
            load_state(self.net, state)

    def copy_to(self, directory: Path) -> Place:
        shutil.copytree(self.directory, directory)
        return Place(directory, json.loads(json.dumps(dump_state(self.net))))

    def run(self, plan: Callable[[Any], PlannedRun], started: Callable[[], None] = lambda: None) -> PlannedRun:
        """Plan and carry out what the tool is asked for, here and now. Under losses no SM is sometimes no answer."""
        stores = {"keystore": self.directory / "keys.db", "journal": self.directory / "journal.db"}
        with tool(self.net, **stores) as fabric, writer(fabric, "mkey-under-sm") as changing:
            run = plan(changing)
            started()
            if run.pending:
                carry_out(changing, run, lambda result: None)
            return run

    def store(self) -> KeyStore:
        return KeyStore(self.directory / "keys.db", create=False)

    def journal(self) -> Journal:
        return Journal.read(self.directory / "journal.db")

    def check_that_no_key_is_lost(self) -> None:
        with self.store() as store:
            known = store.all_keys()
        for node in self.net.nodes:
            for port in node.end_ports:
                assert not port.m_key or MKey(port.m_key) in known.get(port.guid, []), f"the key of {port} is lost"

    def keys(self) -> dict[int, int]:
        return {port.guid: port.m_key for node in self.net.nodes for port in node.end_ports}


def deploy(changing: Any) -> PlannedRun:
    return plan_run(changing, "mkey-deploy", PROTECTED)


def rotate(changing: Any) -> PlannedRun:
    return plan_run(changing, "mkey-rotate", PROTECTED)


def resume(changing: Any) -> PlannedRun:
    return plan_rest(changing)


def remove(changing: Any) -> PlannedRun:
    return plan_removal(changing, replace(OF_REMOVAL, at_once=16, max_failures=1000))


WORK = {"deploy": deploy, "rotate": rotate, "remove": remove, "abort": plan_return, "resume": resume}


def prepare(what: str, directory: Path) -> Place:
    """Bring a fabric to where *what* begins."""
    directory.mkdir(parents=True)
    place = Place(directory)
    if what == "deploy":
        with place.store():
            return place
    place.run(deploy)
    if what == "abort":
        place.run(rotate)
    if what == "resume":
        half = RunOptions(protect=2, lease=600, first=HALF_WAY)
        place.run(lambda changing: plan_run(changing, "mkey-rotate", half))
    return place


# --- the crash --------------------------------------------------------------------------------------------------------


def crash(place: Place, what: str, mode: str, point: int, drop: float) -> Ended:
    """Do the work in a child that breaks at *point*. Under a failing disk the key of every Set is looked at."""
    plan = WORK[what]
    if what == "resume":
        plan = lambda changing: plan_rest(changing)  # noqa: E731

    def work(started: Callable[[], None]) -> int:
        try:
            place.run(plan, started)
        except StoreError:
            return STORE_FAILED
        return 0

    def lose() -> None:
        place.net.faults.drop = drop

    def watch(mad: bytes) -> None:
        if mad[3] == Method.SET and int.from_bytes(mad[16:18], "big") == AttributeID.PORT_INFO:
            check_that_the_key_is_safe(place, MKey(int.from_bytes(mad[64:72], "big")))

    return run_apart(place.net, work, mode, point, lose, watch if mode in ("full", "sync") else lambda mad: None)


def check_that_the_key_is_safe(place: Place, key: MKey) -> None:
    with place.store() as store:
        assert key in {row.m_key for row in store.rows()}, "a Set left whose key is not in the store"


def recover(place: Place, what: str, before: dict[int, int]) -> None:
    """Finish, or go back, and look at every port."""
    with place.journal() as journal:
        last = Runs(journal).last()
    begun = {"deploy": "mkey-deploy", "rotate": "mkey-rotate", "remove": "mkey-remove"}.get(what)
    if begun is not None and (last is None or last.command != begun):
        assert place.keys() == before, "it died before its run was stored, and has changed something"
        return
    for _ in range(10):
        try:
            run = place.run(plan_return if what == "abort" else plan_rest)
        except NoReply:  # all attempts at the local port were lost: nothing was begun
            continue
        place.check_that_no_key_is_lost()
        if not run.skipped and run.account.is_complete and not run.account.waiting and not run.found.troubles:
            break
    else:
        raise AssertionError("it did not complete in ten attempts")
    after = place.keys()
    with place.store() as store:
        current = {guid: key.reveal() for guid, key in store.current().items()}
    with place.journal() as journal:
        last = Runs(journal).last()
    assert last is not None
    assert last.operation.state == ("undone" if what == "abort" else "done"), last.operation.state
    assert {bool(key) for key in after.values()} == {what != "remove"}
    assert after == current, "the key store does not say what the ports have"
    changed = {guid for guid in after if after[guid] != before[guid]}
    assert changed == set(after), f"{len(set(after) - changed)} ports kept their key"
    if what == "abort":
        assert {guid: key.reveal() for guid, key in former_keys(place).items()} == after


def waits(place: Place) -> bool:
    """Whether the last run waits after its first ports with nothing left to settle."""
    with place.journal() as journal:
        last = Runs(journal).last()
        return last is not None and last.options.first is not None


def former_keys(place: Place) -> dict[int, MKey]:
    """Return what every port had before the last run."""
    with place.store() as store, place.journal() as journal:
        last = Runs(journal).last()
        assert last is not None
        return {
            port.port_guid: store.named(port.old_name).m_key if port.old_name is not None else NO_MKEY
            for port in Runs(journal).ports(last.id)
        }


def main(what: str, mode: str, drop: str, directory: str, *points: str) -> None:
    folder = Path(directory)
    base = prepare(what, folder / "base")
    before = base.keys()
    if what == "resume":  # the first ports have their new key already
        with base.store() as store, base.journal() as journal:
            last = Runs(journal).last()
            assert last is not None
            ports = [port for port in Runs(journal).ports(last.id) if port.old_name is not None]
            before |= {port.port_guid: store.named(port.old_name).m_key.reveal() for port in ports}
    if not points:
        code, passed = crash(base.copy_to(folder / "count"), what, "count", 0, float(drop))
        assert code == 0, code
        print(passed)
        return
    for point in points:
        place = base.copy_to(folder / point)
        place.net.faults.random.seed(int(point))
        code, _ = crash(place, what, mode, int(point), float(drop))
        assert code in ({-signal.SIGKILL, 0} if mode == "kill" else {STORE_FAILED, 0}), f"ended with {code}"
        try:
            place.check_that_no_key_is_lost()
            recover(place, what, before)
        except BaseException as error:
            raise SystemExit(f"{what}, {mode} at point {point}, {drop} lost: {error!r}") from error
        shutil.rmtree(place.directory)


if __name__ == "__main__":
    main(*sys.argv[1:])

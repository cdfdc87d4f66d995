"""Applies that are open while another one begins, on the same subnet or on another one with the same journal."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from ibkeys.apply.apply import plan_resume
from ibkeys.apply.closing import RecordEnding
from ibkeys.apply.undo import plan_undo
from ibkeys.errors import Refused
from ibkeys.store.journal import Journal, OperationState
from ibkeys.store.paths import StorePaths
from tests.apply.applying import apply, interrupted_at, opened, state_of
from tests.apply.lab import Lab
from tests.fabricsim import replace_hca, writer
from tests.plan.plans import entries


def test_an_apply_is_refused_while_another_one_is_open_on_the_same_subnet(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan({2: entries(0xFFFF, 0x8001), 5: entries(0xFFFF, 0x8001)})
    with opened(lab, stores) as fabric:
        with pytest.raises(KeyboardInterrupt):
            apply(fabric, plan, check=interrupted_at(6))
        before, another = lab.image(), lab.plan({3: entries(0xFFFF, 0x8002)})
        open_one = "operation 1 (apply) is open: `ibkeys resume 1` finishes it, `ibkeys undo 1` rolls it back"
        with pytest.raises(Refused, match=re.escape(f"refused by interlock open-operation: {open_one}")):
            apply(fabric, another)
        assert lab.image() == before
        apply(fabric, another, "open-operation")
    assert lab.host(3).p_keys[1] == 0x8002
    assert [state_of(stores, number) for number in (1, 2)] == ["open", "done"]


@pytest.mark.parametrize(("hosts", "enforce"), [((2, 5), ""), ((), "io")])  # without hosts all Sets are at a switch
def test_an_apply_on_another_subnet_may_be_open(
    lab: Lab, stores: StorePaths, hosts: tuple[int, ...], enforce: str
) -> None:
    """An HCA with a port on each of them has one node GUID."""
    wanted = {number: entries(0xFFFF, 0x8001) for number in hosts}
    with opened(lab, stores) as fabric:
        apply(fabric, lab.plan(wanted, {2: enforce} if enforce else None))
        with Journal(stores.journal) as journal:
            journal.set_state(1, "open")
        with pytest.raises(Refused, match=r"open-operation: operation 1 \(apply\) is open: "):
            apply(fabric, lab.plan({3: entries(0xFFFF, 0x8002)}))
    other = Lab()
    for node in other.net.nodes:  # the same fabric, made of other hardware but for one HCA
        guid = node.guid
        replace_hca(node, step=0x100000)
        if node.description == "node02 mlx4_0":
            node.guid = guid
    with opened(other, stores) as fabric:
        work = apply(fabric, other.plan({2: entries(0xFFFF, 0x8001)}))
    assert "operation 1 (apply) is open on another subnet: `ibkeys resume 1` finishes it" in work.notes[0]
    assert [state_of(stores, number) for number in (1, 2)] == ["open", "done"]


@pytest.mark.parametrize("state", ["open", "done"])
@pytest.mark.parametrize("is_known", [True, False])
def test_one_of_another_subnet_goes_neither_on_nor_back(
    lab: Lab, stores: StorePaths, state: OperationState, is_known: bool
) -> None:
    """An earlier version kept nothing of its subnet: there the ports of its plan tell."""
    with opened(lab, stores) as fabric:
        apply(fabric, lab.plan({2: entries(0xFFFF, 0x8001)}))
    with Journal(stores.journal) as journal:
        journal.set_state(1, state)
        if not is_known:
            journal.database.execute("UPDATE plans SET options = json_remove(options, '$.subnet')")
    other = Lab()
    for node in other.net.nodes:
        replace_hca(node, step=0x100000)
    before = other.image()
    with opened(other, stores) as fabric, writer(fabric) as w:
        ways: list[Callable[[], object]] = [partial(plan_undo, w, 1)]
        ways += [partial(plan_resume, w, operation=1)] if state == "open" else []
        for way in ways:
            with pytest.raises(Refused, match="operation 1 is of another subnet") as refused:
                way()
            assert refused.value.interlock == "overtaken"
        if state == "open":
            ending = RecordEnding(w, operation=1)
            why = ending.why_it_may_end()
            assert why is not None
            assert "operation 1 is of another subnet" in why
            assert state_of(stores, 1) == "open"
            ending.close()
    assert (state_of(stores, 1), other.image()) == ("undone" if state == "open" else "done", before)


@pytest.mark.parametrize("is_begun", [True, False])  # or it was killed before the first Set
def test_one_whose_ports_are_all_gone_is_still_open_on_its_subnet(lab: Lab, stores: StorePaths, is_begun: bool) -> None:
    plan = lab.plan({2: entries(0xFFFF, 0x8001)}, leaves=False)
    with opened(lab, stores) as fabric:
        if is_begun:
            apply(fabric, plan)
        else:
            with pytest.raises(KeyboardInterrupt):
                apply(fabric, plan, check=interrupted_at(4))
    with Journal(stores.journal) as journal:
        journal.set_state(1, "open")
        assert len(journal.entries(1)) == is_begun
    lab.net.node("node02 mlx4_0").silent = 2
    before = lab.image()
    with (
        opened(lab, stores) as fabric,
        pytest.raises(Refused, match=r"open-operation: operation 1 \(apply\) is open: "),
    ):
        apply(fabric, lab.plan({3: entries(0xFFFF, 0x8002)}))
    assert lab.image() == before


@pytest.mark.parametrize("is_known", [True, False])
def test_an_undo_of_one_is_of_its_subnet(lab: Lab, stores: StorePaths, is_known: bool) -> None:
    """An earlier version kept nothing of its subnet: it may be this one."""
    with opened(lab, stores) as fabric:
        apply(fabric, lab.plan({2: entries(0xFFFF, 0x8001)}))
    with Journal(stores.journal) as journal:
        journal.set_state(journal.undo_of(1).id or 0, "open")
        if not is_known:
            journal.database.execute("UPDATE plans SET options = json_remove(options, '$.subnet')")
    other = Lab()
    for node in other.net.nodes:
        replace_hca(node, step=0x100000)
    with opened(other, stores) as fabric:
        if is_known:
            work = apply(fabric, other.plan({2: entries(0xFFFF, 0x8001)}))
            assert "is open on another subnet: " in work.notes[0]
        else:
            with pytest.raises(Refused, match=r"open-operation: operation 1 \(apply\) is open: "):
                apply(fabric, other.plan({2: entries(0xFFFF, 0x8001)}))

"""A script goes on with what commands began through OpenSM or UFM, or takes it back, whatever kind of change it is."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ibkeys.smkeys.key_holders import keys_in
from ibkeys.store.journal import Journal, OperationState
from tests.corpus import DATA
from tests.integration.crashes import run_to_a_point
from tests.integration.enforcing import enforcement, open_fabric
from tests.integration.hosted import left_over
from tests.integration.ibsim import Ibsim
from tests.integration.keyed_opensm import CONF, POLICY, keyed
from tests.integration.scripted import run
from tests.integration.ufmed import RED_AND_BLUE, policy, sets, stored, ufmed
from tests.sample import in_soak

NET = DATA / "fabrics" / "two-switch.net"
GO_ON = """
import sys, ibkeys
way, number, *token = sys.argv[1:]
via = ibkeys.ThroughUFM(token_file=token[0]) if token else None
with ibkeys.open() as fabric:
    operation = next(each for each in fabric.operations() if each.id == int(number))
    result = getattr(operation, way)(fabric, via=via, consent=lambda proposal: ibkeys.Consent())
    print(way, result.proven, result.changed, result.failed)
"""
APPLY = """
import sys, ibkeys
url, token, policy = sys.argv[1:]
with ibkeys.open() as fabric:
    plan = fabric.plan(policy)
    result = fabric.apply(plan, via=ibkeys.ThroughUFM(url, token), allow_removals=True)
    print(result.proven, {each.port.key for each in result.done} == {port.key for port in plan.ports})
"""


CHOSEN = """
import sys, ibkeys

def consent(proposal):
    print(proposal.command, proposal.method, any(note.startswith("method: ") for note in proposal.notes))
    return ibkeys.Consent(overrides=frozenset({"default-sa-key"}))

with ibkeys.open() as fabric:
    plan = fabric.plan(sys.argv[1])
    apply = lambda **how: fabric.apply(plan, **how)
    deploy = lambda **how: fabric.deploy_m_keys(same=True, protect=1, **how)
    for act in (apply, deploy):
        try:
            act()
        except ibkeys.errors.Refused as refused:
            print(refused.interlock)
        print(act(consent=consent).proven)
"""


def script(served: Ibsim, text: str) -> Path:
    path = served.folder / "script.py"
    path.write_text(text)
    return path


def go_on(served: Ibsim, way: str, *words: object) -> str:
    return run(served, script(served, GO_ON), way, *words)


def killed(served: Ibsim, preloaded: str, point: str, *words: str) -> None:
    """Run a command that dies at a point."""
    done, _ = run_to_a_point(served, preloaded, served.folder / "stores", [*words, "--yes"], "kill", point)
    assert done.returncode == -signal.SIGKILL, done.stderr


def states(served: Ibsim) -> list[OperationState]:
    with Journal.read(served.folder / "stores" / "journal.db") as journal:
        return [each.state for each in journal.list_operations()]


def test_without_a_method_one_is_chosen_that_somebody_has_to_see() -> None:
    with keyed(NET) as opensm:
        wanted = opensm.served.folder / "new.conf"
        wanted.write_text(f"{POLICY}tenant=0x10 : ALL=full ;\n")
        said = run(opensm.served, script(opensm.served, CHOSEN), wanted)
        assert said == "method\napply opensm True\nTrue\nmethod\nmkey-deploy opensm True\nTrue\n"
        assert opensm.number_of_keys() == 1
        assert {port.protect_bits for port in opensm.end_ports()} == {1}
        assert "tenant=0x10" in opensm.running.policy.read_text()


@pytest.mark.parametrize(("way", "value", "bits"), [in_soak("undo", "off", 0), in_soak("resume", "both", 3)])
def test_part_enforce_that_was_cut_off(preloaded: str, way: str, value: str, bits: int) -> None:
    with open_fabric() as opensm:
        assert opensm.served.ibkeys("smkey-rotate", "--yes").returncode == 0
        killed(opensm.served, preloaded, "before the first signal", "harden", "--via", "opensm")
        assert go_on(opensm.served, way, 3) == f"{way} True True ()\n"
        assert f"\npart_enforce {value}\n" in opensm.conf.read_text()
        assert set(enforcement(opensm.served)) == {bits}
        assert states(opensm.served)[2] == ("done" if way == "resume" else "undone")
        opensm.assert_nothing_was_lost()


def test_new_sm_keys_are_given_up_where_no_file_has_them_and_else_finished(preloaded: str) -> None:
    with keyed(NET, CONF) as opensm:
        before = opensm.conf.read_bytes()
        rotation = ("smkey-rotate", "--via", "opensm")
        killed(opensm.served, preloaded, "before the first file", *rotation)
        assert go_on(opensm.served, "undo", 1) == "undo True False ()\n"
        assert (opensm.conf.read_bytes(), left_over(opensm.conf), states(opensm.served)) == (before, [], ["undone"])
        killed(opensm.served, preloaded, "before the first signal", *rotation)
        assert go_on(opensm.served, "resume", 2) == "resume True True ()\n"
        assert keys_in(opensm.conf.read_bytes()) != keys_in(before)
        assert states(opensm.served) == ["undone", "done"]


def test_m_keys_that_were_cut_off_are_finished_and_undone(preloaded: str) -> None:
    with keyed(NET) as opensm:
        code, said = opensm.ibkeys("mkey-deploy", "--protect", "1", "--lease", "60")
        assert code == 0, said
        former = opensm.keys()
        killed(opensm.served, preloaded, "before the first signal", "mkey-rotate", "--via", "opensm")
        assert go_on(opensm.served, "resume", 2) == "resume True True ()\n"
        assert len(opensm.keys()) == 1
        assert opensm.keys() != former
        assert go_on(opensm.served, "undo", 2) == "undo True True ()\n"
        assert opensm.keys() == former
        opensm.assert_nothing_was_lost()


def test_a_policy_through_ufm_and_back() -> None:
    with ufmed(RED_AND_BLUE) as over:
        over.mock.post_ignores_memberships = True
        before, new = sets(over), {0x10: {2: "full"}, 0x30: {4: "full", 5: "limited"}}
        wanted = over.served.folder / "new.conf"
        wanted.write_text(policy(new))
        assert run(over.served, script(over.served, APPLY), over.url, over.token, wanted) == "True True\n"
        assert stored(over.mock) == new
        assert go_on(over.served, "undo", 1, over.token) == "undo True True ()\n"
        assert (stored(over.mock), sets(over)) == (RED_AND_BLUE, before)

"""A rehearsal does what the fabric then does, after any history: of changes, restarts of OpenSM and edits by hand.

The fabric is served by a simulator of its own, with an OpenSM that lived through all that; the rehearsal knows only its
snapshot, its files and its journal. Where both differ, the rehearsal has marked the port.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ibkeys.plan.model import PartitionPlan
from ibkeys.store.journal import Journal
from tests.integration.hosted import BLUNT, Wire, last_operation, plan_for, planned, undo, via
from tests.integration.rehearsing import MOST, Site, site

pytestmark = pytest.mark.integration
EVENTS = 20
PARTITIONS = range(0x10, 0x18)
HOSTS = [0x2C903000A1011 + 0x10 * number for number in range(6)]
SEEDS = [str(number) for number in range(200)]
PERMITTED = (*BLUNT, "--override", "drift", "--allow-break")


def policy_of(rng: random.Random) -> str:
    """Return a policy: each partition has some of the nodes, each a full or limited member."""
    lines = [f"Default=0x7fff, ipoib : ALL={rng.choice(('full', 'limited'))}, SELF=full ;"]
    for base in PARTITIONS:
        if rng.random() < 0.6:
            members = rng.sample(HOSTS, rng.randint(1, len(HOSTS)))
            words = ", ".join(f"{guid:#x}={rng.choice(('full', 'limited'))}" for guid in members)
            lines.append(f"P{base:x}={base:#x} : {words} ;")
    return "\n".join(lines) + "\n"


def edit_by_hand(here: Site, rng: random.Random) -> None:
    """Give a port of a host a P_Key, or take one away, behind OpenSM's back."""
    node = rng.choice([node for node in here.served.net.nodes if not node.is_switch][1:])
    port = node.ports[1]
    entries = list(port.p_keys)
    used = [index for index, key in enumerate(entries) if key and index]
    if used and rng.random() < 0.5:
        entries[rng.choice(used)] = 0
    else:
        entries[entries.index(0)] = 0x8000 | rng.choice([0x70, 0x71, *PARTITIONS])
    port.p_keys = entries


def live_through(here: Site, rng: random.Random) -> None:
    """Let something happen to the fabric."""
    kind = rng.choices(("policy", "apply", "restart", "hand"), (8, 3, 3, 6))[0]
    if kind == "policy":
        here.running.give(policy_of(rng).encode())
    elif kind == "apply":
        plan_for(here.served, policy_of(rng))
        via(here.served, here.plan, *PERMITTED)
    elif kind == "restart":
        here.running.kill()
        here.running.start()
    else:
        edit_by_hand(here, rng)


def with_values(wire: Wire, values: list[dict[str, Any]]) -> Wire:
    """Return *wire* with the values *after* that a rehearsal lists."""
    after = {key: (dict(entries), bits) for key, (entries, bits) in wire.items()}
    for each in values:
        key = int(each["node_guid"], 16), each["port"]
        entries, bits = after[key]
        if each["kind"] == "pkey":
            entries.pop(each["index"], None)
            if each["after"] is not None:
                entries[each["index"]] = int(each["after"], 16)
        else:
            bit = {"partition_enforcement_inbound": 2, "partition_enforcement_outbound": 1}[each["kind"]]
            after[key] = entries, bits & ~bit | (bit if each["after"] else 0)
    return after


def marked_ports(here: Site, document: dict[str, Any]) -> set[tuple[int, int]]:
    """Return the ports whose index the rehearsal calls uncertain, and the switch ports that face them."""
    marked = set()
    for each in document["unknown_indexes"]:
        marked.add((int(each["node_guid"], 16), each["port"]))
        peer = here.served.net.port(each["node_desc"], each["port"]).peer
        if peer is not None:
            marked.add((peer.node.guid, peer.number))
    return marked


def steps_of(here: Site, operation: str) -> int:
    with Journal.read(here.served.folder / "stores" / "journal.db") as journal:
        return len(journal.steps(int(operation)))


def compare_change(here: Site, plan: PartitionPlan, document: dict[str, Any], before: Wire) -> None:
    done = via(here.served, here.plan, *PERMITTED)
    after = here.served.wire()
    if 4 in (document["apply"]["exit_code"], done.returncode):  # an interlock refuses both, for the same reason
        assert (document["verdict"], done.returncode) == ("refused", 4), (document["apply"], done.stderr)
        assert document["apply"]["message"].split(":")[2] in done.stderr
        assert after == before
        return
    marked = marked_ports(here, document)
    rehearsed = with_values(planned(plan, before), document["differences"])
    assert {key for key in after if after[key] != rehearsed[key]} <= marked, (document["differences"], done.stderr)
    if not marked:
        assert document["apply"]["exit_code"] == done.returncode, (document["apply"], done.stderr)
    if document["apply"]["exit_code"] == done.returncode == 0 and plan.tables and document["apply"]["steps"]:
        assert document["apply"]["steps"] == steps_of(here, last_operation(here.served))
    if done.returncode == 0 and document["apply"]["steps"]:
        undone = undo(here.served, "--override", "drift", "--allow-break")
        assert undone.returncode == 0, undone.stderr


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_the_fabric_does_what_was_rehearsed_after_any_history(seed: str) -> None:
    rng = random.Random(f"history {seed}")
    with site(policy_of(rng)) as here:
        for _ in range(EVENTS):
            live_through(here, rng)
        plan = plan_for(here.served, policy_of(rng))
        before = here.served.wire()
        done = here.served.ibkeys("rehearse", here.plan, "--allow-removals", *PERMITTED, "-f", "json", timeout=MOST)
        assert done.returncode in (0, 1, 4), done.stderr
        document = json.loads(done.stdout)
        assert document["opensm"]["source"] == "running"
        compare_change(here, plan, document, before)
        if here.served.wire() == before:  # the undo restored it, or nothing was changed
            here.running.kill()
            here.running.start()
            restarted = with_values(before, document["at_start"])
            after = here.served.wire()
            assert {key: after[key] for key in after if after[key] != restarted[key]} == {}, json.dumps(
                document["at_start"]
            )

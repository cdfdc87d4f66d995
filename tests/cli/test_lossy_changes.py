"""Changes of a whole fabric that loses packets: at the end every port has what it should have, and `undo` leads back.

The long one is on 8,000 hosts with a loss of 1 %; it takes about two minutes of CPU time.
"""

from __future__ import annotations

import re
import resource
from contextlib import closing
from pathlib import Path

import pytest

from ibkeys.sim.state.file import StateFile
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.umad.sim_spec import parse_spec
from tests.bench import scale
from tests.cli.conftest import run
from tests.fattree import fat_tree, full_members
from tests.sample import sampled

SMALL = 16
LEVEL_2 = ("--protect", "2", "--lease", "60", "--yes")


def net_of(hosts: int) -> str:
    return fat_tree(2, 4, 2, pods=2, cores=1) if hosts == SMALL else scale.tree(hosts)


def policy(hosts: int) -> str:
    """Two partitions, for one half of the hosts each."""
    lines = [f"p{n}={0x1000 + n:#x} : {full_members(range(n, hosts, 2))};" for n in range(2)]
    return "\n".join(["Default=0x7fff, ipoib : ALL=full, SELF=full;", *lines]) + "\n"


@pytest.mark.parametrize("hosts", sampled([str(SMALL), "8000"], [str(SMALL)]))
def test_all_changes_arrive_where_packets_are_lost(hosts: str, tmp_path: Path) -> None:
    net, state = tmp_path / "net", tmp_path / "state"
    net.write_text(net_of(int(hosts)))
    (tmp_path / "policy.conf").write_text(policy(int(hosts)))
    spec = f"sim:{net},state={state},drop={5 if int(hosts) == SMALL else 1}"

    def on(command: str, *words: object, code: int = 0) -> str:
        result = run(command, "--backend", spec, "--retries", 9, *words)
        assert result.code == code, (command, result.err[-2000:])
        return result.out

    def taken(name: str) -> Path:
        on("snapshot", tmp_path / name)
        return tmp_path / name

    before, plan = taken("before.db"), tmp_path / "plan.json"
    wanted = ("--policy", tmp_path / "policy.conf")
    on("plan", *wanted, "--out", plan, code=1)
    on("apply", plan, "--yes")
    after = taken("after.db")
    assert run("diff", before, after).code == 1
    assert run("plan", "--from", after, *wanted).code == 0
    on("undo", 1, "--yes")
    assert run("diff", before, taken("undone.db")).code == 0

    on("mkey-deploy", "--per-port", *LEVEL_2)
    half = int(hosts) // 2
    said = on("mkey-rotate", "--per-port", "--first", half, "--yes") + on("resume", "--yes")
    done = [int(number) for number in re.findall(r"operation \d+: (\d+) ports done, 0 failed", said)]
    assert (len(done), done[0]) == (2, half)
    subnet = parse_spec(spec).load()
    with closing(StateFile(state, subnet)):  # opening it loads the state
        pass
    ports = [port for node in subnet.nodes for port in node.end_ports]
    with KeyStore(Path(f"{state}.keys"), create=False) as store:
        assert {port.guid: port.m_key for port in ports} == {
            guid: key.reveal() for guid, key in store.current().items()
        }
        assert {row.state for row in store.rows()} == {"current", "former"}
    assert {port.protect_bits for port in ports} == {2}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert peak <= scale.MOST_MIB or int(hosts) == SMALL, f"{peak:.0f} MiB"

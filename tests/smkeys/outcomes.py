"""How a change of keys on the made-up hosts has ended, and how it is cut off."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

import pytest

from ibkeys.change.writer import ChangeWriter
from ibkeys.keys.smkey import SMKey
from ibkeys.smkeys.giving_up import give_up, refuse_written
from ibkeys.smkeys.key_holders import KINDS
from ibkeys.smkeys.recorded_changes import COMMAND
from tests.fabricsim import tool
from tests.smkeys.madeup import CONF, Killed, MadeUpSite

DEFAULT_LINES = b"sm_key 0x0000000000000001\nsa_key 0x0000000000000001\n"
"""What a rollback adds to a file without lines for the keys: an OpenSM that read others takes the default back."""


def state_of(three: MadeUpSite) -> list[tuple[str, str]]:
    return [(row.kind, row.state) for row in three.stored()]


def assert_done(three: MadeUpSite, strays: Collection[SMKey] = ()) -> None:
    """All hosts have the keys that the store has as current, and one SM is master. *strays*: pending keys of a change
    that the journal does not have."""
    current = {row.kind: row.sm_key for row in three.stored() if row.state == "current"}
    assert {*current} == {*KINDS}
    assert [host.keys for host in three.hosts] == [current] * 3
    assert {row.sm_key for row in three.stored() if row.state == "pending"} == {*strays}
    assert three.masters == 1
    assert three.left_over() == []
    with three.journal() as journal:
        operation = journal.list_operations()[-1]
        assert operation.state == "done"
        assert not any(entry.status == "pending" for entry in journal.files(operation.id))


def assert_back(three: MadeUpSite) -> None:
    """No host has a new key, not even in its running OpenSM, and nothing is left to be done."""
    for number, found in enumerate(three.confs()):
        assert found in (former := CONF.format(9 - number).encode(), former + DEFAULT_LINES)
    assert not any(row.state in ("pending", "current") for row in three.stored())
    assert {host.node.sm.sm_key for host in three.hosts if host.node.sm} == {1}
    assert {host.sa_key for host in three.hosts} == {1}
    assert three.masters == 1
    assert three.left_over() == []


def kill_at(three: MadeUpSite, monkeypatch: pytest.MonkeyPatch, step: str, overrides: Iterable[str] = ()) -> None:
    """Make a change that dies before *step*; nothing kills the next one."""

    def die(reached: str) -> None:
        if reached == step:
            raise Killed

    three.before_each = die
    with pytest.raises(Killed):
        three.run(monkeypatch, overrides=overrides)
    three.before_each = lambda step: None


@contextmanager
def writer_of(three: MadeUpSite) -> Iterator[ChangeWriter]:
    """The writer of a command on the site."""
    stores = {"keystore": three.stores / "keys.db", "journal": three.stores / "journal.db"}
    with tool(three.net, **stores) as fabric, ChangeWriter(fabric, COMMAND) as writer:
        yield writer


def take_back(three: MadeUpSite, monkeypatch: pytest.MonkeyPatch, operation: int = 1) -> None:
    """Take the change back that has not ended. Raises Refused where it can only be finished."""
    change = three.run(monkeypatch, dry_run=True)
    assert change.goes_on
    with writer_of(three) as writer:
        refuse_written(writer, change, operation)
        assert give_up(writer, change, operation) == []

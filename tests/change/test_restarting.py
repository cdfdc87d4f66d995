"""The model of an OpenSM that is started again does what a real one was seen to do."""

from __future__ import annotations

import pytest

from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from tests.change.restarting import OnDisk, Tree, restarted

A, B = MKey(0xA94F13D02E7C5B68), MKey(0x17C4E5906F2BD38A)
TREE: Tree = (None, 0, 1, 1)


@pytest.mark.parametrize(
    ("level", "said", "noted", "outcome"),
    [
        (0, B, A, "clean"),
        (0, A, A, "clean"),
        (0, B, B, "clean"),
        (1, B, A, "second sweep heals"),
        (1, A, A, "never"),
        (1, B, B, "clean"),
        (2, B, A, "dead"),
        (2, A, A, "dead"),
        (2, B, B, "clean"),
        (2, A, B, "clean"),
    ],
)
def test_an_opensm_that_was_killed_when_the_ports_had_the_new_key(
    level: int, said: MKey, noted: MKey, outcome: str
) -> None:
    """Observed of OpenSM 3.3.23 without a lease: what the options file and guid2mkey said, and what came of it."""
    ports = (KeySetting(B, level, 0),) * len(TREE)
    wanted = KeySetting(said, level, 0)
    found = restarted(TREE, ports, OnDisk(wanted, (noted,) * len(TREE)))
    assert found.is_managed(wanted) == (outcome not in ("never", "dead"))
    assert bool(found.violations) == (outcome != "clean")
    assert bool(found.silent) == (outcome == "dead")


def test_with_the_right_key_for_each_port_a_mixture_is_no_harm() -> None:
    ports = tuple(KeySetting(key, 2, 0) for key in (A, B, A, B))
    wanted = KeySetting(B, 2, 0)
    found = restarted(TREE, ports, OnDisk(wanted, (A, B, A, B)))
    assert found.is_managed(wanted)
    assert not found.violations


def test_what_is_behind_a_switch_that_refuses_its_key_is_not_found() -> None:
    ports = tuple(KeySetting(key, 2, 0) for key in (A, B, A))
    found = restarted((None, 0, 1), ports, OnDisk(KeySetting(A, 1, 0), (A, A, A)))
    assert [each.protect for each in found.ports] == [1, 2, 2]
    assert found.silent == {1, 2}

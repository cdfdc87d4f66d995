"""An OpenSM with options that OpenSM 3.3 does not have: every way through it is refused, unless that is overridden."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.corpus import DATA
from tests.integration.hosted import facts
from tests.integration.keyed_opensm import CONF, KeyedOpensm, keyed

NET = DATA / "fabrics" / "two-switch.net"
DEPLOY = ("mkey-deploy", "--protect", "2", "--lease", "60")

OTHERS = "pgrp_policy_file /etc/opensm/pgrp.conf\nvirt_enabled 2\n"
SAYS = re.compile(
    r"ibkeys: error: .*refused by interlock unknown-sm: .*/opensm\.conf, the options file of OpenSM .*has options that "
    r"OpenSM 3\.3 does not have \(pgrp_policy_file, virt_enabled\).*; to do it anyway: --override unknown-sm",
)


@pytest.fixture(scope="module")
def opensm() -> Iterator[KeyedOpensm]:
    with keyed(NET, CONF + OTHERS) as running:
        yield running


def state(opensm: KeyedOpensm) -> object:
    return facts(opensm.conf), opensm.mode(opensm.served.folder), opensm.keys()


@pytest.mark.parametrize(
    "words",
    [DEPLOY, ("smkey-rotate",), ("harden",), (*DEPLOY, "--dry-run")],
    ids=lambda words: " ".join(words),
)
def test_every_way_through_it_is_refused(opensm: KeyedOpensm, words: tuple[str, ...]) -> None:
    before = state(opensm)
    code, said = opensm.ibkeys(*words)
    assert code == 4, said
    assert SAYS.search(said), said
    assert state(opensm) == before


def test_an_apply_is_refused(opensm: KeyedOpensm, tmp_path: Path) -> None:
    policy, plan = tmp_path / "new.conf", tmp_path / "plan.json"
    policy.write_text("Default=0x7fff, ipoib : ALL=full ;\nX=0x21 : ALL_CAS=full ;\n")
    made = opensm.served.ibkeys("plan", "--policy", str(policy), "--out", str(plan))
    assert made.returncode in (0, 1), made.stderr
    before = state(opensm)
    code, said = opensm.ibkeys("apply", plan)
    assert code == 4, said
    assert SAYS.search(said), said
    assert state(opensm) == before
    code, said = opensm.ibkeys("apply", plan, "--override", "unknown-sm")
    assert code == 0, said


def test_overridden_it_goes_its_way(opensm: KeyedOpensm) -> None:
    code, said = opensm.ibkeys(*DEPLOY, "--override", "unknown-sm")
    assert code == 0, said
    keys = opensm.keys()
    assert {level for _, level, _ in keys} == {2}
    code, said = opensm.ibkeys("mkey-rotate")
    assert code == 4, said
    assert SAYS.search(said), said
    opensm.assert_nothing_was_lost()

"""Key store or journal are lost after keys were changed through OpenSM: `keystore import` lets every command go on."""

from __future__ import annotations

import json

import pytest

from tests.corpus import DATA
from tests.integration.keyed_opensm import CLOSED, keyed
from tests.sample import sampled

LOST = [("keys",), ("journal",), ("keys", "journal")]


@pytest.mark.parametrize("lost", sampled(LOST, LOST[:1]))
def test_after_a_loss_every_command_goes_on(lost: tuple[str, ...]) -> None:
    with keyed(DATA / "fabrics" / "two-switch.net") as opensm:
        served, stores = opensm.served, opensm.served.folder / "stores"
        assert opensm.ibkeys("mkey-deploy", *CLOSED)[0] == 0
        assert served.ibkeys("smkey-rotate", "--yes").returncode == 0
        assert opensm.ibkeys("mkey-rotate")[0] == 0
        for name in lost:
            (stores / f"{name}.db").rename(stores / f"{name}.gone")
        done = served.ibkeys("keystore", "import", served.folder, "--opensm-conf", opensm.conf)
        assert done.returncode == 0, done.stderr
        for words, code in {
            ("mkey-show", "--all"): 0,
            ("harden", "--dry-run"): 0,
            ("smkey-rotate", "--yes"): 0,
        }.items():
            done = served.ibkeys(*words)
            assert done.returncode == code, done.stderr
        assert "Traceback" not in served.ibkeys("doctor").stderr
        code, said = opensm.ibkeys("resume", *([] if "journal" in lost else ["3"]))
        assert code == dict.fromkeys(LOST, 3)[lost], said
        code, said = opensm.ibkeys("undo", *([] if "journal" in lost else ["3"]))
        assert code in (2, 3), said
        assert ("`ibkeys mkey-rotate --via opensm` begins a new run" in said) == (lost == LOST[0])
        code, said = opensm.ibkeys("mkey-rotate")
        assert code == 0, said
        rotation = json.loads(served.ibkeys("journal", "-f", "json").stdout)["operations"][-1]
        for words in (("undo", str(rotation["id"])), ("mkey-remove", "--leave-open")):
            code, said = opensm.ibkeys(*words)
            assert code == 0, said
        assert opensm.keys() == {(0, 0, 0)}
        opensm.assert_nothing_was_lost()

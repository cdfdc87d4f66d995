"""The M_Key of whole fabrics through a real OpenSM, there and back: no violation, no trap, no SMP without an answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.keyed_opensm import KeyedOpensm, keyed
from tests.integration.trees import LARGE, PARTS, fabric
from tests.sample import sampled

STEPS = (
    (("mkey-deploy", "--protect", "2", "--lease", "60"), (2, 60)),
    (("mkey-rotate",), (2, 60)),
    (("mkey-remove", "--leave-open"), (0, 0)),
)
"""The commands, and level and lease after each."""


@pytest.mark.parametrize("size", sampled([*PARTS, *LARGE], ["6 hosts"]))
def test_no_key_then_one_then_another_then_none(size: str, tmp_path: Path) -> None:
    with keyed(fabric(size, tmp_path)) as opensm:
        keys = [0]
        for words, (level, lease) in STEPS:
            summary = summary_of(opensm, *words)
            [(key, *found)] = opensm.keys()
            assert found == [level, lease]
            assert {name: summary[name] for name in ("done", "failed", "skipped", "waiting", "violations")} == {
                **dict.fromkeys(("failed", "skipped", "waiting", "violations"), 0),
                "done": len(opensm.end_ports()),
            }
            keys.append(key)
            opensm.assert_nothing_was_lost()
        assert keys[-1] == 0
        assert len({*keys}) == 3


def summary_of(opensm: KeyedOpensm, *words: str) -> dict[str, int]:
    """Run a command that has to end well, and return its account."""
    code, said = opensm.ibkeys(*words, "-f", "json")
    assert code == 0, said
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    summary: dict[str, int] = next(line["summary"] for line in lines if "summary" in line)
    return summary

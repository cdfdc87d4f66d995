"""The page of a rehearsal: the verdict first, every list, and no name that breaks it."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from ibkeys.rehearse.page import UNKNOWN, render
from tests.rehearse.tried import fault

PORT = {
    "node_guid": "0x0002c90300000001",
    "port_guid": "0x0002c90300000002",
    "node_desc": "<script>alert(1)</script>\x1b[31m",
    "node_type": "ca",
    "port": 1,
    "lid": 3,
}
STEP = {
    "exit_code": 1,
    "seconds": 2.5,
    "message": "error: <b>no</b>",
    "sets": 7,
    "sweeps": 2,
    "most_cut": 3,
    "most_open": 0,
}


def value(before: object, after: object, **more: object) -> dict[str, Any]:
    return {**PORT, "kind": "pkey", "index": 4, "before": before, "after": after, **more}


def document(**parts: object) -> dict[str, Any]:
    return {
        "verdict": "differs",
        "command": "apply",
        "unknown_indexes": [],
        "at_takeover": [],
        "plan": "ab" * 32,
        "pairs_gained": 5,
        "pairs_lost": 6,
        "snapshot": {"file": None, "finished": "2026-11-29T07:53:25Z"},
        "opensm": {"program": "/usr/sbin/opensm", "source": "named", "options_file": None, "port": PORT},
        "at_start": [value("0x8001", None, cause="policy")],
        "apply": STEP,
        "timeline": [{**PORT, "seconds": 0.25, "pairs_cut": 3, "pairs_open": 0}],
        "differences": [value(None, "0x8002")],
        "undo": None,
        "left_by_undo": [],
        "seed": None,
        "faults": None,
        "opensm_errors": [{"error": "3111", "count": 2}],
        "notes": ["a note"],
        **parts,
    }


def test_the_verdict_is_first_and_every_list_is_a_table() -> None:
    page = render(document(), "not everything is as planned")
    body = page.partition("<body>")[2]
    assert body.index("differs") < body.index("not everything is as planned") < body.index("<table")
    assert re.findall("<h2>(.*)</h2>", page) == [
        "Not as planned",
        "What a restart of OpenSM changes in any case",
        "Errors in OpenSM&#39;s log",
        "What a rehearsal does not know",
        "Each Set that changes a table or an M_Key, in order",
    ]
    for text in ("0x8001", "0x8002", "0.250 s", "3111", "a note", *map(html.escape, UNKNOWN)):
        assert text.replace("&#x27;", "&#39;") in page


def test_names_from_the_fabric_are_escaped_and_nothing_is_loaded() -> None:
    page = render(document(), "verdict")
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "<b>no" not in page
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r"""(?:src|href)\s*=""", page)


@pytest.mark.parametrize(("verdict", "tone"), [("identical", "good"), ("differs", "bad"), ("refused", "bad")])
def test_the_tone_of_a_verdict(verdict: str, tone: str) -> None:
    assert f'<div class="verdict {tone}">' in render(document(verdict=verdict), "verdict")


def test_a_page_of_a_restart_has_no_plan() -> None:
    page = render(document(plan=None, apply=None, timeline=[], differences=[]), "a restart changes values")
    assert "What a restart of OpenSM changes" in page
    assert "<dt>Plan</dt>" not in page


def test_faults_come_before_what_a_restart_changes() -> None:
    tried = fault(node={**PORT}, worked=False, left=[value("0x8001", None)])
    page = render(document(seed=3, faults=[tried]), "verdict")
    titles = re.findall("<h2>(.*)</h2>", page)
    assert titles.index("Faults that were tried") < titles.index("What a restart of OpenSM changes in any case")
    assert "1 value not as before" in page
    assert "<script>alert" not in page


def test_the_verdict_is_said_once() -> None:
    page = render(document(), "differs: not everything is as planned")
    assert "<p>not everything is as planned.</p>" in page

"""Which OpenSMs a change may go through, and that there is one way to them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import ibkeys
from ibkeys.change import through_sm
from ibkeys.change.consent import Consent
from ibkeys.change.through_sm import find_and_lock_sms
from ibkeys.errors import Refused
from ibkeys.managers.opensm.options_file import read_options

UNKNOWN = "m_key 0x5\nar_sl_mask 0xff\n0x1122334455667788 x\nabadcafe\n"


def ask(monkeypatch: pytest.MonkeyPatch, *files: str, overrides: tuple[str, ...] = ()) -> Any:
    """Look for the master among OpenSMs with these options files, the first of them the master's."""
    instances = [
        SimpleNamespace(
            name=f"OpenSM {number}",
            files={"options": SimpleNamespace(path=f"/etc/opensm.{number}")},
            options=SimpleNamespace(file=read_options(text.encode())),
        )
        for number, text in enumerate(files)
    ]
    opensms = [SimpleNamespace(instance=each) for each in instances]
    seen = SimpleNamespace(opensms=opensms, report=SimpleNamespace(managers=None))
    monkeypatch.setattr(through_sm, "find_sms", lambda *given: seen)
    consent = Consent(False, frozenset(overrides))
    writer = SimpleNamespace(fabric=SimpleNamespace(own_guid=1), consent=consent, dry_run=True, managers={})
    return find_and_lock_sms(cast(Any, writer), [], [])


def test_an_opensm_whose_options_are_all_known_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    ask(monkeypatch, "m_key 0x5\n", "", "# ar_sl_mask 0xff\n")


@pytest.mark.parametrize("place", [0, 1])
def test_one_with_others_is_refused_and_names_them_and_no_key(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    files = ["sm_key 0x7\n", "sm_key 0x7\n"]
    files[place] = UNKNOWN
    with pytest.raises(Refused, match=r"\(ar_sl_mask, line 3, line 4\)") as refused:
        ask(monkeypatch, *files)
    assert refused.value.interlock == "unknown-sm"
    assert f"/etc/opensm.{place}, the options file of OpenSM {place}," in str(refused.value)
    assert "1122" not in str(refused.value)
    ask(monkeypatch, *files, overrides=("unknown-sm",))


def test_who_had_to_be_locked_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was seen before the lock was taken may be older than what its last holder wrote."""
    looks: list[str] = []
    locked: list[int] = []

    def lock(writer: object, opensms: list[object]) -> bool:
        locked.append(len(looks))
        return len(locked) < 3

    monkeypatch.setattr(through_sm, "take_host_locks", lock)
    writer: Any = SimpleNamespace(fabric=SimpleNamespace(own_guid=1), consent=Consent(), managers={})
    managers = [SimpleNamespace(guid=0x11, port="node01 port 1"), SimpleNamespace(guid=0x22, port="node02 port 1")]
    seen = SimpleNamespace(opensms=[], report=SimpleNamespace(managers=managers))
    monkeypatch.setattr(through_sm, "find_sms", lambda *given: looks.append("look") or seen)
    assert find_and_lock_sms(writer, [], []) is seen
    assert locked == [1, 2, 3]
    assert writer.managers == {f"0x{0x11:016x}": "node01 port 1", f"0x{0x22:016x}": "node02 port 1"}


def test_there_is_no_other_way_to_the_master() -> None:
    package = Path(ibkeys.__file__).parent
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"ibkeys\.managers\.site import[^\n]*\bfind_sms\b", path.read_text())
    }
    assert found == {"change/through_sm.py"}

"""Advice for starting OpenSM after a repair: whether an opensm.conf matches the keys of the ports."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ibkeys.managers.opensm.process import OpensmConfig
from ibkeys.mkeys.repair.candidates import Candidates
from ibkeys.mkeys.repair.result import RepairResult


@dataclass(slots=True)
class ConfAdvice:
    """The comparison of an opensm.conf with the ports. ``path``: the file; ``holds``: number of ports that have its
    m_key; ``ports``: number of ports that have a key; ``is_most``: whether no other key is on more ports;
    ``own_has_it``: whether the local port has its m_key; ``problems``: the reasons against starting OpenSM with the
    file, in words.
    """

    path: Path
    holds: int = 0
    ports: int = 0
    is_most: bool = False
    own_has_it: bool = False
    problems: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        document = asdict(self)
        return {"file": str(document.pop("path")), **document}


def advise(
    done: RepairResult, candidates: Candidates, removes: bool, path: Path, conf: OpensmConfig | None
) -> ConfAdvice:
    """Compare the opensm.conf at *path* with the ports. *conf*: its content, None if it cannot be read. *removes*: an
    open operation lets OpenSM remove every M_Key, so an m_key of 0 is no problem.

    With correct key files, OpenSM reaches every port whatever the m_key in its opensm.conf is, and sets that m_key on
    all ports in its first sweep (observed, opensm 3.3.23). So an m_key that few ports have may be right: it may be the
    new one.
    """
    keyed = [each for each in done.answers if not each.m_key.is_zero]
    advice = ConfAdvice(path, ports=len(keyed))
    if conf is None:
        advice.problems.append("it cannot be read, so it is not known whether it keeps the M_Keys")
        return advice
    if "m_key" in conf.mistakes:
        advice.problems.append("the value of m_key is not a number: OpenSM would read it as 0")
        return advice
    if not conf.m_key_set:
        if keyed and not removes:
            advice.problems.append("m_key is not set: an OpenSM that starts with it removes every M_Key")
        return advice
    advice.holds = done.count_with(conf.m_key)
    advice.is_most = all(done.count_with(key) <= advice.holds for key in done.keys)
    advice.own_has_it = done.own_key == conf.m_key
    known = {each.m_key for keys in candidates.values() for each in keys} | done.keys
    if conf.m_key not in known:
        advice.problems.append(
            "its m_key is not in the key store, and OpenSM would set it on every port: `ibkeys keystore import "
            f"--opensm-conf {path}` first"
        )
    if not conf.m_key_lookup and advice.holds < len(keyed):
        advice.problems.append(
            "m_key_lookup is not TRUE: OpenSM would query every port with its m_key, which "
            f"{len(keyed) - advice.holds} of {len(keyed)} do not have"
        )
    return advice

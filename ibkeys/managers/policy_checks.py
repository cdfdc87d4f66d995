"""Checking the policy of an OpenSM for ``doctor``."""

from __future__ import annotations

from typing import Final

from ibkeys.managers.instance import HOW_TO_MEND, Instance
from ibkeys.managers.reading import WORDS
from ibkeys.printable import counted
from ibkeys.umad.probe import ProbeResult

NAME: Final = "OpenSM policy"


def policy_in_words(instance: Instance) -> str:
    """Return a text about the policy of an OpenSM: the file, the number of partitions, and the beginning of its
    SHA-256; or its first error, or that it does not exist, or the reason why it could not be read."""
    file = instance.files["policy"]
    if instance.policy_fault:
        return instance.policy_fault
    where = str(file.path or "its policy")
    if file.is_there is False:
        return f"{where} is not there: every port is a full member of the default partition once OpenSM looks for it"
    if instance.policy is None:
        return f"{where} {file.problem}"
    partitions = counted(len(instance.policy.partitions), "partition")
    state = f"; {WORDS[file.reading]}" if file.reading == "not-read" else ""
    return f"{where}: {partitions}, SHA-256 {(file.digest or '')[:16]}{state}"


def check_policy(instance: Instance) -> ProbeResult:
    """Return whether the policy of an OpenSM exists and OpenSM would accept it, as a line of ``doctor``. The line's
    result is None if the policy could not be read."""
    text = f"{instance.name}: {policy_in_words(instance)}"
    if instance.policy_fault:
        return ProbeResult(NAME, False, text, HOW_TO_MEND)
    if instance.files["policy"].is_there is False:
        return ProbeResult(NAME, False, text, "put the policy there; check it first: ibkeys policy-check")
    return ProbeResult(NAME, None if instance.policy is None else True, text)

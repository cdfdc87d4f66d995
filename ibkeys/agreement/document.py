"""An agreement as the JSON document of `ibkeys compare`, and its values as flat rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, get_args

from ibkeys.agreement.agreement import Agreement, AgreementValue
from ibkeys.agreement.causes import COLUMNS, AgreementState
from ibkeys.agreement.sm_file import SmFile
from ibkeys.agreement.source_values import Protection
from ibkeys.topology.enforcement import Enforcement

_STATES: Final[tuple[AgreementState, ...]] = get_args(AgreementState)
NONE_OF_IT: Final = "-"
"""The text in a row for a port that is not a member of a partition; an unknown value is None."""


def to_json(agreement: Agreement, values: Iterable[AgreementValue]) -> dict[str, Any]:
    """Return the document without its schema. *values* are listed; the summary counts all values."""
    inputs, states = agreement.inputs, agreement.counts()
    policy, view = inputs.policy, inputs.view
    return {
        "policy": {"file": policy.path, "digest": policy.digest} if policy is not None else None,
        "sm_file": _sm_file(inputs.sm) if inputs.sm is not None else None,
        "sm_file_unknown": inputs.sm_unknown or None,
        "sa": {name: {"outcome": each.outcome, "detail": each.detail or None} for name, each in view.answers.items()}
        if view is not None
        else None,
        "values": [_shown(each, _json, list) for each in values],
        "summary": {**{state: states[state] for state in _STATES}, "causes": dict(agreement.causes())},
    }


def to_row(value: AgreementValue) -> dict[str, Any]:
    """Return a value as a row, with one text for each source, None for an unknown value."""
    return _shown(value, _text, " ".join)


def _sm_file(sm: SmFile) -> dict[str, Any]:
    return {
        "host": sm.instance.host,
        "pid": sm.instance.process.pid,
        "port_guid": f"0x{sm.sm_port_guid:016x}",
        "file": str(sm.file.path) if sm.file.path is not None else None,
        "digest": sm.file.digest,
        "read": sm.policy_read,
        "allow_both_pkeys": sm.allow_both,
        "part_enforce": sm.enforce,
        "options_read": sm.options_read,
        "notes": list(sm.notes),
    }


def _shown(
    value: AgreementValue, word_as: Callable[[Hashable | None], Any], list_as: Callable[[Iterable[str]], Any]
) -> dict[str, Any]:
    """Return a value, with each source's value and each list in the requested form."""
    verdict = value.verdict
    return {
        **value.port.identity(),
        "what": value.what,
        "partition": f"0x{value.partition:04x}" if value.partition is not None else None,
        **{column: word_as(word) for column, word in zip(COLUMNS, value.words, strict=True)},
        "state": verdict.state,
        "apart": list_as(verdict.differing_sources),
        "causes": list_as(verdict.causes),
    }


def _json(word: Hashable | None) -> Any:
    if isinstance(word, Enforcement):
        return {"inbound": word.inbound, "outbound": word.outbound}
    if isinstance(word, Protection):
        return {"m_key_protect_bits": word.level, "m_key_lease_period": word.lease}
    return _p_keys(word) if isinstance(word, frozenset) else None


def _text(word: Hashable | None) -> str | None:
    if isinstance(word, Enforcement | Protection):
        return str(word)
    return (" ".join(_p_keys(word)) or NONE_OF_IT) if isinstance(word, frozenset) else None


def _p_keys(members: frozenset[Any]) -> list[str]:
    return [f"0x{key:04x}" for key in sorted(members)]

"""An agreement as the JSON document of `ibkeys compare`, and its values as flat rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final, get_args

from ibkeys.agreement.agreement import Agreement, Value
from ibkeys.agreement.causes import COLUMNS, State
from ibkeys.agreement.said import Protection
from ibkeys.agreement.sm_file import SmFile
from ibkeys.topology.enforcement import Enforcement

_STATES: Final[tuple[State, ...]] = get_args(State)
NONE_OF_IT: Final = "-"
"""How a row says that a port is not a member of a partition; what is not known is None."""


def to_json(agreement: Agreement, values: Iterable[Value]) -> dict[str, Any]:
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
        "values": [_value(each) for each in values],
        "summary": {**{state: states[state] for state in _STATES}, "causes": dict(agreement.causes())},
    }


def to_row(value: Value) -> dict[str, Any]:
    """Return a value with each of its words as one text, None for what is not known."""
    words = {column: _text(word) for column, word in zip(COLUMNS, value.words, strict=True)}
    return (
        _described(value)
        | words
        | {
            "state": value.verdict.state,
            "apart": " ".join(value.verdict.differing),
            "causes": " ".join(value.verdict.causes),
        }
    )


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


def _value(value: Value) -> dict[str, Any]:
    words: dict[str, Any] = {column: _json(word) for column, word in zip(COLUMNS, value.words, strict=True)}
    verdict = value.verdict
    return {
        **_described(value),
        **words,
        "state": verdict.state,
        "apart": list(verdict.differing),
        "causes": list(verdict.causes),
    }


def _described(value: Value) -> dict[str, Any]:
    partition = f"0x{value.partition:04x}" if value.partition is not None else None
    return {**value.port.identity(), "what": value.what, "partition": partition}


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

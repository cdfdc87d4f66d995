"""The catalogue: all rules, by group and number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Final

from ibkeys.arguments import require
from ibkeys.audit.findings import GROUPS
from ibkeys.audit.rule import Rule
from ibkeys.audit.rules import cabling as hy_cabling
from ibkeys.audit.rules import class_keys as ck
from ibkeys.audit.rules import enforcement as se
from ibkeys.audit.rules import hygiene as hy
from ibkeys.audit.rules import key_files as kf
from ibkeys.audit.rules import m_keys as mk
from ibkeys.audit.rules import m_keys_compared as mk_history
from ibkeys.audit.rules import p_keys as pk
from ibkeys.audit.rules import p_keys_policy as pk_policy
from ibkeys.audit.rules import q_keys as qk
from ibkeys.audit.rules import subnet_manager as sm
from ibkeys.errors import UsageError
from ibkeys.similar_names import did_you_mean

_ORDER: Final = tuple(GROUPS)


def _rules_of(*modules: ModuleType) -> Iterator[Rule]:
    """Yield each rule that a module declares."""
    for module in modules:
        yield from (value for value in vars(module).values() if isinstance(value, Rule))


CATALOGUE: Final[tuple[Rule, ...]] = tuple(
    sorted(
        _rules_of(mk, mk_history, kf, ck, pk, pk_policy, se, qk, sm, hy, hy_cabling),
        key=lambda rule: (_ORDER.index(rule.group), rule.id),
    )
)
_BY_ID: Final = {rule.id: rule for rule in CATALOGUE}


def find_rule(text: str) -> Rule | None:
    """Return the rule with the id *text*, in upper or lower case; None if there is none."""
    return _BY_ID.get(text.strip().upper())


def rule_named(text: str) -> Rule:
    """Return the rule with the id *text*, in upper or lower case. Raises UsageError with similar ids, or with all."""
    require("text", text, str, "the id of a rule")
    rule = find_rule(text)
    if rule is None:
        near = did_you_mean(text, _BY_ID) or f"; choose from {', '.join(_BY_ID)}"
        raise UsageError(f"there is no rule {text!r}{near}")
    return rule


def select(check: Iterable[str] = (), groups: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[Rule, ...]:
    """Return the rules to run: the rules that *check* and *groups* name, or all rules if both are empty. Rules in
    *skip* are left out.

    Raises UsageError for a name that is neither a rule nor a group, and when no rule is left.
    """
    for name, words in (("check", check), ("groups", groups), ("skip", skip)):
        if isinstance(words, str) or not isinstance(words, Iterable):
            raise UsageError(f"{name}= is a list of texts: write [{str(words)!r}]")
    wanted = {rule_named(text) for text in check}
    for text in groups:
        if text.strip().upper() not in GROUPS:
            near = did_you_mean(text.strip(), GROUPS) or f"; choose from {', '.join(GROUPS)}"
            raise UsageError(f"there is no group {text!r}{near}")
        wanted |= {rule for rule in CATALOGUE if rule.group == text.strip().upper()}
    unwanted = {rule_named(text) for text in skip}
    chosen = tuple(rule for rule in CATALOGUE if (rule in wanted or not wanted) and rule not in unwanted)
    if not chosen:
        raise UsageError("no rule is left to check: all that were chosen are skipped")
    return chosen

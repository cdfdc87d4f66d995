"""The method that is chosen for a change: a row for each state of the subnet, and what holds in every one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, builds, lists, none, sampled_from, text

from ibkeys.change.choosing import refuse_other_choice
from ibkeys.change.method import METHOD, STATES, MethodChoice, SmFact, SubnetFacts, method_for
from ibkeys.errors import Refused
from ibkeys.mad.const import SM_STATE_NAMES

PAGE = Path(__file__).parents[2] / "man" / "ibkeys-apply.1"
MASTER = SmFact("'sm1' port 1", "master", hosts=("",))
STANDBY = SmFact("'sm2' port 1", "standby", hosts=("",))
THEIRS = SmFact("'sm3' port 1", "master")
FACTS = {
    "a host cannot be examined": [
        SubnetFacts(unreached=("host sm2: no route",)),
        SubnetFacts((MASTER,), ("OpenSM 1",), ("host sm2: no route",)),
    ],
    "two SMs are master": [SubnetFacts((MASTER, THEIRS), ("OpenSM 1",))],
    "an SM is discovering: it starts, or a failover is under way": [
        SubnetFacts((SmFact("'sm1' port 1", "discovering", hosts=("",)),), ("OpenSM 1",)),
        SubnetFacts((MASTER, SmFact("'sm2' port 1", "discovering")), ("OpenSM 1",)),
    ],
    "one master, and its OpenSM is found on several hosts": [
        SubnetFacts((SmFact("'sm1' port 1", "master", hosts=("", "sm1")),), ("OpenSM 1", "OpenSM 1 on sm1")),
    ],
    "one master, an OpenSM on this host or on one that was named": [
        SubnetFacts((MASTER,), ("OpenSM 1",)),
        SubnetFacts((MASTER, STANDBY), ("OpenSM 1", "OpenSM 2")),
        SubnetFacts((MASTER, SmFact("'sm2' port 1", None)), ("OpenSM 1",)),
        SubnetFacts((SmFact("'sm1' port 1", "master", hosts=("sm1",)),), ("OpenSM 1 on sm1",)),
    ],
    "one master, on no host that was named": [SubnetFacts((THEIRS,)), SubnetFacts((THEIRS, STANDBY), ("OpenSM 2",))],
    "no master, and a standby": [
        SubnetFacts((STANDBY,), ("OpenSM 2",)),
        SubnetFacts((SmFact("'sm3' port 1", "standby"),)),
    ],
    "no master, and another SM, or one that does not answer": [
        SubnetFacts((SmFact("'sm1' port 1", None),)),
        SubnetFacts((SmFact("'sm1' port 1", "not active"),)),
        SubnetFacts((SmFact("'sm1' port 1", "state 9", is_sm=False),)),
    ],
    "no SM on the fabric, and an OpenSM runs on a host": [SubnetFacts(opensms=("OpenSM 1",))],
    "no SM": [SubnetFacts(), SubnetFacts((SmFact("'sm1' port 1", "not active", is_sm=False),))],
}
ROWS = [(words, facts) for words, several in FACTS.items() for facts in several]
SMS = builds(
    SmFact, text(), none() | sampled_from([*SM_STATE_NAMES.values(), "state 9"]), booleans(), lists(text()).map(tuple)
)


@pytest.mark.parametrize(("words", "facts"), ROWS, ids=[words for words, _ in ROWS])
def test_each_state_has_its_method(words: str, facts: SubnetFacts) -> None:
    state = next(each for each in STATES if each.fits(facts))
    assert state.words == words
    choice = method_for(facts)
    assert choice.method == state.method
    assert bool(choice.advice) == (choice.method is None)
    named = [*(each.port for each in facts.sms if each.is_sm), *facts.unreached, *facts.opensms]
    assert not named or any(each in choice.reason for each in named)


def test_each_row_of_the_table_is_tried() -> None:
    assert [each.words for each in STATES] == [*FACTS]


def test_the_man_page_has_the_table() -> None:
    page = PAGE.read_text().replace("\\-", "-")
    [table] = re.findall(r"^\.SS How the method is chosen\n.*?^\.TS\n.*?^_\n(.*?)^\.TE", page, re.MULTILINE | re.DOTALL)
    rows = [row.split("@") for row in table.splitlines()]
    assert rows == [[each.words, each.method or "refused"] for each in STATES]


@given(lists(SMS).map(tuple), lists(text()).map(tuple), lists(text()).map(tuple))
def test_nothing_is_sent_beside_anything_that_shows_a_subnet_manager(
    sms: tuple[SmFact, ...], opensms: tuple[str, ...], unreached: tuple[str, ...]
) -> None:
    method = method_for(SubnetFacts(sms, opensms, unreached)).method
    if any(each.is_sm or each.state != "not active" for each in sms) or opensms or unreached:
        assert method != "direct"
    masters = [each for each in sms if each.state == "master"]
    assert (method == "opensm") == (
        len(masters) == 1
        and len(masters[0].hosts) == 1
        and not unreached
        and not any(each.state == "discovering" for each in sms)
    )


def test_what_is_not_chosen_says_what_was_found_and_what_to_type() -> None:
    with pytest.raises(Refused, match=r"SM at .sm3. port 1.*nothing was changed: give via=ThroughOpenSM") as error:
        method_for(SubnetFacts((THEIRS,))).require()
    assert error.value.interlock == METHOD


def test_a_method_that_nobody_is_asked_about_is_named() -> None:
    refused = method_for(SubnetFacts((MASTER,))).untyped_refusal()
    assert (refused.interlock, "here it would be through opensm: " in str(refused)) == (METHOD, True)


def test_another_method_than_the_planned_one_is_stale() -> None:
    direct, none_chosen = method_for(SubnetFacts()), method_for(SubnetFacts((THEIRS,)))
    refuse_other_choice(None, direct)
    refuse_other_choice("direct", direct)
    for planned, choice, interlock in (("opensm", direct, "stale"), ("opensm", none_chosen, METHOD)):
        with pytest.raises(Refused) as error:
            refuse_other_choice(planned, choice)  # type: ignore[arg-type]
        assert error.value.interlock == interlock


def test_a_choice_is_its_method_in_words() -> None:
    assert str(method_for(SubnetFacts((MASTER,)))) == "through OpenSM (master 'sm1' port 1 on this host)"
    assert str(MethodChoice(None, "found", "advice")) == "none is chosen: found; advice"

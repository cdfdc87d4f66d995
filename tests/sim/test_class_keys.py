"""The agents of classes with keys of their own, by the rows of the sheet; every guess in both of its forms."""

from __future__ import annotations

import json

import pytest

from ibkeys.errors import StoreError, UsageError
from ibkeys.mad.attributes import ClassPortInfo
from ibkeys.mad.classes.gmp import KEY_CLASSES, ClassName, KeyClass, build_class_mad
from ibkeys.mad.classes.key_info import KeySettings
from ibkeys.mad.classes.notices import details_of
from ibkeys.mad.const import MgmtClass
from ibkeys.mad.notice import Notice
from ibkeys.sim.agents.class_keys import CHOICES, ClassRules, place
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.nodes import ClassAgent
from ibkeys.sim.state.document import dump_state, load_state
from ibkeys.sim.steering.commands import execute
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA

SM, HOST = "node01 mlx4_0", "node03 mlx4_0"
LID = 3
GET, SET = 1, 2
KEY, WRONG = 0xA1A2A3A4A5A6A7A8, 0x1111
NAMES: tuple[ClassName, ...] = ("cc", "vs", "n2n", "b")


@pytest.fixture
def subnet() -> Subnet:
    net = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    net.set_sm(SM)
    return net


def rules_of(subnet: Subnet, name: ClassName) -> ClassRules:
    return subnet.carrier.class_rules[int(KEY_CLASSES[name].mgmt_class)]


def given(subnet: Subnet, name: ClassName, **state: int) -> ClassAgent:
    return place(subnet.port(HOST, 1), KEY_CLASSES[name], **state)


def ask(
    subnet: Subnet, of: KeyClass, method: int = GET, attribute: int | None = None, key: int = 0, data: bytes = b""
) -> tuple[int, bytes] | None:
    """Return status and data of the reply, None without one."""
    wanted = of.key_info.attribute_id if attribute is None else attribute
    mad = build_class_mad(of, method, wanted, key=key, data=data)
    outcome = subnet.send(mad, subnet.port(SM, 1), LID)
    if isinstance(outcome, Drop):
        return None
    (delivery,) = outcome
    assert delivery.mad[16:24] == mad[16:24]
    return int.from_bytes(delivery.mad[4:6]), delivery.mad[of.data_offset :]


def state(subnet: Subnet, name: ClassName, key: int = 0, method: int = GET, data: bytes = b"") -> KeySettings | None:
    """Return the KeyInfo that a Get or Set shows, None where it is dropped."""
    answer = ask(subnet, KEY_CLASSES[name], method, key=key, data=data)
    if answer is None:
        return None
    status, shown = answer
    assert status == 0
    return KeySettings(shown[:16])


@pytest.mark.parametrize("name", NAMES)
def test_no_port_has_a_class_unless_it_was_given_one(subnet: Subnet, name: ClassName) -> None:
    of = KEY_CLASSES[name]
    assert ask(subnet, of) is None
    rules_of(subnet, name).absent = "status"
    status, data = ask(subnet, of, key=KEY) or (0, b"")
    assert status == 0x0C
    mad = build_class_mad(of, GET, of.key_info.attribute_id, key=KEY)
    (delivery,) = subnet.process(mad, SM, 1, LID)
    assert delivery.mad[24:32] == KEY.to_bytes(8), "the kernel's echo holds the key that it was sent"
    assert not any(data)


@pytest.mark.parametrize("name", NAMES)
def test_key_0_is_no_protection(subnet: Subnet, name: ClassName) -> None:
    agent = given(subnet, name, protect_bit=1, lease_period=60)
    assert state(subnet, name, key=WRONG) == KeySettings.new(protect_bit=1, lease_period=60)
    new = KeySettings.new(key=KEY, protect_bit=1, lease_period=60, violations=7)
    assert state(subnet, name, method=SET, data=new.raw) == new.replace(violations=0), "only 0 counts"
    assert KeySettings(bytes(agent.info)).key == KEY


@pytest.mark.parametrize("name", NAMES)
def test_without_the_protect_bit_a_get_shows_the_key_and_a_set_is_dropped(subnet: Subnet, name: ClassName) -> None:
    agent = given(subnet, name, key=KEY, violations=3)
    shown = state(subnet, name)
    assert shown is not None
    assert (shown.key, shown.violations) == (KEY, 3)
    assert state(subnet, name, method=SET, key=WRONG) is None
    assert KeySettings(bytes(agent.info)).violations == 4


@pytest.mark.parametrize("name", NAMES)
def test_with_the_protect_bit_both_guesses_about_a_get(subnet: Subnet, name: ClassName) -> None:
    rules = rules_of(subnet, name)
    agent = given(subnet, name, key=KEY, protect_bit=1, lease_period=60, violations=3)
    rules.gets = "answers"
    assert state(subnet, name) == KeySettings.new(protect_bit=1, lease_period=60, violations=3)
    assert agent.deadline is None
    rules.gets = "drops"
    assert state(subnet, name) is None
    assert KeySettings(bytes(agent.info)).violations == 4
    assert agent.deadline == subnet.now + 60


def test_the_first_rules_are_those_of_the_sheet(subnet: Subnet) -> None:
    assert [rules_of(subnet, name).gets for name in NAMES] == ["answers", "drops", "drops", "answers"]
    assert rules_of(subnet, "b").violations == "kept"
    assert {rules_of(subnet, name).absent for name in NAMES} == {"silence"}


@pytest.mark.parametrize("name", NAMES)
def test_the_right_key_shows_all_and_stops_the_lease(subnet: Subnet, name: ClassName) -> None:
    rules = rules_of(subnet, name)
    agent = given(subnet, name, key=KEY, protect_bit=1, lease_period=60)
    state(subnet, name, method=SET, key=WRONG)
    assert agent.deadline is not None
    rules.lease = "runs"
    assert (state(subnet, name, key=KEY) or KeySettings()).key == KEY
    assert agent.deadline is not None
    rules.lease = "stops"
    state(subnet, name, key=KEY)
    assert agent.deadline is None


def test_a_lease_that_is_over_opens_the_key(subnet: Subnet) -> None:
    given(subnet, "cc", key=KEY, protect_bit=1, lease_period=60)
    state(subnet, "cc", method=SET, key=WRONG)
    subnet.advance(59.9)
    assert (state(subnet, "cc") or KeySettings()).protect_bit == 1
    subnet.advance(0.1)
    shown = state(subnet, "cc") or KeySettings()
    assert (shown.protect_bit, shown.key) == (0, KEY)


def test_violations_stick_and_are_cleared_by_0_where_that_is_so(subnet: Subnet) -> None:
    given(subnet, "cc", key=KEY, violations=0xFFFF)
    state(subnet, "cc", method=SET, key=WRONG)
    assert (state(subnet, "cc", KEY) or KeySettings()).violations == 0xFFFF
    keep = KeySettings.new(key=KEY, violations=1)
    assert (state(subnet, "cc", KEY, SET, keep.raw) or KeySettings()).violations == 0xFFFF
    clear = KeySettings.new(key=KEY)
    assert (state(subnet, "cc", KEY, SET, clear.raw) or KeySettings(b"\xff" * 16)).violations == 0
    given(subnet, "b", key=KEY, violations=5)
    assert (state(subnet, "b", KEY, SET, clear.raw) or KeySettings()).violations == 5


@pytest.mark.parametrize("name", NAMES)
def test_class_port_info_is_open_or_checked(subnet: Subnet, name: ClassName) -> None:
    given(subnet, name, key=KEY, protect_bit=1)
    rules_of(subnet, name).gets = "drops"
    status, data = ask(subnet, KEY_CLASSES[name], attribute=1) or (-1, b"")
    info = ClassPortInfo(data[: ClassPortInfo.size])
    assert (status, info.class_version) == (0, KEY_CLASSES[name].class_version)
    assert info.capability_mask == (0x100 if name == "vs" else 0)
    rules_of(subnet, name).portinfo = "checked"
    assert ask(subnet, KEY_CLASSES[name], attribute=1) is None
    assert ask(subnet, KEY_CLASSES[name], attribute=1, key=KEY) is not None


def test_another_version_or_attribute_is_refused_or_dropped(subnet: Subnet) -> None:
    given(subnet, "cc")
    of = KEY_CLASSES["cc"]
    assert (ask(subnet, of, attribute=0x11) or (0,))[0] == 0x0C
    rules_of(subnet, "cc").others = "silence"
    assert ask(subnet, of, attribute=0x11) is None
    mad = bytearray(build_class_mad(of, GET, 0x12))
    mad[2] = 1
    (delivery,) = subnet.process(bytes(mad), SM, 1, LID)
    assert delivery.mad[4:6] == b"\0\4"
    rules_of(subnet, "cc").version = "silence"
    assert subnet.process(bytes(mad), SM, 1, LID) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_key_is_told_the_sm_once(subnet: Subnet, name: ClassName) -> None:
    of, heard = KEY_CLASSES[name], []
    subnet.attach(subnet.port(SM, 1), lambda delivery: heard.append(delivery.mad))
    given(subnet, name, key=KEY)
    state(subnet, name, WRONG, SET)
    (mad,) = heard
    notice = Notice(mad[of.data_offset : of.data_offset + 64])
    details = details_of(notice, of.mgmt_class)
    assert details is not None
    shown = {row.name.upper().replace("_", ""): value for row, value in details.items()}
    assert (mad[1], mad[3], notice.issuer_lid) == (of.mgmt_class, 5, LID)
    assert notice.number == (259 if name == "b" else 0)
    assert WRONG in shown.values()
    assert (shown["METHOD"], shown["ATTRIBUTEID"]) == (SET, of.key_info.attribute_id)
    rules_of(subnet, name).traps = "none"
    state(subnet, name, WRONG, SET)
    assert len(heard) == 1


def test_steering_gives_chooses_shows_and_never_prints_a_key(subnet: Subnet) -> None:
    said = execute(subnet, f'classkey "{HOST}" cc on key=0x{KEY:x} protect=1 lease=60 violations=2')
    assert said == f"{HOST} port 1: CC_Key set (not shown)"
    agents = subnet.port(HOST, 1).class_agents or {}
    assert KeySettings(bytes(agents[MgmtClass.CONGESTION].info)) == KeySettings.new(
        key=KEY, protect_bit=1, lease_period=60, violations=2
    )
    assert execute(subnet, "classrule cc gets drops") == "class cc: gets drops"
    assert rules_of(subnet, "cc").gets == "drops"
    shown = execute(subnet, f'show "{HOST}"[1]')
    assert "CC_Key: set (not shown), protect bit: 1, lease: 60 s, timer stopped, violations: 2" in shown
    assert "a1a2" not in shown.lower()
    assert execute(subnet, f'classkey "{HOST}" cc off') == f"{HOST} port 1: no class cc"
    assert not subnet.port(HOST, 1).class_agents


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("classkey x am on", "write cc, vs, n2n, b"),
        ("classkey x cc maybe", "write on or off"),
        ("classkey x cc on colour=3", "write key=, protect="),
        ("classkey x cc off key=1", "after off nothing"),
        ("classkey x cc on key=0xSECRET", "text not shown"),
        ("classkey x cc on lease=70000", "is not a lease"),
        ("classrule cc mood good", "write absent, version"),
        ("classrule cc gets maybe", "write answers or drops"),
    ],
)
def test_lines_that_are_written_wrong(subnet: Subnet, line: str, part: str) -> None:
    with pytest.raises(UsageError, match=part) as caught:
        execute(subnet, line)
    assert "SECRET" not in str(caught.value)


def test_an_external_port_of_a_switch_has_no_key_of_a_class(subnet: Subnet) -> None:
    with pytest.raises(UsageError, match="is not an end port"):
        execute(subnet, 'classkey "S-0002c90200401040"[1] cc on')


def test_keys_and_choices_last_in_the_state_file(subnet: Subnet) -> None:
    given(subnet, "n2n", key=KEY, protect_bit=1, lease_period=60)
    state(subnet, "n2n")
    rules_of(subnet, "vs").absent = "status"
    document = json.loads(json.dumps(dump_state(subnet)))
    again = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    load_state(again, document)
    assert again.port(HOST, 1).class_agents == subnet.port(HOST, 1).class_agents
    assert again.carrier.class_rules == subnet.carrier.class_rules
    assert document["class_rules"] == {"vs": {"absent": "status"}}


@pytest.mark.parametrize(
    "change",
    [
        {"class_rules": {"cc": {"gets": "maybe"}}},
        {"class_rules": {"am": {"gets": "drops"}}},
        {"class_rules": {"cc": {"__class__": "drops"}}},
        {"class_rules": 5},
    ],
)
def test_a_damaged_choice_is_refused(subnet: Subnet, change: dict[str, object]) -> None:
    with pytest.raises(StoreError, match="damaged"):
        load_state(Subnet.from_file(DATA / "fabrics" / "two-switch.net"), {**dump_state(subnet), **change})


def test_every_rule_has_two_forms_and_the_defaults_are_among_them() -> None:
    assert set(CHOICES) == set(ClassRules.__dataclass_fields__)
    assert all(getattr(ClassRules(), name) in values and len(values) == 2 for name, values in CHOICES.items())

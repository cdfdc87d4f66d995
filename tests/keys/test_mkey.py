"""M_Keys: the secret that masks itself, and the check that guards a port."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import EncodeError
from ibkeys.keys.mkey import CHECKED_METHODS, NO_MKEY, PROTECTION_TEXT, MKey, check_m_key
from ibkeys.mad.const import AttributeID, Method
from tests.corpus import files, label, load

NUMBER = 0xA1B2C3D4E5F60718
KEY = MKey(NUMBER)
SHOWN = [f"{NUMBER:x}", str(NUMBER), f"{NUMBER:o}", repr(NUMBER.to_bytes(8))[2:-1], "a1b2", "0718"]


def hides(text: str) -> bool:
    return not any(shape.lower() in text.lower() for shape in SHOWN)


@dataclass(frozen=True)
class Holder:
    key: MKey
    name: str = "port"


@pytest.mark.parametrize(
    "show",
    [
        str,
        repr,
        ascii,
        format,
        lambda key: f"{key}",
        lambda key: f"{key!r:>40}",
        lambda key: f"{key:>40}",
        lambda key: "%s" % key,  # noqa: UP031
        lambda key: "%r" % key,  # noqa: UP031
        lambda key: "{}".format(key),  # noqa: UP032
        lambda key: str([key, {key: key}, (key,)]),
        lambda key: repr(Holder(key)),
        lambda key: str(ValueError("wrong", key)),
        lambda key: json.dumps({"key": key}, default=str),
    ],
)
def test_every_way_to_show_a_key_shows_the_mask(show: Callable[[MKey], str]) -> None:
    assert repr(NO_MKEY) in show(KEY)
    assert hides(show(KEY))


@pytest.mark.parametrize(
    "use",
    [
        lambda key: "%d" % key,  # noqa: UP031
        lambda key: "%x" % key,  # noqa: UP031
        lambda key: f"{key:x}",
        lambda key: f"{key:016d}",
        int,
        hex,
        bytes,
        lambda key: key + 1,
        lambda key: key < MKey(1),
        json.dumps,
        lambda key: json.dumps({"key": Holder(key)}),
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        lambda key: pickle.dumps(Holder(key), protocol=2),
        lambda key: key.value,
        vars,
    ],
)
def test_what_would_need_the_number_fails_without_showing_it(use: Callable[[MKey], object]) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)) as error:
        use(KEY)
    assert hides("".join(traceback.format_exception(error.value)))


def test_log_records_show_the_mask(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("ibkeys").warning("key %s of %r", KEY, Holder(KEY))
    try:
        raise RuntimeError(KEY)
    except RuntimeError:
        logging.getLogger("ibkeys").exception("failed with %s", {"key": KEY})
    assert caplog.text.count(repr(NO_MKEY)) >= 4
    assert hides(caplog.text)


def test_traceback_with_locals_shows_the_mask() -> None:
    def fail(key: MKey) -> None:
        held = Holder(key)
        raise RuntimeError(held)

    with pytest.raises(RuntimeError) as error:
        fail(KEY)
    text = "".join(traceback.TracebackException.from_exception(error.value, capture_locals=True).format())
    frames = [line for line in text.splitlines() if "key = " in line or "held = " in line]
    assert frames
    assert hides("\n".join(frames))


@pytest.mark.parametrize(
    "text",
    ["0xa1b2c3d4e5f607180", "0a1b2c3d40718", "0xa1b2 c3d4e5f60718", "a1b2c3d4e5f60718", "-0xa1b2c3d4", "", "x" * 500],
)
def test_key_that_is_none_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(EncodeError) as error:
        MKey.parse(text)
    assert hides(str(error.value))
    assert "xxx" not in str(error.value)
    cause: BaseException | None = error.value
    while cause is not None:
        assert hides(str(cause))
        cause = cause.__cause__ or cause.__context__


@pytest.mark.parametrize("value", [-1, 2**64, NUMBER << 8])
def test_number_of_more_than_64_bits_is_refused_without_repeating_it(value: int) -> None:
    with pytest.raises(EncodeError) as error:
        MKey(value)
    assert str(error.value) == "M_Key does not fit 64 bits (value not shown)"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("0x0", 0),
        ("1", 1),
        ("0xffffffffffffffff", 2**64 - 1),
        ("18446744073709551615", 2**64 - 1),
        (" 0x10\n", 16),
    ],
)
def test_keys_are_read_as_hex_or_decimal(text: str, value: int) -> None:
    assert MKey.parse(text).reveal() == value


@given(value=st.integers(0, 2**64 - 1))
def test_hex_is_read_back(value: int) -> None:
    key = MKey(value)
    assert len(key.hex()) == 18
    assert MKey.parse(key.hex()) == key
    assert key.is_zero == (value == 0)


def test_keys_are_equal_by_value_and_to_keys_only() -> None:
    assert MKey(5) == MKey(5)
    assert hash(MKey(5)) == hash(MKey(5))
    assert MKey(5) != MKey(6)
    assert MKey(5) != 5
    assert NO_MKEY.is_zero


def test_generated_keys_are_not_zero_and_not_alike() -> None:
    keys = {MKey.generate() for _ in range(1000)}
    assert len(keys) == 1000
    assert not any(key.is_zero for key in keys)


ATTRIBUTES = {
    "PortInfo": AttributeID.PORT_INFO,
    "NodeInfo": AttributeID.NODE_INFO,
    "NodeDescription": AttributeID.NODE_DESCRIPTION,
    "P_KeyTable": AttributeID.P_KEY_TABLE,
    "SwitchInfo": AttributeID.SWITCH_INFO,
    "Notice": AttributeID.NOTICE,
    "GUIDInfo": AttributeID.GUID_INFO,
    "SMInfo": AttributeID.SM_INFO,
}
METHODS = {"Get": Method.GET, "Set": Method.SET, "TrapRepress": Method.TRAP_REPRESS}


@pytest.mark.parametrize("file", files("vectors/mkey_decision*.json"), ids=label)
def test_check_agrees_with_the_decision_table(file: Path) -> None:
    rows = load(file)["rows"]
    assert rows
    for row in rows:
        verdict = check_m_key(
            METHODS[row["method"]],
            ATTRIBUTES[row["attribute"]],
            row["protect_bits"],
            int(row["port_m_key"], 0),
            int(row["request_m_key"], 0),
            row["lease_period"],
        )
        shown = row["m_key_in_reply"]
        assert verdict.accepted == row["accepted"], row["id"]
        assert verdict.m_key_shown == (None if shown is None else int(shown, 0)), row["id"]
        assert verdict.count_violation == row["violation_counted"] == row["trap_256"], row["id"]
        assert verdict.start_lease == row["lease_timer_started"], row["id"]


some_keys = st.sampled_from([0, 1, 2**64 - 1])
methods = st.sampled_from(Method)
any_attribute = st.sampled_from(AttributeID)
levels = st.integers(0, 3)


@given(
    method=methods, attribute=any_attribute, level=levels, port=some_keys, request=some_keys, lease=st.integers(0, 9)
)
def test_rules_of_the_check(method: Method, attribute: int, level: int, port: int, request: int, lease: int) -> None:
    verdict = check_m_key(method, attribute, level, port, request, lease)
    good = port in (0, request)
    assert verdict.accepted != verdict.count_violation
    assert verdict.start_lease == (verdict.count_violation and lease > 0)
    assert verdict.stop_lease == (good and method in CHECKED_METHODS)
    if good or method not in CHECKED_METHODS:
        assert verdict.accepted
    if verdict.m_key_shown is not None:
        assert attribute == AttributeID.PORT_INFO
        assert verdict.m_key_shown in (0, port)
    if method == Method.GET and not good and level > 0:
        assert verdict.m_key_shown != port  # a hidden key is never shown


def test_every_level_has_words() -> None:
    assert set(PROTECTION_TEXT) == {0, 1, 2, 3}

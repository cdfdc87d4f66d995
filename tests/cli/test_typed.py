"""A key that was typed where something else belongs: no message repeats it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ibkeys.cli import COMMANDS, main, typed
from ibkeys.client.address import parse_guid, parse_lid, parse_route
from ibkeys.errors import EncodeError, IbkeysError
from ibkeys.keys.number import looks_like_a_key, parse_number
from ibkeys.keys.pkey import PKey
from tests.cli.conftest import KEY, TWO_SWITCH, Cli, Result, run

HEX, DECIMAL = f"{KEY:x}", str(KEY)
SPELLINGS = [f"0x{HEX}", HEX, HEX.upper(), DECIMAL, f"0{DECIMAL}", "1a2b:3c4d:5e6f:7081", f"0x{HEX}zz", f"0x{HEX}0"]
FAST = ("-t", 1, "--retries", 0)


def repeats(result: Result) -> bool:
    said = (result.err if result.code == 0 else result.out + result.err).lower()
    return HEX[1:-1] in said.replace(":", "") or DECIMAL[1:-1] in said


@pytest.fixture(autouse=True)
def _nothing_watched() -> Iterator[None]:
    yield
    typed.watch([])


@pytest.mark.parametrize("key", SPELLINGS)
@pytest.mark.parametrize(
    "words",
    [
        ("pkey-show", 7, "KEY"),
        ("pkey-show", "KEY"),
        ("pkey-show", "-L", "KEY"),
        ("pkey-show", "-D", "KEY"),
        ("pkey-show", "-D", "0,KEY"),
        ("pkey-show", "-N", "KEY"),
        ("pkey-show", 1, 2, "KEY"),
        ("pkey-show", "--KEY"),
        ("pkey-show", "-t", "KEY"),
        ("pkey-show", "-f", "KEY"),
        ("pkey-show", "--timeout=KEY"),
        ("pkey-show", "--backend", "KEY"),
        ("pkey-show", "--backend", f"{TWO_SWITCH},seed=KEY"),
        ("pkey-show", "--backend", f"{TWO_SWITCH},KEY"),
        ("pkey-show", "--from", "KEY"),
        ("pkey-show", "-z", "KEY"),
        ("pkey-show", "--security-keys", "KEY"),
        ("pkey-show", "--keystore", "KEY"),
        ("pkey-set", 2, "KEY"),
        ("pkey-set", 2, "3=KEY"),
        ("pkey-set", 2, "KEY=3"),
        ("pkey-add", 2, 1, "KEY"),
        ("pkey-add", 2, 1, "KEY:full"),
        ("pkey-add", 2, 1, "0x1:KEY"),
        ("pkey-add", 2, 1, "1:KEY"),
        ("pkey-check", "KEY", "0x1"),
        ("pkey-explain", "KEY"),
        ("qkey-explain", "KEY"),
        ("enforce-set", 7, 3, "--inbound", "KEY"),
        ("audit", "--explain", "KEY"),
        ("audit", "--sm-guids", "KEY,KEY"),
        ("decode", "--attribute", "KEY", "00"),
        ("completion", "KEY"),
        ("KEY",),
    ],
    ids=lambda words: " ".join(map(str, words)).replace(TWO_SWITCH, "sim:"),
)
def test_a_key_in_the_wrong_place_is_not_repeated(
    cli: Cli, words: tuple[object, ...], key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, *others = (str(word).replace("KEY", key) for word in words)
    assert not repeats(cli(first, *(FAST if first == "pkey-show" else ()), *others))


ENDING = {"watch": ("--for", 1)}
"""What lets a command end that would go on until it is told to."""


def parameters() -> Iterator[tuple[str, click.Parameter]]:
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        if not isinstance(command, click.Group):
            yield from ((name, each) for each in command.params)


@pytest.mark.parametrize(("name", "parameter"), list(parameters()), ids=lambda each: getattr(each, "name", each))
def test_no_parameter_of_any_command_repeats_a_key(
    cli: Cli, name: str, parameter: click.Parameter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for key in (f"0x{HEX}", DECIMAL):
        if isinstance(parameter, click.Argument):
            words = [key]
        elif isinstance(parameter, click.Option) and not (parameter.is_flag or parameter.count):
            words = [parameter.opts[-1], key]
        else:
            return
        assert not repeats(cli(name, *ENDING.get(name, ()), *words))


@pytest.mark.parametrize("digit", ["a", "1"])
def test_a_word_of_thousands_of_digits_gets_an_error_of_one_line(cli: Cli, digit: str) -> None:
    result = cli("decode", digit * 8000)
    assert result.code == 2
    assert "4000 bytes are not a MAD" in result.error


def test_what_the_user_calls_a_guid_is_shown(cli: Cli) -> None:
    result = cli("pkey-show", "-G", f"0x{HEX}")
    assert result.code == 3
    assert f"GUID 0x{HEX}" in result.error
    assert not repeats(cli("pkey-show", "-G", "0x0002c903000a1020", f"0x{HEX}"))


def test_the_environment_is_watched_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_FORMAT", HEX)
    result = cli("pkey-show")
    assert result.code == 2
    assert not repeats(result)


def test_short_numbers_names_and_paths_are_shown(cli: Cli) -> None:
    assert "70000" in cli("pkey-show", "-t", 1, "-s", 70000).err or "No such option" in cli("pkey-show", "-s", 7).err
    assert "/tmp/0x1122334455667788/x" in cli("pkey-show", "--from", "/tmp/0x1122334455667788/x").error
    assert "'gpu-a03 mlx5_0'" in cli("pkey-show", "-N", "gpu-a03 mlx5_0").error


@pytest.mark.parametrize("key", SPELLINGS)
def test_the_library_does_not_repeat_it_either(key: str) -> None:
    reads = (parse_lid, parse_route, PKey.parse, lambda text: parse_number(text, "number", 16))
    for read in (*reads, lambda text: parse_route(f"0,{text}"), lambda text: parse_guid(text + "00000000")):
        with pytest.raises(IbkeysError) as raised:
            read(key)
        assert not repeats(Result(2, "", str(raised.value)))


@pytest.mark.parametrize(
    ("text", "is_one"),
    [(each, True) for each in SPELLINGS]
    + [
        ("0x8001", False),
        ("node02", False),
        ("0xffffffff", False),
        ("4294967", False),
        ("deadbeef", False),
        ("", False),
    ],
)
def test_what_looks_like_a_key(text: str, is_one: bool) -> None:
    assert looks_like_a_key(text) == is_one


def test_the_hint_about_a_leading_zero_stays_for_short_numbers() -> None:
    with pytest.raises(EncodeError, match="write 10 or 0x10"):
        parse_number("010", "number")


def test_watching_forgets_what_was_watched() -> None:
    typed.watch([f"0x{HEX}"])
    assert typed.without_keys(f"a 0x{HEX} b {DECIMAL} c") == "a (not shown) b (not shown) c"
    assert typed.without_keys(f"0x{HEX}0") == f"0x{HEX}0"
    typed.exempt_guid(KEY)
    assert typed.without_keys(f"0x{HEX}") == f"0x{HEX}"
    typed.watch([])
    assert run("pkey-explain", "0x1").code == 0


@pytest.mark.parametrize("digit", ["1", "a"])
def test_a_word_of_thousands_of_digits_is_one_line_of_error(cli: Cli, digit: str) -> None:
    for words in (("pkey-check", digit * 5000, "1"), ("decode", digit * 6002), ("pkey-show", "-t", "1", digit * 4500)):
        result = cli(*words)
        assert result.code == 2
        assert digit * 17 not in result.error

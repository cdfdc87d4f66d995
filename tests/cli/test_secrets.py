"""M_Keys from the user: each way in, and that no message repeats one."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ibkeys.cli import options
from ibkeys.cli.config import Config, read_config
from ibkeys.cli.opening import open_fabric, open_sa
from ibkeys.cli.secrets import read_key
from ibkeys.errors import FileFormatError, IbkeysError
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from tests.cli.conftest import KEY, OTHER_KEY, Cli

WARNING = "ibkeys: warning: --m_key: a key on the command line"


@pytest.fixture
def guarded(cli: Cli, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """LID 2 has `KEY` at level 1, and the key store does not help."""
    assert cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 1, "--yes").code == 0
    monkeypatch.setenv("IBKEYS_KEYSTORE", str(tmp_path / "empty"))
    return cli


def state(cli: Cli, *args: object, stdin: str = "") -> str:
    document = cli("mkey-show", 2, "-f", "json", *args, stdin=stdin).json
    return str(document["ports"][0]["m_key_state"])


def test_without_a_key_it_is_hidden(guarded: Cli) -> None:
    assert state(guarded) == "hidden"


@pytest.mark.parametrize("text", [f"{KEY:#x}", str(KEY)])
def test_literal_works_and_warns_once(guarded: Cli, text: str) -> None:
    assert state(guarded, "-y", text) == "set"
    err = guarded("mkey-show", "--all", "-y", text).err
    assert err.count(WARNING) == 1
    assert text.removeprefix("0x") not in err


def test_from_a_file(guarded: Cli, key_file: Path) -> None:
    result = guarded("mkey-show", 2, "-y", f"@{key_file}", "-f", "json")
    assert (result.json["ports"][0]["m_key_state"], result.err) == ("set", "")


def test_file_that_others_may_read_warns(guarded: Cli, key_file: Path) -> None:
    key_file.chmod(0o644)
    assert "other users may read this key (mode 0644)" in guarded("mkey-show", 2, "-y", f"@{key_file}").err


@pytest.mark.parametrize("word", ["-", "x", "ask"])
def test_asked_for_on_standard_input(guarded: Cli, word: str) -> None:
    assert state(guarded, "-y", word, stdin=f"{KEY}\n") == "set"


def test_environment_takes_only_a_file(guarded: Cli, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_M_KEY", f"@{key_file}")
    assert state(guarded) == "set"
    monkeypatch.setenv("IBKEYS_M_KEY", f"{KEY:#x}")
    result = guarded("mkey-show", 2)
    assert result.code == 2
    assert "@FILE" in result.error
    assert f"{KEY:x}" not in result.error


def test_command_line_comes_before_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_FORMAT", "json")
    assert cli("pkey-show", 2).out.startswith("{")
    assert cli("pkey-show", 2, "-f", "csv").out.startswith("node_guid,")


@pytest.mark.parametrize("name", ["YES", "FORCE", "OVERRIDE", "ALL", "DRY_RUN", "DIRECT", "NEW_M_KEY"])
def test_consent_and_address_never_come_from_the_environment(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"IBKEYS_{name}", "1")
    assert cli("pkey-set", 2, "3=0x8010").code == 4
    assert cli("pkey-show", 2).out.startswith("node02")


BAD = ["", "\n\n", f"{KEY}x", f"0x{KEY:x}f", f"0{KEY}", "-1", "\xff\xfe"]


@pytest.mark.parametrize("text", BAD)
def test_bad_key_in_a_file_is_not_repeated(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_text(text, encoding="latin-1")
    with pytest.raises(IbkeysError) as raised:
        read_key(MKey, f"@{path}", "--m_key")
    assert str(KEY)[:6] not in str(raised.value)
    assert f"{KEY:x}"[:6] not in str(raised.value)


def test_first_line_that_says_something_is_the_key(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_text(f"# rack 3\n\n  {KEY:#x}  \nmore\n")
    assert read_key(MKey, f"@{path}", "--m_key") == MKey(KEY)


@pytest.mark.parametrize("path", ["/nonexistent", "/", ""])
def test_file_that_cannot_be_read(path: str) -> None:
    with pytest.raises(IbkeysError, match="cannot be read"):
        read_key(MKey, f"@{path}", "--m_key")


def test_stray_key_among_the_words_is_not_repeated(cli: Cli) -> None:
    result = cli("mkey-set", 2, 1, f"{KEY:#x}", "--protect", 1)
    assert result.code == 2
    assert f"{KEY:x}" not in result.error


def test_terminal_is_asked_twice_for_a_new_key(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([str(KEY), str(OTHER_KEY)])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda *_: next(answers))
    with pytest.raises(IbkeysError, match="the two texts that were typed differ"):
        read_key(MKey, "-", "--new-m-key", is_new=True)


# --- ibdiag.conf ------------------------------------------------------------------------------------------------------


def test_config_of_infiniband_diags(tmp_path: Path) -> None:
    path = tmp_path / "ibdiag.conf"
    path.write_text(f"# comment\n\nCA=mlx5_1\nPort=2\ntimeout=50\nMLX_EPI=false\nm_key={KEY:#x}\nsa_key=0x00\n")
    assert read_config(path) == Config("mlx5_1", 2, 50, MKey(KEY))


def test_config_as_it_is_shipped_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ibdiag.conf"
    path.write_text("#CA=mlx4_0\n#Port=1\nm_key=0x00\ntimeout=0\nCA=\n")
    assert read_config(path) == Config()


def test_config_gives_the_key(guarded: Cli, tmp_path: Path) -> None:
    path = tmp_path / "ibdiag.conf"
    path.write_text(f"m_key={KEY:#x}\n")
    assert state(guarded, "-z", path) == "set"


@pytest.mark.parametrize("line", ["Port=x", "Port=300", "timeout=010", f"m_key={KEY}0000000", f"m_key={KEY:x}"])
def test_mistake_in_config_has_line_and_column(tmp_path: Path, line: str) -> None:
    path = tmp_path / "ibdiag.conf"
    path.write_text(f"# first\n{line}\n")
    with pytest.raises(FileFormatError) as raised:
        read_config(path)
    assert (raised.value.line, raised.value.column) == (2, line.index("=") + 2)
    assert f"{KEY:x}"[:6] not in str(raised.value)
    assert str(KEY)[:6] not in str(raised.value)


def test_config_names_the_local_port(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "ibdiag.conf"
    path.write_text("CA=mlx5_9\n")
    assert "mlx5_9" in cli("pkey-show", "-z", path).error


# SM_Keys: the options of commands that ask the SA


def sa_command(*args: str, conf: Path | None = None) -> tuple[int, str, list[object]]:
    """Run a command with the shared options; returns exit code, standard error, and what the SA client was made of."""
    seen: list[object] = []

    @click.command()
    @options.fabric
    @options.sa
    def asks(where: options.Where, sa: options.AskSa) -> None:
        with open_fabric(where) as fabric:
            client = open_sa(fabric, where, sa)
            seen.extend([client.sm_key, client.sm_lid, client.pkey_index])

    apart = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}  # click before 8.2
    result = CliRunner(**apart).invoke(asks, ["--backend", "sim:", *args, *(["-z", str(conf)] if conf else [])])
    return result.exit_code, result.stderr, seen if result.exception is None else [result.exception]


def test_sa_options_reach_the_client(key_file: Path) -> None:
    assert sa_command()[2] == [SMKey(0), None, None]
    assert sa_command("-s", "7", "-Y", "2", "--smkey", f"@{key_file}")[2] == [SMKey(KEY), 7, 2]


def test_an_sm_key_on_the_command_line_warns_and_is_not_repeated() -> None:
    _, err, seen = sa_command("--smkey", f"{KEY:#x}")
    assert seen[0] == SMKey(KEY)
    assert "--smkey: a key on the command line" in err
    assert f"{KEY:x}" not in err


def test_an_sm_key_from_the_environment_is_a_file(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_SMKEY", f"@{key_file}")
    assert sa_command()[2][0] == SMKey(KEY)
    monkeypatch.setenv("IBKEYS_SMKEY", f"{KEY:#x}")
    (error,) = sa_command()[2]
    assert "must be @FILE" in str(error)
    assert f"{KEY:x}" not in str(error)


def test_the_sa_key_of_ibdiag_conf_is_the_default(tmp_path: Path, key_file: Path) -> None:
    conf = tmp_path / "ibdiag.conf"
    conf.write_text(f"sa_key=0x{OTHER_KEY:x}\n")
    assert sa_command(conf=conf)[2][0] == SMKey(OTHER_KEY)
    assert sa_command("--smkey", f"@{key_file}", conf=conf)[2][0] == SMKey(KEY)
    conf.write_text("sa_key=0\n")
    assert sa_command(conf=conf)[2][0] == SMKey(0)

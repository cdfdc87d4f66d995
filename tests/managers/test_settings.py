"""sm.toml: hosts, files and units; and the command line, which wins."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError, IbkeysError, UsageError
from ibkeys.host.file_access import read_file_fact
from ibkeys.managers.elsewhere.ssh import SshHost
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.instance import HostEntry
from ibkeys.managers.settings import SmSettings, read_settings

TEXT = """
ssh_config = "/c"
[here]
unit = "opensm@0x1"
[[host]]
name = "root@sm2"
sudo = true
options = "/o"
policy = "/p"
[[host]]
name = "sm3"
"""


def settings(tmp_path: Path, text: str, mode: int = 0o644) -> SmSettings:
    path = tmp_path / "sm.toml"
    (tmp_path / "c").touch()
    path.write_text(text.replace('"/c"', f'"{tmp_path}/c"'))
    path.chmod(mode)
    return read_settings(path)


def test_all_of_it(tmp_path: Path) -> None:
    read = settings(tmp_path, TEXT)
    named = HostEntry(None, Path("/o"), Path("/p"))
    assert read.choose_hosts((), False, None) == [
        SmHost(None, HostEntry("opensm@0x1")),
        SmHost(SshHost("root@sm2", True, str(tmp_path / "c")), named),
        SmHost(SshHost("sm3", False, str(tmp_path / "c"))),
    ]
    assert settings(tmp_path, "").choose_hosts((), False, None) == [SmHost()]


def test_the_command_line_wins(tmp_path: Path) -> None:
    read = settings(tmp_path, TEXT)
    _, other, known = read.choose_hosts(("sm4", "root@sm2", "sm4"), False, "/mine")
    assert other == SmHost(SshHost("sm4", False, "/mine"))
    assert (known.access, known.entry.policy) == (SshHost("root@sm2", True, "/mine"), Path("/p"))
    chosen = [host.access for host in read.choose_hosts((), True, None)]
    assert [access.sudo for access in chosen if isinstance(access, SshHost)] == [True, True]
    with pytest.raises(UsageError):
        read.choose_hosts(("-x",), False, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hosts = []", "the file: 'hosts' is not a setting; choose from ssh_config, here, host"),
        ("here = 1", "the file: here has to be a table"),
        ("[here]\nunit = 1", "[here]: unit has to be a text"),
        ("[here]\npolicy = 'p.conf'", "policy must be an absolute path"),
        ("[[host]]\nsudo = true", "[[host]] 1 has no name"),
        ("[[host]]\nname = 'a'\nsudo = 1", "[[host]] 1: sudo has to be true or false"),
        ("[[host]]\nname = '-oProxyCommand=x'", "is not a valid host name"),
        ("host = ['a']", "[[host]] 1 is not a table"),
        ("ssh_config = 'c'", "ssh_config must be an absolute path"),
        ('ssh_config = "/a\\u0000b"', "the file: ssh_config must not hold a NUL"),
        ('[here]\npolicy = "/a\\u0000b"', "[here]: policy must not hold a NUL"),
        ("ssh_config = '/no/such/file'", "/no/such/file: it is not known who may write it"),
        ("what", "is not TOML"),
        ("a.b.c.d.e.f.g.h.i.j = 1", "too many parts"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        settings(tmp_path, text)
    assert words in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_file_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="others can write it"):
        settings(tmp_path, TEXT, 0o666)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(FileFormatError, match="others can write it"):
        settings(tmp_path / "open", TEXT)


def test_an_ssh_config_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    config = tmp_path / "loose"
    config.touch()
    config.chmod(0o666)
    with pytest.raises(FileFormatError, match="loose: others can write it"):
        settings(tmp_path, f"ssh_config = '{config}'")
    config.chmod(0o644)
    assert settings(tmp_path, f"ssh_config = '{config}'").ssh_config == str(config)


def test_it_is_the_file_that_was_read_that_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(tmp_path, TEXT)
    other = tmp_path / "other"
    other.touch()
    monkeypatch.setattr("ibkeys.host.trusted_toml.read_file_fact", lambda path: read_file_fact(other))
    with pytest.raises(FileFormatError, match="not known who may write it"):
        read_settings(tmp_path / "sm.toml")
    monkeypatch.setattr("ibkeys.host.trusted_toml.read_file_fact", lambda path: None)
    with pytest.raises(FileFormatError, match="not known who may write it"):
        read_settings(tmp_path / "sm.toml")


def test_one_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(IbkeysError, match=r"sm\.toml"):
        read_settings(tmp_path / "sm.toml")


@given(st.text(max_size=200))
def test_any_text_is_settings_or_one_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with suppress(FileFormatError):
        read_settings(path)


def test_dots_in_a_comment_are_no_name(tmp_path: Path) -> None:
    path = tmp_path / "sm.toml"
    path.write_text("# see ..........................\n[here]\nunit = 'opensm'\n")
    path.chmod(0o600)
    assert read_settings(path).here.unit == "opensm"

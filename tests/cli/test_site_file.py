"""The site file: what may be in it, who may write it and the files that it names, and any bytes in its place."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.core import ParameterSource
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.cli.site.file import MOST_BYTES, read_site
from ibkeys.cli.site.settings import BY_PARAMETER, SETTINGS, SUBNET
from ibkeys.errors import FileFormatError
from tests.cli.conftest import KEY, run
from tests.cli.sites import FILES, HERE, LOCAL_PORT, SECRETS, Written, parsed, toml
from tests.owners import give_away, needs_root

# --- what is never in it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("yes", "force", "override", "all", "allow_removals", "allow-break", "allow_both_pkeys", "leave_open"),
        *("ask_unproven", "trust_topology", "first", "Lid", "direct", "guid", "name", "D", "ufm_insecure"),
        *("m_key", "new_m_key", "sm_key", "sa_key", "new_passphrase"),
    ],
)
def test_some_options_are_never_in_it(site_file: Written, name: str) -> None:
    result = run("pkey-show", "--site", site_file(f'{name} = "0x{KEY:x}"'))
    assert result.code == 2
    assert any(words in result.error for words in ("has to be typed", "keys are never in this file"))
    assert f"{KEY:x}" not in result.err


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_itself_is_refused_and_not_repeated(site_file: Written, name: str) -> None:
    for value in (f"0x{KEY:x}", "correct horse"):
        result = run("keystore", "list", "--site", site_file(**{name: value}))
        assert (result.code, "must be @FILE" in result.error, value in result.error) == (2, True, False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("smhost = ['a']", "'smhost' is not known; did you mean sm_host?"),
        ("sm-host = ['a']", "did you mean sm_host?"),
        ("colour = 'red'", "see ibkeys.toml(5)"),
        ("[ufm]\ntoken = '@/x'", "'ufm' is not known"),
        ("port = 300", "port: 300 is not in 1..254"),
        (f"port = 0x{KEY:x}", "port: (not shown) is not in 1..254"),
        ("port = '3'", "port has to be a whole number"),
        ("port = true", "port has to be a whole number"),
        ("port = 1.0", "port has to be a whole number"),
        ("timeout = -5", "timeout: -5 is not in 1..3600000"),
        ("sudo = 1", "sudo has to be true or false"),
        ("sm_host = 'a'", "sm_host has to be a list of texts"),
        ("sm_host = [1]", "sm_host has to be a list of texts"),
        ("sm_host = ['-oProxyCommand=x']", "is not a valid host name"),
        ("sm_host = ['a;touch /tmp/x']", "is not a valid host name"),
        ("sm_host = ['$(id)@b']", "is not a valid host name"),
        (f"sm_host = {[f'sm{number}' for number in range(17)]}", "sm_host has more than 16 texts"),
        ("sm_host = []", "sm_host is empty: leave it out"),
        ("sm_host = ['sm1', '']", "sm_host is empty"),
        ("ca = ''", "ca is empty"),
        ("via = 'opensms'", "via: 'opensms' is not one of"),
        ("via = 'ufm:https://me:secret@ufm'", "via: must not hold a user name or password"),
        ("ufm_proxy = 'http://me:secret@proxy'", "ufm_proxy: must not hold a user name or password"),
        ("policy = 'ufm:https://me:secret@ufm'\nsubnet = ['0x1']", "must not hold a user name or password"),
        ("via = 'ufm:https://ufm/?token=secret'", "via: UFM's URL must end with its path"),
        ("via = 'ufm:https://ufm/#secret'", "via: UFM's URL must end with its path"),
        ("via = 'ufm:secret'", "via: UFM's URL is not understood"),
        ("via = 'ufm:https://ufm:secret/'", "via: UFM's URL is not understood"),
        ('via = "ufm:https://ufm/\\u000asecret"', "via: UFM's URL is not understood"),
        ("policy = 'ufm:file:///secret'\nsubnet = ['0x1']", "policy: UFM's URL is not understood"),
        ("ufm_proxy = 'socks5://secret:1'", "ufm_proxy: --ufm-proxy is not understood"),
        ("sm_host = ['root:secret@sm1']", "sm_host: a host name must not hold a password"),
        ("ssh_config = 'c'", "ssh_config: must be an absolute path"),
        ('ssh_config = "/a\\u0000b"', "ssh_config must not hold a NUL"),
        ('ca = "\\', "is not TOML"),
        ("\ufeffca = 'mlx5_0'", "begins with a byte order mark"),
        ("subnet = 'all'", "subnet has to be a list of port GUIDs"),
        ("subnet = []", "subnet has to be a list of port GUIDs"),
        ("subnet = [1]", "subnet has to be a list of port GUIDs"),
        ("subnet = ['x']", "subnet: GUID 'x' is not"),
        ("subnet = ['0x0']", "subnet: GUID 0 is not"),
        ("policy = 'opensm'", "policy is for one subnet"),
        ("journal = '/var/lib/ibkeys/j.db'", "journal is for one subnet"),
        ("keystore = '/var/lib/ibkeys/k.db'", "keystore is for one subnet"),
        ("a.b.c.d.e.f.g.h.i.j = 1", "too many parts"),
        ("a = " + "[" * 5000, "is nested too deeply"),
    ],
)
def test_mistakes_are_named_in_one_line(site_file: Written, text: str, words: str) -> None:
    site = site_file(text)
    result = run("sm-show", "--dry-run", "--site", site)
    if result.code == 0:  # this command does not have that option
        result = run("pkey-show", "--site", site)
    assert (result.code, str(site) in result.error) == (2, True)
    assert words in result.error


def test_what_is_not_utf_8_is_said_with_its_place(site_file: Written) -> None:
    site = site_file("ca = 'mlx5_0'")
    site.write_bytes(b"ca = '\xff'")
    result = run("sm-show", "--dry-run", "--site", site)
    assert (result.code, "is not UTF-8: byte 7" in result.error) == (2, True)
    assert "secret" not in result.error


# --- who may write it, and what it names ------------------------------------------------------------------------------


def refused(site: Path, words: str) -> None:
    result = run("sm-show", "--dry-run", "--site", site)
    assert (result.code, result.out) == (2, "")
    assert words in result.error


def test_a_file_that_others_can_write_is_not_used(site_file: Written) -> None:
    site = site_file(ca="x")
    for mode in (0o666, 0o664, 0o646):
        site.chmod(mode)
        refused(site, "others can write it")


def test_a_file_in_a_folder_that_others_can_write_is_not_used(shared: Path) -> None:
    for folder, mode in (("loose", 0o777), ("group", 0o775)):
        (shared / folder / "below").mkdir(parents=True)
        site = shared / folder / "below" / "ibkeys.toml"
        site.write_text(toml(ca="x"))
        (shared / folder).chmod(mode)
        refused(site, "others can write it or put another in its place")


@needs_root
def test_a_file_or_folder_of_others_is_not_used(shared: Path) -> None:
    site = shared / "ibkeys.toml"
    site.write_text(toml(ca="x"))
    give_away(site)
    refused(site, "others can write it")
    folder = shared / "theirs"
    folder.mkdir()
    (folder / "ibkeys.toml").write_text(toml(ca="x"))
    give_away(folder)
    refused(folder / "ibkeys.toml", "others can write it or put another in its place")


def test_a_link_is_not_used_wherever_it_is_on_the_way(site_file: Written, tmp_path: Path) -> None:
    site = site_file(ca="x")
    link = tmp_path / "link.toml"
    link.symlink_to(site)
    refused(link, f"a symbolic link leads to this file, so it is not used: name {site} itself")
    (tmp_path / "folder").symlink_to(tmp_path)
    refused(tmp_path / "folder" / "ibkeys.toml", f"name {site} itself")


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    refused(tmp_path / "fifo", "is a FIFO, not a regular file")
    refused(tmp_path, "is a directory, not a regular file")
    refused(Path("/dev/null"), "is a device, not a regular file")
    refused(Path("/dev/stdin"), "symbolic link")


def test_a_large_file_is_not_read(site_file: Written) -> None:
    site = site_file(ca="x")
    os.truncate(site, 100_000_000)
    refused(site, f"more than {MOST_BYTES} bytes")


def test_a_file_that_it_names_is_looked_at_like_itself(site_file: Written, shared: Path) -> None:
    named = shared / "named"
    named.touch(0o600)
    for name in FILES:
        value = f"@{named}" if name in SECRETS else str(named)
        site = site_file(**{name: value}, subnet=[LOCAL_PORT])
        parsed("apply", "--site", site)
        parsed("audit", "--site", site)
        named.chmod(0o666)
        with pytest.raises(FileFormatError, match=f"{name}: {named}: others can write it"):
            [parsed(command, "--site", site) for command in ("apply", "audit")]
        named.chmod(0o600)
        link = shared / f"link-{name}"
        link.symlink_to(named)
        site = site_file(**{name: value.replace(str(named), str(link))}, subnet=[LOCAL_PORT])
        with pytest.raises(FileFormatError, match=f"{name}: {link}: a symbolic link leads to this file"):
            [parsed(command, "--site", site) for command in ("apply", "audit")]


@pytest.mark.parametrize("name", ["ssh_config", "policy"])
def test_a_file_that_it_names_is_a_regular_file(site_file: Written, tmp_path: Path, name: str) -> None:
    named = tmp_path / "named"
    os.mkfifo(named, 0o600)  # ssh would wait for somebody who writes to it
    site = site_file(**{name: str(named)}, subnet=[LOCAL_PORT])
    with pytest.raises(FileFormatError, match=f"{name}: {named}: is a FIFO, not a regular file"):
        [parsed(command, "--site", site) for command in ("apply", "audit")]
    named.unlink()
    named.mkdir()
    with pytest.raises(FileFormatError, match=f"{name}: {named}: is a directory, not a regular file"):
        [parsed(command, "--site", site) for command in ("apply", "audit")]


def test_of_a_store_that_is_not_there_yet_its_folder_is_looked_at(site_file: Written, shared: Path) -> None:
    site = site_file(journal=str(shared / "journal.db"), subnet=[LOCAL_PORT])
    assert parsed("apply", "--site", site).params["journal"] == str(shared / "journal.db")
    shared.chmod(0o777)
    with pytest.raises(FileFormatError, match=r"journal\.db: others can write it"):
        parsed("apply", "--site", site)
    site = site_file(journal="/nowhere/at/all.db", subnet=[LOCAL_PORT])
    with pytest.raises(FileFormatError, match="it is not known who may write it"):
        parsed("apply", "--site", site)


def test_a_value_that_is_typed_is_not_looked_at_in_the_file(site_file: Written, tmp_path: Path) -> None:
    site = site_file(ssh_config="/nowhere/config")
    refused(site, "ssh_config: /nowhere/config: it is not known who may write it")
    assert run("sm-show", "--dry-run", "--site", site, "--ssh-config", tmp_path / "mine").code == 0


# --- any bytes --------------------------------------------------------------------------------------------------------


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_are_a_site_file_or_one_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(data)
    with suppress(FileFormatError):
        read_site(path)


_SCALARS = st.one_of(st.text(max_size=30), st.integers(), st.booleans(), st.floats(), st.dates())
_VALUES = st.one_of(_SCALARS, st.lists(_SCALARS, max_size=3))


def _toml_of(value: Any) -> str:
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(each):08x}" for each in value if not 0xD800 <= ord(each) < 0xE000) + '"'
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_of, value))}]"
    return str(value).lower() if isinstance(value, bool | float) else str(value)


@given(st.dictionaries(st.sampled_from([*SETTINGS, SUBNET, "yes", "m_key"]), _VALUES, max_size=4))
def test_known_names_with_any_values_are_a_site_file_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "values.toml"
    path.write_text("".join(f"{name} = {_toml_of(value)}\n" for name, value in values.items()))
    for command in ("apply", "audit"):
        with suppress(FileFormatError):
            parsed(command, "--site", path)


_NUMBERS = {"port": 254, "timeout": 3_600_000, "retries": 1000, "wait": 86_400, "standby_wait": 86_400}
_KNOWN = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.integers(1, most) for name, most in _NUMBERS.items()},
        "ca": st.text("abcmlx5_0", min_size=1),
        "sm_host": st.lists(st.text("abc-.", min_size=1).filter(lambda name: name[0] not in "-."), min_size=1),
        "sudo": st.just(True),
        "via": st.sampled_from(["direct", "opensm", "ufm:https://ufm.example/ufmRest"]),
        **dict.fromkeys(FILES, st.just(str(HERE))),
        **dict.fromkeys(SECRETS, st.just(f"@{HERE}")),
        "ufm_proxy": st.just("http://proxy:3128"),
    },
)


@given(_KNOWN)
def test_known_names_with_values_of_their_kind_are_what_commands_get(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]
) -> None:
    named = tmp_path_factory.getbasetemp() / "named"
    named.touch(0o600)
    values = {
        name: value.replace(str(HERE), str(named)) if isinstance(value, str) else value
        for name, value in values.items()
    }
    path = tmp_path_factory.getbasetemp() / "known.toml"
    path.write_text(toml(**values, subnet=[LOCAL_PORT]))
    got: dict[str, Any] = {}
    for command in ("apply", "mkey-rotate", "audit"):
        context = parsed(command, "--site", path)
        for parameter, value in context.params.items():
            if context.get_parameter_source(parameter) is ParameterSource.DEFAULT_MAP and parameter != "via":
                got[BY_PARAMETER[parameter]] = list(value) if isinstance(value, tuple) else value
        if command == "apply" and "via" in values:
            got["via"] = context.params["via"]
    assert got == values

"""The site file: which values a command takes of it, before and after which other sources, and which files it is not.

Most of these commands are for a real stack, which is not there: they are parsed, or end where they would open a port.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from click.core import ParameterSource
from hypothesis import given
from hypothesis import strategies as st

import ibkeys
from ibkeys.cli import COMMANDS, main
from ibkeys.cli.given import given_options
from ibkeys.cli.guarding import command_for_child
from ibkeys.cli.opening import stores_of
from ibkeys.cli.options import SmHosts, Where
from ibkeys.cli.site.file import DEFAULT_SITE, MOST_BYTES, read_site
from ibkeys.cli.site.settings import BY_PARAMETER, SETTINGS, SUBNET
from ibkeys.cli.sm.ufm import UfmOptions
from ibkeys.errors import FileFormatError, NoDevice
from ibkeys.store.journal import Journal
from tests.cli.conftest import KEY, TWO_SWITCH, run
from tests.hostile import OWN_GUID, AnsweringPort, EndlessFabric
from tests.owners import give_away, needs_root

LOCAL_PORT = f"0x{OWN_GUID + 1:016x}"
FILES = ("ssh_config", "sm_config", "node_name_map", "ufm_cert", "ufm_key", "ufm_ca", "keystore", "journal", "policy")
SECRETS = ("smkey", "keystore_passphrase", "ufm_token")
HERE = Path(__file__)
Written = Callable[..., Path]


def toml(**values: Any) -> str:
    return "".join(f"{name} = {_written(value)}\n" for name, value in values.items())


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Write a site file, and return its path."""

    def write(text: str = "", **values: Any) -> Path:
        path = tmp_path / "ibkeys.toml"
        path.write_text(text or toml(**values))
        path.chmod(0o644)
        return path

    return write


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command, and those of a group, with its name."""
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from command.commands.items()


def parsed(name: str, *args: object) -> click.Context:
    """Return the context of a command as it is called with *args*."""
    command = dict(commands())[name]
    parent = click.Context(main, info_name="ibkeys", help_option_names=["-h", "--help"])
    return command.make_context(name, [str(arg) for arg in args], parent)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ibkeys.Local]]:
    """The local ports that commands try to open; there is none."""
    tried: list[tuple[str, ibkeys.Local]] = []

    def open_port(backend: str, local: ibkeys.Local) -> None:
        tried.append((backend, local))
        raise NoDevice("no such device")

    monkeypatch.setattr(ibkeys, "open_port", open_port)
    return tried


# --- which values -----------------------------------------------------------------------------------------------------


def test_a_name_is_a_long_option_of_some_command_and_of_no_other_meaning() -> None:
    found = set()
    for _, command in commands():
        options = {each.name: each for each in command.params if isinstance(each, click.Option)}
        if "site" not in options:
            continue
        assert "--from" in options["snapshot"].opts if "snapshot" in options else True
        assert not {"site", "snapshot"} & {each.name for each in command.params if isinstance(each, click.Argument)}
        for parameter, option in options.items():
            name = BY_PARAMETER.get(parameter or "")
            if name is not None:
                found.add(name)
                assert f"--{name.replace('_', '-')}" in {each.lower() for each in option.opts}, option.opts
                assert SETTINGS[name].has_variable == (option.envvar is not None), name
    assert found == {*SETTINGS}


def test_each_command_that_takes_a_backend_takes_a_site_file() -> None:
    for name, command in commands():
        names = {each.name for each in command.params if isinstance(each, click.Option)}
        assert ("site" in names) == ("backend" in names), name


def test_the_command_line_comes_first_then_the_environment_then_the_site_file_then_ibdiag_conf(
    written: Written, tmp_path: Path, opened: list[tuple[str, ibkeys.Local]], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ibdiag.conf"
    config.write_text("CA=config\nPort=4\n")
    site = written(ca="site")
    monkeypatch.setenv("IBKEYS_CONFIG", str(config))
    assert run("pkey-show", "--site", "none").code == 3
    assert run("pkey-show", "--site", site).code == 3
    monkeypatch.setenv("IBKEYS_CA", "environment")
    assert run("pkey-show", "--site", site).code == 3
    assert run("pkey-show", "--site", site, "-C", "typed").code == 3
    assert [(local.ca, local.port) for _, local in opened] == [
        ("config", 4),
        ("site", 4),
        ("environment", 4),
        ("typed", 4),
    ]


def test_a_default_comes_last(written: Written) -> None:
    assert parsed("pkey-show").params["retries"] == 2
    assert parsed("pkey-show", "--site", written(retries=5)).params["retries"] == 5
    assert parsed("pkey-show", "--site", written(ca="x")).params["retries"] == 2


def test_hosts_are_those_of_the_command_line_or_those_of_the_file(written: Written) -> None:
    site = written(sm_host=["root@sm1", "sm2"], sudo=True)
    shown = run("sm-show", "--dry-run", "--site", site)
    assert shown.code == 0
    assert [line.split()[-4:] for line in shown.out.splitlines() if " ssh " in line] == [
        ["root@sm1", "'sudo", "-n", "/bin/sh", "-s'"][-4:],
        ["sm2", "'sudo", "-n", "/bin/sh", "-s'"][-4:],
    ]
    assert ["of sm1," in shown.out, "of root@sm1," in shown.out, "of sm2," in shown.out] == [False, True, True]
    typed = run("sm-show", "--dry-run", "--site", site, "--sm-host", "sm3").out
    assert ["of sm3," in typed, "sm1" in typed, "sm2" in typed] == [True, False, False]


def test_a_named_file_comes_before_the_default_one_and_the_variable_names_one(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibkeys.cli.site.file.DEFAULT_SITE", written(ca="default"))
    assert parsed("pkey-show").params["ca"] == "default"
    other = tmp_path / "other.toml"
    other.write_text(toml(ca="other"))
    other.chmod(0o600)
    assert parsed("pkey-show", "--site", other).params["ca"] == "other"
    monkeypatch.setenv("IBKEYS_SITE", str(other))
    assert parsed("pkey-show").params["ca"] == "other"
    assert parsed("pkey-show", "--site", "none").params["ca"] is None


def test_the_default_file_may_be_missing_and_a_named_one_may_not(tmp_path: Path) -> None:
    assert str(DEFAULT_SITE) == "/etc/ibkeys/ibkeys.toml"
    assert parsed("pkey-show").params["ca"] is None
    missing = run("pkey-show", "--site", tmp_path / "no.toml")
    assert (missing.code, "cannot read the site file" in missing.error) == (2, True)


def test_a_method_is_taken_by_commands_that_have_it(written: Written) -> None:
    ufm = written(via="ufm:https://ufm.example")
    assert parsed("apply", "plan.json", "--site", ufm).params["via"] == "ufm:https://ufm.example"
    assert parsed("mkey-rotate", "--site", ufm).params["via"] == parsed("mkey-rotate").params["via"]
    direct = written(via="direct")
    assert parsed("mkey-rotate", "--site", direct).params["via"] == "direct"
    for only_opensm in ("harden", "smkey-rotate"):
        assert parsed(only_opensm, "--site", direct).get_parameter_source("via") is ParameterSource.DEFAULT


def test_wait_is_for_subnet_managers_and_a_policy_is_none_of_a_hardening(written: Written, tmp_path: Path) -> None:
    site = written(wait=90, policy=str(tmp_path / "p.conf"), subnet=[LOCAL_PORT])
    assert parsed("apply", "--site", site).params["sm_wait"] == 90
    for others in ("compare", "mkey-recover"):
        assert parsed(others, "--site", site).params["wait"] == parsed(others).params["wait"]
    assert parsed("plan", "--site", site).params["policy_file"] == str(tmp_path / "p.conf")
    assert parsed("audit", "--site", site).params["policy"] == str(tmp_path / "p.conf")
    assert parsed("harden", "--site", site).params["policy_to_reach"] is None


def test_what_means_nothing_in_this_run_is_ignored(written: Written, tmp_path: Path, key_file: Path) -> None:
    (tmp_path / "sm.log").touch()
    site = written(
        smkey=f"@{key_file}", sm_host=["sm1"], wait=9, standby_wait=9, journal=f"{tmp_path}/j", subnet=["0x1"]
    )
    watched = run("watch", "--opensm-log", tmp_path / "sm.log", "--site", site, "-C", "no_such")
    assert "omit --smkey" not in watched.err
    typed = run("watch", "--opensm-log", tmp_path / "sm.log", "--smkey", f"@{key_file}", "-C", "no_such")
    assert (typed.code, "omit --smkey" in typed.error) == (2, True)
    assert run("journal", "--site", site).code == 0
    assert run("journal", "--journal", tmp_path / "j").code == 3


def test_the_journal_has_only_what_was_typed_or_is_in_the_environment(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBKEYS_CA", "of_environment")
    site = written(port=2, timeout=300, sm_host=["sm1"], via="opensm")
    with parsed("apply", "plan.json", "--site", site, "--allow-break").scope():
        assert sorted(given_options()) == ["--Ca of_environment", "--allow-break", f"--site {site}"]


# --- where it is not read ---------------------------------------------------------------------------------------------


def test_it_is_not_read_for_a_simulated_subnet_or_a_snapshot(
    written: Written, taken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBKEYS_SITE", str(written("no TOML")))
    assert run("pkey-show").code == 0  # IBKEYS_BACKEND is a simulated subnet
    monkeypatch.delenv("IBKEYS_BACKEND")
    assert run("pkey-show", "--from", taken, "--all").code == 0
    assert run("pkey-show", "--backend", TWO_SWITCH).code == 0
    broken = run("pkey-show")
    assert (broken.code, "is not TOML" in broken.error) == (2, True)


def test_one_that_is_typed_there_is_refused(written: Written, taken: Path) -> None:
    site = written(ca="x")
    simulated = run("pkey-show", "--site", site)
    assert (simulated.code, "simulated subnet: omit --site" in simulated.error) == (2, True)
    assert run("pkey-show", "--site", "none").code == 0
    recorded = run("pkey-show", "--all", "--from", taken, "--site", site)
    assert (recorded.code, "--from reads a file" in recorded.error) == (2, True)


def test_help_and_version_need_no_site_file(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_SITE", str(written("no TOML")))
    for word in ("--help", "--help-all", "--version"):
        for name in ("apply", "plan", "keystore"):
            assert run(name, word).code == 0


def test_the_process_that_rolls_back_has_the_same_values_and_reads_no_site_file(
    written: Written, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {name: str(tmp_path / name) for name in FILES}
    for each in names.values():
        Path(each).touch(0o600)
    secrets = dict.fromkeys(SECRETS, f"@{key_file}")
    site = written(
        **names,
        **secrets,
        ca="mlx5_1",
        port=2,
        timeout=70,
        retries=7,
        sm_host=["sm1", "sm2"],
        sudo=True,
        subnet=["0x1"],
    )
    monkeypatch.setattr("ibkeys.cli.site.file.DEFAULT_SITE", site)
    parent = parsed("apply").params

    def options(kind: type) -> dict[str, Any]:
        return {each.name: parent[each.name] for each in dataclasses.fields(kind) if each.name in parent}

    where = Where(**options(Where))
    hosts, ufm = SmHosts(**options(SmHosts)), UfmOptions(**options(UfmOptions))
    words = command_for_child(["undo"], where, stores_of(where), hosts, ufm)
    site.write_text("another one by then")
    child = parsed("undo", *words[words.index("undo") + 1 :]).params
    shared = {*parent} & {*child} & {*BY_PARAMETER} - {"smkey", "sm_wait"}
    assert {name: child[name] for name in shared} == {name: parent[name] for name in shared}
    assert {"ca", "keystore", "journal", "sm_host", "sudo", "sm_config", "ufm_token", "retries"} <= shared


# --- what is never in it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("yes", "force", "override", "all", "allow_removals", "allow-break", "allow_both_pkeys", "leave_open"),
        *("ask_unproven", "trust_topology", "first", "Lid", "direct", "guid", "name", "D", "ufm_insecure"),
        *("m_key", "new_m_key", "sm_key", "sa_key", "new_passphrase"),
    ],
)
def test_some_options_are_never_in_it(written: Written, name: str) -> None:
    result = run("pkey-show", "--site", written(f'{name} = "0x{KEY:x}"'))
    assert result.code == 2
    assert any(words in result.error for words in ("has to be typed", "keys are never in this file"))
    assert f"{KEY:x}" not in result.err


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_itself_is_refused_and_not_repeated(written: Written, name: str) -> None:
    for value in (f"0x{KEY:x}", "correct horse"):
        result = run("mkey-list", "--site", written(**{name: value}))
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
        ("port = '3'", "port has to be a number"),
        ("port = true", "port has to be a number"),
        ("sudo = 1", "sudo has to be true or false"),
        ("sm_host = 'a'", "sm_host has to be a list of texts"),
        ("sm_host = [1]", "sm_host has to be a list of texts"),
        ("sm_host = ['-oProxyCommand=x']", "is not a valid host name"),
        ("sm_host = ['a;touch /tmp/x']", "is not a valid host name"),
        ("sm_host = ['$(id)@b']", "is not a valid host name"),
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
        ("subnet = 'all'", "subnet has to be a list of port GUIDs"),
        ("subnet = []", "subnet has to be a list of port GUIDs"),
        ("subnet = [1]", "subnet has to be a list of port GUIDs"),
        ("subnet = ['x']", "GUID"),
        ("policy = 'opensm'", "policy needs subnet"),
        ("journal = '/var/lib/ibkeys/j.db'", "journal needs subnet"),
        ("keystore = '/var/lib/ibkeys/k.db'", "keystore needs subnet"),
        ("a.b.c.d.e.f.g.h.i.j = 1", "too many parts"),
        ("a = " + "[" * 5000, "is nested too deeply"),
    ],
)
def test_mistakes_are_named_in_one_line(written: Written, text: str, words: str) -> None:
    site = written(text)
    result = run("sm-show", "--dry-run", "--site", site)
    if result.code == 0:  # this command does not have that option
        result = run("pkey-show", "--site", site)
    assert (result.code, str(site) in result.error) == (2, True)
    assert words in result.error
    assert "secret" not in result.error


# --- who may write it, and what it names ------------------------------------------------------------------------------


def refused(site: Path, words: str) -> None:
    result = run("sm-show", "--dry-run", "--site", site)
    assert (result.code, result.out) == (2, "")
    assert words in result.error


def test_a_file_that_others_can_write_is_not_used(written: Written) -> None:
    site = written(ca="x")
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


def test_a_link_is_not_used_wherever_it_is_on_the_way(written: Written, tmp_path: Path) -> None:
    site = written(ca="x")
    link = tmp_path / "link.toml"
    link.symlink_to(site)
    refused(link, f"a symbolic link leads to it, so it is not used: name {site} itself")
    (tmp_path / "folder").symlink_to(tmp_path)
    refused(tmp_path / "folder" / "ibkeys.toml", f"name {site} itself")


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    refused(tmp_path / "fifo", "is a FIFO, not a regular file")
    refused(tmp_path, "is a directory, not a regular file")
    refused(Path("/dev/null"), "is a device, not a regular file")
    refused(Path("/dev/stdin"), "symbolic link")


def test_a_large_file_is_not_read(written: Written) -> None:
    site = written(ca="x")
    os.truncate(site, 100_000_000)
    refused(site, f"more than {MOST_BYTES} bytes")


def test_a_file_that_it_names_is_looked_at_like_itself(written: Written, shared: Path) -> None:
    named = shared / "named"
    named.touch(0o600)
    for name in FILES:
        value = f"@{named}" if name in SECRETS else str(named)
        site = written(**{name: value}, subnet=[LOCAL_PORT])
        parsed("apply", "--site", site)
        parsed("audit", "--site", site)
        named.chmod(0o666)
        with pytest.raises(FileFormatError, match=f"{name}: {named}: others can write it"):
            [parsed(command, "--site", site) for command in ("apply", "audit")]
        named.chmod(0o600)
        link = shared / f"link-{name}"
        link.symlink_to(named)
        site = written(**{name: value.replace(str(named), str(link))}, subnet=[LOCAL_PORT])
        with pytest.raises(FileFormatError, match=f"{name}: {link}: a symbolic link leads to it"):
            [parsed(command, "--site", site) for command in ("apply", "audit")]


@pytest.mark.parametrize("name", ["ssh_config", "policy"])
def test_a_file_that_it_names_is_a_regular_file(written: Written, tmp_path: Path, name: str) -> None:
    named = tmp_path / "named"
    os.mkfifo(named, 0o600)  # ssh would wait for somebody who writes to it
    site = written(**{name: str(named)}, subnet=[LOCAL_PORT])
    with pytest.raises(FileFormatError, match=f"{name}: {named}: is a FIFO, not a regular file"):
        [parsed(command, "--site", site) for command in ("apply", "audit")]
    named.unlink()
    named.mkdir()
    with pytest.raises(FileFormatError, match=f"{name}: {named}: is a directory, not a regular file"):
        [parsed(command, "--site", site) for command in ("apply", "audit")]


def test_of_a_store_that_is_not_there_yet_its_folder_is_looked_at(written: Written, shared: Path) -> None:
    site = written(journal=str(shared / "journal.db"), subnet=[LOCAL_PORT])
    assert parsed("apply", "--site", site).params["journal"] == str(shared / "journal.db")
    shared.chmod(0o777)
    with pytest.raises(FileFormatError, match=r"journal\.db: others can write it"):
        parsed("apply", "--site", site)
    site = written(journal="/nowhere/at/all.db", subnet=[LOCAL_PORT])
    with pytest.raises(FileFormatError, match="it is not known who may write it"):
        parsed("apply", "--site", site)


def test_a_value_that_is_typed_is_not_looked_at_in_the_file(written: Written, tmp_path: Path) -> None:
    site = written(ssh_config="/nowhere/config")
    refused(site, "ssh_config: /nowhere/config: it is not known who may write it")
    assert run("sm-show", "--dry-run", "--site", site, "--ssh-config", tmp_path / "mine").code == 0


# --- of which subnet --------------------------------------------------------------------------------------------------


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    """A local port that is not simulated; its port GUID is `LOCAL_PORT`."""
    monkeypatch.setattr(ibkeys, "open_port", lambda backend, local: AnsweringPort(EndlessFabric(2)))


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("name", ["keystore", "journal", "smkey"])
def test_a_store_of_another_subnet_is_refused(written: Written, tmp_path: Path, key_file: Path, name: str) -> None:
    value = f"@{key_file}" if name == "smkey" else str(tmp_path / "store.db")
    here = run("pkey-show", "--site", written(**{name: value}, subnet=["0x1", LOCAL_PORT]))
    assert here.code == 0, here.err
    site = written(**{name: value}, subnet=["0x0002c903000a9999"])
    elsewhere = run("pkey-show", "--site", site)
    assert (elsewhere.code, elsewhere.out) == (4, "")
    for words in (str(site), name, LOCAL_PORT, "another subnet for", "nothing was changed", "--site"):
        assert words in elsewhere.error
    if name != "smkey":  # which this command takes only where it asks the SA
        assert run("pkey-show", "--site", site, f"--{name}", tmp_path / "own.db").code == 0


@pytest.mark.usefixtures("real")
def test_a_policy_of_another_subnet_is_refused(written: Written, tmp_path: Path) -> None:
    (tmp_path / "p.conf").write_text("Default=0x7fff: ALL=full;\n")
    site = written(policy=str(tmp_path / "p.conf"), subnet=["0x0002c903000a9999"])
    elsewhere = run("matrix", "--site", site)
    assert (elsewhere.code, "names another subnet for policy" in elsewhere.error) == (4, True)
    assert run("pkey-show", "--site", site).code == 0  # which has no policy


@pytest.mark.usefixtures("real")
def test_a_plan_names_no_method_where_the_file_fixes_it(written: Written, tmp_path: Path) -> None:
    (tmp_path / "p.conf").write_text("Default=0x7fff: ALL=full;\n")
    for via, is_named in (("auto", True), ("opensm", False), ("ufm:https://ufm.example", False)):
        made = run("plan", "--policy", tmp_path / "p.conf", "--site", written(via=via))
        assert ("method of an apply now" in made.out) == is_named, made


@pytest.mark.usefixtures("real")
def test_hosts_and_ports_need_no_subnet(written: Written) -> None:
    assert run("pkey-show", "--site", written(sm_host=["sm1"], retries=0, subnet=["0x0002c903000a9999"])).code == 0


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


def test_a_journal_of_the_site_file_is_the_one_that_is_read(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "of_site.db"
    with Journal(path) as journal:
        journal.begin("apply", "{}", "{}")
    site = written(journal=str(path), subnet=[LOCAL_PORT])
    assert [each["command"] for each in run("journal", "-f", "json", "--site", site).json["operations"]] == ["apply"]


# --- what doctor says of it -------------------------------------------------------------------------------------------


def sources(*args: object) -> dict[str, tuple[Any, str]]:
    """Return the value and the source of each setting, as doctor has them."""
    settings = run("doctor", "-f", "json", *args).json["settings"]
    return {each["name"]: (each["value"], each["source"]) for each in settings}


@pytest.mark.usefixtures("real")
def test_doctor_shows_each_value_with_its_source(
    written: Written, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ibdiag.conf"
    config.write_text(f"timeout=700\nPort=1\nsa_key=0x{KEY:x}\n")
    config.chmod(0o600)
    site = written(retries=5, sm_host=["sm1", "sm2"], sudo=True, via="opensm", port=2)
    monkeypatch.setenv("IBKEYS_WAIT", "90")
    monkeypatch.setenv("IBKEYS_UFM_TOKEN", "t0p")
    monkeypatch.setenv("IBKEYS_POLICY", "ufm:https://me:secret@ufm")
    found = sources("--site", site, "-z", config, "-C", "mlx5_0")
    assert list(found) == list(SETTINGS)
    assert {name: each for name, each in found.items() if each[1] != "default"} == {
        "ca": ("mlx5_0", "command line"),
        "port": (2, "site file"),
        "timeout": (700, "ibdiag.conf"),
        "retries": (5, "site file"),
        "via": ("opensm", "site file"),
        "sm_host": (["sm1", "sm2"], "site file"),
        "sudo": (True, "site file"),
        "wait": ("90", "environment"),
        "smkey": ("(not shown)", "ibdiag.conf"),
        "policy": ("(not shown)", "environment"),
        "ufm_token": ("(not shown)", "environment"),
    }
    text = run("doctor", "--site", site, "-z", config, "--smkey", f"@{key_file}").out
    for line in ("sm_host = sm1, sm2 (site file)", "sudo = true (site file)", f"smkey = @{key_file} (command line)"):
        assert f"set      {line}\n" in text
    assert "node_name_map" not in text


@pytest.mark.usefixtures("real")
def test_a_mistake_in_the_file_is_a_problem_that_doctor_shows(written: Written, tmp_path: Path) -> None:
    for site, words in (
        (written("no TOML"), "is not TOML"),
        (tmp_path / "missing.toml", "cannot read the site file"),
    ):
        result = run("doctor", "--site", site)
        assert result.code == 1
        assert [line.split()[:3] for line in result.out.splitlines() if words in line] == [["PROBLEM", "site", "file"]]
    site = written(port=300, retries=5, ssh_config="/nowhere/c")
    checks = run("doctor", "-f", "json", "--site", site).json["checks"]
    assert [(each["ok"], each["detail"]) for each in checks if each["name"] == "site file"] == [
        (False, f"{site}: port: 300 is not in 1..254"),
        (False, f"{site}: ssh_config: /nowhere/c: it is not known who may write it, so it is not used"),
    ]
    assert sources("--site", site)["retries"] == (5, "site file")


@pytest.mark.usefixtures("real")
def test_doctor_says_which_file_is_in_force(written: Written) -> None:
    site = written(retries=5, subnet=[LOCAL_PORT])
    checks = run("doctor", "-f", "json", "--site", site).json["checks"]
    assert [each for each in checks if each["name"] == "site file"] == [
        {"name": "site file", "ok": True, "detail": f"{site}: 1 value of the subnet of {LOCAL_PORT}", "advice": None}
    ]
    assert "site file" not in run("doctor").out

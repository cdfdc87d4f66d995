"""The site file: which values a command takes of it, before and after which other sources, and what doctor shows.

Most of these commands are for a real stack, which is not there: they are parsed, or end where they would open a port.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click
import pytest
from click.core import ParameterSource

import ibkeys
from ibkeys.cli.given import given_options
from ibkeys.cli.guarding import command_for_child
from ibkeys.cli.opening import stores_of
from ibkeys.cli.options import SmHosts, Where
from ibkeys.cli.site.file import DEFAULT_SITE
from ibkeys.cli.site.settings import BY_PARAMETER, REHEARSAL, SETTINGS
from ibkeys.cli.sm.ufm import UfmOptions
from ibkeys.plan.document_reader import read_plan
from ibkeys.store.journal import Journal
from tests.cli.conftest import KEY, TWO_SWITCH, run
from tests.cli.sites import FILES, LOCAL_PORT, SECRETS, Written, commands, parsed, toml
from tests.hostile import AnsweringPort, EndlessFabric

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
    assert found == {*SETTINGS} - {REHEARSAL}


def test_each_command_that_takes_a_backend_takes_a_site_file() -> None:
    for name, command in commands():
        names = {each.name for each in command.params if isinstance(each, click.Option)}
        assert ("site" in names) == ("backend" in names), name


def test_the_command_line_comes_first_then_the_environment_then_the_site_file_then_ibdiag_conf(
    site_file: Written, tmp_path: Path, opened: list[tuple[str, ibkeys.Local]], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ibdiag.conf"
    config.write_text("CA=config\nPort=4\n")
    site = site_file(ca="site")
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


def test_a_default_comes_last(site_file: Written) -> None:
    assert parsed("pkey-show").params["retries"] == 2
    assert parsed("pkey-show", "--site", site_file(retries=5)).params["retries"] == 5
    assert parsed("pkey-show", "--site", site_file(ca="x")).params["retries"] == 2


def test_hosts_are_those_of_the_command_line_or_those_of_the_file(site_file: Written) -> None:
    site = site_file(sm_host=["root@sm1", "sm2"], sudo=True)
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
    site_file: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibkeys.cli.site.file.DEFAULT_SITE", site_file(ca="default"))
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


def test_a_method_is_taken_by_commands_that_have_it(site_file: Written) -> None:
    ufm = site_file(via="ufm:https://ufm.example")
    assert parsed("apply", "plan.json", "--site", ufm).params["via"] == "ufm:https://ufm.example"
    assert parsed("mkey-rotate", "--site", ufm).params["via"] == parsed("mkey-rotate").params["via"]
    direct = site_file(via="direct")
    assert parsed("mkey-rotate", "--site", direct).params["via"] == "direct"
    for only_opensm in ("harden", "smkey-rotate"):
        assert parsed(only_opensm, "--site", direct).get_parameter_source("via") is ParameterSource.DEFAULT


def test_wait_is_for_subnet_managers_and_a_policy_is_none_of_a_hardening(site_file: Written, tmp_path: Path) -> None:
    site = site_file(wait=90, policy=str(tmp_path / "p.conf"), subnet=[LOCAL_PORT])
    assert parsed("apply", "--site", site).params["sm_wait"] == 90
    for others in ("compare", "mkey-recover"):
        assert parsed(others, "--site", site).params["wait"] == parsed(others).params["wait"]
    assert parsed("plan", "--site", site).params["policy_file"] == str(tmp_path / "p.conf")
    assert parsed("audit", "--site", site).params["policy"] == str(tmp_path / "p.conf")
    assert parsed("harden", "--site", site).params["policy_to_reach"] is None


def test_what_means_nothing_in_this_run_is_ignored(site_file: Written, tmp_path: Path, key_file: Path) -> None:
    (tmp_path / "sm.log").touch()
    site = site_file(
        smkey=f"@{key_file}", sm_host=["sm1"], wait=9, standby_wait=9, journal=f"{tmp_path}/j", subnet=["0x1"]
    )
    watched = run("watch", "--opensm-log", tmp_path / "sm.log", "--site", site, "-C", "no_such")
    assert "omit --smkey" not in watched.err
    typed = run("watch", "--opensm-log", tmp_path / "sm.log", "--smkey", f"@{key_file}", "-C", "no_such")
    assert (typed.code, "omit --smkey" in typed.error) == (2, True)
    assert run("journal", "--site", site).code == 0
    assert run("journal", "--journal", tmp_path / "j").code == 3


def test_the_journal_has_only_what_was_typed_or_is_in_the_environment(
    site_file: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBKEYS_CA", "of_environment")
    site = site_file(port=2, timeout=300, sm_host=["sm1"], via="opensm")
    with parsed("apply", "plan.json", "--site", site, "--allow-break").scope():
        assert sorted(given_options()) == ["--Ca of_environment", "--allow-break", f"--site {site}"]


# --- where it is not read ---------------------------------------------------------------------------------------------


def test_it_is_not_read_for_a_simulated_subnet_or_a_snapshot(
    site_file: Written, taken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBKEYS_SITE", str(site_file("no TOML")))
    assert run("pkey-show").code == 0  # IBKEYS_BACKEND is a simulated subnet
    monkeypatch.delenv("IBKEYS_BACKEND")
    assert run("pkey-show", "--from", taken, "--all").code == 0
    assert run("pkey-show", "--backend", TWO_SWITCH).code == 0
    broken = run("pkey-show")
    assert (broken.code, "is not TOML" in broken.error) == (2, True)


def test_one_that_is_typed_there_is_refused(site_file: Written, taken: Path) -> None:
    site = site_file(ca="x")
    simulated = run("pkey-show", "--site", site)
    assert (simulated.code, "simulated subnet: omit --site" in simulated.error) == (2, True)
    assert run("pkey-show", "--site", "none").code == 0
    recorded = run("pkey-show", "--all", "--from", taken, "--site", site)
    assert (recorded.code, "--from reads a file" in recorded.error) == (2, True)


def test_help_and_version_need_no_site_file(site_file: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_SITE", str(site_file("no TOML")))
    for word in ("--help", "--help-all", "--version"):
        for name in ("apply", "plan", "keystore"):
            assert run(name, word).code == 0


def test_the_process_that_rolls_back_has_the_same_values_and_reads_no_site_file(
    site_file: Written, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {name: str(tmp_path / name) for name in FILES}
    for each in names.values():
        Path(each).touch(0o600)
    secrets = dict.fromkeys(SECRETS, f"@{key_file}")
    site = site_file(
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


# --- of which subnet --------------------------------------------------------------------------------------------------


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    """A local port that is not simulated; its port GUID is `LOCAL_PORT`."""
    monkeypatch.setattr("ibkeys.opening.open_port", lambda backend, local: AnsweringPort(EndlessFabric(2)))


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("name", ["keystore", "journal", "smkey"])
def test_a_store_of_another_subnet_is_refused(site_file: Written, tmp_path: Path, key_file: Path, name: str) -> None:
    value = f"@{key_file}" if name == "smkey" else str(tmp_path / "store.db")
    here = run("pkey-show", "--site", site_file(**{name: value}, subnet=["0x1", LOCAL_PORT]))
    assert here.code == 0, here.err
    site = site_file(**{name: value}, subnet=["0x0002c903000a9999"])
    elsewhere = run("pkey-show", "--site", site)
    assert (elsewhere.code, elsewhere.out) == (4, "")
    for words in (str(site), name, LOCAL_PORT, "another subnet for", "nothing was changed", "--site"):
        assert words in elsewhere.err
    assert ("there is no such file" in here.err) == (name == "keystore")  # a path with a typing mistake is noticed
    if name != "smkey":  # which this command takes only where it asks the SA
        assert run("pkey-show", "--site", site, f"--{name}", tmp_path / "own.db").code == 0


@pytest.mark.usefixtures("real")
def test_a_policy_of_another_subnet_is_refused(site_file: Written, tmp_path: Path) -> None:
    (tmp_path / "p.conf").write_text("Default=0x7fff: ALL=full;\n")
    site = site_file(policy=str(tmp_path / "p.conf"), subnet=["0x0002c903000a9999"])
    elsewhere = run("matrix", "--site", site)
    assert (elsewhere.code, "names another subnet for policy" in elsewhere.error) == (4, True)
    assert run("pkey-show", "--site", site).code == 0  # which has no policy


@pytest.mark.usefixtures("real")
def test_a_plan_names_the_method_that_the_file_fixes(site_file: Written, tmp_path: Path) -> None:
    """So that an apply elsewhere, without this file, does not go another way unnoticed. A URL of UFM is in no plan."""
    (tmp_path / "p.conf").write_text("Default=0x7fff: ALL=full;\n")
    for via, method in (("opensm", "opensm"), ("direct", "direct"), ("ufm:https://ufm.example", None)):
        out = tmp_path / f"{method}.json"
        made = run("plan", "--policy", tmp_path / "p.conf", "--out", out, "--site", site_file(via=via))
        assert (f"method of an apply now: {method} (site file)" in made.out) == (method is not None), made
        assert read_plan(out).method == method


@pytest.mark.usefixtures("real")
def test_hosts_and_ports_need_no_subnet(site_file: Written) -> None:
    assert run("pkey-show", "--site", site_file(sm_host=["sm1"], retries=0, subnet=["0x0002c903000a9999"])).code == 0


def test_a_journal_of_the_site_file_is_the_one_that_is_read(site_file: Written, tmp_path: Path) -> None:
    path = tmp_path / "of_site.db"
    with Journal(path) as journal:
        journal.begin("apply", "{}", "{}")
    site = site_file(journal=str(path), subnet=[LOCAL_PORT])
    assert [each["command"] for each in run("journal", "-f", "json", "--site", site).json["operations"]] == ["apply"]


# --- what doctor says of it -------------------------------------------------------------------------------------------


def sources(*args: object) -> dict[str, tuple[Any, str]]:
    """Return the value and the source of each setting, as doctor has them."""
    settings = run("doctor", "-f", "json", *args).json["settings"]
    return {each["name"]: (each["value"], each["source"]) for each in settings}


@pytest.mark.usefixtures("real")
def test_doctor_shows_each_value_with_its_source(
    site_file: Written, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ibdiag.conf"
    config.write_text(f"timeout=700\nPort=1\nsa_key=0x{KEY:x}\n")
    config.chmod(0o600)
    site = site_file(retries=5, sm_host=["sm1", "sm2"], sudo=True, via="opensm", port=2)
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
def test_a_mistake_in_the_file_is_a_problem_that_doctor_shows(site_file: Written, tmp_path: Path) -> None:
    for site, words in (
        (site_file("no TOML"), "is not TOML"),
        (tmp_path / "missing.toml", "cannot read the site file"),
    ):
        result = run("doctor", "--site", site)
        assert result.code == 1
        assert [line.split()[:3] for line in result.out.splitlines() if words in line] == [["PROBLEM", "site", "file"]]
    site = site_file(port=300, retries=5, ssh_config="/nowhere/c")
    checks = run("doctor", "-f", "json", "--site", site).json["checks"]
    assert [(each["ok"], each["detail"]) for each in checks if each["name"] == "site file"] == [
        (False, f"{site}: port: 300 is not in 1..254"),
        (False, f"{site}: ssh_config: /nowhere/c: it is not known who may write it, so it is not used"),
    ]
    assert sources("--site", site)["retries"] == (5, "site file")


@pytest.mark.usefixtures("real")
def test_doctor_names_each_file_that_is_missing(site_file: Written, tmp_path: Path) -> None:
    """The first change creates a store; everything else has to be there."""
    named = {name: str(tmp_path / name) for name in ("policy", "ssh_config", "journal")}
    site = site_file(**named, smkey=f"@{tmp_path}/key", sm_host=["sm1"], subnet=[LOCAL_PORT])
    result = run("doctor", "-f", "json", "--site", site)
    assert result.code == 1
    assert [(each["ok"], each["detail"]) for each in result.json["checks"] if each["name"] == "site file"] == [
        (False, f"policy: {named['policy']}: no such file"),
        (False, f"ssh_config: {named['ssh_config']}: no such file"),
        (False, f"smkey: {tmp_path}/key: no such file"),
    ]


@pytest.mark.usefixtures("real")
def test_doctor_says_which_file_is_in_force(site_file: Written) -> None:
    site = site_file(retries=5, subnet=[LOCAL_PORT])
    checks = run("doctor", "-f", "json", "--site", site).json["checks"]
    assert [each for each in checks if each["name"] == "site file"] == [
        {"name": "site file", "ok": True, "detail": f"{site}: 1 value of the subnet of {LOCAL_PORT}", "advice": None}
    ]
    assert "site file" not in run("doctor").out

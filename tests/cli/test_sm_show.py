"""sm-show: the fabric of a simulated subnet, and the OpenSMs of a made-up /proc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.managers.elsewhere.remote import program
from tests.cli.conftest import TWO_SWITCH, Cli, on_terminal, run

SM = f"{TWO_SWITCH},sm=node02 mlx4_0"
KEY = "0xfeedc0dedeadbea7"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Let OpenSMs run in a /proc of the test's own."""
    monkeypatch.setattr("ibkeys.managers.opensm.process.PROC", tmp_path / "proc")
    monkeypatch.setattr("ibkeys.managers.opensm.process.OPENSM_CACHE", tmp_path / "cache")
    monkeypatch.delenv("IBSIM_SOCKNAME", raising=False)

    def opensm(pid: int, *arguments: str) -> Path:
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "cmdline").write_text("".join(f"{word}\0" for word in ("opensm", *arguments)))
        (folder / "environ").write_text(f"OSM_TMP_DIR={tmp_path}\0SECRET={KEY}\0")
        for name, target in (("root", "/"), ("cwd", tmp_path), ("exe", "/usr/sbin/opensm")):
            (folder / name).symlink_to(target)
        return folder

    return opensm


def test_the_managers_of_a_simulated_subnet_and_no_host() -> None:
    result = run("sm-show", "--backend", SM)
    assert result.code == 0
    assert result.out.startswith("master: node02 mlx4_0 (ca 0x0002c903000a1020) port 1, LID 2, GUID 0x0002c903000a1021")
    document = run("sm-show", "--backend", SM, "-f", "json").json
    assert (document["schema"], document["hosts"], document["dangers"]) == ("ibkeys.sm-show/2", [], [])
    assert [(each["state"], each["lid"], each["host"]) for each in document["managers"]] == [("master", 2, None)]


def test_a_subnet_without_a_manager_and_a_snapshot(cli: Cli, tmp_path: Path) -> None:
    assert "no port of the fabric says that a subnet manager runs there" in cli("sm-show").out
    run("snapshot", tmp_path / "s.db", "--backend", SM)
    assert run("sm-show", "--from", tmp_path / "s.db").out == run("sm-show", "--backend", SM).out


def test_without_a_fabric_the_host_is_shown_and_the_result_is_partial(
    proc: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "osm.conf").write_text(f"m_key {KEY}\nsa_key true\n")
    (proc(77, "-F", "osm.conf", "-k", KEY, "-Pparts.conf") / "environ").chmod(0o600)
    result = run("sm-show", "-C", "no-such-device")
    assert result.code == 3
    assert "ibkeys: not read: the fabric: " in result.err
    assert "the fabric was not read, so its subnet managers are not known" in result.out
    assert "--config osm.conf --smkey (a key, not shown) --Pconfig parts.conf" in result.out
    assert f"{tmp_path}/osm.conf" in result.out
    for danger in ("policy-missing", "sa-key-default", "key-on-command-line", "no-number"):
        assert f"\n{danger}: OpenSM (process 77): " in result.out
    document = run("sm-show", "-C", "no-such-device", "-f", "json")
    assert (document.json["managers"], document.json["hosts"][0]["instances"][0]["pid"]) == (None, 77)
    for text in (result.out, result.err, document.out, document.err):
        assert KEY[2:] not in text
        assert str(int(KEY, 16)) not in text


def test_files_options_and_dangers_fit_a_terminal(proc: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "osm.conf").write_text("sa_key true\nallow_both_pkeys TRUE\n")
    proc(77, "-F", "osm.conf", "-Pparts.conf", "-M_Key")
    out = on_terminal("sm-show", "-C", "no-such-device").out
    assert f"{tmp_path}/osm.conf" in "".join(out.split())
    assert [line for line in out.splitlines() if len(line) > 80] == []


def test_what_may_not_be_read_of_a_process_is_said(proc: Callable[..., Path]) -> None:
    folder = proc(77)
    for name in ("environ", "cwd", "root"):
        (folder / name).unlink()
    result = run("sm-show", "-C", "no-such-device")
    assert result.code == 3
    assert "ibkeys: not read: OpenSM (process 77): its output: cannot be read; run as root" in result.err
    assert "ibkeys: not read: OpenSM (process 77): its dumps: " in result.err


def test_a_host_without_an_opensm(proc: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proc").mkdir()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    out = run("sm-show", "-C", "no-such-device").out
    assert "\nno OpenSM was found on this host\n" in out
    assert out.endswith("\ndangers were not checked: not examined: the fabric, the files and options of any OpenSM\n")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    out = run("sm-show", "-C", "no-such-device").out
    assert "\nno OpenSM was found on this host (run as root to be certain)\n" in out


# --- other hosts ------------------------------------------------------------------------------------------------------


def test_what_would_be_asked_where_is_shown_and_nobody_is_asked(tmp_path: Path) -> None:
    result = run("sm-show", "--sm-host", "sm2", "--sudo", "--ssh-config", tmp_path / "c", "--dry-run")
    assert result.code == 0
    assert f"\n  ssh -F {tmp_path}/c -T -a -x -o BatchMode=yes -o StrictHostKeyChecking=yes " in result.out
    assert result.out.endswith("-- sm2 'sudo -n /bin/sh -s'\n(-v shows the program)\n")
    shown = run("sm-show", "--sm-host", "sm2", "--dry-run", "-v").out
    assert shown.endswith(program())
    assert "--sm-host" not in run("sm-show", "--backend", SM, "--dry-run").out


@pytest.mark.parametrize("host", ["-oProxyCommand=touch x", "a;b", ""])
def test_what_is_no_name_of_a_host_is_wrong_usage(host: str) -> None:
    result = run("sm-show", f"--sm-host={host}")
    assert (result.code, "is not a valid host name" in result.error) == (2, True)


def test_other_hosts_do_not_go_with_a_simulated_subnet_or_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("sm-show", "--backend", SM, "--sm-host", "sm2").code == 2
    assert run("sm-show", "--from", tmp_path / "s.db", "--sm-host", "sm2").code == 2
    monkeypatch.setenv("IBKEYS_SM_HOST", "sm2 sm3")
    assert run("sm-show", "--backend", SM).code == 0, "the environment means the real subnet"
    assert "-- sm3 '/bin/sh -s'" in run("sm-show", "--dry-run").out


def test_a_host_that_cannot_be_reached_is_said_and_the_rest_is_shown(
    proc: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a stub in the place of ssh, which says what the real one does."""
    proc(77)
    (tmp_path / "ssh").write_text("#!/bin/sh\necho 'ssh: Could not resolve hostname sm2' >&2\nexit 255\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    result = run("sm-show", "-C", "no-such-device", "--sm-host", "sm2")
    assert result.code == 3
    assert "\nhost sm2: not examined: it ended: ssh: Could not resolve hostname sm2\n" in result.out
    assert "OpenSM (process 77)" in result.out


def test_hosts_may_stand_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sm.toml").write_text('[[host]]\nname = "sm2"\nsudo = true\n')
    shown = run("sm-show", "--sm-config", tmp_path / "sm.toml", "--dry-run").out
    assert shown.endswith("-- sm2 'sudo -n /bin/sh -s'\n(-v shows the program)\n")
    monkeypatch.setattr("ibkeys.managers.settings.DEFAULT_SETTINGS", tmp_path / "sm.toml")
    assert run("sm-show", "--dry-run").out == shown
    assert "sm2" not in run("sm-show", "--dry-run", "--sm-host", "sm3").out, "the command line wins"
    result = run("sm-show", "--sm-config", tmp_path / "none.toml")
    assert (result.code, "none.toml" in result.error) == (3, True)

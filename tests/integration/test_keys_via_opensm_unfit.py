"""What a change of the M_Key through OpenSM refuses, before anything is written or sent: the ways in which that OpenSM
would lose ports, show the key to others, or not read its file. Numbers of dangers as in the facts."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibkeys.mad.const import CapabilityMask
from tests.corpus import DATA
from tests.integration.hosted import Hosted, RunningOpensm, facts, running_until_the_end
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.keyed_opensm import CONF, POLICY, KeyedOpensm, Keys, heard_by_nobody, keyed
from tests.sample import in_soak

NET = DATA / "fabrics" / "two-switch.net"
DEPLOY = ("mkey-deploy", "--protect", "2", "--lease", "60")
KEY = 0xA94F13D02E7C5B68
FOREIGN = 0x1D5E83B7469C20FA
HOST = "node03 mlx4_0"


def with_key(level: int) -> str:
    """Return the options of an OpenSM that has a key since before ibkeys was there."""
    return CONF + f"m_key {KEY:#x}\nm_key_protection_level {level}\nm_key_lease_period 60\n"


@pytest.fixture
def opensm() -> Iterator[KeyedOpensm]:
    with keyed(NET) as running:
        yield running


def refused(opensm: KeyedOpensm, *words: str, code: int = 4) -> str:
    """Run a command that has to be refused; return the error. Nothing on disk or on the wire may have changed."""
    before = facts(opensm.conf), opensm.mode(opensm.served.folder), opensm.keys()
    found, said = opensm.ibkeys(*words)
    assert found == code, said
    assert (facts(opensm.conf), opensm.mode(opensm.served.folder), opensm.keys()) == before
    assert opensm.refused == []
    return next(line for line in said.splitlines() if line.startswith("ibkeys: error: "))


def has(level: int, keys: Keys) -> bool:
    return {found for _, found, _ in keys} == {level}


# --- keys that are not at hand ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [in_soak(1), 2])
def test_keys_that_only_opensm_has_are_taken_over_first_as_the_error_says(level: int) -> None:
    with keyed(NET, with_key(level)) as opensm:
        opensm.running.sweep()
        error = refused(opensm, "mkey-rotate")
        found = re.search(r"`ibkeys (keystore import [^`]*)`", error)
        assert found is not None, error
        (opensm.served.folder / "guid2mkey").chmod(0o600)
        opensm.conf.chmod(0o600)
        opensm.running.sweep()  # a new mode looks like an edit that nobody has read
        done = opensm.served.ibkeys(*found[1].split())
        assert done.returncode == 0, done.stdout + done.stderr
        code, said = opensm.ibkeys("mkey-rotate")
        assert code == 0, said
        [(key, _, _)] = opensm.keys()
        assert key != KEY
        opensm.assert_nothing_was_lost()


def test_keys_of_an_opensm_of_another_subnet_are_not_asked_for() -> None:
    """Its guid2mkey does not name the local port."""
    with keyed(NET, CONF + "m_key_protection_level 2\n") as opensm:
        (opensm.served.folder / "guid2mkey").write_text(f"0x0000000000000777 0x{FOREIGN:016x}\n\n")
        code, said = opensm.ibkeys(*DEPLOY)
        assert code == 0, said


def test_a_port_that_hides_a_key_which_nobody_knows_is_named(opensm: KeyedOpensm) -> None:
    code, said = opensm.ibkeys("mkey-deploy", "--protect", "1", "--lease", "60")
    assert code == 0, said
    opensm.served.net.port(HOST, 1).info[:8] = FOREIGN.to_bytes(8)
    error = refused(opensm, "mkey-rotate")
    assert HOST in error
    assert "`ibkeys sm-repair` finds which key of the key store each port has" in error
    assert "keystore import" not in error, "the key store has the keys of guid2mkey already"
    assert "mkey-recover" in opensm.ibkeys("mkey-rotate", "-v")[1]


def test_a_port_with_a_key_of_its_own_is_for_opensm_to_set_first(opensm: KeyedOpensm) -> None:
    code, said = opensm.ibkeys("mkey-deploy", "--protect", "0")
    assert code == 0, said
    opensm.served.net.port(HOST, 1).info[:8] = FOREIGN.to_bytes(8)
    error = refused(opensm, "mkey-rotate")
    assert "they have 2 keys" in error
    assert "SIGHUP" in error
    opensm.running.sweep()
    code, said = opensm.ibkeys("mkey-rotate")
    assert code == 0, said
    assert len(opensm.keys()) == 1


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (("m_key_protection_level 2", "m_key_protection_level 1"), "says level 1, lease 60 s"),
        in_soak(("m_key 0x", "m_key 0x1"), "says another M_Key"),
        in_soak(("m_key ", "#m_key "), "says another M_Key"),
    ],
)
def test_an_options_file_that_says_otherwise_than_the_ports(
    opensm: KeyedOpensm, edit: tuple[str, str], says: str
) -> None:
    code, said = opensm.ibkeys(*DEPLOY)
    assert code == 0, said
    opensm.conf.write_text(opensm.conf.read_text().replace(edit[0], edit[1], 1))
    assert says in refused(opensm, "mkey-rotate")


# --- dangers ----------------------------------------------------------------------------------------------------------


def test_5_an_sm_that_is_on_no_host_that_was_reached(opensm: KeyedOpensm) -> None:
    port = opensm.served.net.port("node05 mlx4_0", 1)
    opensm.served.net.software.set_capability(port, int(CapabilityMask.IS_SM), True)
    error = refused(opensm, *DEPLOY)
    assert "node05 mlx4_0" in error
    assert "--sm-host" in error
    refused(opensm, *DEPLOY, "--override", "opensm-keys", code=2)  # there is no such interlock


def test_5_an_sm_that_comes_in_the_middle_is_named_before_the_level_rises(opensm: KeyedOpensm) -> None:
    port = opensm.served.net.port("node05 mlx4_0", 1)

    def come() -> None:
        port.info[23] |= CapabilityMask.IS_SM  # no trap 144: OpenSM may repress it with the key of before

    with opensm.at_set(3, come):
        code, said = opensm.ibkeys(*DEPLOY)
    assert code == 4, said
    assert "an unknown SM has appeared at 'node05 mlx4_0'" in said
    assert has(0, opensm.keys())
    code, said = opensm.ibkeys("resume")
    assert code == 4, said
    assert has(0, opensm.keys())
    port.info[23] ^= CapabilityMask.IS_SM
    code, said = opensm.ibkeys("resume")
    assert code == 0, said
    assert has(2, opensm.keys())
    assert (opensm.violations(), opensm.traps, opensm.refused) == (0, 0, [])


@pytest.mark.parametrize("way", ["resume", in_soak("undo")])
def test_a_run_of_one_subnet_does_not_go_on_in_another(opensm: KeyedOpensm, tmp_path: Path, way: str) -> None:
    """A host with two adapters may have two subnets, and one key store."""
    port = opensm.served.net.port("node05 mlx4_0", 1)

    def come() -> None:
        port.info[23] |= CapabilityMask.IS_SM

    with opensm.at_set(3, come):
        code, said = opensm.ibkeys(*DEPLOY)
    assert code == 4, said
    net = tmp_path / "other.net"
    net.write_text(NET.read_text().replace("2c903000a", "2c903000b").replace("2c90200401", "2c90200402"))
    with keyed(net) as other:
        shutil.copytree(opensm.served.folder / "stores", other.served.folder / "stores", dirs_exist_ok=True)
        error = refused(other, way, code=4)
        assert "is on this subnet" in error
        assert other.number_of_keys() == 1


def test_6_the_default_sa_key_shows_the_m_key_to_everybody() -> None:
    with keyed(NET, "sweep_interval 3\n") as opensm:
        error = refused(opensm, *DEPLOY)
        assert "interlock default-sa-key" in error
        assert "smkey-rotate --via opensm" in error
        code, said = opensm.ibkeys(*DEPLOY, "--override", "default-sa-key")
        assert code == 0, said
        assert has(2, opensm.keys())
        opensm.assert_nothing_was_lost()


@pytest.mark.parametrize("value", [in_soak("FALSE"), "true", in_soak("yes")])
def test_8_and_9_without_m_key_lookup_no_key_is_changed(value: str) -> None:
    """Only the exact word TRUE is true."""
    with keyed(NET, CONF + f"m_key_lookup {value}\n") as opensm:
        error = refused(opensm, *DEPLOY)
        assert "m_key_lookup is FALSE" in error
        assert "exactly that word" in error


def test_7_a_lease_that_nobody_would_stop_and_a_sweep_interval_that_cannot_be_mended_by_a_signal() -> None:
    with keyed(NET, CONF.replace("sweep_interval 3", "sweep_interval 0")) as opensm:
        error = refused(opensm, *DEPLOY)
        assert "sweep_interval is 0" in error
        assert "restart that OpenSM" in error
        code, said = opensm.ibkeys("mkey-deploy", "--protect", "1", "--lease", "0")
        assert code == 0, said


@pytest.mark.parametrize("lease", [in_soak(2), 3])
def test_7_a_lease_that_is_not_above_the_sweep_interval(opensm: KeyedOpensm, lease: int) -> None:
    error = refused(opensm, "mkey-deploy", "--protect", "2", "--lease", str(lease))
    assert "ask for --lease 9 or more" in error


def test_1_an_options_file_that_was_absent_at_start_is_made_by_the_command_that_is_printed(tmp_path: Path) -> None:
    with Hosted(NET) as served:
        policy = served.folder / "partitions.conf"
        policy.write_text(POLICY)
        command = served.opensm_arguments("", policy, ("-f", "stdout", "-D", "0x07"))
        running = RunningOpensm(served, command, policy)
        opensm = KeyedOpensm(served, running)
        opensm.conf.unlink()
        with running_until_the_end(running):
            found, said = opensm.ibkeys(*DEPLOY, "--override", "default-sa-key")
            assert found == 4, said
            assert not opensm.conf.exists()
            typed = re.search(r"\(umask 077; .*?\)(?=;)", said)
            assert typed is not None, said
            subprocess.run(["bash", "-c", typed[0]], check=True, capture_output=True, timeout=RUN_TIMEOUT)
            assert opensm.mode(opensm.conf) == 0o600
            running.kill()
            running.start()
            found, said = opensm.ibkeys(*DEPLOY, "--override", "default-sa-key")
            assert found == 0, said
            assert has(2, opensm.keys())


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_folder_of_key_files_that_everybody_may_write_to_is_not_closed(opensm: KeyedOpensm) -> None:
    """As /tmp: other programs would be locked out, and who writes there could have put guid2mkey there."""
    opensm.served.folder.chmod(0o1777)
    error = refused(opensm, *DEPLOY)
    assert "everybody may write to" in error
    assert "OSM_CACHE_DIR" in error


def test_an_options_file_of_somebody_elses_program(opensm: KeyedOpensm) -> None:
    opensm.conf.write_text("# Ansible managed\n" + opensm.conf.read_text())
    error = refused(opensm, *DEPLOY)
    assert "interlock file-managed" in error


def test_a_file_with_opensms_output_that_others_can_read() -> None:
    with Hosted(NET) as served, tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        output = Path(folder) / "out"
        output.touch(0o644)
        with output.open("wb") as file, heard_by_nobody(served, CONF, file):
            done = served.ibkeys(*DEPLOY, "--via", "opensm", "--yes")
            assert done.returncode == 4, done.stdout + done.stderr
            assert "interlock sm-prints-keys" in done.stderr
            assert str(output) in done.stderr
            output.chmod(0o600)
            done = served.ibkeys(*DEPLOY, "--via", "opensm", "--yes")
            assert done.returncode == 0, done.stdout + done.stderr

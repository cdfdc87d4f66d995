"""A lost key store or journal, and keys that are imported amid an unfinished run: commands go on, or say which does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.keys.mkey import MKey
from ibkeys.mad.const import Method
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal, RunningOperation
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.opensm import MKEY_FILE
from tests.cli.conftest import KEY, Cli, between_commands
from tests.cli.rolling import LEVEL_2, shown


def violations(folder: Path) -> int:
    with between_commands(folder) as net:
        return sum(port.m_key_violations for node in net.nodes for port in node.end_ports)


@pytest.mark.parametrize(
    ("lost", "code", "says"),
    [
        (("keys",), 3, "it was lost or replaced since then"),
        (("journal",), 3, "no operation is open"),
        (("keys", "journal"), 3, "no operation is open"),
    ],
)
def test_after_a_loss_an_import_leaves_a_working_tool(
    cli: Cli, tmp_path: Path, lost: tuple[str, ...], code: int, says: str
) -> None:
    for words in (("mkey-deploy", "--same", *LEVEL_2), ("mkey-rotate", "--same")):
        assert cli(*words, "--yes").code == 0
    assert cli("keystore", "export", tmp_path / "cache").code == 0
    for name in lost:
        (tmp_path / f"fabric.{name}").rename(tmp_path / f"{name}.gone")
    assert cli("keystore", "import", tmp_path / "cache").code == 0
    assert shown(cli) == {("set", 2, 60)}
    for how in (("resume",), ("undo", "--dry-run")):
        went = cli(*how, *([] if "journal" in lost else [2]), "--yes")
        if lost == ("keys",) and "resume" in how:  # it has ended, whatever became of its keys
            assert (went.code, "is not open" in went.err) == (3, True)
        else:
            assert (went.code, says in went.err) == (code, True) or "nothing to undo" in went.err, went.err
    if lost == ("keys",):
        assert "`ibkeys mkey-rotate --same` begins a new run" in went.err
    number = 1 if "journal" in lost else 3
    for words in (("mkey-rotate", "--same"), ("undo", number), ("mkey-rotate", "--same")):
        went = cli(*words, "--yes")
        assert went.code == 0, went.err
    assert shown(cli) == {("set", 2, 60)}
    assert violations(tmp_path) == 0


def test_a_run_whose_keys_are_gone_is_named_and_its_record_can_end(cli: Cli, tmp_path: Path) -> None:
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 2, "--yes").code == 0
    (tmp_path / "fabric.keys").unlink()
    for words in (("resume", 1), ("undo", 1)):
        refused = cli(*words, "--yes")
        assert (refused.code, "does not have the keys of operation 1 (mkey-deploy" in refused.error) == (3, True)
        assert "`ibkeys resume 1 --overtaken` only ends the record of this one" in refused.error
    assert cli("resume", 1, "--overtaken", "--dry-run").code == 1
    assert cli("resume", 1, "--overtaken", "--yes").code == 0
    assert cli("journal", "-f", "json").json["operations"][0]["state"] == "undone"


def test_another_key_store_does_not_end_a_run_without_a_word(cli: Cli, tmp_path: Path) -> None:
    """As with a name that was typed wrongly: the run is named, and its record does not say that it was done."""
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 2, "--yes").code == 0
    other = ("--keystore", tmp_path / "typo.db")
    told = cli("resume", 1, "--overtaken", "--dry-run", *other)
    assert (told.code, "does not have its keys: it was lost, or is another one" in told.err) == (1, True)
    begun = cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes", *other)
    assert "operation 1 (mkey-deploy" in begun.err
    assert "the record of that run ends when this one begins" in begun.err
    assert cli("journal", "-f", "json").json["operations"][0]["state"] == "undone"
    for words in (("undo", 1), ("resume", 1)):
        error = cli(*words).error
        assert (
            "not the last run of M_Keys on its subnet: only the last one can be finished or undone; this one has ended"
            in error
        )


def test_a_run_that_may_still_go_back_is_never_passed_over(cli: Cli, tmp_path: Path) -> None:
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes").code == 0
    with Journal(tmp_path / "fabric.journal") as journal, journal.database.transaction() as connection:
        connection.execute("UPDATE operations SET stage = 'unconfirmed'")
    refused = cli("mkey-rotate", "--per-port", "--yes", "--keystore", tmp_path / "other.db")
    assert (refused.code, "is rolled back unless a user confirms it" in refused.error) == (4, True)


def cut_off_a_rotation(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[int, MKey]:
    """Deploy one key at level 2, and end a rotation at its first Set; return the pending keys, by port GUID."""
    assert cli("mkey-deploy", "--same", *LEVEL_2, "--yes").code == 0
    send = Subnet.send

    def until_a_set(net: Subnet, mad: bytes, *rest: object, **more: object) -> object:
        if mad[3] == Method.SET:
            raise KeyboardInterrupt
        return send(net, mad, *rest, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Subnet, "send", until_a_set)
        assert cli("mkey-rotate", "--same", "--yes").code != 0
    with KeyStore(folder / "fabric.keys", create=False) as store:
        return {row.port_guid: row.m_key for row in store.rows() if row.state == "pending"}


class Killed(BaseException):
    """The process ended here."""


@pytest.fixture(params=[1, 2, 3])
def pending(request: pytest.FixtureRequest, cli: Cli, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The level of all ports; of node02 `KEY` is pending, and no operation names it: it was not in the journal yet."""

    def die(*given: object) -> None:
        raise Killed

    level: int = request.param
    assert cli("mkey-deploy", "--same", "--protect", level, "--lease", 60, "--yes").code == 0
    with monkeypatch.context() as patch:
        patch.setattr(RunningOperation, "record_all", die)
        with pytest.raises(Killed):
            cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--yes")
    return level


def sent_with_it(cli: Cli, *words: object) -> tuple[int, bool, str]:
    """Run a command; return its exit code, whether an SMP had `KEY`, and what it said."""
    send, seen = Subnet.send, list[bytes]()

    def heard(net: Subnet, mad: bytes, *rest: object, **more: object) -> object:
        seen.append(mad)
        return send(net, mad, *rest, **more)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Subnet, "send", heard)
        result = cli(*words)
    return result.code, any(mad[24:32] == KEY.to_bytes(8) for mad in seen), result.err


def test_a_pending_key_without_an_operation_costs_no_violation(cli: Cli, tmp_path: Path, pending: int) -> None:
    assert sent_with_it(cli, "mkey-show", "--all")[:2] == (0, False), "the port has its former key"
    with between_commands(tmp_path) as net:
        net.silence("node02 mlx4_0")
    code, was_sent, said = sent_with_it(cli, "mkey-show", "--all")
    assert (code, was_sent, "--ask-unproven" in said) == (3, pending == 1, pending != 1)
    assert sent_with_it(cli, "mkey-show", "--all", "--ask-unproven")[:2] == (3, True)


def test_a_pending_key_whose_journal_was_lost_opens_its_port_where_that_is_asked_for(
    cli: Cli, tmp_path: Path, pending: int
) -> None:
    (tmp_path / "fabric.journal").unlink()
    with between_commands(tmp_path) as net:
        net.port("node02 mlx4_0", 1).m_key = KEY
    code, was_sent, said = sent_with_it(cli, "mkey-show", "--all")
    assert (code, was_sent, "--ask-unproven" in said) == ((0, True, False) if pending == 1 else (3, False, True))
    assert sent_with_it(cli, "mkey-show", "--all", "--ask-unproven")[:2] == (0, True)
    assert violations(tmp_path) == (0 if pending == 1 else 2)
    states = [each["state"] for each in cli("keystore", "list", "-f", "json").json["keys"]]
    assert "pending" in states
    assert cli("mkey-rotate", "--same", "--ask-unproven", "--yes").code == 0
    assert shown(cli) == {("set", pending, 60)}


def written_down(folder: Path, keys: dict[int, MKey]) -> Path:
    cache = folder / "cache"
    cache.mkdir(mode=0o700)
    file = cache / MKEY_FILE
    file.touch(0o600)
    file.write_text("".join(f"0x{guid:016x} {key.hex()}\n\n" for guid, key in keys.items()))
    return cache


def test_after_an_import_amid_a_run_no_violation_is_counted(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cut_off_a_rotation(cli, tmp_path, monkeypatch)
    with between_commands(tmp_path) as net:
        ports = [port for node in net.nodes for port in node.end_ports]
        for port in ports:
            port.m_key = KEY  # somebody else gave all ports another key
        cache = written_down(tmp_path, {port.guid: MKey(KEY) for port in ports})
    assert cli("keystore", "import", cache).code == 0
    assert shown(cli) == {("set", 2, 60)}
    assert violations(tmp_path) == 0


def test_at_level_2_a_doubtful_key_goes_to_no_port_unless_asked(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = cut_off_a_rotation(cli, tmp_path, monkeypatch)
    with between_commands(tmp_path) as net:
        own = net.port("node01 mlx4_0", 1).guid
        keys = {port.guid: MKey(KEY) for node in net.nodes for port in node.end_ports}
        for node in net.nodes:
            for port in node.end_ports:
                port.m_key = KEY
        guid = next(guid for guid in pending if guid != own)
        doubtful = next(port for node in net.nodes for port in node.end_ports if port.guid == guid)
        doubtful.m_key = pending[guid].reveal()
    assert cli("keystore", "import", written_down(tmp_path, keys)).code == 0
    result = cli("mkey-show", "--all")
    assert result.code == 3
    assert "not sent" in result.err
    assert "--ask-unproven" in result.err
    assert violations(tmp_path) == 1  # of the key that was imported
    assert cli("mkey-show", "--all", "--ask-unproven").code == 0
    assert violations(tmp_path) == 2

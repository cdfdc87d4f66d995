"""Wherever a command takes a policy it takes ``ufm:URL``, or says why a UFM is no policy there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ibkeys.cli import COMMANDS, main
from tests.cli.conftest import Cli
from tests.managers.ufm.mock import TOKEN, Mock, token_file, ufm

WAIT = ("-t", 1, "--retries", 0)
TAKEN: dict[tuple[str, str], tuple[object, ...]] = {
    ("plan", "policy_file"): ("plan", "--policy", "UFM"),
    ("plan", "file"): ("plan", "UFM"),
    ("audit", "policy"): ("audit", "--policy", "UFM"),
    ("report", "policy"): ("report", "FOLDER", "--policy", "UFM"),
    ("export", "policy"): ("export", "--policy", "UFM"),
    ("compare", "policy"): ("compare", "--policy", "UFM", *WAIT),
    ("watch", "policy"): ("watch", "--policy", "UFM", "--for", 1),
    ("matrix", "policy"): ("matrix", "--policy", "UFM"),
    ("policy-from", "policy"): ("policy-from", "--policy", "UFM"),
    ("policy-check", "file"): ("policy-check", "UFM"),
    ("policy-diff", "a"): ("policy-diff", "UFM", "POLICY"),
    ("policy-diff", "b"): ("policy-diff", "POLICY", "UFM"),
}
EDITED = "UFM's partitions change by `ibkeys plan` and `ibkeys apply PLAN --via ufm:URL`"
REFUSED: dict[tuple[str, str], tuple[tuple[object, ...], str]] = {
    ("harden", "policy_to_reach"): (
        ("harden", "--policy", "UFM"),
        "UFM would overwrite that; use `ibkeys plan ufm:URL`",
    ),
    ("plan", "present"): (
        ("plan", "--policy", "POLICY", "--script", "opensm", "--present", "UFM"),
        "a copy of the policy that OpenSM reads on its own host",
    ),
    ("rehearse", "policy"): (("rehearse", "--policy", "UFM"), "a file that your OpenSM can read"),
    ("partition-add", "file"): (("partition-add", "--policy", "UFM", "a=0x10", "--full", "ALL"), EDITED),
    ("partition-remove", "file"): (("partition-remove", "--policy", "UFM", "a", "node02"), EDITED),
    ("partition-show", "file"): (("partition-show", "--policy", "UFM"), "UFM's: `ibkeys policy-check ufm:URL`"),
    ("partition-delete", "file"): (("partition-delete", "--policy", "UFM", "a"), EDITED),
    ("partition-rename", "file"): (("partition-rename", "--policy", "UFM", "a", "b"), EDITED),
    ("replace", "file"): (("replace", "--policy", "UFM", "0x2c903000a1021", "node02"), EDITED),
    ("replace", "out"): (
        ("replace", "--policy", "POLICY", "0x2c903000a9991", "node02", "--out", "UFM"),
        EDITED,
    ),
    ("partition-delete", "out"): (("partition-delete", "--policy", "POLICY", "lustre", "--out", "UFM"), EDITED),
    ("partition-rename", "out"): (("partition-rename", "--policy", "POLICY", "lustre", "b", "--out", "UFM"), EDITED),
    ("partition-add", "out"): (
        ("partition-add", "--policy", "POLICY", "b=0x10", "--full", "ALL", "--out", "UFM"),
        EDITED,
    ),
    ("partition-remove", "out"): (
        ("partition-remove", "--policy", "POLICY", "lustre", "node02", "--out", "UFM"),
        EDITED,
    ),
    ("policy-from", "out"): (("policy-from", "--out", "UFM"), EDITED),
}


def places() -> Iterator[tuple[str, str]]:
    """Yield each option and argument that is a policy, with its command: by its name, or by what its help says."""
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        about = (command.help or "").splitlines()[0]
        for each in command.params:
            if isinstance(each, click.Option):
                is_one = "polic" in (each.help or "").lower() and "FILE" in (each.metavar or "")
            else:
                is_one = "polic" in about and each.name in ("file", "a", "b")
            if is_one or (each.name or "").startswith("policy"):
                yield name, each.name or ""


def test_every_place_of_a_policy_is_in_one_of_the_tables() -> None:
    assert set(places()) == {*TAKEN, *REFUSED}


@pytest.fixture
def mock() -> Iterator[Mock]:
    with ufm() as served:
        served.store(0x21, g2c903000a1021="full", g2c903000a1031="limited")
        served.partitions[0x21].name = "lustre"
        yield served


def words_of(words: tuple[object, ...], mock: Mock, folder: Path) -> list[object]:
    policy = folder / "given.conf"
    policy.write_text("Default=0x7fff : ALL=full, SELF=full ;\nlustre=0x21, ipoib : 0x2c903000a1021=full ;\n")
    meant = {"UFM": f"ufm:{mock.url}", "POLICY": policy, "FOLDER": folder / "report"}
    return [meant.get(str(word), word) for word in words]


@pytest.mark.parametrize("words", [*TAKEN.values(), ("compare", "--ipoib", "--policy", "UFM", *WAIT)], ids=str)
def test_a_policy_may_be_a_ufm(cli: Cli, mock: Mock, tmp_path: Path, words: tuple[object, ...]) -> None:
    result = cli(*words_of(words, mock, tmp_path), "--ufm-token", f"@{token_file(tmp_path)}")
    assert result.code in (0, 1, 3), result.err  # 3: a simulated fabric has no SA to ask
    assert [path for _, path, _, _ in mock.log] == ["/ufmRestV3/resources/pkeys?guids_data=true"]
    assert "Traceback" not in result.err


@pytest.mark.parametrize("place", REFUSED, ids=" ".join)
def test_where_a_ufm_is_no_policy_it_is_said_why(
    cli: Cli, mock: Mock, tmp_path: Path, place: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if place[0] == "harden":
        monkeypatch.setattr("ibkeys.cli.audit.harden.is_simulated", lambda where: False)
    words, said = REFUSED[place]
    result = cli(*words_of(words, mock, tmp_path))
    assert (result.code, said in result.err) == (2, True), result.err
    secret = [f"ufm:https://admin:{TOKEN}@ufm.example" if word == "UFM" else word for word in words]
    result = cli(*words_of(tuple(secret), mock, tmp_path))
    assert (result.code, said in result.err, TOKEN in result.out + result.err) == (2, True, False), result.err
    assert not mock.log


def test_the_names_of_the_matrix_are_those_of_ufm(cli: Cli, mock: Mock, tmp_path: Path) -> None:
    """Also where it does not say who is in a partition: a name is known without that."""
    result = cli("matrix", "--policy", f"ufm:{mock.url}", "-f", "json", "--ufm-token", f"@{token_file(tmp_path)}")
    assert {each["partition"]: each["name"] for each in result.json["partitions"]} == {"0x7fff": "management"}


def test_a_policy_from_the_fabric_has_names_and_flags_of_ufm(cli: Cli, mock: Mock, tmp_path: Path) -> None:
    plan, given = tmp_path / "plan.json", f"@{token_file(tmp_path)}"
    cli("plan", "--policy", f"ufm:{mock.url}", "--ufm-token", given, "--out", plan)
    assert cli("apply", plan, "--yes").code == 0
    result = cli("policy-from", "--policy", f"ufm:{mock.url}", "--ufm-token", given)
    assert "\nlustre=0x0021, ipoib :\n\t0x0002c903000a1021=full," in result.out, result.out + result.err

"""What each parameter completes to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import click
import pytest

from ibkeys.audit.catalogue import CATALOGUE
from ibkeys.audit.findings import GROUPS
from ibkeys.change.consent import INTERLOCKS
from ibkeys.cli import LISTED, main
from ibkeys.cli.completing import names
from ibkeys.sim.steering.commands import GRAMMAR
from tests.cli.completing.conftest import Complete
from tests.cli.conftest import Cli

POLICY = "Default=0x7fff,ipoib:ALL=full;\nlustre=0x21:SELF=full;\n'$(reboot)'=0x22:SELF;\nlab=0x23:SELF;\n"


def leaves(group: click.Group, words: str) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, f"{words} {name}")
        else:
            yield f"{words} {name}", command


LEAVES = list(leaves(main, "ibkeys"))


@pytest.mark.parametrize("option", ["--check", "--skip", "--explain"])
def test_rules(complete: Complete, option: str) -> None:
    assert complete(f"ibkeys audit {option} ") == [rule.id for rule in CATALOGUE]
    assert complete(f"ibkeys audit {option}=hy00") == [rule.id for rule in CATALOGUE if rule.id.startswith("HY00")]


def test_several_rules_groups_profiles_and_interlocks(complete: Complete) -> None:
    assert "MK001,PK001" in complete("ibkeys audit --check MK001,PK")
    assert complete("ibkeys audit --group ") == list(GROUPS)
    assert complete("ibkeys audit --profile cloud") == ["cloud", "cloud-secured"]
    assert complete("ibkeys harden --override ") == sorted(INTERLOCKS)


def test_names_of_the_last_sweep(complete: Complete, cli: Cli) -> None:
    cli("discover")
    assert complete("ibkeys pkey-show -N node0") == [f"node0{number}\\ mlx4_0" for number in range(1, 7)]
    assert complete('ibkeys pkey-show -N "node03 m') == ["node03 mlx4_0"]
    assert complete("ibkeys pkey-show -N node03\\ ") == ["node03\\ mlx4_0"]
    assert complete("ibkeys why -N node01\\ mlx4_0 node06") == ["node06\\ mlx4_0"]
    assert complete("ibkeys pkey-show --node node05") == ["node05"]
    assert complete("ibkeys discover --names Inf") == ["Infiniscale-IV"]
    assert complete("ibkeys partition-add --policy f p --full node05") == ["node05"]


def test_names_where_no_name_is_meant(complete: Complete, cli: Cli) -> None:
    cli("discover")
    assert complete("ibkeys pkey-show node0") == [""]
    assert complete("ibkeys pkey-show -N node01\\ mlx4_0 ") == [""]
    assert complete("ibkeys why node0") == [""]


def test_simulated_and_real_fabrics_are_kept_apart(complete: Complete) -> None:
    names.save_names(names.NODES, ["real"])
    names.save_names(names.SIMULATED_NODES, ["simulated"])
    assert complete("ibkeys mkey-show -N ") == ["real"]
    assert complete("ibkeys mkey-show --backend sim:x.net -N ") == ["simulated"]
    assert complete("ibkeys mkey-show --at ") == complete("ibkeys sim serve --at ") == ["simulated"]


def test_operations_of_the_journal(complete: Complete, cli: Cli) -> None:
    assert complete("ibkeys undo ") == [""]
    for number in (1, 3):
        assert cli("pkey-add", "-D", "0", "0x8010", "--yes", "--override", "active-sm", "--force").code == 0
        assert cli("undo", number, "--yes", "--force").code == 0
    shown = complete("ibkeys journal ")
    assert shown == ["1", "2", "3", "4"]
    assert complete("ibkeys undo ") == ["2", "4"]


def test_partitions_of_a_policy(complete: Complete, tmp_path: Path) -> None:
    path = tmp_path / "partitions.conf"
    path.write_text(POLICY)
    assert complete(f"ibkeys partition-add --policy {path} l") == ["lab", "lustre"]
    assert complete(f"ibkeys partition-add --policy {path} lab --out-of lu") == ["lustre"]
    assert complete(f"ibkeys plan --policy {path} --allow-index-moves ") == ["Default", "lab", "lustre"]
    assert complete(f"ibkeys partition-remove --policy {tmp_path}/none l") == [""]


def test_steering_completes_every_command_of_its_grammar(complete: Complete) -> None:
    verbs = [line.split()[0] for line in GRAMMAR.split("\n\n")[0].splitlines() if not line.startswith(" ")]
    assert complete("ibkeys sim ctl ") == sorted(set(verbs))
    names.save_names(names.list_of_server("one"), ["H-1", "node01 mlx4_0"])
    names.save_names(names.list_of_server("sim"), ["H-2"])
    assert complete("ibkeys sim ctl --socket one link ") == ["H-1", "node01\\ mlx4_0"]
    assert complete("ibkeys sim ctl packet H-2 ") == ["H-2"]
    assert complete("ibkeys sim ctl link H-2[1] ") == ["H-2", "down", "up"]
    assert complete("ibkeys sim ctl nvram H-2 mkey ") == ["off", "on"]
    assert complete("ibkeys sim ctl events 5 ") == [""]


def test_what_names_a_file_is_completed_by_the_shell(complete: Complete) -> None:
    """Every option with FILE, SNAPSHOT, PLAN or DIR."""
    found = 0
    for words, command in LEAVES:
        for param in command.params:
            if isinstance(param, click.Option) and param.metavar in ("FILE", "FILE|opensm", "SNAPSHOT", "PLAN", "DIR"):
                kind = "dir" if param.metavar == "DIR" else "file"
                assert complete(f"{words} {param.opts[-1]} ") == [kind]
                found += 1
    assert found > 200
    for line in ("diff ", "policy-diff a ", "snapshot ", "apply ", "sim serve ", "policy-check ", "import "):
        assert complete(f"ibkeys {line}") == ["file"]
    assert complete("ibkeys keystore import ") == ["dir"]


def test_no_completion_opens_a_fabric_or_fails(complete: Complete, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a completion opens no fabric")

    monkeypatch.setattr("ibkeys.opening.open_port", opened)
    monkeypatch.setattr("ibkeys.umad.sim_spec.SimSpec.load", opened)
    monkeypatch.setenv("IBKEYS_BACKEND", "sim:")
    for words, command in LEAVES:
        complete(f"{words} ")
        complete(f"{words} -N ")
        for param in command.params:
            if isinstance(param, click.Option):
                complete(f"{words} {param.opts[0]} ")


def test_an_error_is_silent_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, cli: Cli, cache: Path) -> None:
    monkeypatch.setenv("_IBKEYS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "ibkeys pkey-show --backend sim:x,y=1 undo 'open")
    monkeypatch.setattr("ibkeys.cli.completing.shells.Bash.complete", lambda self: 1 // 0)
    result = cli()
    assert (result.out, result.err) == ("", "")
    monkeypatch.setenv("IBKEYS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main([])


def test_every_command_is_there() -> None:
    assert {words.split()[1] for words, _ in LEAVES} == set(LISTED)


def test_commands_stand_in_the_order_of_the_help(complete: Complete) -> None:
    assert complete("ibkeys ") == complete("ibkeys help ") == list(LISTED)
    assert complete("ibkeys help snap") == ["snapshot"]

"""``ufm:URL`` where a policy is taken: UFM's partitions are wanted, and what its answer does not say is unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Result
from tests.managers.ufm.mock import SM_CONF, TOKEN, Mock, Stored, token_file, ufm

NODE = "0x2c903000a10{}1"
ALL = tuple(NODE.format(number) for number in range(1, 7))


@pytest.fixture
def token(tmp_path: Path) -> Path:
    return token_file(tmp_path)


@pytest.fixture
def mock() -> Iterator[Mock]:
    with ufm() as served:
        yield served


class Asks:
    """Runs a command with the UFM of the test."""

    def __init__(self, cli: Cli, mock: Mock, token: Path) -> None:
        self.cli, self.mock, self.token = cli, mock, token

    def __call__(self, *words: object) -> Result:
        given = [f"ufm:{self.mock.url}" if word == "UFM" else word for word in words]
        result = self.cli(*given, "--ufm-token", f"@{self.token}")
        assert TOKEN not in result.out + result.err
        return result


@pytest.fixture
def asks(cli: Cli, mock: Mock, token: Path) -> Asks:
    return Asks(cli, mock, token)


def applied(cli: Cli, tmp_path: Path, text: str) -> None:
    """Bring the fabric to a policy."""
    (tmp_path / "now.conf").write_text(text)
    plan = tmp_path / "now.plan"
    plan.unlink(missing_ok=True)
    cli("plan", "--policy", tmp_path / "now.conf", "--out", plan)
    words = "--allow-removals", "--yes", "--override", "index-0", "--override", "default-pkey"
    result = cli("apply", plan, *words)
    assert result.code == 0, result.err


NOW = f"Default=0x7fff : ALL=full, SELF=full ;\nlustre=0x21 : {ALL[1]}=full, {ALL[2]}=full ;\ngpu=0x30 : {ALL[3]} ;\n"


def changes(result: Result) -> set[tuple[str, str | None, str | None]]:
    """(node, before, after) of each P_Key that an end port gets or loses by a plan."""
    document = json.loads(result.out)
    found = set()
    for table in document["tables"]:
        before, after = (set(table[side].values()) for side in ("before", "after"))
        name = table["node_desc"]
        found |= {(name, key, None) for key in before - after} | {(name, None, key) for key in after - before}
    return {each for each in found if "node" in each[0]}


@pytest.mark.parametrize("absent", ["{}", "404"])
@pytest.mark.parametrize("listing", ["dict", "plain", "dicts"])
def test_what_ufm_does_not_say_stays(cli: Cli, asks: Asks, tmp_path: Path, listing: str, absent: str) -> None:
    """0x21 is listed without members, 0x30 is not listed, and the default partition never has members."""
    applied(cli, tmp_path, NOW)
    asks.mock.listing, asks.mock.absent = listing, absent
    asks.mock.partitions = {0x21: Stored("lustre")}
    result = asks("plan", "--policy", "UFM", "-f", "json")
    assert result.code == 0, result.out
    assert changes(result) == set()
    assert "does not say who is in 2 partitions (0x21, 0x7fff)" in result.err


def test_members_that_ufm_names_come_and_those_that_it_does_not_name_go(cli: Cli, asks: Asks, tmp_path: Path) -> None:
    applied(cli, tmp_path, NOW)
    asks.mock.store(0x21, g2c903000a1021="limited", g2c903000a1051="full")
    asks.mock.spell_guid = "0x{:X}".format
    result = asks("plan", "--policy", "UFM", "-f", "json", "--out", tmp_path / "new.plan")
    assert result.code == 1, result.err
    assert changes(result) == {
        ("node02 mlx4_0", "0x8021", None),
        ("node02 mlx4_0", None, "0x0021"),
        ("node03 mlx4_0", "0x8021", None),
        ("node05 mlx4_0", None, "0x8021"),
    }
    document = json.loads(result.out)
    assert not document["enforcement"], "what leaf ports enforce stays as it is"


def test_nobody_is_disconnected_by_what_is_unknown(asks: Asks) -> None:
    result = asks("plan", "--policy", "UFM", "--disconnect-unconfigured", "--force")
    assert result.code == 2
    assert "does not say which ports are in the default partition" in result.err


@pytest.mark.parametrize(
    ("rule", "result"), [("PK002", "unknown"), ("PK003", "pass"), ("PK004", "pass"), ("PK005", "unknown")]
)
def test_an_audit_holds_what_is_unknown_for_unknown(
    cli: Cli, asks: Asks, tmp_path: Path, rule: str, result: str
) -> None:
    applied(cli, tmp_path, NOW)
    asks.mock.store(0x21, g2c903000a1021="full", g2c903000a1031="full")
    report = asks("audit", "--policy", "UFM", "--check", rule, "-f", "json").json
    [found] = report["results"]
    assert found["result"] == result
    for each in found["subjects"]:
        assert "does not list the members of that partition" in each["message"]


def test_an_audit_finds_who_is_too_much_and_who_is_missing(cli: Cli, asks: Asks, tmp_path: Path) -> None:
    applied(cli, tmp_path, NOW)
    asks.mock.store(0x21, g2c903000a1021="limited", g2c903000a1051="full")
    report = asks("audit", "--policy", "UFM", "--check", "PK002,PK003,PK004", "-f", "json").json
    failed = {
        (each["rule"], subject["node_desc"])
        for each in report["results"]
        for subject in each["subjects"]
        if subject["result"] == "fail"
    }
    assert failed == {("PK002", "node03 mlx4_0"), ("PK003", "node05 mlx4_0"), ("PK004", "node02 mlx4_0")}


def test_two_policies_are_compared_where_both_say(cli: Cli, asks: Asks, tmp_path: Path) -> None:
    file = tmp_path / "now.conf"
    file.write_text(NOW.replace("lustre=0x21", "api_pkey_0x21=0x21, ipoib"))
    asks.mock.store(0x21, g2c903000a1021="full", g2c903000a1031="full")
    same = asks("policy-diff", file, "UFM", "--sm-guid", ALL[0])
    assert same.code == 0, same.out + same.err
    asks.mock.store(0x21, g2c903000a1021="full")
    result = asks("policy-diff", file, "UFM", "--sm-guid", ALL[0], "-f", "json")
    assert result.code == 1
    assert [each["partition"] for each in result.json["partitions"]] == ["0x0021"]


def test_the_four_words_of_compare(cli: Cli, asks: Asks, tmp_path: Path) -> None:
    applied(cli, tmp_path, NOW)
    asks.mock.store(0x21, g2c903000a1021="full")
    document = asks("compare", "--policy", "UFM", "-f", "json", "-t", 1, "--retries", 0).json
    values = {(each["node_desc"], each["partition"], each["state"]) for each in document["values"]}
    assert {each for each in values if each[2] == "differs"} == {("node03 mlx4_0", "0x0021", "differs")}
    unknown = {each[1] for each in values if each[2] == "unknown"}
    # Where the SA does not answer, what nobody but the node says is unknown: of leaf ports too, and of their options.
    assert unknown == {"0x0021", "0x0030", "0x7fff", None}


def test_policy_check_shows_what_ufm_says(asks: Asks) -> None:
    asks.mock.store(0x21, g2c903000a1021="full")
    result = asks("policy-check", "UFM", "-f", "conf")
    assert (result.code, result.out) == (0, "api_pkey_0x21=0x0021, ipoib : 0x0002c903000a1021=full ;\n")


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        ({}, "fail"),
        ({"sm_key": "0x00000000beef0002"}, "pass"),
        ({"sm_key": "0x00000000beef0002", "sa_key": "1"}, "fail"),
        ({"sm_key": "0x00000000beef0002", "sa_key": None}, "unknown"),
        ({"sm_key": "0x00000000beef0002", "sa_key": "0x0"}, "unknown"),
    ],
)
def test_an_audit_judges_the_keys_of_ufms_sm_and_shows_none(asks: Asks, settings: dict[str, str], verdict: str) -> None:
    asks.mock.sm_conf = {**SM_CONF, **settings}
    result = asks("audit", "--ufm-smconf", "UFM", "--check", "SM002", "-f", "json")
    assert result.json["results"][0]["result"] == verdict
    assert "beef" not in result.out + result.err
    if verdict == "fail":
        evidence = result.json["results"][0]["subjects"][0]["evidence"]["UFM"]
        assert (evidence["m_key"], evidence["m_key_per_port"]) == ("set", "no")


def test_an_answer_that_is_no_list_shows_no_key(asks: Asks) -> None:
    asks.mock.sm_conf = ["0x00000000beef0001"]  # type: ignore[assignment]
    result = asks("audit", "--ufm-smconf", "UFM", "--check", "SM002")
    assert result.code != 0
    assert "beef" not in result.out + result.err


# --- steps for a person -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--present", "x.conf"), "--present and --allow-break require --script"),
        (("--allow-break",), "--present and --allow-break require --script"),
        (("--script", "ufm", "-f", "json"), "-f json is for programs"),
    ],
)
def test_what_does_not_go_with_a_script(cli: Cli, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "a.conf").write_text(NOW)
    result = cli("plan", "--policy", tmp_path / "a.conf", *words)
    assert result.code == 2
    assert said in result.error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Default=0x7fff : ALL=limited, SELF=full ;\n", "changes who is in the default partition"),
        (f"Default=0x7fff : ALL=full, SELF=full ;\na=0x10 : {ALL[1]}=both ;\n", "the full and the limited P_Key"),
    ],
)
def test_what_nobody_can_type_at_ufm_is_refused(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.conf").write_text(text)
    sm = ("--sm-guid", ALL[0], "--allow-both-pkeys")
    result = cli("plan", "--policy", tmp_path / "a.conf", "--script", "ufm", *sm)
    assert result.code == 2
    assert said in result.err


def test_the_steps_at_ufm_in_full(cli: Cli, tmp_path: Path) -> None:
    applied(cli, tmp_path, NOW)
    (tmp_path / "a.conf").write_text(NOW.replace(f"{ALL[2]}=full", f"{ALL[2]}, {ALL[4]}=full"))
    result = cli("plan", "--policy", tmp_path / "a.conf", "--script", "ufm")
    assert result.code == 1, result.err
    curl = 'curl --fail --silent --show-error --header @"$HEADER"'
    body = (
        '{"pkey": "0x21", "guids": ["0002c903000a1021", "0002c903000a1031", "0002c903000a1051"], "index0": false, '
        '"ip_over_ib": false, "memberships": ["full", "limited", "full"]}'
    )
    steps = result.out.partition("# === to roll back")[0].split("# === ")[1:]
    assert [step.splitlines()[0] for step in steps] == ["step 1 of 2: members come", "step 2 of 2: members go"]
    assert steps[1].splitlines()[1:-1] == [
        "# partition 0x21: first read its present members from UFM",
        f'{curl} "$UFM/resources/pkeys/0x21?guids_data=true&qos_conf=true"',
        "# it must show: 0002c903000a1021 full, 0002c903000a1031 full, 0002c903000a1051 full",
        "# if it shows others too, add them to guids and memberships below, or PUT removes them",
        "# PUT carries no name and no mtu_limit, service_level, rate_limit: check afterwards whether UFM kept them",
        "# if it exists already: replace ip_over_ib and index0 below with its values",
        f"{curl} --request PUT --header 'Content-Type: application/json' --data '{body}' \"$UFM/resources/pkeys\"",
        "# check, from a host that can ask the fabric; the order of the P_Keys does not count:",
        "#   ibkeys pkey-show -G 0x0002c903000a1031   # 'node03 mlx4_0' 0x0002c903000a1030 port 1: 0x0021, 0xffff",
        "#   continue when 1 port shows this",
    ]
    assert "--request POST" in steps[0]


def test_the_script_for_ufm_names_flags_that_no_call_carries(cli: Cli, tmp_path: Path) -> None:
    applied(cli, tmp_path, NOW)
    (tmp_path / "a.conf").write_text(NOW + f"tank=0x31, ipoib, mtu=5, sl=1 : {ALL[2]}=full ;\n")
    result = cli("plan", "--policy", tmp_path / "a.conf", "--script", "ufm")
    assert "# tank (0x31): the calls below do not carry mtu=5, sl=1: see to them in UFM\n" in result.out


# --- who asks ---------------------------------------------------------------------------------------------------------


def test_a_token_on_the_command_line_or_in_the_environment_is_refused(
    cli: Cli, mock: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = cli("plan", "--policy", f"ufm:{mock.url}", "--ufm-token", TOKEN)
    assert result.code == 2
    assert TOKEN not in result.err
    monkeypatch.setenv("IBKEYS_UFM_TOKEN", TOKEN)
    result = cli("plan", "--policy", f"ufm:{mock.url}")
    assert result.code == 2
    assert TOKEN not in result.err
    assert not mock.log


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--policy"),
        ("policy-check",),
        ("policy-diff", "ufm:https://ufm.example"),
        ("apply", "plan.json", "--via"),
        ("audit", "--ufm-smconf"),
    ],
)
@pytest.mark.parametrize("before", ["ufm:", "UFM:", ""])
def test_a_password_in_a_url_is_not_repeated(cli: Cli, words: tuple[str, ...], before: str) -> None:
    result = cli(*words, f"{before}https://admin:{TOKEN}@ufm.example", "--ufm-token", "@none")
    assert result.code == 2
    assert TOKEN not in result.out + result.err


def test_a_token_that_others_may_read_is_remarked(asks: Asks) -> None:
    asks.token.chmod(0o644)
    result = asks("plan", "--policy", "UFM")
    assert "other users may read this key (mode 0644)" in result.err


@pytest.mark.parametrize("text", ["", "\n", "two words\n", "t\xf6ken\n"])
def test_a_file_without_a_token(cli: Cli, mock: Mock, tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(text)
    result = cli("plan", "--policy", f"ufm:{mock.url}", "--ufm-token", f"@{path}")
    assert result.code == 2
    assert "not a token" in result.err
    assert not mock.log


def test_without_httpx_the_package_is_named(asks: Asks, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)
    result = asks("plan", "--policy", "UFM")
    assert result.code == 2
    assert result.err.endswith(" httpx\n")

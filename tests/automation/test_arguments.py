"""A wrong argument of a script: an error before anything is read, written into the journal or sent."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

import ibkeys
from ibkeys.errors import AddressError, UsageError
from tests.automation.scripts import HOSTS, Site, site


@pytest.fixture
def two(tmp_path: Path) -> Site:
    return site(tmp_path)


def untouched(two: Site) -> bool:
    return two.members() == [] and two.m_keys() == {0} and two.operations() == ()


def test_a_mistyped_argument_is_no_change(two: Site) -> None:
    mistyped: Any = {"dryrun": True}
    with two.fabric() as fabric:
        plan = fabric.plan(two.policy(HOSTS[1]))
        with pytest.raises(TypeError, match=r"'dryrun'; did you mean dry_run\?"):
            fabric.apply(plan, via=ibkeys.Direct(), **mistyped)
        with pytest.raises(TypeError, match=r"'dryrun'; did you mean dry_run\?"):
            fabric.deploy_m_keys(same=True, protect=1, lease=60, **mistyped)
        with pytest.raises(TypeError, match=r"'per_ports'; did you mean per_port\?"):
            fabric.rotate_m_keys(**{"dry_run": True, "per_ports": True})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="'dryrun'"):
            fabric.remove_m_keys(leave_open=True, **mistyped)
        with pytest.raises(TypeError, match=r"'allow_removal'; did you mean allow_removals\?"):
            fabric.apply(plan, **{"allow_removal": True})  # type: ignore[arg-type]
    assert untouched(two)


def test_a_mistyped_argument_finishes_and_undoes_nothing(two: Site) -> None:
    mistyped: Any = {"dryrun": True}
    with two.fabric() as fabric:
        fabric.apply(fabric.plan(two.policy(HOSTS[1], HOSTS[3])), first=1)
        [operation] = two.operations()
        for goes in (operation.resume, operation.undo):
            with pytest.raises(TypeError, match="'dryrun'"):
                goes(fabric, **mistyped)
    assert len(two.members()) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("first", value) for value in (-1, 0, True, "1", 1.5)),
        *(("confirm_within", value) for value in (0, -1, "1", 86_401, True)),
        *(("via", value) for value in ("opensm", "direct", ibkeys.Direct, ibkeys.ThroughOpenSM)),
        *(("consent", value) for value in (True, "stale", ibkeys.Consent)),
        *(("progress", value) for value in (True, print.__name__)),
        *(("dry_run", value) for value in (None, 0, "no")),
        ("allow_break", "no"),
    ],
)
def test_a_value_out_of_bounds_is_no_change(two: Site, name: str, value: object) -> None:
    wrong: Any = {"via": ibkeys.Direct(), name: value}
    with two.fabric() as fabric:
        plan = fabric.plan(two.policy(HOSTS[1]))
        with pytest.raises(UsageError, match=f"{name}= takes"):
            fabric.apply(plan, **wrong)
    assert untouched(two)


@pytest.mark.parametrize(
    ("name", "value"), [("same", 1), ("protect", 4), ("lease", -1), ("first", -1), ("via", ibkeys.ThroughOpenSM)]
)
def test_a_value_of_new_keys_out_of_bounds_is_no_change(two: Site, name: str, value: object) -> None:
    wrong: Any = {"same": True, "protect": 1, "lease": 60, name: value}
    with two.fabric() as fabric, pytest.raises(UsageError, match=f"{name}= takes"):
        fabric.deploy_m_keys(**wrong)
    assert untouched(two)


@pytest.mark.parametrize(
    ("name", "value"), [("enforce", "Both"), ("enforce", None), ("enforce", ["both"]), ("allow_both_pkeys", "no")]
)
def test_a_wrong_value_makes_no_plan(two: Site, name: str, value: object) -> None:
    """A word that is not known would plan the tables and no enforcement."""
    wrong: Any = {name: value}
    with two.fabric() as fabric, pytest.raises(UsageError, match=f"{name}= takes"):
        fabric.plan(two.policy(HOSTS[1]), **wrong)


def test_a_word_that_is_not_known_is_no_verdict(two: Site) -> None:
    wrong: Any = "High"
    with two.fabric() as fabric:
        report = ibkeys.audit.run(fabric, rules=ibkeys.audit.select(groups=["PK"]))
        with pytest.raises(UsageError, match="severity 'High'"):
            report.fails_at(wrong)
        with pytest.raises(UsageError, match="profile 'High'"):
            ibkeys.audit.run(fabric, profile=wrong)


def test_no_message_repeats_a_key(two: Site) -> None:
    wrong: Any = {"same": True, "new_key": 0x9C4E21D7B05A63F8}
    with two.fabric() as fabric, pytest.raises(UsageError, match=r"new_key= takes an ibkeys\.MKey, not int$"):
        fabric.deploy_m_keys(**wrong)


def test_a_consent_that_returns_something_else_is_no_change(two: Site) -> None:
    def yes(proposal: ibkeys.Proposal) -> Any:
        return True

    with two.fabric() as fabric:
        plan = fabric.plan(two.policy(HOSTS[1]))
        with pytest.raises(UsageError, match="it returned True"):
            fabric.apply(plan, via=ibkeys.Direct(), consent=yes)
    assert untouched(two)


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        *((ibkeys.ThroughOpenSM, "wait", value) for value in (-5, 0, 86_401, "60", float("nan"))),
        (ibkeys.ThroughOpenSM, "standby_wait", 0),
        (ibkeys.ThroughOpenSM, "sudo", "no"),
        (ibkeys.ThroughOpenSM, "sm_config", 5),
        (ibkeys.ThroughUFM, "wait", -5),
        (ibkeys.ThroughUFM, "url", b"https://user:secret@ufm"),
        (ibkeys.ThroughUFM, "token_file", 5),
        (ibkeys.ThroughUFM, "verifies", "no"),
    ],
)
def test_a_value_of_a_method_out_of_bounds_is_refused_when_it_is_made(method: Any, name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"{name}= takes") as error:
        method(**{name: value})
    assert "secret" not in str(error.value)


# --- the files of a UFM ----------------------------------------------------------------------------------------------


def test_the_files_of_a_ufm_are_checked_as_those_of_a_command(two: Site, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc\x07def\n")
    token.chmod(0o644)
    with two.fabric() as fabric:
        plan = fabric.plan(two.policy(HOSTS[1]))
        with pytest.raises(UsageError, match=r"token_file=: .*the first line is not a token") as error:
            fabric.apply(plan, via=ibkeys.ThroughUFM("https://ufm", str(token)))
        assert "abc" not in str(error.value)
        assert any("other users may read" in each for each in fabric.warnings)
    assert untouched(two)


def test_a_ufm_whose_certificate_is_not_checked_is_warned_of_and_so_is_an_open_key(tmp_path: Path) -> None:
    warnings: list[str] = []
    key = tmp_path / "key.pem"
    key.touch(0o644)
    method = ibkeys.ThroughUFM("https://ufm", certificate="client.pem", private_key=str(key), verifies=False)
    with pytest.raises(UsageError, match="cannot be used for TLS"):
        method.open("https://ufm", warnings.append)
    assert [text.split(": ")[0] for text in warnings] == [str(key), "verifies=False"]
    with pytest.raises(UsageError, match=r"private_key=: .*cannot be read"):
        ibkeys.ThroughUFM(certificate="client.pem", private_key="/nowhere").open("https://ufm", warnings.append)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        *((lambda value=value: ibkeys.Keys(m_key=value), "m_key= takes") for value in ("0x1", True, 1.0)),
        (lambda: ibkeys.Keys(m_key=ibkeys.SMKey(1)), "m_key= takes an ibkeys.MKey or a number, not SMKey"),
        (lambda: ibkeys.Keys(default="0x1"), "default= takes an ibkeys.MKey or a number, not str"),
        (lambda: ibkeys.Keys(trust_topology="no"), "trust_topology= takes True or False, not 'no'"),
        (lambda: ibkeys.Keys(ask_unproven=0), "ask_unproven= takes"),
        (lambda: ibkeys.Keys(security_keys=5), "security_keys= takes"),
        (lambda: ibkeys.Keys(from_sa=5), "from_sa= takes"),
        (lambda: ibkeys.SaAccess(ibkeys.MKey(1)), "sm_key= takes an ibkeys.SMKey or a number, not MKey"),
        (lambda: ibkeys.SaAccess("0x1"), "sm_key= takes an ibkeys.SMKey or a number, not str"),
        *((lambda lid=lid: ibkeys.SaAccess(1, lid), "sm_lid= takes 1 to 49151") for lid in (0, -1, 0xC000, 99999, "1")),
        *((lambda at=at: ibkeys.SaAccess(1, None, at), "pkey_index= takes 0 to 65535") for at in (-1, 65536, "0")),
        *((lambda value=value: ibkeys.Timing(value), "timeout= takes") for value in (0, -1, float("nan"), 1e9, "1")),
        *((lambda value=value: ibkeys.Timing(retries=value), "retries= takes") for value in (-1, 1.5, None, "1")),
        *((lambda value=value: ibkeys.Timing(outstanding=value), "outstanding= takes") for value in (0, -1, "8", 1.5)),
        *((lambda value=value: ibkeys.Limits(nodes=value), "limit nodes=") for value in (1.5, "5", True, None)),
        (lambda: ibkeys.Limits(time=float("nan")), "limit time=nan: it must be above 0"),
        (lambda: ibkeys.Local(port="1"), "port= takes"),
        (lambda: ibkeys.Local(at=1.5), "at= takes"),
        (lambda: ibkeys.Stores(keystore=5), "keystore= takes"),
        (lambda: ibkeys.Stores(passphrase="a secret"), "passphrase= takes a function that .*, not str"),
        (lambda: ibkeys.Consent(force="no"), "force= takes True or False, not 'no'"),
        (lambda: ibkeys.Consent(overrides="stale"), "overrides= takes a set of names of interlocks, not 'stale'"),
        *(
            (lambda name=name: ibkeys.open("sim:", **{name: {}}), f"{name}= takes an ibkeys")
            for name in ("local", "keys", "stores", "timing", "limits")
        ),
        (lambda: ibkeys.open("sim:", node_names={"0x1": "a"}), "node_names= has names by node GUID"),
        *((lambda value=value: ibkeys.open(value), "backend= takes umad") for value in (5, None, b"sim:")),
    ],
)
def test_a_wrong_value_for_an_open_fabric_is_an_error(make: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        make()


def test_a_wrong_value_for_one_port_is_an_error(two: Site, tmp_path: Path) -> None:
    wrong: Any
    with two.fabric() as fabric:
        for wrong in ({"sm_lid": 99999}, {"sm_key": ibkeys.MKey(1)}, {"pkey_index": -1}):
            with pytest.raises(UsageError, match="= takes"):
                fabric.sa(**wrong)
        for wrong in (1.5, b"1", True, [0, 1]):
            with pytest.raises(AddressError, match="an address is a text"):
                fabric.find_port(wrong)
        for wrong in ("1", 1.5, True):
            with pytest.raises(UsageError, match="portnum= takes"):
                fabric.find_port(None, wrong)
        for wrong in (5, None, b"policy"):
            with pytest.raises(UsageError, match="policy= takes"):
                fabric.plan(wrong)
        for wrong in ({"dry_run": None}, {"dry_run": "no"}, {"consent": True}):
            with pytest.raises(UsageError, match="= takes"):
                fabric.change("script", **wrong)
        own = fabric.find_port()
        with fabric.change("script") as change:
            for wrong in ("off", 0, 1):
                with pytest.raises(UsageError, match="inbound= takes True, False or None"):
                    change.plan_set_enforcement(own, inbound=wrong)
            for wrong in ({"key": ibkeys.SMKey(1)}, {"key": 1}, {"protect": "2"}, {"lease": 1.5}):
                with pytest.raises(UsageError, match="= takes"):
                    change.plan_set_m_key(own, **wrong)
        wrong = "no"
        with pytest.raises(UsageError, match="with_keys= takes"):
            ibkeys.save(fabric.take_snapshot(), tmp_path / "snapshot.db", with_keys=wrong)
    assert not (tmp_path / "snapshot.db").exists()
    assert untouched(two)


@pytest.mark.parametrize("make", [ibkeys.PKey, ibkeys.MKey, ibkeys.SMKey])
def test_a_key_is_no_fraction_and_no_text(make: Any) -> None:
    for wrong in (1.5, 1.0, "0x1"):
        with pytest.raises(TypeError) as raised:
            make(wrong)
        assert "0x1" not in str(raised.value)


@pytest.mark.parametrize("wrong", [5, None, b"a", [1]])
def test_a_wrong_file_is_an_error(two: Site, tmp_path: Path, wrong: Any) -> None:
    with two.fabric() as fabric:
        snapshot, plan = fabric.take_snapshot(), fabric.plan(two.policy(HOSTS[1]))
        for name, use in (
            ("path", lambda: ibkeys.load(wrong)),
            ("path", lambda: ibkeys.save(snapshot, wrong)),
            ("snapshot", lambda: ibkeys.save(wrong, tmp_path / "snapshot.db")),
            ("path", lambda: ibkeys.write_plan(plan, wrong)),
            ("plan", lambda: ibkeys.write_plan(wrong, tmp_path / "plan.json")),
            ("path", lambda: ibkeys.read_plan(wrong)),
            ("plan", lambda: fabric.apply(wrong)),
            ("path", lambda: ibkeys.partitions.read_policy(wrong)),
            ("path", lambda: ibkeys.audit.read_waivers(wrong, date(2030, 1, 1))),
        ):
            with pytest.raises(UsageError, match=f"^{name}= takes "):
                use()
    assert {path.name for path in tmp_path.iterdir()}.isdisjoint({"snapshot.db", "plan.json"})


def test_a_plan_that_cannot_be_read_is_one_error(two: Site, tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    with two.fabric() as fabric:
        for read in (ibkeys.read_plan, fabric.apply):
            with pytest.raises(UsageError, match=r"missing\.json: No such file"):
                read(missing)


def test_a_wrong_value_for_a_sweep_is_an_error(two: Site, tmp_path: Path) -> None:
    """``p_keys="no"`` would read every P_Key table."""
    wrong: Any
    with two.fabric() as fabric:
        ibkeys.save(fabric.take_snapshot(), tmp_path / "snapshot.db")
        for source in (fabric, ibkeys.load(tmp_path / "snapshot.db")):
            for wrong in ({"p_keys": "no"}, {"p_keys": 1}, {"progress": 5}, {"wanted": "x"}):
                with pytest.raises(UsageError, match="= takes"):
                    source.sweep(**wrong)
            for wrong in ("1", 1.5, True):
                with pytest.raises(UsageError, match="portnum= takes"):
                    source.find_port(None, wrong)
        wrong = "no"
        for use in (
            lambda: fabric.take_snapshot(make_secret=wrong),
            lambda: fabric.operations(open_only=wrong),
            lambda: ibkeys.operations(wrong),
            lambda: ibkeys.Wanted(guid_info=wrong),
            lambda: ibkeys.load(tmp_path / "snapshot.db", node_names=5),  # type: ignore[arg-type]
            lambda: ibkeys.open_port("sim:", wrong),
        ):
            with pytest.raises(UsageError, match="= takes"):
                use()


def test_a_wrong_value_for_a_plan_is_an_error(two: Site) -> None:
    wrong: Any
    with two.fabric() as fabric:
        policy = two.policy(HOSTS[1])
        for wrong in (["0x1"], [None], [1.5], 5, "0x1", ibkeys.PKey(1)):
            with pytest.raises(UsageError, match="allow_index_moves= takes"):
                fabric.plan(policy, allow_index_moves=wrong)
        own, partition_plan = fabric.find_port(), fabric.plan(policy)
        with fabric.change("script") as change:
            for wrong in (["0x1"], 0x8001, "0x8001"):
                for plan in (change.plan_add_p_keys, change.plan_remove_p_keys):
                    with pytest.raises(UsageError, match="keys= takes"):
                        plan(own, wrong)
            for wrong in ({1: "0x1"}, [0x8001]):
                with pytest.raises(UsageError, match="entries= takes"):
                    change.plan_set_p_keys(own, wrong)
            for wrong in ("node14", 14):
                with pytest.raises(UsageError, match="port= takes"):
                    change.plan_add_p_keys(wrong, [0x8001])
            wrong = own
            with pytest.raises(UsageError, match="ports= takes"):
                change.plan_clear_counters(wrong)
            wrong = partition_plan
            with pytest.raises(UsageError, match="plan= takes"):
                change.apply(wrong)
    assert untouched(two)


@pytest.mark.parametrize(
    "given",
    [
        *({"rules": value} for value in (5, ["PK001"], "PK001")),
        *({name: 5} for name in ("policy", "baseline", "waivers", "thresholds")),
    ],
)
def test_a_wrong_value_for_an_audit_is_an_error(two: Site, given: Any) -> None:
    with two.fabric() as fabric, pytest.raises(UsageError, match=f"{next(iter(given))}= takes"):
        ibkeys.audit.run(fabric, **given)


@pytest.mark.parametrize("name", ["check", "groups", "skip"])
def test_one_text_is_no_list_of_rules(name: str) -> None:
    wrong: Any = {name: "PK001"}
    with pytest.raises(UsageError, match=rf"{name}= is a list of texts: write \['PK001'\]"):
        ibkeys.audit.select(**wrong)


def test_a_source_is_a_fabric_and_a_comparison_has_snapshots(two: Site) -> None:
    wrong: Any = "snapshot.db"
    with pytest.raises(UsageError, match=r"source= takes an open fabric or the result of ibkeys\.load, not str"):
        ibkeys.audit.run(wrong)
    with two.fabric() as fabric:
        snapshot, wrong = fabric.take_snapshot(), fabric
        with pytest.raises(UsageError, match=r"a= takes an ibkeys\.Snapshot"):
            ibkeys.compare(wrong, snapshot)
        with pytest.raises(UsageError, match=r"b= takes an ibkeys\.Snapshot"):
            ibkeys.compare(snapshot, wrong)


@pytest.mark.parametrize(
    ("make", "given"),
    [
        *((ibkeys.audit.Thresholds, given) for given in ({"max_share": "1"}, {"lease_limit": None}, {"fill": 2})),
        *(
            (ibkeys.mkeys.RecoveryOptions, given)
            for given in (
                {"set_new": "no"},
                {"new_key": 0x9C4E21D7B05A63F8},
                {"protect": "2"},
                {"lease": 1.5},
                {"try_keys": (0x9C4E21D7B05A63F8,)},
                {"try_keys": ibkeys.MKey(1)},
                {"tries": "8"},
                {"wait": "5"},
                {"names": ["a"]},
            )
        ),
    ],
)
def test_a_wrong_value_of_options_is_refused_when_they_are_made(make: Any, given: Any) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(given))}= takes") as error:
        make(**given)
    assert "9c4e" not in str(error.value).lower()
    assert str(0x9C4E21D7B05A63F8) not in str(error.value)


def test_a_wrong_value_for_a_policy_is_an_error(two: Site) -> None:
    wrong: Any = 5
    policy = ibkeys.partitions.parse_policy("X=0x10 : ALL ;\n")
    with two.fabric() as fabric:
        found, key = fabric.sweep(), ibkeys.PKey(0x8010)
        port = next(found.end_ports())
        for name, use in (
            ("text", lambda: ibkeys.partitions.parse_policy(wrong)),
            ("policy", lambda: ibkeys.partitions.resolve(wrong, [], None)),
            ("allow_both", lambda: ibkeys.partitions.resolve(policy, [], None, wrong)),
            ("policy", lambda: ibkeys.partitions.add_member(wrong, found, port, key)),
            ("found", lambda: ibkeys.partitions.add_member(policy, wrong, port, key)),
            ("port", lambda: ibkeys.partitions.add_member(policy, found, wrong, key)),
            ("key", lambda: ibkeys.partitions.add_member(policy, found, port, wrong)),
            ("writer", lambda: ibkeys.mkeys.plan_recovery(wrong)),
        ):
            with pytest.raises(UsageError, match=f"^{name}= takes "):
                use()


def test_a_wrong_value_for_a_partition_is_an_error(two: Site) -> None:
    wrong: Any = 0x21
    with two.fabric() as fabric:
        for name, use in (
            ("partition", lambda: fabric.partitions.add(wrong)),
            ("partition", lambda: fabric.partitions.delete(wrong)),
            ("partition", lambda: fabric.partitions.show(wrong)),
            ("full", lambda: fabric.partitions.add("x=0x21", full=wrong)),
            ("ports", lambda: fabric.partitions.remove("x", wrong)),
            ("via", lambda: fabric.partitions.show(via=wrong)),
            ("policy", lambda: fabric.partitions.show(policy=wrong)),
        ):
            with pytest.raises(UsageError, match=f"^{name}= takes "):
                use()
    assert untouched(two)

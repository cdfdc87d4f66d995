"""A wrong argument of a script: an error before anything is read, written into the journal or sent."""

from __future__ import annotations

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
        (ibkeys.ThroughUFM, "wait", -5),
        (ibkeys.ThroughUFM, "verifies", "no"),
    ],
)
def test_a_value_of_a_method_out_of_bounds_is_refused_when_it_is_made(method: Any, name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"{name}= takes"):
        method(**{name: value})


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

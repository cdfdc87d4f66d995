"""Changes of sm_key and sa_key on two subnets with one journal and one key store: each has its own keys, and none keeps
another from going on or back."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ibkeys.errors import Refused
from ibkeys.harden.sm_keys import SM_KEYS
from ibkeys.harden.step import HardenRequest
from ibkeys.keys.smkey import SMKey
from ibkeys.mad.const import SMState
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.smkeys.overtaken import close_overtaken
from ibkeys.smkeys.recorded_changes import Changes, subnets_of_keys
from ibkeys.store.journal import RunningOperation
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sm_keys import SmKeys
from tests.fabricsim import replace_hca
from tests.smkeys.madeup import CONF, Killed, MadeUpSite
from tests.smkeys.outcomes import kill_at, take_back, writer_of

Patch = pytest.MonkeyPatch
Two = tuple[MadeUpSite, MadeUpSite]
STEPS = ("stage node05", "stage node06", "put node06", "signal node05", "promoted")
"""Where one is killed: no file has its keys (twice), some have, all have, all is proven and the journal has it as done.
"""


@pytest.fixture
def two(tmp_path: Path) -> Two:
    return MadeUpSite(tmp_path / "one", tmp_path), MadeUpSite(tmp_path / "other", tmp_path, 0x100000)


def kill(site: MadeUpSite, monkeypatch: Patch, step: str) -> set[SMKey]:
    """Make a change that dies; return its keys."""
    before = {row.ref for row in site.stored()}
    with monkeypatch.context() as patch:
        if step == "promoted":
            patch.setattr(SmKeys, "promote", die)
            with pytest.raises(Killed):
                site.run(monkeypatch, is_new=True)
        else:
            kill_at(site, monkeypatch, step)
    return {row.sm_key for row in site.stored() if row.ref not in before and row.state == "pending"}


def die(*given: object) -> None:
    raise Killed


def pending(site: MadeUpSite) -> set[SMKey]:
    return {row.sm_key for row in site.stored() if row.state == "pending"}


def assert_whole(site: MadeUpSite, keys: set[SMKey] | None = None) -> None:
    """All its hosts have the same keys, *keys* if given; the key store has them as current; one SM is master."""
    has = site.hosts[0].keys
    assert [host.keys for host in site.hosts] == [has] * 3
    assert keys in (None, {*has.values()})
    assert {*has.items()} <= {(row.kind, row.sm_key) for row in site.stored() if row.state == "current"}
    assert (site.masters, site.left_over()) == (1, [])


def is_due(site: MadeUpSite, monkeypatch: Patch) -> bool:
    """Whether harden goes on with a change here, whatever its audit finds."""
    with monkeypatch.context() as patch, writer_of(site) as writer:
        patch.setattr("ibkeys.harden.sm_keys.reach", lambda *given: [])
        found = [OpensmFile.at(host, host.conf) for host in site.hosts]
        patch.setattr("ibkeys.harden.sm_keys.options_files", lambda *given: found)
        return SM_KEYS.is_due(writer, HardenRequest([]))


def states(site: MadeUpSite) -> list[str]:
    with site.journal() as journal:
        return [each.state for each in journal.list_operations()]


def finish(site: MadeUpSite, monkeypatch: Patch, operation: int, keys: set[SMKey]) -> None:
    """Let a change go on that was killed, as `resume` does, or, where it has ended but for its keys, the next one."""
    with site.journal() as journal:
        is_open = journal.find(operation).state == "open"
    assert site.run(monkeypatch, goes_on=operation if is_open else None).goes_on
    assert_whole(site, keys)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("swapped", [False, True])
def test_while_one_is_open_another_begins_and_ends(two: Two, monkeypatch: Patch, step: str, swapped: bool) -> None:
    one, other = reversed(two) if swapped else two
    keys = kill(one, monkeypatch, step)
    change = other.run(monkeypatch, is_new=True)
    assert not change.goes_on
    named = "operation 1 (smkey-rotate) is open on another subnet: `ibkeys resume 1` finishes it"
    assert (named in change.notes) == (step != "promoted")
    assert_whole(other)
    assert not keys & {*other.hosts[0].keys.values()}
    assert pending(one) == keys
    finish(one, monkeypatch, 1, keys)
    assert_whole(other)
    assert {*states(one)} == {"done"}


@pytest.mark.parametrize(("first", "second"), [*itertools.product(STEPS, STEPS)])
def test_both_are_killed_and_each_goes_on_with_its_own_keys(
    two: Two, monkeypatch: Patch, first: str, second: str
) -> None:
    keys = [kill(site, monkeypatch, step) for site, step in zip(two, (first, second), strict=True)]
    assert pending(two[0]) == keys[0] | keys[1]
    for number in (1, 0) if first < second else (0, 1):
        finish(two[number], monkeypatch, number + 1, keys[number])
    assert_whole(two[1], keys[1])
    assert {*states(two[0])} == {"done"}


def test_only_its_own_subnet_is_hardened_by_its_end(two: Two, monkeypatch: Patch) -> None:
    kill(two[0], monkeypatch, "put node06")
    assert [is_due(site, monkeypatch) for site in two] == [True, False]


@pytest.mark.parametrize("step", STEPS)
def test_one_that_is_taken_back_leaves_the_other_its_keys(two: Two, monkeypatch: Patch, step: str) -> None:
    one, other = two
    keys = kill(one, monkeypatch, step)
    kill(other, monkeypatch, "stage node06")
    take_back(other, monkeypatch, 2)
    assert other.confs() == [CONF.format(9 - number).encode() for number in range(3)]
    assert pending(one) == keys
    finish(one, monkeypatch, 1, keys)
    assert states(one)[:2] == ["done", "undone"]


def test_one_is_refused_while_its_own_subnet_has_another(two: Two, monkeypatch: Patch) -> None:
    for site in two:
        kill(site, monkeypatch, "put node06")
    for number, site in enumerate(two, 1):
        with pytest.raises(Refused, match=rf"operation {number} .*is not finished, and no other .*can begin"):
            site.run(monkeypatch, is_new=True)


def test_one_of_another_subnet_does_not_go_on_here_and_its_record_ends_alone(two: Two, monkeypatch: Patch) -> None:
    one, other = two
    kill(one, monkeypatch, "put node06")
    keys, before = kill(other, monkeypatch, "put node06"), other.confs()
    with pytest.raises(Refused, match=r"other SMs than this subnet has.*`ibkeys resume 1 --overtaken`") as refused:
        other.run(monkeypatch, goes_on=1)
    assert (refused.value.interlock, other.confs()) == ("overtaken", before)
    with writer_of(other) as writer:
        close_overtaken(writer, 1)
    assert (states(one), pending(one)) == (["undone", "open"], keys)
    finish(other, monkeypatch, 2, keys)


@pytest.mark.parametrize("step", STEPS[:4])
def test_sms_with_new_adapters_are_of_the_same_subnet(two: Two, monkeypatch: Patch, step: str) -> None:
    one, other = two
    keys = kill(one, monkeypatch, step)
    for number, host in enumerate(one.hosts, 1):
        replace_hca(host.node, step=number * 0x200000)
    with pytest.raises(Refused, match=r"operation 1 .*is not finished"):
        one.run(monkeypatch, is_new=True)
    other.run(monkeypatch, is_new=True)
    finish(one, monkeypatch, 1, keys)
    assert_whole(other)


def test_an_earlier_change_is_of_the_same_subnet_when_its_sms_have_moved(two: Two, monkeypatch: Patch) -> None:
    one, _ = two
    one.run(monkeypatch)
    for number, host in enumerate(one.hosts, 1):
        replace_hca(host.node, step=number * 0x200000)
    kill(one, monkeypatch, "put node06")
    with one.journal() as journal:
        journal.set_state(1, "open")  # as where its keys went with a lost key store
        assert [each.id for each in Changes.on_subnet_of(journal, 2).here] == [1, 2]
        assert Changes.on_subnet_of(journal, 2).foreign_keys == frozenset()
    with writer_of(one) as writer:
        close_overtaken(writer, 2)
    assert states(one) == ["undone", "undone"]


def test_each_subnet_has_its_current_keys_and_refuses_its_own_former_ones(two: Two, monkeypatch: Patch) -> None:
    one, other = two
    for site in two:
        site.run(monkeypatch)
    first = one.hosts[0].keys
    change = one.run(monkeypatch)
    assert [*change.former] == [first["sa_key"], SMKey(1)]
    for site in two:
        assert_whole(site)
    kill(one, monkeypatch, "stage node06")
    for host in one.hosts:  # nobody else's key counts as proven here
        host.conf.write_text(CONF.format(9))
        host.read()
    with pytest.raises(Refused, match="says another sm_key and sa_key"):
        one.run(monkeypatch)
    assert_whole(other)


def test_each_key_is_of_the_subnet_that_it_was_set_on(two: Two, monkeypatch: Patch) -> None:
    """Also a former one, and one that waits: later changes name the current keys that they find."""
    of_site: dict[int, MadeUpSite] = {}
    for site in (*two, *two):
        site.run(monkeypatch)
        of_site |= {row.ref: site for row in site.stored() if row.ref not in of_site}
    kill(two[0], monkeypatch, "stage node06")
    of_site |= {row.ref: two[0] for row in two[0].stored() if row.ref not in of_site}
    with two[0].journal() as journal, KeyStore(two[0].stores / "keys.db") as store:
        subnets, names = subnets_of_keys(journal), SmKeys(store).names()
    assert len(names) == 10
    for ref, name in names.items():
        is_of = [{f"0x{host.node.ports[1].guid:016x}" for host in site.hosts} <= {*subnets[name]} for site in two]
        assert is_of == [site is of_site[ref] for site in two]


def test_a_default_may_go_on_where_another_subnet_has_proven_keys(two: Two, monkeypatch: Patch) -> None:
    one, other = two
    other.run(monkeypatch)
    keys = kill(one, monkeypatch, "put node06")
    other.run(monkeypatch)
    finish(one, monkeypatch, 2, keys)


EARLIER = '{"sm_hosts": []}'
"""What an earlier version kept of a change: neither its keys nor its ports."""


def test_a_key_that_an_earlier_version_proved_is_no_proof_on_another_subnet(two: Two, monkeypatch: Patch) -> None:
    one, other = two
    one.run(monkeypatch)
    with one.journal() as journal:
        journal.keep_options(1, EARLIER)
    keys = kill(other, monkeypatch, "put node06")
    finish(other, monkeypatch, 2, keys)
    assert_whole(one)


@pytest.mark.parametrize("step", STEPS[:4])
def test_a_key_that_an_earlier_version_proved_is_a_proof_on_its_own_subnet(
    two: Two, monkeypatch: Patch, step: str
) -> None:
    one, other = two
    one.run(monkeypatch)
    with one.journal() as journal:
        journal.keep_options(1, EARLIER)
    kill(one, monkeypatch, step)
    other.run(monkeypatch, is_new=True)
    one.hosts[1].conf.write_text(CONF.format(9))
    before = one.confs()
    with pytest.raises(Refused, match="says another sm_key and sa_key"):
        one.run(monkeypatch, goes_on=2)
    assert one.confs() == before
    assert_whole(other)


@pytest.mark.parametrize("kept", [EARLIER, '{"sm_hosts": [], "sm_ports": 5, "sm_keys": null}'])  # or damaged
def test_one_that_an_earlier_version_began_counts_on_every_subnet(two: Two, monkeypatch: Patch, kept: str) -> None:
    one, other = two
    keys = kill(one, monkeypatch, "put node06")
    with one.journal() as journal:
        journal.keep_options(1, kept)
    with pytest.raises(Refused, match="`ibkeys resume 1` finishes it"):
        other.run(monkeypatch, is_new=True)
    with pytest.raises(Refused, match="it concerns other options files"):
        other.run(monkeypatch, goes_on=1)
    finish(one, monkeypatch, 1, keys)
    other.run(monkeypatch, is_new=True)  # now the journal has its ports and keys, and they stay what they are
    assert_whole(one, keys)


def die_before_the_journal_has_it(site: MadeUpSite, monkeypatch: Patch) -> set[SMKey]:
    """Begin a change that dies when its keys are on disk, and nothing else; return its keys."""
    with monkeypatch.context() as patch:
        patch.setattr(RunningOperation, "put_on_disk", die)
        with pytest.raises(Killed):
            site.run(monkeypatch, is_new=True)
    assert states(site) == []
    return pending(site)


def test_keys_of_a_change_that_the_journal_does_not_have_are_neither_set_nor_changed(
    two: Two, monkeypatch: Patch
) -> None:
    """No file has them: the change is in the journal before the first one, so they may be of any subnet."""
    one, other = two
    keys = die_before_the_journal_has_it(one, monkeypatch)
    assert len(keys) == 2
    for site in (other, one):
        assert not is_due(site, monkeypatch)
        assert not site.run(monkeypatch, is_new=True).goes_on
        assert pending(site) == keys
    for site in two:
        assert_whole(site)
        assert not keys & {*site.hosts[0].keys.values()}


def test_beside_such_keys_a_new_change_wants_one_master(two: Two, monkeypatch: Patch) -> None:
    one, other = two
    die_before_the_journal_has_it(one, monkeypatch)
    other.net.set_sm(other.hosts[1].node, SMState.MASTER, 8, 1, 1)
    with pytest.raises(Refused) as refused:
        other.run(monkeypatch, is_new=True)
    assert refused.value.interlock == "master"


@pytest.mark.parametrize("swapped", [False, True])
def test_without_the_journal_each_goes_on_with_the_keys_that_its_own_files_have(
    two: Two, monkeypatch: Patch, swapped: bool
) -> None:
    first, second = reversed(two) if swapped else two
    keys = {site: kill(site, monkeypatch, "put node06") for site in two}
    (first.stores / "journal.db").unlink()
    assert is_due(first, monkeypatch)
    assert first.run(monkeypatch, is_new=True).goes_on
    assert_whole(first, keys[first])
    assert pending(first) == keys[second]
    assert is_due(second, monkeypatch)
    assert second.run(monkeypatch, is_new=True).goes_on
    for site in two:
        assert_whole(site, keys[site])
    assert pending(first) == set()

"""partition-add and its siblings on the policy in force: the same as an edited file, a plan and an apply."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibkeys.apply.opensm.site import OpensmSite
from ibkeys.mad.const import SMState
from tests.cli.live_cluster import LIVE, POLICY, SM, cluster, files_of, master, tables
from tests.cli.scenes import Scene
from tests.cli.sites import LOCAL_PORT, toml
from tests.recordings.world import STANDBY_HOST
from tests.sample import SOAK


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with cluster(tmp_path) as found:
        yield found


VERBS = {
    "a new partition": "partition-add lustre=0x21 --full node05 --limited node0[2-4] --ipoib --mtu 2048 --sl 1",
    "further members": "partition-add gpu --full node05 --limited node02",
    "another membership": "partition-add gpu --limited node03",
    "moved members": "partition-add tank --out-of gpu node04",
    "a flag": "partition-add gpu --mtu 1024 --rate 20 --mgid ff12::77",
    "removed members": "partition-remove gpu node03",
    "a deleted partition": "partition-delete tank",
    "another name": "partition-rename tank scratch",
}


@pytest.mark.parametrize("name", VERBS)
def test_the_tables_are_those_of_an_edited_file_that_is_planned_and_applied(name: str, tmp_path: Path) -> None:
    verb = VERBS[name]
    for folder in ("live", "steps"):
        (tmp_path / folder).mkdir()
    with cluster(tmp_path / "live") as live:
        before, files = tables(live), files_of(live)
        assert live.type(f"{verb} {LIVE}") == 0, live.err
        others = {
            "a flag": "not verified: mtu, rate of gpu, as the note says",
            "another name": "done, and no port changes: OpenSM was told to read the policy",
        }
        how = others.get(name, "done, verified by a fresh read")
        assert f"{how}; `ibkeys undo 1` rolls it back" in live.out
        after, edited = tables(live), files_of(live)
        [operation] = live.operations()
        command, partition = verb.split()[:2]
        assert (operation["id"], operation["command"], operation["state"]) == (1, command, "done")
        assert operation["options"][0].startswith(partition.split("=")[0])
        live.must(f"undo 1 --override index-move {LIVE}")
        assert (tables(live), files_of(live)) == (before, files)
    with cluster(tmp_path / "steps") as steps:
        steps.must(f"{verb} --policy {master(steps).policy} --out {{dir}}/edited.conf")
        steps.must("plan {dir}/edited.conf --out {dir}/plan.json")
        steps.must(f"apply {{dir}}/plan.json --via opensm --allow-removals {LIVE}")
        assert (tables(steps), files_of(steps)) == (after, edited)


@pytest.mark.parametrize("name", VERBS)
def test_a_dry_run_shows_the_change_and_writes_nothing(name: str, scene: Scene) -> None:
    before = tables(scene), files_of(scene)
    assert scene.type(f"{VERBS[name]} --dry-run {SM}") == 1
    assert "\n+++ " in scene.out
    assert scene.out.endswith("dry run: nothing was changed\n")
    assert scene.type(f"{VERBS[name]} {SM}") == 4
    assert "nothing was changed: this command asks for confirmation" in scene.err
    assert (tables(scene), files_of(scene)) == before
    assert scene.operations() == []


def test_a_change_follows_another_one_whose_sweep_has_not_ended(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a new name OpenSM's sweep shows nothing on the ports, so the first command ends before it."""
    scene.must(f"partition-rename gpu ml {LIVE}")
    monkeypatch.setattr(OpensmSite, "unread_edit", lambda site, role: "not read" if role == "policy" else "")
    scene.must(f"partition-add ml --full node05 {LIVE}")
    for each in scene.world.opensms:
        each.policy.write_bytes(each.policy.read_bytes() + b"# by hand\n")
    assert scene.type(f"partition-add ml --full node02 {LIVE}") == 4
    assert "refused by interlock stale" in scene.err


def test_a_problem_that_the_policy_gets_is_warned_of(scene: Scene) -> None:
    """OpenSM 3.3.23 makes no group with this rate."""
    assert scene.type(f"partition-add gpu --ipoib --rate 800 --dry-run {SM}") == 1
    assert "does not know rate=23 (800 Gb/s)" in scene.err


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_what_is_so_already_is_left(scene: Scene, format: str) -> None:
    assert scene.type(f"partition-add gpu --full node03 {LIVE} -f {format}") == 0
    if format == "json":
        document = json.loads(scene.out)
        assert (document["applied"], document["complete"], document["phases"]) == (False, True, [])
    else:
        assert (
            scene.out
            == {
                "table": "nothing to change: the policy in force says this already\n",
                "csv": "phase,ports,sets\n",
            }[format]
        )
    assert "the policies of 1 other SM were not compared: `ibkeys partition-spread --dry-run`" in scene.err
    assert scene.operations() == []


@pytest.mark.parametrize(
    ("verb", "subject"),
    [
        ("partition-add gpu --full node05 --limited node02", "gpu node05,node02"),
        ("partition-add tank --out-of gpu node04", "tank node04 out of gpu"),
        ("partition-rename tank compute", "tank -> compute"),
        ("partition-delete tank", "tank"),
    ],
)
def test_the_journal_says_what_was_edited(scene: Scene, verb: str, subject: str) -> None:
    scene.must(f"{verb} {LIVE}")
    [operation] = scene.operations()
    assert operation["subject"] == subject
    scene.must("journal")
    assert f"  {verb.split()[0]} {subject}  done" in scene.out
    scene.must("journal 1")
    assert f"; with {subject} --" in scene.out


def test_what_json_has_is_that_of_an_apply(scene: Scene) -> None:
    assert scene.type(f"partition-remove gpu node04 {LIVE} -f json") == 0
    document = json.loads(scene.out)
    assert (document["schema"], document["operation"], document["carrier"]) == ("ibkeys.apply/1", 1, "opensm")
    assert document["removals"] == 2


@pytest.mark.parametrize(
    ("verb", "code", "said"),
    [
        ("partition-add lustre=0x21 --full node03 --out {dir}/x.conf", 2, "writes a file only with --policy FILE"),
        ("partition-add gpu --full node03 --indx0", 4, "refused by interlock index-0"),
        ("partition-add gpu --full node05 --from {dir}/a.db", 2, "with --policy FILE it edits that file only"),
        ("partition-add lustre --full node03", 2, "(to make one, give its P_Key too: lustre=0x21)"),
        ("partition-remove Default node03", 2, "by ALL in line 2"),
        ("partition-delete Default", 2, "the default partition cannot be deleted"),
        ("partition-rename tank gpu", 2, "is called 'gpu' already"),
    ],
)
def test_a_refused_change_writes_nothing(scene: Scene, verb: str, code: int, said: str) -> None:
    scene.must("snapshot {dir}/a.db")
    before = tables(scene), files_of(scene)
    assert scene.type(f"{verb} {LIVE}") == code
    assert said in scene.err
    assert (tables(scene), files_of(scene)) == before


def test_removals_in_other_partitions_need_their_permission(scene: Scene) -> None:
    """The fabric has a P_Key that the policy in force does not give: the next write of OpenSM would take it."""
    stranger = scene.world.net.port("node05 mlx4_0", 1)
    stranger.p_keys = [*stranger.p_keys[:3], 0x8055]
    before = tables(scene), files_of(scene)
    verb = f"partition-add gpu --full node02 {LIVE} --override drift"
    assert scene.type(verb) == 4
    assert "this would also remove 1 P_Key of other partitions: 'node05 mlx4_0'" in scene.err
    assert "loses 0x8055; `ibkeys plan opensm` shows all of it, and --allow-removals permits it" in scene.err
    assert (tables(scene), files_of(scene)) == before
    assert scene.type(f"{verb} --allow-removals") == 0, scene.err
    assert 0x8030 in tables(scene)["node02 mlx4_0", 1]


def test_a_change_that_is_refused_for_drift_follows_the_apply_that_it_names(scene: Scene) -> None:
    """No other command has --rewrite."""
    scene.world.net.port("node03 mlx4_0", 1).p_keys = [0x7FFF]
    assert scene.type(f"partition-add gpu --full node05 {LIVE}") == 4
    assert "refused by interlock drift" in scene.err
    assert "; `apply` with --rewrite makes it rewrite every table first; " in scene.err
    scene.must(f"plan {master(scene).policy} --out {{dir}}/plan.json")
    scene.must(f"apply {{dir}}/plan.json --via opensm --rewrite {LIVE}")
    scene.must(f"partition-add gpu --full node05 {LIVE}")
    assert {0x8030} <= set(tables(scene)["node03 mlx4_0", 1]) & set(tables(scene)["node05 mlx4_0", 1])


def test_a_policy_that_is_not_typed_is_not_edited(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The site file and the environment may name a draft: these commands edit the policy in force all the same."""
    draft = scene.folder / "draft.conf"
    draft.write_text(POLICY)
    monkeypatch.setenv("IBKEYS_POLICY", str(draft))
    site = scene.folder / "site.toml"
    site.write_text(toml(subnet=[LOCAL_PORT], policy=str(draft)))
    for number, words in enumerate(("partition-add gpu --full node05", "partition-rename gpu scratch"), 1):
        before = files_of(scene)
        assert scene.type(f"{words} {LIVE} --site {site} -v") == 0, scene.err
        assert f"the policy is {master(scene).policy}" in scene.err
        assert len({*files_of(scene), *before}) == 2
        assert scene.operations()[-1]["id"] == number
        assert draft.read_text() == POLICY


def test_a_standby_elsewhere_is_named(scene: Scene) -> None:
    assert scene.type("partition-rename tank scratch --yes") == 4
    assert "refused by interlock standby-differs" in scene.err


def fail_over(scene: Scene) -> None:
    """Let the SM of the other host be master, and this host's a standby."""
    former, new = scene.world.opensms
    former.begin(SMState.STANDBY)
    new.begin(SMState.MASTER)
    new.begin_again()


def test_the_master_on_another_host_is_changed_through_it(scene: Scene) -> None:
    fail_over(scene)
    before = tables(scene), files_of(scene)
    add = "partition-add gpu --full node05 --yes --wait 5"
    assert scene.type(add) == 2
    assert "is not one of the OpenSMs found on this host (process 100)" in scene.err
    assert "or name that host: --sm-host HOST; with --policy FILE it edits that file only" in scene.err
    scene.must(f"partition-show gpu --sm-host {STANDBY_HOST}")
    assert "node05" not in scene.out
    assert scene.type(f"{add} --sm-host {STANDBY_HOST} -v") == 0, scene.err
    assert f"of OpenSM on {STANDBY_HOST} (process 101)" in scene.err
    assert len(set(files_of(scene))) == 1
    assert 0x8030 in tables(scene)["node05 mlx4_0", 1]
    scene.must(f"undo 1 {LIVE}")
    assert (tables(scene), files_of(scene)) == before


def test_a_host_that_does_not_answer_may_have_the_master(scene: Scene) -> None:
    fail_over(scene)
    scene.world.silent_hosts.add(STANDBY_HOST)
    assert scene.type(f"partition-add gpu --full node05 {LIVE}") == 3
    assert f"found on this host, {STANDBY_HOST} (process 100); host {STANDBY_HOST}: " in scene.err
    assert "it does not answer" in scene.err


def test_what_is_not_confirmed_goes_back(scene: Scene) -> None:
    before = tables(scene), files_of(scene)
    assert scene.type(f"partition-add gpu --full node05 --confirm-within 5 {LIVE}") == 3, scene.err
    assert scene.out.endswith("rolled back: the tables are as they were\n")
    assert (tables(scene), files_of(scene)) == before
    [operation, undo] = scene.operations()
    assert (operation["command"], operation["state"], undo["undoes"]) == ("partition-add", "undone", 1)


def test_members_that_cannot_join_are_noted_by_each_command(scene: Scene) -> None:
    new = "partition-add lustre=0x21 --full node0[3-4] --ipoib --mtu 4096"
    note = "note: 2 of 2 new members of lustre cannot join its multicast group ("
    scene.must(f"{new} --dry-run {SM}")
    assert note in scene.err
    scene.must(f"{new} --policy {master(scene).policy} --out {{dir}}/edited.conf")
    scene.must("plan {dir}/edited.conf --out {dir}/plan.json")
    assert note in scene.err
    scene.must(f"apply {{dir}}/plan.json --via opensm --dry-run {SM}")
    assert note in scene.err
    scene.must(f"partition-add lustre=0x21 --full node0[3-4] --ipoib --mtu 2048 --dry-run {SM}")
    assert "join its multicast group" not in scene.err


def test_members_that_cannot_join_a_changed_group_are_noted_and_the_flag_is_not_called_done(scene: Scene) -> None:
    """The group exists, and none of its members can meet the new MTU."""
    kept, cannot = "note: mtu of gpu: OpenSM keeps", "members of gpu cannot join its multicast group ("
    scene.must(f"partition-add gpu --mtu 4096 --policy {master(scene).policy} --out {{dir}}/edited.conf")
    assert kept in scene.err
    scene.must("plan {dir}/edited.conf --out {dir}/plan.json")
    assert (kept in scene.err, cannot in scene.err) == (True, True)
    scene.must(f"apply {{dir}}/plan.json --via opensm {LIVE}")
    assert (kept in scene.err, cannot in scene.err) == (True, True)
    assert "not verified: mtu of gpu, as the note says; `ibkeys undo 1` rolls it back" in scene.out
    scene.must(f"undo 1 {LIVE}")
    assert "note: mtu of gpu: OpenSM keeps a multicast group that exists as it is: one that was made since" in scene.err
    assert "not verified: mtu of gpu, as the note says; `ibkeys undo 2` makes the change again" in scene.out


@pytest.mark.parametrize("flag", ["--mtu 4096", "--rate 100", "--mgid ff12::77 --mtu 4096"])
def test_members_are_named_in_a_dry_run_in_which_only_flags_change(scene: Scene, flag: str) -> None:
    assert scene.type(f"partition-add gpu {flag} --dry-run {SM}") == 1
    assert "note: 2 of 2 members of gpu cannot join its multicast group (" in scene.err


def test_a_plan_of_flags_only_says_that_groups_differ(scene: Scene) -> None:
    scene.must(f"partition-add gpu --mtu 1024 --policy {master(scene).policy} --out {{dir}}/edited.conf")
    assert scene.type("plan {dir}/edited.conf") == 1
    assert "nothing to change" not in scene.out
    assert "no P_Key and no enforcement would change; multicast groups differ from the policy in force: mtu of gpu" in (
        scene.out
    )
    assert (
        "note: mtu of gpu: OpenSM keeps a multicast group that exists as it is; its new values hold once" in scene.err
    )
    assert scene.type(f"plan {master(scene).policy}") == 0
    assert "nothing to change: the fabric matches the policy\n" in scene.out


def test_a_plan_says_that_flags_of_groups_were_not_compared_where_the_masters_policy_is_not_here(scene: Scene) -> None:
    first, second = scene.world.opensms
    first.end(for_good=True)
    second.begin(SMState.MASTER)
    second.begin_again()
    assert scene.type(f"plan {first.policy}") == 0
    assert "nothing to change: the fabric matches the policy" in scene.out
    assert "were not compared" not in scene.err  # its groups have the default flags
    scene.must(f"partition-add gpu --mtu 1024 --policy {first.policy} --out {{dir}}/edited.conf")
    assert scene.type("plan {dir}/edited.conf") == 0
    assert scene.err.count("were not compared") == 1
    assert (
        "note: the flags of multicast groups of gpu were not compared: the policy of the master SM was not found on "
        "this host: run plan on the SM's host, or `ibkeys compare --ipoib --policy FILE`" in scene.err
    )
    assert "nothing to change in P_Keys and enforcement" in scene.out


# --- a new partition without ipoib ------------------------------------------------------------------------------------

ADD = f"partition-add lustre=0x21 --full node05 {SM}"
REMARK = "2 of 2 other partitions have ipoib and the new one has not"


def test_yes_makes_a_note_of_the_question_about_ipoib(scene: Scene) -> None:
    assert scene.type(f"{ADD} --dry-run") == 1
    assert f"would be asked: {REMARK}, so its members get no IPoIB interface; --no-ipoib confirms that" in scene.err
    assert scene.type(ADD) == 4
    assert f"{REMARK}, so its members get no IPoIB interface: --no-ipoib confirms that this is intended" in scene.err
    assert scene.type(f"{ADD} --yes") == 0
    assert f"note: {REMARK}, so its members get no IPoIB interface; --no-ipoib confirms" in scene.err


@pytest.mark.parametrize("answers", ["n\n", "y\nn\n", "y\ny\n"])
def test_on_a_terminal_ipoib_is_asked_about_before_the_change(
    scene: Scene, answers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_of(scene)
    monkeypatch.setattr("ibkeys.cli.changing.is_a_terminal", lambda: True)
    is_done = answers == "y\ny\n"
    assert scene.type(ADD, typed=answers) == (0 if is_done else 4)
    assert f"{REMARK}, so its members get no IPoIB interface. Is this intended? [y/N]" in scene.err
    assert ("Make this change? [y/N]" in scene.err) == (answers != "n\n")
    assert (files_of(scene) != before) == is_done


@pytest.mark.parametrize("option", ["--ipoib", "--no-ipoib"])
def test_the_question_about_ipoib_is_answered_by_an_option(scene: Scene, option: str) -> None:
    assert scene.type(f"{ADD} --yes {option}") == 0
    assert REMARK not in scene.err
    scene.must(f"partition-add lustre --full node04 {LIVE}")
    assert REMARK not in scene.err


# --- whatever is typed ------------------------------------------------------------------------------------------------

HOSTS = st.sampled_from(["node02", "node03", "node04", "node05", "node0[2-3]", "node06"])
TARGETS = st.sampled_from(["tank", "gpu", "scratch", "lustre=0x21"])
TYPED = st.one_of(
    st.builds("partition-add {} --{} {} {}".format, TARGETS, st.sampled_from(["full", "limited"]), HOSTS,
              st.sampled_from(["", "--ipoib", "--no-ipoib", "--mtu 2048", "--defmember full", "--mgid ff12::77"])),
    st.builds("partition-add {} --out-of {} {}".format, TARGETS, TARGETS, HOSTS),
    st.builds("partition-remove {} {}".format, TARGETS, HOSTS),
    st.builds("partition-delete {}".format, TARGETS),
    st.builds("partition-rename {} {}".format, TARGETS, st.sampled_from(["tank", "scratch", "gpu"])),
)  # fmt: skip


@settings(deadline=None, max_examples=100 if SOAK else 3, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TYPED, min_size=1, max_size=4))
def test_any_commands_and_their_undos_leave_the_policy_and_the_tables(typed: list[str]) -> None:
    with TemporaryDirectory() as folder, cluster(Path(folder)) as scene:
        before = tables(scene), files_of(scene)
        done: list[tuple[int, Any]] = []
        for words in typed:
            present = tables(scene), files_of(scene)
            if scene.type(f"{words} --override index-move {LIVE}") != 0:
                assert scene.code in (2, 4), scene.err
                assert (tables(scene), files_of(scene)) == present
            elif "nothing to change" not in scene.out:
                done.append((len(done) + 1, present))
        for number, present in reversed(done):
            assert scene.type(f"undo {number} --allow-break --override index-move {LIVE}") == 0, scene.err
            assert (tables(scene), files_of(scene)) == present
        assert (tables(scene), files_of(scene)) == before

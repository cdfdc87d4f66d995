"""The commands that are rehearsed besides apply: what each promises, and the operation that an undo takes back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ibkeys.change.wanted import TableChange
from ibkeys.errors import StoreError, UsageError
from ibkeys.keys.pkey import PKey
from ibkeys.managers.site import KEPT_HOSTS
from ibkeys.plan.document import dumps
from ibkeys.plan.model import FabricState, PartitionPlan, PolicySource
from ibkeys.rehearse.commands import change_of_command
from ibkeys.rehearse.copied_journal import copy_journal
from ibkeys.rehearse.tables import differences, identities, tables_of
from ibkeys.store.journal import FileImage, Journal
from tests.fabricsim import subnet

NODE = "node02 mlx4_0"


def dry_run_of(*changes: tuple[str, object]) -> str:
    net = subnet("two-switch")
    port = net.port(NODE, 1)
    row = identities(net)[port.node.guid, 1].to_json()
    listed = [{"kind": kind, "index": None, "before": None, "after": after} for kind, after in changes]
    return json.dumps({**row, "result": "planned", "reason": None, "changes": listed}) + '\n{"schema": "x"}\n'


@pytest.mark.parametrize(
    ("m_key", "level", "lease", "wrong"),
    [
        (0x2222, 2, 60, set()),
        (0x1111, 2, 60, {"m_key"}),
        (0, 2, 60, {"m_key"}),
        (0x2222, 1, 60, {"m_key_protect_bits"}),
        (0x2222, 2, 0, {"m_key_lease_period"}),
    ],
)
def test_a_rotation_promises_another_key_and_the_level_of_its_dry_run(
    m_key: int, level: int, lease: int, wrong: set[str]
) -> None:
    net = subnet("two-switch")
    port = net.port(NODE, 1)
    port.m_key, port.lease_period = 0x1111, 60
    before = tables_of(net)
    port.m_key, port.protect_bits, port.lease_period = m_key, level, lease
    after = tables_of(net)
    asked: list[list[str]] = []

    def dry_run(words: object) -> str:
        asked.append(list(words))  # type: ignore[call-overload]
        return dry_run_of(("m_key", "changed"), ("m_key_protect_bits", 2))

    change = change_of_command(["mkey-rotate", "--protect", "2"], Path("none"), dry_run)
    assert change.words == ["mkey-rotate", "--protect", "2", "--via", "opensm"]
    assert asked == [[*change.words, "--dry-run", "-f", "json"]]
    promised, plan = change.promise(before, after, 1)
    assert plan is None
    assert {each.kind for each in differences(promised, after)} == wrong


def test_a_removal_promises_no_key() -> None:
    net = subnet("two-switch")
    port = net.port(NODE, 1)
    port.m_key = 0x1111
    before = tables_of(net)
    port.m_key = 0
    change = change_of_command(["mkey-remove"], Path("none"), lambda words: dry_run_of(("m_key", "zero")))
    assert differences(change.promise(before, tables_of(net), 1).tables, tables_of(net)) == []


def test_another_command_is_refused() -> None:
    with pytest.raises(UsageError, match="pkey-add cannot be rehearsed"):
        change_of_command(["pkey-add", "1"], Path("none"), lambda words: "")


def plan_of(before: dict[int, PKey], after: dict[int, PKey]) -> PartitionPlan:
    net = subnet("two-switch")
    port = net.port(NODE, 1)
    table = TableChange(identities(net)[port.node.guid, 1], before, after, len(port.p_keys))
    return PartitionPlan(FabricState(""), PolicySource("p", ""), (table,), ())


def journal_with(path: Path, command: str, policy: Path, *, host: str = "") -> int:
    """Make a journal with one operation that replaced *policy*."""
    plan = plan_of({0: PKey(0xFFFF)}, {0: PKey(0xFFFF), 1: PKey(0x8010)})
    with Journal(path) as journal, journal.begin(command, dumps(plan), json.dumps({KEPT_HOSTS: ["x"]})) as operation:
        operation.record_file(FileImage(str(policy), b"old", b"new", host=host))
        assert operation.id is not None
        return operation.id


def test_an_edit_of_partitions_promises_the_plan_in_the_journal_and_its_undo_the_reverse(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    number = journal_with(path, "partition-add", tmp_path / "p")
    net = subnet("two-switch")
    port = net.port(NODE, 1)
    port.p_keys = [0xFFFF, *[0] * 63]
    before = tables_of(net)
    port.p_keys = [0xFFFF, 0x8010, *[0] * 62]
    after = tables_of(net)
    change = change_of_command(["partition-add", "red", NODE], path, lambda words: "")
    promised, plan = change.promise(before, after, number)
    assert plan is not None
    assert differences(promised, after) == []
    with Journal(path) as journal, journal.undo_of(number) as undo:
        assert undo.id is not None
    promised, plan = change_of_command(["undo", "1"], path, lambda words: "").promise(after, before, undo.id)
    assert plan is None
    assert differences(promised, before) == []


def test_the_operation_is_copied_with_its_file_in_the_place_of_the_copy(tmp_path: Path) -> None:
    source, target = tmp_path / "journal.db", tmp_path / "copy.db"
    policy = tmp_path / "partitions.conf"
    number = journal_with(source, "apply", policy, host="sm2")
    bytes_before = source.read_bytes()
    copy_journal(source, target, number, policy, Path("/mnt/policy"))
    with Journal.read(target) as journal:
        assert [(each.image.host, each.image.path) for each in journal.files(number)] == [("", "/mnt/policy")]
        assert journal.options_of(number) == {KEPT_HOSTS: []}
    assert source.read_bytes() == bytes_before


def test_an_operation_that_cannot_be_undone_on_a_copy_is_refused(tmp_path: Path) -> None:
    source, policy = tmp_path / "journal.db", tmp_path / "partitions.conf"
    number = journal_with(source, "apply", policy)
    of_keys = journal_with(source, "mkey-rotate", policy)
    with Journal(source) as journal, journal.operation("harden", kept={}) as operation:
        operation.record_file(FileImage("/etc/opensm/opensm.conf", b"old", b"new"))
        hardened = operation.id
    assert hardened is not None
    for refused, reason in (
        (
            of_keys,
            r"\(mkey-rotate\) changed M_Keys: its former keys are in the key store, which a rehearsal does not read",
        ),
        (hardened, r"\(harden\) is no change of partitions through OpenSM"),
    ):
        with pytest.raises(UsageError, match=reason):
            copy_journal(source, tmp_path / "copy", refused, policy, Path("/mnt/policy"))
    with pytest.raises(UsageError, match="and the OpenSM of the rehearsal reads"):
        copy_journal(source, tmp_path / "copy", number, tmp_path / "other", Path("/mnt/policy"))
    with pytest.raises(StoreError, match="9"):
        copy_journal(source, tmp_path / "copy", 9, policy, Path("/mnt/policy"))
    assert not (tmp_path / "copy").exists()

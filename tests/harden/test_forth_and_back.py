"""Changes of part_enforce that fail at their file or signal, the other way after them, and edits of somebody else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.change.opensm_files import OpensmFiles
from ibkeys.change.subnets import KEPT_SUBNET
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import FileError, Refused, StoreError, UsageError
from ibkeys.harden import enforcement
from ibkeys.harden.enforcement import (
    ENFORCEMENT,
    plan_enforcement,
    plan_enforcing,
    plan_restoring,
    refuse_undo,
    why_not_finishable,
)
from ibkeys.harden.enforcement_run import ABORT
from ibkeys.harden.overtaken import close_overtaken, is_hardening, part_enforce_in, unfinished_changes
from ibkeys.harden.step import COMMAND, HardenRequest
from ibkeys.host.replacing import new_file
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.reading import FileReading
from ibkeys.managers.site import KEPT_HOSTS
from ibkeys.store.journal import FileImage, Journal, RunningOperation
from ibkeys.topology.enforcement import Enforcement
from tests.fabricsim import replace_hca, subnet, tool

ASKED = HardenRequest(())
UNDO = "undo"


class Site:
    """An OpenSM that works with an options file of this host; nothing is known of its process and ports. ``reading``:
    whether it has read that file, as its times say; ``step``: how far the GUIDs of its subnet are from those of another
    one, which has the same journal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = folder / "opensm.conf"
        self.conf.write_text("part_enforce off\n")
        self.reading: FileReading = "may-have-been-read"
        self.step = 0
        self._stores = {"journal": folder / "journal.db", "keystore": folder / "keys.db"}

    @contextmanager
    def writer(self, command: str, goes_on: int | None = None) -> Iterator[ChangeWriter]:
        net = subnet("two-switch")
        for hardware in net.nodes:
            replace_hca(hardware, step=self.step)
        with tool(net, **self._stores) as fabric, ChangeWriter(fabric, command, continued=goes_on) as writer:
            yield writer

    def go_to_the_other_port(self) -> None:
        """Be the OpenSM of another subnet from now on, which is at the other port of the same HCA."""
        self.conf, self.step = self.folder / "of-another-subnet.conf", 0x100000
        self.conf.write_text("part_enforce off\n")

    @property
    def is_due(self) -> bool:
        """Whether the step of ``harden`` is made whatever the audit finds."""
        with self.writer(COMMAND) as writer:
            return ENFORCEMENT.is_due(writer, HardenRequest((SmHost(),)))

    def harden(self) -> bool:
        """Make the step of ``harden``; return whether there was anything to do."""
        with self.writer(COMMAND) as writer:
            change = ENFORCEMENT.plan_change(writer, ASKED)
            if change is not None:
                change.make()
        return change is not None

    def undo(self) -> None:
        """Take back the last change."""
        with self.writer(UNDO) as writer:
            with Journal.read(self._stores["journal"]) as journal:
                last = [each for each in journal.list_operations() if is_hardening(each)][-1]
            refuse_undo(writer, last.id)
            writer.apply(plan_restoring(writer, ASKED, last.id))

    def file(self) -> OpensmFile:
        found = OpensmFile.at(THIS, self.conf)
        instance = SimpleNamespace(name="OpenSM", files={"options": SimpleNamespace(reading=self.reading)})
        found.opensms, found.places = [cast(Any, SimpleNamespace(instance=instance))], [self.conf]
        return found

    def objections(self, command: str) -> list[str]:
        """Return the interlocks that refuse a command now."""
        with self.writer(command) as writer:
            if command == UNDO:
                return [each.interlock for each in plan_restoring(writer, ASKED).objections]
            change = ENFORCEMENT.plan_change(writer, ASKED)
            return [each.interlock for each in change.objections] if change is not None else []

    @property
    def value(self) -> str:
        return part_enforce_in(self.conf.read_bytes())

    @property
    def states(self) -> list[str]:
        """Each operation, with its state."""
        with Journal.read(self._stores["journal"]) as journal:
            return [f"{each.id} {each.command} {each.state}" for each in journal.list_operations()]

    @property
    def left(self) -> list[str]:
        """The commands whose change has not ended."""
        with self.writer(COMMAND) as writer:
            return [each.command for each in unfinished_changes(writer)]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path)
    instance = SimpleNamespace(name="OpenSM", process=None, files={}, policy_fault="")
    master = SimpleNamespace(instance=instance, machine=THIS, verify_process=lambda advice: None)
    seen = SimpleNamespace(manager=None, master=master, non_masters=list)

    def survey_all_ports(writer: ChangeWriter, *given: Any, **named: Any) -> Any:
        return SimpleNamespace(topology=writer.fabric.sweep(), targets={})

    def opensms(*given: Any, **named: Any) -> OpensmFiles:
        writer, _, _, _, files, _, check_stop = given
        return OpensmFiles(writer, None, cast(Any, master), [], files, lambda: None, check_stop, **named)

    monkeypatch.setattr("ibkeys.harden.enforcement_run.OpensmFiles", opensms)
    for name, value in {
        "survey_all_ports": survey_all_ports,
        "reach": lambda enter, hosts: [],
        "site_of": lambda *given: SimpleNamespace(notes=[]),
        "managers_of": lambda found: [],
        "find_and_lock_sms": lambda *given: seen,
        "objections_to_unread_policy": lambda *given: [],
        "_objections_to_drift": lambda *given: [],
        "options_files_to_write": lambda *given: [made.file()],
    }.items():
        monkeypatch.setattr(enforcement, name, value)
    return made


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the file be journaled, and none take its place."""

    def fail(*given: Any, **named: Any) -> Any:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(new_file, "fill", fail)
        yield


def test_forth_and_back(site: Site) -> None:
    assert site.harden()
    assert (site.value, site.harden()) == ("both", False)
    site.undo()
    assert (site.value, site.left) == ("off", [])
    assert site.states == ["1 harden undone", "2 undo done"]
    with pytest.raises(StoreError, match=r"operation 1 \(harden\) has already been undone by operation 2"):
        site.undo()
    assert site.harden()
    assert (site.value, site.states) == ("both", ["1 harden undone", "2 undo done", "3 harden done"])


@pytest.mark.parametrize("enforces", [False, True])
@pytest.mark.parametrize("line", ["", "part_enforce both\n"])
def test_a_line_that_was_removed_is_written_again_where_opensm_keeps_its_value(
    site: Site, monkeypatch: pytest.MonkeyPatch, line: str, enforces: bool
) -> None:
    """OpenSM changes only options that have a line, so the default of a file without one may not be in force."""
    both = Enforcement(True, True)
    leaf = SimpleNamespace(enforcement=both if enforces else Enforcement(False, False))
    found = SimpleNamespace(leaf=leaf, wanted=both, difference=lambda: "" if enforces else "it does not enforce")
    monkeypatch.setattr(enforcement, "leaf_ports_to_enforce", lambda *given: [found])
    site.conf.write_text(f"sweep_interval 3\n{line}")
    with site.writer(COMMAND) as writer:
        plan = plan_enforcing(writer, ASKED)
    is_added = not line and not enforces
    added = "no_partition_enforcement FALSE\npart_enforce both\n" if is_added else ""
    assert [*plan.new.values()] == [site.conf.read_bytes() + added.encode()]
    assert [each for each in plan.words if "a line that was removed" in each] == plan.words[:is_added]
    assert plan.pending != enforces
    with site.writer(UNDO) as writer:  # an undo leaves a file as it is of which the journal knows nothing
        restoring = plan_enforcement(writer, ASKED, lambda file: part_enforce_in(file.data))
    assert [*restoring.new.values()] == [site.conf.read_bytes()]


def test_a_standby_without_a_line_stays_as_it_is_when_the_master_is_hardened(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leaf ports show what the master works with, not a standby."""
    master, standby = site.file(), OpensmFile.at(THIS, site.folder / "standby.conf")
    leaf = SimpleNamespace(enforcement=Enforcement(False, False))
    found = SimpleNamespace(leaf=leaf, wanted=Enforcement(True, True), difference=lambda: "it does not enforce")
    monkeypatch.setattr(enforcement, "leaf_ports_to_enforce", lambda *given: [found])
    monkeypatch.setattr(enforcement, "options_files_to_write", lambda *given: [standby, master])
    with site.writer(COMMAND) as writer:
        plan = plan_enforcing(writer, ASKED)
    assert [*plan.new.values()] == [b"", b"part_enforce both\n"]


def test_a_way_back_that_was_cut_off_goes_on_as_the_same_operation(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.harden()
    with full_disk(monkeypatch), pytest.raises(FileError):
        site.undo()
    assert site.states == ["1 harden done", "2 undo open"]
    site.undo()
    assert (site.value, site.states) == ("off", ["1 harden undone", "2 undo done"])


def test_only_the_last_hardening_that_stands_goes_back(site: Site) -> None:
    site.harden()
    site.conf.write_text("part_enforce off\n")
    site.harden()
    not_last = r"operation 1 .* is not the last hardening .*ibkeys undo 2`"
    with site.writer(UNDO) as writer:
        with pytest.raises(UsageError, match=not_last):
            refuse_undo(writer, 1)
        refuse_undo(writer, 2)
    site.undo()
    given_back = r"operation 3 .* restored the former part_enforce, and this cannot be undone"
    with site.writer(UNDO) as writer, pytest.raises(UsageError, match=given_back):
        refuse_undo(writer, 3)


def test_one_that_is_open_on_another_subnet_is_left_alone(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with two adapters may have two subnets, and one journal."""
    with full_disk(monkeypatch), pytest.raises(FileError):
        site.harden()
    ours, site.conf = site.conf, site.folder / "of-another-subnet.conf"
    site.conf.write_text("part_enforce off\n")
    assert site.harden()
    assert (site.value, site.states) == ("both", ["1 harden open", "2 harden done"])
    with site.writer(COMMAND, goes_on=1) as writer:
        for plan in (plan_enforcing, plan_restoring):
            with pytest.raises(Refused, match="operation 1 changed other options files") as refused:
                plan(writer, ASKED)
            assert refused.value.interlock == "overtaken"
            assert "`ibkeys resume 1 --overtaken` only ends the record" in refused.value.more
        # Nor does the record of 1 end for a reason of this subnet.
        site.conf.write_text("part_enforce in\n")
        why = why_not_finishable(writer, ASKED)
        assert why is not None
        assert "operation 1 changed other options files" in why
        site.conf.write_text("part_enforce both\n")
    site.undo()
    assert (site.value, site.states[:2]) == ("off", ["1 harden open", "2 harden undone"])
    assert site.harden()
    site.conf = ours
    assert site.harden()
    assert (site.value, site.states[0]) == ("both", "1 harden done")
    with site.writer(UNDO) as writer:
        refuse_undo(writer, 1)
        writer.apply(plan_restoring(writer, ASKED, 1))
    assert site.value == "off"
    assert site.states[:4] == ["1 harden undone", "2 harden undone", "3 undo done", "4 harden done"]


def test_the_journal_has_none_before_it_has_a_file_of_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """So by its files each is known to be of this subnet or of another one."""

    def killed(*given: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunningOperation, "record_file", killed)
    with pytest.raises(KeyboardInterrupt):
        site.harden()
    assert (site.value, site.states) == ("off", [])


def test_one_that_is_open_on_another_subnet_makes_no_step_due(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One HCA may have its two ports on two subnets, and the OpenSMs of both run on this host."""
    with full_disk(monkeypatch), pytest.raises(FileError):
        site.harden()
    assert site.is_due
    site.go_to_the_other_port()
    assert not site.is_due
    with Journal(site.folder / "journal.db") as journal:
        journal.keep_options(1, '{"sm_hosts": []}')  # as an earlier version, which did not keep its subnet
    assert site.is_due


def test_an_undo_that_was_cut_off_makes_the_step_due_on_its_own_subnet(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.harden()
    assert not site.is_due
    with full_disk(monkeypatch), pytest.raises(FileError):
        site.undo()
    assert site.is_due
    site.go_to_the_other_port()
    assert not site.is_due


def test_one_whose_options_file_was_replaced_can_be_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with full_disk(monkeypatch), pytest.raises(FileError):
        site.harden()
    site.conf = site.folder / "of-the-new-opensm.conf"
    site.conf.write_text("part_enforce off\n")
    with site.writer(COMMAND, goes_on=1) as writer:
        assert why_not_finishable(writer, ASKED) is not None
        close_overtaken(writer, 1)
    assert (site.states, site.left) == (["1 harden undone"], [])


@pytest.mark.parametrize(("host", "is_due"), [("", True), ("sm1", False)])
def test_one_that_is_open_on_other_hosts_makes_no_step_due(site: Site, host: str, is_due: bool) -> None:
    with Journal(site.folder / "journal.db") as journal:
        journal.operation(COMMAND).record_file(FileImage("/opensm.conf", b"", b"part_enforce both\n", host=host))
    with site.writer(COMMAND) as writer:
        assert ENFORCEMENT.is_due(writer, HardenRequest((SmHost(),))) == is_due


def test_a_way_back_of_an_earlier_version_is_finished_as_it_was_begun(site: Site) -> None:
    site.harden()
    with Journal(site.folder / "journal.db") as journal, journal.operation(ABORT) as operation:
        operation.put_on_disk()
        operation.outcome = "open"
    assert site.left == [ABORT]
    with site.writer(UNDO) as writer:
        writer.apply(plan_restoring(writer, ASKED))
    assert (site.value, site.states) == ("off", ["1 harden done", "2 harden --abort done"])


def test_the_hosts_are_kept_and_the_switches_of_the_subnet(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enforcement, "to_json", lambda reached: [{"name": "sm2"}])
    site.harden()
    with Journal.read(site.folder / "journal.db") as journal:
        kept = journal.options_of(1)
    switches = ["0x0002c90200401000", "0x0002c90200401040"]
    assert kept == {KEPT_HOSTS: [{"name": "sm2"}], KEPT_SUBNET: [*switches, "0x0002c903000a1011"]}


def test_a_hardening_after_an_undo_that_wrote_nothing_keeps_the_way_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.harden()
    with full_disk(monkeypatch), pytest.raises(FileError):
        site.undo()
    assert (site.value, site.left) == ("both", [UNDO])
    assert site.harden()  # no file is written: it ends the undo
    assert (site.value, site.left) == ("both", [])
    site.undo()
    assert (site.value, site.left) == ("off", [])


def test_an_undo_after_a_hardening_that_wrote_nothing_leaves_nothing_to_restore(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with full_disk(monkeypatch), pytest.raises(FileError):
        site.harden()
    assert (site.value, site.left) == ("off", [COMMAND])
    site.undo()
    assert (site.value, site.left) == ("off", [])
    with site.writer(UNDO) as writer, pytest.raises(UsageError, match="nothing to restore"):
        plan_restoring(writer, ASKED)


def test_an_edit_of_the_options_file_that_nobody_has_read_is_an_interlock(site: Site) -> None:
    site.conf.write_text("part_enforce off\nmax_op_vls 4\n")
    assert site.objections(COMMAND) == []
    site.reading = "not-read"
    assert site.objections(COMMAND) == ["stale"]
    site.reading = "may-have-been-read"
    site.harden()
    site.conf.write_text(site.conf.read_text() + "sweep_interval 3\n")
    site.reading = "not-read"
    assert site.objections(UNDO) == ["stale"]


@pytest.mark.parametrize("way", [COMMAND, UNDO])
def test_what_it_wrote_itself_before_the_signal_keeps_it_from_no_way(
    site: Site, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def killed(*given: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(OpensmFiles, "signal_sm", killed)
        with pytest.raises(KeyboardInterrupt):
            site.harden()
    site.reading = "not-read"
    assert (site.value, site.left, site.objections(way)) == ("both", [COMMAND], [])
    site.conf.write_text(site.conf.read_text() + "max_op_vls 4\n")
    assert site.objections(way) == ["stale"]

"""Opening a host for changes: this one, or another by ssh."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ibkeys.errors import FileChanged
from ibkeys.managers.elsewhere.ssh import SshHost
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.machines import opening
from ibkeys.managers.machines.opening import open_machine
from ibkeys.managers.machines.other_host import OtherHost
from ibkeys.store.journal import Journal
from tests.managers.machines.there import NEW, OLD, There
from tests.store.journaled import recorded


def test_this_host_is_opened_and_its_files_replaced(journal: Journal, file: Path) -> None:
    with open_machine(SmHost()) as host, journal.operation("apply") as operation:
        assert (host.name, host.guard(1.0), host.confirm_guard("x")) == ("", None, False)
        seen = host.look(file)
        assert host.hindrance(seen) is None
        entry = host.replace(operation, seen, NEW)
        assert (file.read_bytes(), entry.image.before, entry.image.host) == (NEW, OLD, "")
        with pytest.raises(FileChanged):
            host.replace(operation, seen, b"newer\n")
        left = file.with_name(f".{file.name}.ibkeys-1-{'a' * 16}.part")
        left.touch()
        assert host.clean_up(recorded([entry])).removed == (left,)
        entry.done()


def test_another_host_is_opened_by_ssh_in_a_session_of_its_own(
    there: There, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    class Local(SshHost):
        def command(self) -> list[str]:
            return there.command

    monkeypatch.setattr(opening, "program", there.program)
    with open_machine(SmHost(Local("sm2"))) as host:
        assert (host.name, host.files.name, host.look(file).data) == ("sm2", "sm2", OLD)
        assert isinstance(host, OtherHost)
        process = host.writer.conversation.channel.process
        assert os.getsid(process.pid) == process.pid, "an interrupt at the terminal does not reach it"

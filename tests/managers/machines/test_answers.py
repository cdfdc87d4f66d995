"""What another host says is an answer, or ends the conversation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibkeys.errors import HostNotReached
from ibkeys.host.replacing.file_to_replace import look
from ibkeys.managers.elsewhere.conversation import Conversation
from ibkeys.managers.elsewhere.remote import RemoteFiles
from ibkeys.managers.machines.other_host import OtherHost
from ibkeys.managers.machines.writer import READY, HostWriter, WriterRefused, program
from ibkeys.store.journal import FileImage, Journal
from tests.managers.machines.there import ENVIRONMENT, opensm
from tests.store.journaled import recorded

LISTEN = f'echo {READY.decode()}; while IFS= read -r line && [ "$line" != done ]; do :; done; read -r question'


LOCKS = (".\n", " mine\n.\n", " taken\n taken\n.\n", " held\n xx\n.\n", " stale\n" + " 00" * 4097 + "\n.\n")


@pytest.mark.parametrize(
    ("answer", "ask"),
    [
        (" x\n.\n", lambda host: host.look(Path("/x/y"))),
        (".\n", lambda host: host.look(Path("/x/y"))),
        (" 0 -\nwhat\n", lambda host: host.look(Path("/x/y"))),
        ("! unheard of\n", lambda host: host.look(Path("/x/y"))),
        (".\n", lambda host: host.hindrance(look(Path("/etc/passwd")))),
        (" 1 2 3\n.\n", lambda host: host.hindrance(look(Path("/etc/passwd")))),
        (" /etc/passwd\n.\n", lambda host: host.guard(1).start(look(Path("/etc/passwd")), PROCESS)),
        (" ../../etc\n.\n", lambda host: host.guard(1).start(look(Path("/etc/passwd")), PROCESS)),
        (" ../../x\n.\n", lambda host: host.clean_up(recorded([ENTRY]))),
        (f" 1-{'a' * 16}.part/../x {'0' * 64}\n.\n", lambda host: host.clean_up(recorded([ENTRY]))),
        (f" 1-{'a' * 16} -\n.\n", lambda host: host.clean_up(recorded([ENTRY]))),
        *((answer, lambda host: host.take_lock(Path("/etc/x"), b"me\n")) for answer in LOCKS),
    ],
)
def test_an_answer_that_makes_no_sense_ends_the_conversation(answer: str, ask: Callable[[OtherHost], object]) -> None:
    said = answer.replace("\n", "\\n")
    command = ["/bin/sh", "-c", f"{LISTEN}; printf '{said}'; cat >/dev/null"]
    with (
        RemoteFiles("evil", ["/bin/sh", "-s"], ENVIRONMENT) as reader,
        Conversation("evil", command, ENVIRONMENT, program(), READY) as talk,
        pytest.raises(HostNotReached),
    ):
        ask(OtherHost(reader, HostWriter(talk)))


with Journal(None) as _journal, _journal.operation("apply") as _operation:
    ENTRY = _operation.record_file(FileImage("/etc/x", None, None, host="evil"))
with opensm() as (PROCESS, _):
    pass


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_host_says_is_an_answer_or_one_error(said: bytes) -> None:
    text = "".join(f"\\{byte:03o}" for byte in said)
    command = ["/bin/sh", "-c", f"{LISTEN}; printf '{text}\\n.\\n'"]
    for question in ("seen", "real", "ground", "left"):
        with Conversation("evil", command, ENVIRONMENT, program(), READY) as talk:
            try:
                HostWriter(talk).ask(question, path=Path("/x"))
            except (HostNotReached, WriterRefused):
                continue


def test_the_reason_of_a_host_is_short_and_on_one_line() -> None:
    command = ["/bin/sh", "-c", f"{LISTEN}; printf '! failed \\033[31m'; printf '%05000d\\n' 1; cat >/dev/null"]
    with Conversation("evil", command, ENVIRONMENT, program(), READY) as talk, pytest.raises(WriterRefused) as caught:
        HostWriter(talk).ask("seen", path=Path("/x"))
    assert caught.value.reason.isprintable()
    assert len(caught.value.reason) == 300

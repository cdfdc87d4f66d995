"""What the texts about several ports have in common is a field, through every error that passes them on."""

from __future__ import annotations

import copy

from ibkeys.change.consent import Objection
from ibkeys.errors import NoReply, NotStored
from ibkeys.port_text import PortText, at_port, common_of


def test_ports_of_a_text_are_replaced_in_what_it_has_in_common_only() -> None:
    text = PortText.of("from {} to {}: none", "'{a}' port 1", "b")
    assert (text, common_of(text)) == ("from '{a}' port 1 to b: none", "from … to …: none")
    assert common_of("said of all") == "said of all"
    assert common_of(copy.deepcopy(text)) == common_of(text)


def test_an_error_keeps_it_with_all_that_is_added_to_it() -> None:
    error = NotStored(at_port("a", "lost")).unchanged("read it again").going_on("`ibkeys undo 3`", operation=3)
    error.step = "step 2"
    assert str(error) == "step 2: a: lost; nothing was changed: read it again; `ibkeys undo 3`"
    assert common_of(str(error)) == "step 2: lost; nothing was changed: read it again; `ibkeys undo 3`"
    assert common_of(str(NoReply("no port in it"))) == "no port in it"


def test_a_text_at_a_port_keeps_what_the_text_has() -> None:
    text = PortText("from a: lost", "from …: lost", "-1\n+2")
    found = at_port("b", text)
    assert (found, common_of(found), found.details) == ("b: from a: lost", "from …: lost", "-1\n+2")
    error = NotStored(found).unchanged("read it again")
    error.step = "step 2"
    assert PortText.joined("x: ", str(error)).details == "-1\n+2"


def test_a_refusal_keeps_it() -> None:
    refused = [str(Objection("stale", at_port(port, "changed")).refusal()) for port in "ab"]
    assert len(set(refused)) == 2
    assert common_of(refused[0]) == common_of(refused[1])

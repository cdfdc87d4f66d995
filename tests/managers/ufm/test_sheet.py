"""What is known of UFM, row by row, and the test that holds ibkeys to it; rows without another test have theirs here.

The rows are those of the facts of UFM: NVIDIA's REST guide and what eight clients of UFM send and cope with.
"""

from __future__ import annotations

import ast
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from ibkeys.errors import UfmNotReached, UfmRefused
from ibkeys.managers.ufm.access import UfmAccess, UfmToken
from ibkeys.managers.ufm.answers import parse_partition
from ibkeys.managers.ufm.rest import Ufm, call_to_add, calls_to_change
from tests.managers.ufm.mock import TOKEN, Mock

HERE = Path(__file__).parent
FILES = {
    "answers": HERE / "test_answers.py",
    "access": HERE / "test_access.py",
    "client": HERE / "test_client.py",
    "rest": HERE / "test_rest.py",
    "tls": HERE / "test_tls.py",
    "token": HERE / "test_token.py",
    "sheet": HERE / "test_sheet.py",
    "stored": HERE.parents[1] / "apply" / "ufm" / "test_stored.py",
    "commands": HERE.parents[1] / "cli" / "test_ufm.py",
    "via": HERE.parents[1] / "integration" / "test_via_ufm.py",
    "calls": HERE.parents[1] / "integration" / "test_via_ufm_calls.py",
    "lies": HERE.parents[1] / "integration" / "test_via_ufm_lies.py",
    "secrecy": HERE.parents[1] / "integration" / "test_ufm_secrecy.py",
}
ROWS = {
    # 1: who asks
    "/ufmRestV3: the token raw, not in Base64": "token test_the_token_is_in_one_header_and_nowhere_else",
    "/ufmRest: a client certificate": "tls test_a_client_certificate_says_who_asks",
    "a login page with status 200": "calls test_a_login_page_stops_everything_before_anything_is_changed",
    "self-signed certificates are usual": "tls test_a_certificate_that_nobody_vouches_for_is_refused",
    "one client's debug log prints the password": "secrecy test_a_whole_story",
    "no compare-and-set: the last writer wins": "lies test_somebody_who_is_faster_is_not_overwritten",
    # 2: P_Keys and GUIDs
    "P_Keys unpadded, padded, with the membership bit": "answers test_a_p_key_is_a_partition_in_any_spelling",
    "GUIDs bare, in mixed case, with 0x": "answers test_a_guid_is_a_number_in_any_spelling",
    "a P_Key with the membership bit is never sent": "sheet test_what_is_sent_has_no_membership_bit_and_bare_guids",
    "membership is a word": "answers test_members",
    # 3: calls
    "the list is plain, a dictionary, or of dictionaries": "answers test_the_list_of_all_partitions",
    "a plain list: each partition is asked for": "rest test_many_questions_together_have_an_end",
    "guids_data and qos_conf do not go together on the list": "sheet test_the_list_is_not_asked_for_qos",
    "one entry flat, or below its P_Key": "answers test_one_partition_flat_nested_or_absent",
    "an absent key: {} or 404": "rest test_an_absent_partition_is_none",
    "POST adds, PUT replaces, DELETE removes": "rest test_changes_are_sent_as_the_facts_say",
    "POST makes every member full": "stored test_which_calls",
    "an empty PUT has an unknown effect": "stored test_after_the_calls_ufm_has_what_is_wanted_and_its_flags",
    "DELETE takes a list with commas": "rest test_many_guids_are_removed_by_several_calls",
    "DELETE of an absent GUID": "calls test_one_that_left_already_is_no_error",
    "defaults of index0 and ip_over_ib": "stored test_a_new_partition_has_the_flags_of_the_policy",
    "index0 is of each member": "stored test_members_of_two_kinds_are_not_made_one_kind",
    "partition_name from 6.22 on": "rest test_whether_ufm_takes_names",
    "PUT carries no QoS, and may reset it": (
        "calls test_what_put_does_not_carry_is_told_before_and_what_it_loses_afterwards"
    ),
    "QoS values below qos_conf, or flat": "rest test_of_one_partition_its_qos_is_read_too",
    "the default partition is empty, and everybody is in it": (
        "answers test_the_default_partition_is_never_known_whatever_is_listed"
    ),
    "the default partition has a membership of its own from 6.19 on": (
        "sheet test_the_membership_of_the_default_partition_tells_no_members"
    ),
    "smconf has keys in clear": "commands test_an_audit_judges_the_keys_of_ufms_sm_and_shows_none",
    "m_key_per_port": "answers test_m_key_per_port",
    # 4: answers
    "success is 200, 201, with an empty body, JSON or text": "sheet test_what_is_a_success_of_a_change",
    "errors are JSON, text or HTML": "client test_an_answer_that_is_none_is_an_error",
    "401 and 403": "client test_a_wrong_token_is_refused_and_not_repeated",
    "202 with a job in Location": "rest test_a_change_that_begins_a_job_names_it",
    "jobs: ID and Status, or in lower case": "answers test_jobs",
    "a job that fails, or does not end": "calls test_a_job_is_waited_for",
    "5xx in the middle": "calls test_an_error_in_the_middle_leaves_what_can_be_resumed_and_undone",
    "a slow answer": "client test_a_server_that_sends_a_byte_now_and_then_is_given_up",
    "a change shows a moment later": "lies test_a_ufm_that_shows_a_change_a_moment_later_is_believed",
    "only the wire proves it": "lies test_a_ufm_that_says_yes_and_never_syncs_ends_with_exit_3_and_names_the_ports",
    # 5: files
    "gv.cfg decides who is in the default partition": "calls test_what_ufm_cannot_do_is_refused",
    # 6: what a UFM may do
    "an unknown GUID: 404": "calls test_a_guid_that_ufm_does_not_know_stops_it_before_anything_is_changed",
    "GUIDs of hosts to come": "lies test_after_an_undo_those_who_came_since_stay",
    "the last member goes, and the partition with it": (
        "calls test_a_partition_that_ufm_drops_with_its_last_member_comes_back_as_it_was"
    ),
    "the last member goes, and the partition stays": "via test_the_wire_is_as_planned_and_after_undo_as_before",
    "half of it is stored": "lies test_a_ufm_that_loses_half_is_found_out_by_reading_back",
    "nothing follows from not listed": "commands test_what_ufm_does_not_say_stays",
    "members without a membership": "lies test_members_without_a_membership_are_left_alone",
}


@pytest.mark.parametrize("row", ROWS)
def test_each_row_has_its_test(row: str) -> None:
    file, name = ROWS[row].split()
    tree = ast.parse(FILES[file].read_text())
    assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}


def client(mock: Mock) -> Ufm:
    return Ufm(UfmAccess(f"ufm:{mock.url}", UfmToken(TOKEN), timeout=5.0))


def answering(status: int, kind: str, body: bytes) -> object:
    def answer(handler: BaseHTTPRequestHandler) -> bool:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
        return True

    return answer


@pytest.mark.parametrize("status", [200, 201, 202, 204])
@pytest.mark.parametrize(
    ("kind", "body"), [("", b""), ("application/json", b"{}"), ("application/json", b'"OK"'), ("text/plain", b"OK")]
)
def test_what_is_a_success_of_a_change(mock: Mock, status: int, kind: str, body: bytes) -> None:
    mock.answer = answering(status, kind, b"" if status == 204 else body)  # type: ignore[assignment]
    ask = client(mock)
    call = call_to_add(0x11, [1], ip_over_ib=True, index0=False)
    if status == 202:
        with pytest.raises(UfmNotReached, match="status 202 names no job"):
            ask.make(call)
    else:
        assert ask.make(call) is None


@pytest.mark.parametrize("status", [400, 404, 409, 500, 502, 503])
@pytest.mark.parametrize(("kind", "body"), [("text/html", b"<html>no"), ("text/plain", b"exist"), ("", b"")])
def test_what_is_no_success(mock: Mock, status: int, kind: str, body: bytes) -> None:
    mock.answer = answering(status, kind, body)  # type: ignore[assignment]
    with pytest.raises(UfmRefused, match=f"POST was answered with status {status}(: exist)?$"):
        client(mock).make(call_to_add(0x11, [1], ip_over_ib=True, index0=False))


@pytest.mark.parametrize("base", [1, 0x10, 0x7FFE])
@pytest.mark.parametrize("after", [{1: "full"}, {1: "limited"}, {}])
def test_what_is_sent_has_no_membership_bit_and_bare_guids(base: int, after: dict[int, str]) -> None:
    calls = calls_to_change(base, {0xABC: "full"}, after, ip_over_ib=True, index0=False)  # type: ignore[arg-type]
    for call in calls:
        if call.body is not None:
            assert (call.body["pkey"], call.body["guids"]) == (f"{base:#x}", ["0000000000000001"])
        else:
            assert call.path == f"/resources/pkeys/{base:#x}/guids/0000000000000abc"


def test_the_list_is_not_asked_for_qos(mock: Mock) -> None:
    ask = client(mock)
    ask.partitions()
    ask.partition(0x10)
    paths = [path.removeprefix("/ufmRestV3/resources/pkeys") for _, path, _, _ in mock.log]
    assert paths == ["?guids_data=true", "/0x10?guids_data=true&qos_conf=true"]


@pytest.mark.parametrize("word", ["full", "limited", None])
def test_the_membership_of_the_default_partition_tells_no_members(word: str | None) -> None:
    entry = {"partition": "management", "membership": word, "guids": []}
    assert parse_partition(0x7FFF, entry).members is None

"""Nothing decides by the text of an error or a note, or rewrites it; how `tests.typed` finds what does."""

from __future__ import annotations

import pytest

from tests.typed import ALLOWED, main, places, places_in

CAUGHT = "try:\n    f()\nexcept StoreError as error:\n    "


@pytest.mark.parametrize(
    "line",
    [
        'error.args = (f"{error}; more",)',
        "error.args = ()",
        'if "locked" in str(error): pass',
        'if str(error).endswith("; nothing was changed"): pass',
        'text = f"{error}"\n    if text.startswith("host"): pass',
        'said, _, way = str(error).partition(": ")',
        'text = str(error.args[0]).replace(folder, "")',
        "found = re.search(PATTERN, str(error))",
        'text = _KEY.sub("", f"{error}")',
        "text = str(error)[10:]",
        'if error.message == "gone": pass',
        'if clean(str(error)).lower().count("port"): pass',
        'if any(word in str(error) for word in ("locked", "busy")): pass',
        'found = [line for line in str(error).split("; ")]',
        'found = {error.message.split(": ")[0]: 1 for each in x}',
        'take(key=lambda each: "locked" in str(error))',
        'if (text := str(error)).startswith("host"): pass',
        'if "{}".format(error).startswith("host"): pass',
        'if "%s" % error == "host": pass',
        'if "locked" in str(error.__cause__): pass',
        "first = error.__context__\n    if str(first) == GONE: pass",
        'text, line = str(error), 3\n    if text.endswith("x"): pass',
        'text: str = error.__str__()\n    if "x" in text: pass',
    ],
)
def test_what_works_on_the_text_of_a_caught_error_is_found(line: str) -> None:
    assert places_in(CAUGHT + line) == [("", 3 + line.count("\n") + 1)]


@pytest.mark.parametrize(
    "line",
    [
        '[note for note in plan.notes if not note.startswith("step ")]',
        'file.problem.startswith(("none", "goes to"))',
        "file.problem != ABSENT",
        'trouble.error.endswith("limit")',
        '"stopped" in event.detail',
        'why.removeprefix("not asked: ")',
        'def f(error: IbkeysError) -> bool:\n    return "SM" in str(error)',
        'def f(error: HostNotReached | None) -> str:\n    return str(error).removeprefix("host ")',
        'async def f(error: IbkeysError) -> bool:\n    return "SM" in str(error)',
        'reason.startswith("not asked")',
        'result.reason == "gone"',
        'row["error"].endswith("limit")',
        'subject["message"].split(": ")[0]',
        'problems[0].startswith("none")',
        '[each for each in plan.problems if "SM" in each]',
        '{each for each in map(str, failures) if "SM" in each}',
        'for each in notes:\n    each.removeprefix("step ")',
        'for each in errors:\n    if "SM" in str(each): pass',
        '[each.common for each in texts if each.common != "PortInfo"]',
        'common_of(trouble.error).partition(": ")',
        'match trouble.error:\n    case "gone": pass',
    ],
)
def test_what_works_on_a_note_or_a_problem_is_found(line: str) -> None:
    assert len(places_in(line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        'raise Refused(f"{error}; more") from error',
        'if error.interlock == "stale": pass',
        "if error.changed == nothing: pass",
        "if isinstance(error, Refused): pass",
        "problems.append(str(error))",
        "if str(error) not in said: pass",
        'if each.problem == "" or not each.problem: pass',
        "error.going_on(way)",
        'if name.startswith("0x"): pass',
        "if number == errno.ENODEV: pass",
        "if reason == errno.ENODEV: pass",
        "texts = [str(each) for each in errors]",
        'take(lambda each: each.split(":"))',
        "row['error'], count = str(error), 3",
        "problems[1:]",
        "match error:\n        case Refused(): pass",
        'match error.interlock:\n        case "stale": pass',
    ],
)
def test_what_makes_a_text_or_asks_a_field_is_not(line: str) -> None:
    assert places_in(CAUGHT + line) == [] or "not in" in line


def test_the_package_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(), capsys.readouterr().err) == (0, "")


def test_what_is_allowed_is_there() -> None:
    assert ALLOWED.keys() <= places().keys()

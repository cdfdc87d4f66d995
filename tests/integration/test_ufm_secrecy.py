"""Neither the token of UFM nor a key that UFM tells is found where it has no business: output, HTTP libraries' debug
log, tracebacks, journal, plan, arguments and environment of processes, and what UFM was asked."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import quote

from tests.integration.leaking import WATCHED, allow_cores
from tests.integration.ufmed import Ufmed, policy, stored, ufmed, waiting
from tests.managers.ufm.mock import TOKEN

LOUD = "import logging\nlogging.basicConfig(level=logging.DEBUG)\n"
"""httpx and httpcore say all that they have to say, on standard error."""
BROKEN = """
import ibkeys.managers.ufm.rest
def broken(self, call):
    raise ZeroDivisionError("in the middle")
ibkeys.managers.ufm.rest.Ufm.make = broken
"""
"""Makes a run end in a traceback when the first change is sent."""
SESSION = b"of-the-mock"
"""The cookie of a session, which is as good as a token."""
KEYS = b"beef000"
"""What all keys of the mock's SM begin with, but for those that are the default."""


class Watched:
    """Runs ibkeys, and keeps what it said and what could be seen of its process."""

    def __init__(self, over: Ufmed, folder: Path) -> None:
        self.over, self.folder, self.said = over, folder, list[bytes]()

    def run(self, code: int, *words: object, before: str = "") -> str:
        seen = self.folder / f"{len(self.said)}.seen"
        stores = [
            word
            for name in ("journal", "keystore")
            for word in (f"--{name}", self.over.served.folder / "stores" / f"{name}.db")
        ]
        program = WATCHED.replace("from ibkeys.cli import main\n", f"from ibkeys.cli import main\n{LOUD}{before}")
        command = [sys.executable, "-c", program, seen, *words, "--ufm-token", f"@{self.over.token}", "-d", *stores]
        done = self.over.served.run([*map(str, command)], timeout=300, preexec_fn=allow_cores)
        assert done.returncode == code, done.stdout + done.stderr
        assert "httpcore" in done.stderr, "the libraries were heard"
        about = seen.read_bytes()
        assert str(words[0]).encode() in about
        self.said += [done.stdout.encode(), done.stderr.encode(), about]
        return done.stderr


def leaks(over: Ufmed, said: list[bytes]) -> set[bytes]:
    """Return which secrets are found in what was *said*, in any file beside the fabric, or where UFM was asked."""
    folder = over.served.folder
    said = said + [path.read_bytes() for path in folder.rglob("*") if path.is_file() and path != over.token]
    for method, path, headers, body in over.mock.log:
        shown = dict(headers)
        assert shown.pop("Authorization") == f"Basic {TOKEN}"
        said += [method.encode(), path.encode(), json.dumps(shown).encode(), body]
    whole = b"\n".join(said)
    return {each for each in (TOKEN.encode(), SESSION, KEYS) if each in whole}


def redirect(handler: BaseHTTPRequestHandler) -> bool:
    """Answer with a redirect that repeats who asked."""
    handler.send_response(302)
    handler.send_header("Location", f"https://login.invalid/?access_token={TOKEN}&was={quote(TOKEN)}")
    handler.send_header("Content-Length", "0")
    handler.end_headers()
    return True


def test_a_whole_story(tmp_path: Path) -> None:
    with ufmed({}) as over:
        watched = Watched(over, tmp_path)
        plan = over.plan(policy({0x10: {2: "full"}}))
        watched.run(0, "plan", "--policy", over.url, "--out", over.served.folder / "again.json")
        said = watched.run(3, "apply", plan, "--via", over.url, "--yes", before=BROKEN)
        assert "ZeroDivisionError" in said
        assert "UfmCalls._make" in said, "with its frames"
        watched.run(0, "resume", "--yes")
        assert stored(over.mock) == {0x10: {2: "full"}}
        over.mock.fails_from = over.mock.changes
        watched.run(3, "undo", "1", "--yes")
        over.mock.fails_from = None
        watched.run(0, "undo", "--yes", "1")
        report = json.loads(watched_json(watched, "audit", "--ufm-smconf", over.url, "--check", "SM002", "-f", "json"))
        assert report["results"][0]["result"] == "fail"
        assert any(path.startswith("/ufmRestV3/app/smconf") for _, path, _, _ in over.mock.log)
        over.mock.page = True
        watched.run(3, "plan", "--policy", over.url)
        over.mock.page, over.mock.answer = False, redirect
        said = watched.run(3, "plan", "--policy", over.url)
        assert (
            "receive_response_headers.complete return_value=(b'HTTP/1.1', 302, b'Found', <headers not shown>)" in said
        )
        assert "a redirect; redirects are not followed" in said
        over.mock.answer = None
        over.token.write_text("a-token-that-was-revoked\n")
        watched.said.append(watched.run(3, "plan", "--policy", over.url).encode())
        over.mock.log[:] = [each for each in over.mock.log if "revoked" not in each[2]["Authorization"]]
        assert leaks(over, watched.said) == set()
        assert b"revoked" not in b"".join(watched.said)


def watched_json(watched: Watched, *words: object) -> str:
    watched.run(1, *words)
    return watched.said[-3].decode()


def test_the_process_that_goes_back_has_the_name_of_a_file() -> None:
    with ufmed({}) as over:
        run = waiting(over, "1")
        run.hear()
        children = Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split()
        assert children
        shown = [
            Path(f"/proc/{pid}/{name}").read_bytes()
            for pid in (run.process.pid, *children)
            for name in ("cmdline", "environ")
        ]
        assert str(over.token).encode() in b"".join(shown)
        run.process.kill()
        run.wait()
        assert stored(over.mock) == {}
        assert leaks(over, [*shown, run.said.encode()]) == set()

"""A UFM for tests: an HTTP server on loopback that stores partitions, and can lie.

Honest, it does what the facts of UFM say: P_Keys unpadded and without the membership bit, GUIDs bare and in lower case,
the default partition listed without GUIDs; POST adds, PUT replaces, DELETE removes. What is unknown of a real UFM is a
switch. ``sync`` is called with the partitions.conf of what is stored: two states, stored and applied.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "mock-token-4711-aBcDeFgH"
QOS = {"mtu_limit": 2, "service_level": 0, "rate_limit": 2.5}
LOGIN_PAGE = b"<!DOCTYPE html><html><title>UFM login</title></html>"
SM_CONF = {
    "m_key": "0x00000000beef0001",
    "sm_key": "0x0000000000000001",
    "sa_key": "0x00000000beef0003",
    "m_key_per_port": "False",
}


@dataclass
class Stored:
    """One partition: GUID → (membership, index0)."""

    name: str
    members: dict[int, tuple[str, bool]] = field(default_factory=dict)
    ip_over_ib: bool = True
    qos: dict[str, Any] = field(default_factory=lambda: dict(QOS))


@dataclass
class Mock:
    """What it stores, what it was asked, and how it lies. ``log``: method, path and query, headers, body of each
    request."""

    partitions: dict[int, Stored] = field(default_factory=dict)
    log: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    sync: Callable[[str], None] = lambda text: None
    sm_conf: dict[str, Any] = field(default_factory=lambda: dict(SM_CONF))
    absent: str = "{}"  # or "404"
    listing: str = "dict"  # or "plain", "dicts"
    nested: bool = False
    spell_guid: Callable[[int], str] = "{:016x}".format
    spell_key: Callable[[int], str] = "{:#x}".format
    post_ignores_memberships: bool = False
    syncs: bool = True
    loses_half: bool = False
    put_resets: bool = False  # the name where PUT does not carry it, and the QoS
    flat_qos: bool = False
    version: str | None = "6.23.1-6"  # None: it does not tell
    absent_guid: int = 200  # the status of DELETE of a GUID that is no member
    known_guids: set[int] | None = None  # of others POST and PUT make 404; None: any GUID will do
    drops_empty: bool = False  # a partition whose last member goes
    before_change: Callable[[Mock], None] = lambda mock: None
    seen: Callable[[int, str], None] = lambda number, when: None  # a request "comes"; it is "made", unanswered
    job: str | None = None  # the Status of the job that each change begins
    fails_from: int | None = None  # the change, counted from 0, from which on it answers 503
    hides: bool = False  # all members: an empty list
    untold: bool = False  # GUIDs without their membership
    stale_reads: int = 0  # so many reads after a change still show what was before
    before_read: Callable[[Mock, int], None] = lambda mock, number: None
    page: bool = False
    answer: Callable[[BaseHTTPRequestHandler], bool] | None = None  # answers by itself, and says whether it did
    reads: int = 0
    changes: int = 0
    jobs: int = 0
    url: str = ""
    _stale_reads: int = 0
    _before: dict[int, Stored] = field(default_factory=dict)

    def store(self, base: int, **guids: str) -> None:
        """Store a partition of ``g<hex>="full"`` members."""
        members = {int(name[1:], 16): (word, False) for name, word in guids.items()}
        self.partitions[base] = Stored(f"api_pkey_{base:#x}", members)

    def words(self, base: int) -> dict[int, str]:
        """The memberships that are stored."""
        found = self.partitions.get(base)
        return {guid: word for guid, (word, _) in found.members.items()} if found else {}

    def conf(self) -> str:
        """The partitions.conf of what is stored."""
        lines = ["management=0x7fff, ipoib : ALL=full, SELF=full ;"]
        for base, each in sorted(self.partitions.items()):
            members = ", ".join(f"0x{guid:016x}={word}" for guid, (word, _) in sorted(each.members.items()))
            if members:
                lines.append(f"{each.name}={base:#06x}{', ipoib' if each.ip_over_ib else ''} : {members} ;")
        return "\n".join(lines) + "\n"

    def changed(self) -> None:
        """Something is stored: it gets to the fabric, unless this lies."""
        if self.syncs:
            self.sync(self.conf())

    # --- answers -----------------------------------------------------------------------------------------------------

    def entry(self, base: int, each: Stored, with_guids: bool, with_qos: bool = False) -> dict[str, Any]:
        guids: list[Any] = [
            {"guid": self.spell_guid(guid), "membership": word, "index0": index0}
            for guid, (word, index0) in sorted(each.members.items())
        ]
        if self.hides:
            guids = []
        if self.untold:
            guids = [member["guid"] for member in guids]
        qos = each.qos if self.flat_qos else {"qos_conf": each.qos}
        found: dict[str, Any] = {"partition": each.name, "ip_over_ib": each.ip_over_ib}
        return found | ({"guids": guids} if with_guids else {}) | (qos if with_qos else {})

    def everything(self) -> dict[int, Stored]:
        return {0x7FFF: Stored("management"), **self.partitions}

    def read(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path == "/app/ufm_version":
            return (403, "not for you") if self.version is None else (200, {"ufm_release_version": self.version})
        self.before_read(self, self.reads)
        self.reads += 1
        with_guids = query.get("guids_data") == ["true"]
        with_qos = query.get("qos_conf") == ["true"]
        if path == "/app/smconf":
            return 200, self.sm_conf
        if path.startswith("/jobs/"):
            return 200, {
                "ID": path.rpartition("/")[2],
                "Status": self.job,
                "Summary": "write of SM files",
                "Progress": 1,
            }
        if path == "/resources/pkeys":
            assert not (with_guids and with_qos), "of the list both together are unsupported"
            return 200, self.listed(with_guids)
        base = int(path.rpartition("/")[2], 16)
        found = self.everything().get(base)
        if self._stale_reads:
            self._stale_reads -= 1
            found = self._before.get(base)
        if found is None:
            return (404, "404 NOT FOUND") if self.absent == "404" else (200, {})
        entry = self.entry(base, found, with_guids, with_qos)
        return 200, {self.spell_key(base): entry} if self.nested else entry

    def listed(self, with_guids: bool) -> Any:
        if self.listing == "plain" or not with_guids:
            return [self.spell_key(base) for base in self.everything()]
        entries = {self.spell_key(base): self.entry(base, each, True) for base, each in self.everything().items()}
        if self.listing == "dicts":
            return [{"pkey": key, **entry} for key, entry in entries.items()]
        return entries

    def change(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        number, self.changes = self.changes, self.changes + 1
        if self.fails_from is not None and number >= self.fails_from:
            return 503, "503 Service Unavailable"
        self._stale_reads, self._before = self.stale_reads, deepcopy(self.partitions)
        self.before_change(self)
        if method == "DELETE":
            base = int(path.split("/")[3], 16)
            guids = {int(guid, 16) for guid in path.rpartition("/")[2].split(",")}
            if guids - self.partitions[base].members.keys() and self.absent_guid != 200:
                return self.absent_guid, {"error": "no such GUID"}
            for guid in guids:
                self.partitions[base].members.pop(guid, None)
            if self.drops_empty and not self.partitions[base].members:
                del self.partitions[base]
        elif self.known_guids is not None and {int(each, 16) for each in body["guids"]} - self.known_guids:
            return 404, {"error": "no such GUID"}
        else:
            self.put(method, body)
        self.changed()
        if self.job is not None:
            self.jobs += 1
            return 202, None
        return 200, None

    def put(self, method: str, body: dict[str, Any]) -> None:
        base = int(body["pkey"], 16)
        assert 0 < base < 0x7FFF, body["pkey"]
        words = body.get("memberships") or [body.get("membership", "full")] * len(body["guids"])
        assert len(words) == len(body["guids"])
        pairs = [(int(guid, 16), word) for guid, word in zip(body["guids"], words, strict=True)]
        if self.loses_half:
            pairs = pairs[: len(pairs) // 2]
        each = self.partitions.setdefault(base, Stored(body.get("partition_name", f"api_pkey_{base:#x}")))
        each.ip_over_ib = body.get("ip_over_ib", True)
        if method == "PUT" and self.put_resets:
            each.name, each.qos = body.get("partition_name", f"api_pkey_{base:#x}"), dict(QOS)
        if method == "PUT":
            each.members = {}
        each.members |= {guid: (word, bool(body.get("index0"))) for guid, word in pairs}
        if method == "POST" and self.post_ignores_memberships:
            each.members = {guid: ("full", index0) for guid, (_, index0) in each.members.items()}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mock: Mock
    lock: threading.Lock

    def log_message(self, *_: object) -> None:
        """Nothing on standard error: ``Mock.log`` has it."""

    def do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.lock:
            number = len(self.mock.log)
            self.mock.log.append((self.command, self.path, dict(self.headers), body))
            self.mock.seen(number, "comes")
            if self.mock.answer is not None and self.mock.answer(self):
                return
            status, answer = self.answer_to(body)
            self.mock.seen(number, "made")
            with suppress(OSError):  # whoever asked may be gone
                self.give(status, answer)

    do_GET = do_POST = do_PUT = do_DELETE = do

    def answer_to(self, body: bytes) -> tuple[int, Any]:
        parts = urlsplit(self.path)
        has_cert = isinstance(self.connection, ssl.SSLSocket) and bool(self.connection.getpeercert())
        for base, is_known in (
            ("/ufmRestV3", self.headers.get("Authorization") == f"Basic {TOKEN}"),
            ("/ufmRest", has_cert),
        ):
            if parts.path.startswith(base + "/"):
                if self.mock.page:
                    return 200, LOGIN_PAGE
                if not is_known:
                    return 401, {"error": f"no access with {self.headers.get('Authorization')}"}
                path = parts.path.removeprefix(base)
                if self.command == "GET":
                    return self.mock.read(path, parse_qs(parts.query))
                return self.mock.change(self.command, path, json.loads(body) if body else {})
        return 404, "404 NOT FOUND"

    def give(self, status: int, answer: Any) -> None:
        kind, data = "application/json", b""
        if isinstance(answer, bytes):
            kind, data = "text/html", answer
        elif isinstance(answer, str):
            kind, data = "text/plain", answer.encode()
        elif answer is not None:
            data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Set-Cookie", "session=of-the-mock; HttpOnly")
        if status == 202:
            self.send_header("Location", f"http://elsewhere.invalid/ufmRest/jobs/{self.mock.jobs}")
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def ufm(mock: Mock | None = None, tls: ssl.SSLContext | None = None) -> Iterator[Mock]:
    """Serve a mock until the end of the block. *tls*: by HTTPS, with this context."""
    mock = mock or Mock()
    handler = type("Handler", (_Handler,), {"mock": mock, "lock": threading.Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    mock.url = f"{'https' if tls is not None else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield mock
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def token_file(folder: Path) -> Path:
    """Write the token where only its owner reads it."""
    path = folder / "ufm.token"
    path.touch(mode=0o600)
    path.write_text(TOKEN + "\n")
    return path

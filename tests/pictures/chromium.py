"""Headless Chromium, spoken to through two pipes: it opens a page, says what went wrong in it, and takes pictures.

No driver is needed: with ``--remote-debugging-pipe`` Chromium reads commands from file descriptor 3 and answers on 4,
each message ended by NUL (chromedevtools.github.io/devtools-protocol).
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

Scheme = Literal["light", "dark"]
SECONDS: Final = 120
"""How long Chromium may be silent before it is taken to hang."""


class Page:
    """One tab. ``troubles``: every exception, error of the console and request for anything but the page itself."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.troubles: list[str] = []
        self._loaded = False
        self._address = ""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its result. Raises RuntimeError when Chromium refuses it."""
        return self._browser.call(method, params, self._session, self._event)

    def show(self, address: str, width: int = 1280, height: int = 800, scheme: Scheme = "light") -> None:
        """Open *address* in a window of this size and wait until it is loaded."""
        self.resize(width, height)
        self.media("", scheme)
        self._loaded, self._address = False, address
        self.call("Page.navigate", url=address)
        while not self._loaded:
            self._event(self._browser.read())

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def media(self, media: Literal["", "print"], scheme: Scheme) -> None:
        """Show the page as on a screen (``""``) or as on paper."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def run(self, script: str) -> Any:
        """Return what *script* comes to in the page. Raises RuntimeError with what it threw."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(json.dumps(done["exceptionDetails"])[:2000])
        return done["result"].get("value")

    def click(self, x: float, y: float) -> None:
        """Press and release the left button at a place of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, words: str, enter: bool = False) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=words)
        if enter:
            for kind in ("keyDown", "keyUp"):
                self.call(
                    "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13
                )

    def picture(self, whole: bool = False) -> bytes:
        """Return what the window shows, or the whole page, as PNG."""
        done = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole))
        return base64.b64decode(done["data"])

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12_000), "scale": 1}}

    def pdf(self) -> bytes:
        """Return the page as it is printed on A4."""
        size = {"paperWidth": 8.27, "paperHeight": 11.69}
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False, **size)["data"])

    def _event(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                self.troubles.append(json.dumps(params["exceptionDetails"])[:500])
            case "Log.entryAdded":
                self.troubles.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                if params["request"]["url"] != self._address:
                    self.troubles.append("requested " + params["request"]["url"][:200])


class Browser:
    """A running Chromium; use `browser`."""

    def __init__(self, out: int, into: int) -> None:
        self._out, self._into = out, into
        self._rest = b""
        self._number = 0

    def page(self) -> Page:
        """Return a new tab."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        return Page(self, session)

    def call(
        self, method: str, params: dict[str, Any], session: str | None = None, event: Any = lambda message: None
    ) -> dict[str, Any]:
        """Send a command, hand events that come before its answer to *event*, and return the answer's result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            event(answer)

    def read(self) -> dict[str, Any]:
        """Return the next message. Raises RuntimeError when none comes."""
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._out], [], [], SECONDS)
            more = os.read(self._out, 1 << 20) if ready else b""
            if not more:
                raise RuntimeError("Chromium has ended, or says nothing any more")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def browser() -> Iterator[Browser]:
    """Run Chromium, without a window and with a profile of its own. Raises RuntimeError when it is not installed."""
    program = shutil.which("chromium")
    if program is None:
        raise RuntimeError("Chromium is not installed: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="ibkeys-chromium-", ignore_cleanup_errors=True) as profile:
        arguments = [program, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        arguments += ["--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"]
        arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
        commands, answers = _pipe(), _pipe()
        log = os.open(Path(profile) / "log", os.O_WRONLY | os.O_CREAT, 0o600)
        ends = ((commands[0], 3), (answers[1], 4), (log, 1), (log, 2))
        actions = [(os.POSIX_SPAWN_DUP2, one, other) for one, other in ends]
        child = os.posix_spawn(program, arguments, {**os.environ, "HOME": profile}, file_actions=actions)
        for each in (commands[0], answers[1], log):
            os.close(each)
        try:
            running = Browser(answers[0], commands[1])
            yield running
            running.call("Browser.close", {})
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            os.waitpid(child, 0)
            os.close(answers[0])
            os.close(commands[1])


def _pipe() -> tuple[int, int]:
    """Return a pipe whose ends are not among the first ten file descriptors, which Chromium is to have for itself."""
    made = os.pipe()
    moved = tuple(fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in made)
    for each in made:
        os.close(each)
    return moved[0], moved[1]

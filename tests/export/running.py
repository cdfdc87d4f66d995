"""A running exporter with an endpoint, as a user starts it, and a certificate for it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tests.export.exposition import Series, parse


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for localhost in *folder*, and return it and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    made = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    command = ["openssl", "req", *made, *names, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return cert, key


class Exporter:
    """A running ``ibkeys export`` with an endpoint on loopback."""

    def __init__(self, *args: object) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("IBKEYS_")}
        command = [sys.executable, "-m", "ibkeys", "export", "--listen", "0", *map(str, args)]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.fullmatch(r"ibkeys: note: metrics at (https?://127\.0\.0\.1:([0-9]+)/metrics)\n", line)
        assert found, line + self.process.stderr.read()
        self.url, self.port = found[1], int(found[2])

    def page(self) -> dict[str, Series]:
        """Return the page once there is one; nobody waits by the clock: the server says when it is not ready."""
        while True:
            try:
                with urllib.request.urlopen(self.url, timeout=180) as answer:
                    return parse(answer.read().decode())
            except urllib.error.HTTPError as error:
                error.close()
                if error.code != 503:
                    raise

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=180)
        return self.process.returncode, err

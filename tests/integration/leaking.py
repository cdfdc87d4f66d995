"""Where a key could leak."""

from __future__ import annotations

import resource
from collections.abc import Mapping

# Runs ibkeys; says at its end what others could see of the process and of those that it started.
WATCHED = """
import atexit, json, os, resource, sys
seen = open(sys.argv.pop(1), "wb")
def tell():
    for name in ("cmdline", "environ"):
        with open(f"/proc/self/{name}", "rb") as file:
            seen.write(file.read())
    seen.write(repr(dict(os.environ)).encode())
    seen.write(f"\\ncore {resource.getrlimit(resource.RLIMIT_CORE)[0]}\\n".encode())
    seen.close()
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.putenv", "pty.spawn")
def hook(event, arguments):
    if event in STARTS:
        seen.write(f"{event} start{'ed'} {arguments!r}\\n".encode())
sys.addaudithook(hook)
atexit.register(tell)
from ibkeys.cli import main
main()
"""


# Each key is used in one place of the story below, so that a leak names its place.
KEYS = {
    "first": 0xFEEDC0DEDEADBEA7,
    "second": 0xABCDE98765F1020F,
    "wrong": 0xDEC0ADDE5EAFB00B,
    "refused": 0xCAFED00DBADDECAF,
    "dry": 0xB16B00B5FACADE0D,
    "switch": 0xACE0FBA5EBA11DAD,
    "piped": 0xEBBF10DAC0FFEE42,
    "literal": 0xC0DEC0FFEEBA5E11,
}


TALK = ("-v", "-d")


def forms(key: int) -> list[bytes]:
    """Return the ways in which a key could be written down."""
    text = f"{key:016x}"
    return [text.encode(), text.upper().encode(), str(key).encode(), key.to_bytes(8, "big"), key.to_bytes(8, "little")]


def leaks(data: bytes, keys: Mapping[str, int] = KEYS) -> set[str]:
    """Return the names of the keys that are found in *data*, whole or with blanks and colons between their bytes."""
    plain = data.translate(None, b" :-_")
    return {name for name, key in keys.items() if any(form in data or form in plain for form in forms(key))}


def allow_cores() -> None:
    """Let this process leave a core as large as may be."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

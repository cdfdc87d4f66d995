"""``make demo``: a first look at ibkeys on the packaged fabric, by the commands that a user would type.

Every line that begins with ``$`` is run as it stands, in a temporary folder with a simulated subnet. A partition policy
divides the subnet among three tenants. The subnet has one mistake: a host of one tenant is in the partition of another
tenant too.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ibkeys.cli import streams
from ibkeys.own_program import own_program
from ibkeys.sim.state.file import StateFile
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.sim_spec import DEMO

PROMPT: Final = "-- Enter: next, q: end -- "
_STATE, _POLICY = "fabric.state", "partitions.conf"
_DEFAULT_LIMITED, _FULL = 0x7FFF, 0x8000
_SM: Final = "login1"
_TENANTS: Final[Mapping[str, tuple[int, list[str]]]] = {
    "tenant-a": (0x0101, [f"gpu-a{number:02}" for number in range(1, 9)]),
    "tenant-b": (0x0102, [f"gpu-a{number:02}" for number in range(9, 17)]),
    "batch": (0x0103, [f"cn{number:03}" for number in range(1, 17)]),
}
"""The partitions of the policy: for each its 15 bits, and the hosts that are full members."""
_MISPLACED_HOST, _WRONG_PARTITION = "gpu-a03", "tenant-b"


class Screen(NamedTuple):
    """One step of the demo: title, words after ``ibkeys``, expected exit code. The output fits 80 x 24 characters."""

    title: str
    typed: str
    code: int


SCREENS: Final = (
    Screen("Who is in which partition?", f"matrix --policy {_POLICY}", 0),
    Screen("Audit: can ports talk that the policy keeps apart?", f"audit --policy {_POLICY} --check PK005", 1),
    Screen("Why: how can a host of tenant-a talk to one of tenant-b?", "why gpu-a03 gpu-a09", 0),
    Screen("Plan: what has to change? Nothing is written yet.", f"plan {_POLICY} --out repair.plan", 1),
    Screen("Change: each value is saved before it is overwritten.", "apply repair.plan --allow-removals --yes", 0),
    Screen("Proof: what do the ports themselves say now?", "why gpu-a03 gpu-a09", 1),
    Screen("Undo: back to what was there before, from the journal.", "undo 1 --yes", 0),
    Screen("And who may change the ports? Audit the M_Keys.", "audit --group MK", 1),
    Screen("Change: each port gets an M_Key.", "mkey-deploy --same --protect 2 --lease 60 --yes", 0),
    Screen("Proof: all M_Keys, read from the ports.", "mkey-show --all", 0),
)


def main() -> int:
    """Run the demo.

    Returns 0 if every command ended with the expected exit code, or if the user ended the demo; else 1.
    """
    print(
        "A simulated subnet of 40 hosts with three tenants. No real device is touched.\n"
        f"The policy has {_MISPLACED_HOST} in tenant-a only; a colleague put it into {_WRONG_PARTITION} too."
    )
    with tempfile.TemporaryDirectory(prefix="ibkeys-demo-") as folder:
        prepare(Path(folder))
        for screen in SCREENS:
            print(f"\n# {screen.title}\n$ ibkeys {screen.typed}", flush=True)
            code = _run(screen.typed, folder)
            if code != screen.code:
                print(f"the demo expected exit code {screen.code} here and got {code}", file=sys.stderr)
                return 1
            if not _wait_for_enter():
                return 0
    print(
        "\nOn a host with an InfiniBand adapter, as root, type next; all three only read:\n"
        "  ibkeys doctor      check the local InfiniBand stack and suggest fixes\n"
        "  ibkeys audit       unset M_Keys, shared partitions, what could not be read\n"
        "  ibkeys report DIR  the same and more, as web pages\n"
        "README.md says how to install ibkeys, and docs/tutorial.md goes on from here."
    )
    return 0


def prepare(folder: Path) -> None:
    """Write the policy and the state of the simulated subnet into *folder*. Raises StoreError, OSError."""
    net = Subnet.from_file(DEMO)
    ports = [port for node in net.nodes if not node.is_switch for port in node.end_ports]
    members: dict[str, list[str]] = {name: [] for name in _TENANTS}
    for node in net.nodes:
        if node.is_switch:
            node.ports[0].p_keys = [_DEFAULT_LIMITED]
    for port in ports:
        host = port.node.description.split()[0]
        keys = [_DEFAULT_LIMITED | (_FULL if host == _SM else 0)]
        for name, (partition, hosts) in _TENANTS.items():
            if host in hosts:
                members[name].append(f"0x{port.guid:016x}=full")
            if host in hosts or (host, name) == (_MISPLACED_HOST, _WRONG_PARTITION):
                keys.append(_FULL | partition)
        leaf = port.peer
        assert leaf is not None  # on this fabric every host has a link
        port.p_keys = leaf.p_keys = keys
        leaf.inbound_enforcement = leaf.outbound_enforcement = 1
    StateFile(folder / _STATE, net).close()
    lines = [f"{name}=0x{_TENANTS[name][0]:04x}: {', '.join(guids)};\n" for name, guids in members.items()]
    (folder / _POLICY).write_text("".join(["Default=0x7fff: ALL=limited, SELF=full;\n", *lines]))


def _run(command_line: str, folder: str) -> int:
    """Run a command on the subnet in *folder*, and return its exit code. Equal rows are folded as on a terminal."""
    settings = {"IBKEYS_BACKEND": f"sim:,state={_STATE}", "IBKEYS_FOLD": "1"}
    words = [*own_program(), *shlex.split(command_line)]
    return subprocess.run(words, cwd=folder, env={**os.environ, **settings}, check=False).returncode


def _wait_for_enter() -> bool:
    """Wait at a terminal for Enter, and return whether to go on: False if the user ends the demo.

    Without a terminal, return True at once.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    try:
        return input(PROMPT).strip().lower() != "q"
    except (EOFError, KeyboardInterrupt):
        print()
        return False


if __name__ == "__main__":
    with streams.outlasting_readers():
        code = main()
    raise SystemExit(code)

"""``python -m ibkeys.sim.hosted.shell_there SOCKET NODE``: a shell on another host of the same simulated fabric.

It replaces ssh on simulated hosts: the shell reads and writes the standard streams of this process, which ends with the
shell.
"""

from __future__ import annotations

import array
import socket
import sys

from ibkeys.sim.server.umad import wire

_FAILED = 255
"""The exit status if the shell was not started; ssh has the same for its own errors."""


def main(name: str, node: str) -> int:
    """Start a shell on *node* of the fabric that the server *name* serves, wait for its end, and return 0; 255 if it
    was not started.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as asking:
        streams = array.array("i", [stream.fileno() for stream in (sys.stdin, sys.stdout, sys.stderr)])
        try:
            asking.connect(b"\0" + f"{name}:umad".encode())
            asking.sendmsg([wire.ask_shell(node)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
            why_not = wire.parse_shell_answer(asking.recv(wire.MOST_HELLO))
        except OSError as error:
            why_not = f"no simulator runs under the socket name {name!r} ({error.strerror})"
        if why_not:
            print(why_not, file=sys.stderr)
            return _FAILED
        asking.recv(1)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

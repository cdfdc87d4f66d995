"""Getting the hands on a host: this one, or another through ssh."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ibkeys.errors import HostNotReached
from ibkeys.sm.hands.policy_host import PolicyHost
from ibkeys.sm.hands.this_host import THIS
from ibkeys.sm.hosts import SmHost


@contextmanager
def open_policy_host(host: SmHost) -> Iterator[PolicyHost]:
    """Open a host for changes. Raises HostNotReached."""
    if host.ssh is None:
        yield THIS
        return
    raise HostNotReached(f"host {host.name}: cannot be changed by this version", host.name)

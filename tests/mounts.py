"""Tests that make mounts of their own, in their own namespace: a container may not allow that, not even to root."""

from __future__ import annotations

import subprocess

import pytest

from tests.integration.ibsim import tool


def _refusal() -> str:
    """Return what the kernel says against a mount in a mount namespace of this user, "" where it allows it."""
    command = [tool("unshare"), "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stderr.strip() if done.returncode else ""


_REFUSED = _refusal()

needs_mounts = pytest.mark.skipif(
    bool(_REFUSED), reason=f"mounts were not tested: they are not allowed here ({_REFUSED}); run it with CAP_SYS_ADMIN"
)

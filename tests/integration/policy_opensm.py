"""An OpenSM that runs with a policy."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.ibsim import RUN_TIMEOUT, Ibsim


@contextmanager
def running_opensm(
    fabric: Ibsim,
    conf_text: str | None = None,
    log: list[str] | None = None,
    partitions: str | Path | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run OpenSM beside a test; it has brought the subnet up when this begins.

    *log*: takes what OpenSM says. *partitions*: its partition policy, as text or a file; by default an empty one.
    """
    command = fabric.arguments(fabric.opensm_arguments(conf_text, partitions, ("-f", "stdout")))
    manager = subprocess.Popen(
        command,
        cwd=fabric.folder,
        env={**fabric.environment, **fabric.opensm_environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert manager.stdout is not None
    deadline = threading.Timer(2 * RUN_TIMEOUT, manager.kill)
    deadline.start()
    log = [] if log is None else log
    reader = threading.Thread(target=log.extend, args=(manager.stdout,), daemon=True)
    try:
        for line in manager.stdout:
            log.append(line)
            if "SUBNET UP" in line:
                break
        else:
            raise AssertionError(f"OpenSM did not bring the subnet up:\n{''.join(log[-20:])}")
        deadline.cancel()
        reader.start()  # a full pipe would stop it
        yield manager
    finally:
        deadline.cancel()
        manager.kill()
        manager.wait(RUN_TIMEOUT)
        if reader.ident is not None:
            reader.join(RUN_TIMEOUT)
        manager.stdout.close()

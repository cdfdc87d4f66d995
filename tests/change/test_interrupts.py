"""Signals during a long change."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from ibkeys.change.interrupts import Interrupts


@pytest.fixture(autouse=True)
def _handlers_of_before() -> Iterator[None]:
    kept = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)}
    yield
    for each, handler in kept.items():
        signal.signal(each, handler)


def test_a_signal_stops_at_the_next_check() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt, match="by SIGTERM"):
            interrupts.check()
        interrupts.check()  # each only once


def test_what_was_ignored_stays_ignored() -> None:
    """As under nohup, and in the background of a shell."""
    for each in (signal.SIGHUP, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    with Interrupts() as interrupts:
        for each in (signal.SIGHUP, signal.SIGINT):
            os.kill(os.getpid(), each)
        interrupts.check()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_nothing_from_the_terminal_stops_the_time_to_confirm() -> None:
    before = signal.getsignal(signal.SIGTSTP)
    with Interrupts(survive_hangup=True):
        assert {signal.getsignal(each) for each in (signal.SIGHUP, signal.SIGTSTP)} == {signal.SIG_IGN}
    assert signal.getsignal(signal.SIGTSTP) == before
    with Interrupts():
        assert signal.getsignal(signal.SIGTSTP) == before


def test_a_second_interrupt_does_not_wait() -> None:
    with Interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="second"):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_second_interrupt_does_not_wait_although_the_first_was_heard() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="by SIGINT"):
            interrupts.check()
        with pytest.raises(KeyboardInterrupt, match="second"):
            os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_of_what_begins_afterwards_is_a_first_one() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.forget()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="by SIGINT"):
            interrupts.check()

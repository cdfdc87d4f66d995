"""``ibkeys harden`` where there is nothing to go through."""

from __future__ import annotations

import pytest

from tests.cli.conftest import TWO_SWITCH, run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "a simulated subnet has no OpenSM on any host"),
        (("--abort",), "a simulated subnet has no OpenSM on any host"),
        (("--profile", "none"), "'none' is not one of"),
        (("--via", "direct"), "'direct' is not 'opensm'"),
        (("--lease", "0"), "--lease"),
        (("--abort", "--overtaken"), "--abort and --overtaken exclude each other"),
        (("--overtaken",), "a simulated subnet has no OpenSM on any host"),
    ],
)
def test_what_it_cannot_mean_is_wrong_usage(words: tuple[str, ...], said: str) -> None:
    result = run("harden", "--backend", TWO_SWITCH, "--yes", *words)
    assert result.code == 2
    assert said in result.error

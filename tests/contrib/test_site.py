"""The example of a site file has all names, and each value is one that ibkeys takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ibkeys.cli.site.file import read_site
from ibkeys.cli.site.settings import SETTINGS
from tests.contrib.shipped import CONTRIB

EXAMPLE = (CONTRIB / "ibkeys.toml").read_text()


@pytest.mark.parametrize("text", [EXAMPLE, re.sub(r"^#(?=[a-z])", "", EXAMPLE, flags=re.M)], ids=["as it is", "all"])
def test_the_example_is_a_site_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ibkeys.toml"
    path.write_text(text)
    path.chmod(0o644)
    site = read_site(path)
    assert site.subnet == {0x0002C903000A1011}
    assert {*site.values} == ({"via", "sm_host", "smkey", "policy"} if text is EXAMPLE else {*SETTINGS})

"""Which options can be set by a variable ``IBKEYS_...``, and the page that lists them."""

from __future__ import annotations

import re

import pytest

from ibkeys.cli import COMMANDS
from ibkeys.cli.help.common import section_of
from tests.cli.commands import long_name, options_within
from tests.corpus import DATA

MAN = DATA.parent.parent / "man"
NEVER_FROM_THE_ENVIRONMENT = {
    "--trap",
    "--packet",
    "--node",
    "--hosts",
    "--switch",
    "--partition",
    "--p-key",
    "--level",
    "--nonzero",
    "--zero",
    "--changed-since",
    "--each",
    "--fold",
    "--look",
    "--yes",
    "--force",
    "--override",
    "--all",
    "--trust-topology",
    "--allow-others",
    "--ask-unproven",
    "--ask-unkeyed",
    "--settle",
    "--sudo",
    "--script",
    "--present",
    "--ufm-insecure",
    "--ufm-proxy",
    "--exec",
    "--via",
    "--open-while-rotating",
    "--unconfirmed",
    "--rewrite",
    "--dry-run",
    "--report",
    "--hash-guids",
    "--write-loopback",
    "--leave-open",
    "--Lid",
    "--Direct",
    "--Guid",
    "--Name",
    "--version",
    "--help",
    "--new-m-key",
    "--new-sm-key",
    "--new-sa-key",
    "--set-new",
    "--try-keys",
    "--protect",
    "--lease",
    "--same",
    "--per-port",
    "--first",
    "--continue",
    "--resume",
    "--overtaken",
    "--abort",
    "--order",
    "--at-once",
    "--max-failures",
    "--inbound",
    "--outbound",
    "--number",
    "--pin",
    "--pin-random",
    "--out",
    "--pkeys-of",
    "--disconnect-unconfigured",
    "--allow-index-moves",
    "--allow-both-pkeys",
    "--enforce",
    "--sm-guid",
    "--full",
    "--attribute",
    "--explain",
    "--new-passphrase",
    "--decrypt",
    "--opensm-conf",
    "--write-opensm-conf",
    "--guid2lid",
    "--allow-removals",
    "--allow-break",
    "--confirm-within",
    "--reach",
    "--pairs",
    "--only",
    "--names",
    "--enforcement",
    "--caps",
    "--counters",
    "--out-of",
    "--ipoib",
    "--mtu",
    "--rate",
    "--sl",
    "--scope",
    "--q-key",
    "--defmember",
    "--indx0",
    "--mgid",
    "--without-mgid",
    "--limited",
    "--members",
}
TYPED_HERE = {
    ("partition-add", "--policy"),
    ("partition-remove", "--policy"),
    ("partition-delete", "--policy"),
    ("partition-show", "--policy"),
    ("partition-rename", "--policy"),
    ("replace", "--policy"),
    ("sim", "--export-keys"),
    ("sim", "--on"),
}
"""Options that other commands have from the environment."""
READ_HERE = {("sim", "--script")}
"""Options that other commands do not have from the environment."""


@pytest.mark.parametrize("name", COMMANDS)
def test_options_are_read_from_the_environment_by_their_long_names(name: str) -> None:
    for option in options_within(name):
        long = long_name(option)
        is_typed = (long in NEVER_FROM_THE_ENVIRONMENT and (name, long) not in READ_HERE) or (name, long) in TYPED_HERE
        expected = None if is_typed else "IBKEYS_" + long[2:].replace("-", "_").upper()
        first = option.envvar[0] if isinstance(option.envvar, list) else option.envvar
        assert first == expected


def test_man_page_names_the_options_that_are_read_from_the_environment() -> None:
    options = [option for name in COMMANDS for option in options_within(name)]
    shared = {long_name(option) for option in options if section_of(option) is not None}
    read = {long_name(option) for option in options if option.envvar}
    general = {"--version", "--help", "--help-all"}
    page = (MAN / "ibkeys-options.7").read_text().replace("\\-", "-")
    of_this_page, _, of_commands = page.partition("Of the other options of the commands")
    typed = of_this_page.rpartition("These have to be typed")[2]
    assert set(re.findall(r"--[\w-]+", typed)) == general | (shared - read)
    listed = re.findall(r"--[\w-]+", of_commands.partition("All others have to be typed")[0])
    assert listed == sorted(read - shared)

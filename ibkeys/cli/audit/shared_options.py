"""Options that audit and harden have alike."""

from __future__ import annotations

from typing import Final

import click

from ibkeys.audit.findings import PROFILES
from ibkeys.cli import options

PROFILE: Final = options.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="cloud-secured",
    help="How severe each rule is.  [default: cloud-secured]",
)
SM_GUIDS: Final = options.option(
    "--sm-guids", multiple=True, metavar="GUID|@FILE", help="Port GUIDs that may run a subnet manager; repeatable."
)
WAIVERS: Final = options.option(
    "--waivers", metavar="FILE", help="Findings that are accepted, with reason and expiry (TOML)."
)

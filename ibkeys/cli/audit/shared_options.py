"""Options that audit, harden, report and export share."""

from __future__ import annotations

from typing import Final

from ibkeys.audit.findings import PROFILES, SEVERITIES, Profile, Severity
from ibkeys.cli import options
from ibkeys.cli.types import NearChoice

DEFAULT_PROFILE: Final[Profile] = "cloud-secured"
DEFAULT_FAIL_ON: Final = "high"
PROFILE: Final = options.option(
    "--profile",
    type=NearChoice(PROFILES),
    default=DEFAULT_PROFILE,
    help="How severe each rule is.  [default: cloud-secured]",
)
_NEVER: Final = "never"
FAIL_ON: Final = options.option(
    "--fail-on",
    type=NearChoice([*SEVERITIES, _NEVER]),
    default=DEFAULT_FAIL_ON,
    callback=lambda context, option, value: None if value == _NEVER else value,
    help="Exit with status 1 for findings of this severity or worse.  [default: high]",
)
FailOn = Severity | None
"""The value of the option `FAIL_ON`; None: never."""
SM_GUIDS: Final = options.option(
    "--sm-guids", multiple=True, metavar="GUID|@FILE", help="Port GUIDs that may run a subnet manager; repeatable."
)
WAIVERS: Final = options.option(
    "--waivers", metavar="FILE", help="Findings that are accepted, with reason and expiry (TOML)."
)

"""The interlock ``stale`` for a policy that waits: the signal for new options makes OpenSM read its policy as well."""

from __future__ import annotations

from collections.abc import Iterator

from ibkeys.change.consent import Objection
from ibkeys.sm.instance import CHECK_FIRST, Instance
from ibkeys.sm.reading import WORDS


def objections_to_unread_policy(master: Instance) -> Iterator[Objection]:
    """Yield one if somebody edited the policy of this OpenSM, and it has not read that."""
    file = master.files["policy"]
    if file.reading == "not-read":
        yield Objection(
            "stale",
            f"{file.path}: {WORDS['not-read']}: revert it, or {CHECK_FIRST}, then let OpenSM read it",
            "The SIGHUP for this change would also activate that edit.",
        )

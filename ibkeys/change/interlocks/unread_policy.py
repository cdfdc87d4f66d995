"""The interlock ``stale`` for a policy that waits: the signal for new options makes OpenSM read its policy as well."""

from __future__ import annotations

from collections.abc import Iterator

from ibkeys.change.consent import Objection
from ibkeys.sm.instance import CHECK_FIRST, Instance
from ibkeys.sm.reading import WORDS


def objections_to_unread_policy(master: Instance) -> Iterator[Objection]:
    """Yield one if somebody edited or removed the policy of this OpenSM, and it may not have seen that."""
    file = master.files["policy"]
    if file.reading == "not-read":
        yield Objection(
            "stale",
            f"{file.path}: {WORDS['not-read']}: revert it, or {CHECK_FIRST}, then let OpenSM read it",
            "The SIGHUP for this change would also activate that edit.",
        )
    elif file.reading == "absent-since-sweep":
        yield Objection(
            "stale",
            f"{file.path}: {WORDS['absent-since-sweep']}: put the policy there, and {CHECK_FIRST}",
            "The SIGHUP for this change makes OpenSM look for its policy. Without one every port becomes a full member "
            "of the default partition, and of no other.",
        )

"""The interlock ``sm-prints-keys``: a key for an OpenSM that prints it where users other than root can read it."""

from __future__ import annotations

from collections.abc import Iterable

from ibkeys.change.consent import Objection
from ibkeys.managers.files.listeners import find_readable_outputs
from ibkeys.managers.site import RunningOpensm
from ibkeys.printable import named


def objections_to_listeners(opensms: Iterable[RunningOpensm]) -> list[Objection]:
    """Return the objection ``sm-prints-keys``, as a list of none or one: OpenSMs print a new key to places that users
    other than root can read. Raises HostNotReached.
    """
    shown = [f"{each.instance.name}: {place}" for each in opensms for place in find_readable_outputs(each)]
    if not shown:
        return []
    return [
        Objection(
            "sm-prints-keys",
            f"OpenSM prints changed keys where users other than root can read them: {named(shown)}; restrict access "
            "to these, or send the unit's output elsewhere",
            "OpenSM prints each changed value of its options file. To restrict access to a log, set its mode and "
            "logrotate's.",
        )
    ]

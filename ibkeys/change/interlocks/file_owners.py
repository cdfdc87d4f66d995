"""The interlock ``file-managed``: a file of OpenSM that another program writes again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ibkeys.change.consent import Objection
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.managed_files import manager_of


def objections_to_owners(files: Iterable[OpensmFile], otherwise: str = "") -> Iterator[Objection]:
    """Yield an objection for each of *files* that another program manages. *otherwise*: in words, what happens when
    that program writes the file."""
    for file in files:
        owner = manager_of(file.seen.path, file.seen.data) or manager_of(file.path, None)
        if owner is not None:
            would = f": {otherwise}" if otherwise else ""
            yield Objection(
                "file-managed",
                f"{file.name} is managed by {owner}, which overwrites changes to it{would}; make the change there",
            )

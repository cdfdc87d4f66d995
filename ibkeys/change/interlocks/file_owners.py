"""The interlock ``file-managed``: a file of OpenSM that another program writes again.

An edit of a policy file is no planned and verified change of the fabric: OpenSM applies the file as it is. So an edit
is also refused, with ``active-sm``, if an OpenSM of this host reads the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ibkeys.change.consent import Objection
from ibkeys.host.file_access import is_same_file
from ibkeys.host.host_files import THIS_HOST, HostFiles
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.instance import NO_ENTRY, HostEntry
from ibkeys.managers.managed_files import managing_program
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.report import report_on_host


def objections_to_owners(files: Iterable[OpensmFile], otherwise: str = "") -> Iterator[Objection]:
    """Yield an objection for each of *files* that another program manages. *otherwise*: the consequence, in words, of a
    later write by that program."""
    for file in files:
        owner = managing_program(file.seen.path, file.seen.data) or managing_program(file.path, None)
        if owner is not None:
            would = f": {otherwise}" if otherwise else ""
            yield Objection(
                "file-managed",
                f"{file.name} is managed by {owner}, which overwrites changes to it{would}; make the change there",
            )


def objections_to_edit(
    path: Path, data: bytes | None, entry: HostEntry = NO_ENTRY, host: HostFiles = THIS_HOST
) -> Iterator[Objection]:
    """Yield ``active-sm`` if a running OpenSM of *host* has the file at *path* as its policy, ``file-managed`` if
    another program makes the file. *data*: the present bytes of the file, None if there is no file."""
    for instance in report_on_host(host, entry, own_socket()).instances:
        used = instance.files["policy"].path
        if used is not None and is_same_file(used, path):
            yield Objection(
                "active-sm",
                f"{path} is the policy of {instance.name}, which reads it at its next heavy sweep: write the new one "
                "to another file",
                "OpenSM would write the tables in its own order.\n"
                "`ibkeys plan` and `ibkeys apply --via opensm` apply the new one without disconnecting ports.",
            )
    owner = managing_program(path, data)
    if owner is not None:
        yield Objection("file-managed", f"{path} is managed by {owner}, which overwrites changes to it")

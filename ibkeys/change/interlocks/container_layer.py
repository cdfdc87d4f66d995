"""The interlock ``container-layer``: a file of OpenSM that is lost when its container is created again. The new
container starts from its image, so its OpenSM has the former file again. Changes on the fabric stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ibkeys.change.consent import Objection
from ibkeys.managers.files.opensm_file import OpensmFile


def objections_to_layers(files: Iterable[OpensmFile], otherwise: str) -> Iterator[Objection]:
    """Yield an objection for each of *files* in the layer of a container. *otherwise*: the effect of the former file on
    OpenSM, in words.

    Only for a new change: an interrupted one is resumed or undone without it. Raises FileError, HostNotReached.
    """
    for file in files:
        if file.machine.is_in_layer(file.seen):
            yield Objection(
                "container-layer",
                f"{file.name} is on an overlay file system, as in a container: when the container or host is created "
                f"again, the former file is back, and {otherwise}",
                "Keep the file on a volume that is mounted into the container, and the key store and the journal of "
                "ibkeys too if they are in it.\n"
                "Override this if OpenSM runs in this container on purpose, and the file that a new container starts "
                "with gets the same change.",
            )

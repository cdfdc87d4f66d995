"""An open fabric that a script changes as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ibkeys.fabric.live import Fabric


class OpenFabric(Fabric):
    """``as_options``: returns the options of a command that opens the same fabric, names of files and no secret; None
    where no command can."""

    as_options: Callable[[], Sequence[str] | None] = staticmethod(lambda: None)

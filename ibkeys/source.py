"""What reading commands and scripts read."""

from __future__ import annotations

from ibkeys.fabric.recorded import RecordedFabric
from ibkeys.scripting import Fabric

Source = Fabric | RecordedFabric
"""An open fabric, or a snapshot, which answers as one does. Use it as a context manager.

``warnings``: what the user should know about the files that were read. Of a snapshot every read raises NotRecorded for
what could not be read when it was taken.
"""

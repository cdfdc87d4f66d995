"""The source of values for reading commands and scripts."""

from __future__ import annotations

from ibkeys.fabric.recorded import RecordedFabric
from ibkeys.scripting import Fabric

Source = Fabric | RecordedFabric
"""An open fabric, or a snapshot with the same interface. Use it as a context manager.

``warnings``: facts that the user should know about the files that were read. A read from a snapshot raises NotRecorded
for a value that could not be read when the snapshot was taken.
"""

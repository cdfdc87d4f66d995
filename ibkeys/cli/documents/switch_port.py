"""The document about partition enforcement of a switch port: enforce-set."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.shared import changed_ports

ENFORCE_SET: Final = changed_ports("enforce-set", 2)

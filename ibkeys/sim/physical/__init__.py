"""Cables and power: what happens to links and nodes when they are plugged, pulled, or switched off and on."""

"""Cables and power: the effect on links and nodes when they are plugged, pulled, or switched off and on."""

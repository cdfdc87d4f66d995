"""Cables and power: what happens to links and nodes when a cable is plugged or pulled, or a node is switched off and
on."""

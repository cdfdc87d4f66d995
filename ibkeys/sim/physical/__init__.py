"""Cables and power: the changes of links and nodes when a cable is plugged or pulled, or a node is switched off and
on."""

"""Changing an options file of OpenSM: single values in it, and references in the place of its keys."""

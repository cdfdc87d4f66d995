"""Changing an options file of OpenSM: single values in it, and references in place of its keys."""

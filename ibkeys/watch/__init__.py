"""Watching for uses of a wrong key: events from the SA's Reports, from counters and from OpenSM's log."""

"""Who just tried a wrong key, and whose: events from the SA's Reports, from counters and from OpenSM's log."""

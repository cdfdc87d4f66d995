"""Rules over a snapshot: what is wrong with a fabric's keys, what could not be seen, and what to do about it."""

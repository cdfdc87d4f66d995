"""All other commands: discovery, counters, the journal, decoding, the simulator, this host."""

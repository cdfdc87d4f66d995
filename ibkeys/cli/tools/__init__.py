"""Commands about everything else: discovery, counters, the journal, decoding, the simulator, this host."""

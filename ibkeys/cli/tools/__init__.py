"""All other commands: ports, names, discovery, doctor, counters, the journal, decoding, explanations, and more."""

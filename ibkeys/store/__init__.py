"""What lasts: the journal of changes, the key store, and the reader of OpenSM's key files. Knows no MADs."""

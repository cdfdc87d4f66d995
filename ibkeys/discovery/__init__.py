"""Finding the whole subnet: the sweep, which M_Key goes to whom, and the proof of each link."""

"""Finding the whole fabric: the sweep, which M_Key goes to whom, and the proof of each link."""

"""Finding the whole fabric: the sweep, the choice of the M_Key for each port, and the proof of each link."""

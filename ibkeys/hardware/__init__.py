"""Comparing a real fabric with the simulator: checks, infiniband-diags run on the same port, one archive."""

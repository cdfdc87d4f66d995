"""What a real fabric says, compared with what the simulator does: checks, infiniband-diags beside us, one archive."""

"""infiniband-diags, run on the same port: whether they read the same values."""

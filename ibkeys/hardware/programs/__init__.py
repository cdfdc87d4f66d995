"""infiniband-diags, run beside us: do they read the same values?"""

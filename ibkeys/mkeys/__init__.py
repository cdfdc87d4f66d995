"""The M_Key's life: which keys are known, setting one, and where ports are known to be."""

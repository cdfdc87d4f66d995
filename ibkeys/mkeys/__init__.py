"""The M_Key's life: which keys are known, and setting one."""

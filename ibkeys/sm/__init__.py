"""The subnet manager that is there: which one is master, and of each OpenSM its effective files and options."""

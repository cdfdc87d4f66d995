"""Help texts: a command's own options, the common ones by name, and all of them with ``--help-all``."""

"""Help texts: a command's own options in full, the common ones by name; with ``--help-all`` all of them in full."""

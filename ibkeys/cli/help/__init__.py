"""What a command says of itself: its own options, the common ones by name, and all of them with ``--help-all``."""

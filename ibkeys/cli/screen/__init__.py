"""The terminal: its width and colours. Lines and tables are laid out to fit it."""

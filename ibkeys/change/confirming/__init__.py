"""Changes that are to be confirmed: waiting for it, and who goes back when the one that waits has died."""

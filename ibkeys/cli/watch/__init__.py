"""The command `watch`, which runs until it is stopped."""

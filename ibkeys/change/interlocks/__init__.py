"""All interlocks: what a change would lead to, said before it is made. Their names are in `ibkeys.change.consent`."""

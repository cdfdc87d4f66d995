"""The commands that finish, undo or confirm an operation of the journal, whichever command began it."""

"""Commands that go on with an operation of the journal, whatever command began it."""

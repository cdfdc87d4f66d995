"""Commands that go on until they are told to end."""

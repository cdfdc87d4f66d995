"""Making the steps of a change through a subnet manager: the one runner, and the kinds of steps."""

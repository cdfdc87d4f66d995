"""Commands that look at a whole fabric: audit, snapshot, report."""
